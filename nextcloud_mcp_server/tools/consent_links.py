r"""Replaces links that could make a user grant access (security.md, rule 11).

A note may contain text of another user with a consent link of an attacker's making, to the reader's own Nextcloud or
to any issuer; such links are never passed on.

A link is found however it is written: as HTML and Markdown read it, as a browser resolves it, as a page that redirects
decodes it again, and with the names that a lenient server takes for others. Where it ends depends on who reads it, so
three kinds of text are tried, from the shortest: up to white space, quotes and brackets; up to white space and quotes;
up to white space. Between quotes or in `<…>` a link may also contain white space.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from nextcloud_mcp_server.formats import character_references
from nextcloud_mcp_server.tools import parameter_names

#: Replaces a link.
NEUTRALISED = "[link removed: it would open a consent page]"

_WORD = re.compile(r"""[^\s<>"'()\[\]]+""")
#: Markdown and browsers take other spaces, such as U+00A0, for parts of a link.
_ASCII_BLANK = r" \t\n\r\f\v"
#: A path may contain brackets; and a segment that `..` removes again would separate the words of the path. After a
#: separator, or within the name of a parameter, there may be white space.
_SPACES = (
    r"(?:(?<=[?&;#])|(?<=client)|(?<=response)|(?<=request)|(?<=redirect)|(?<=user))[ \t\r\n]++"
    rf"""(?=[^{_ASCII_BLANK}<>"'=&?;#]{{1,40}}+=)"""
)
_RUN = re.compile(rf"""(?i)[^{_ASCII_BLANK}<>"']+(?:{_SPACES}[^{_ASCII_BLANK}<>"']+)*""")
#: Markdown ends a link at none of these, and HTML only at the kind of quote that began it.
_TOKEN = re.compile(rf"(?i)[^{_ASCII_BLANK}]+(?:{_SPACES}[^{_ASCII_BLANK}]+)*")
_DELIMITED = re.compile(
    r"""(?i)(?<=[<"'])[ \t\n\r]*+(?:[a-z][a-z0-9+.\t\n\r-]*+:|www\.|[/\\&%])[^<>"']*+(?=[>"'])""",
)
_CUT_WORDS = re.compile(r"[()\[\]\s]")
_CUT_RUNS = re.compile("[<>\"']")
_BLANK = re.compile(r"\s")
#: Nextcloud's paths, and those of this server: without a session each of its pages leads to the page of the request.
_CONSENT_PATH = re.compile(
    r"""(?ix) / (?: login/(?:v2/)?flow | apps/oauth2/authorize | apps/oidc/authorize
          | oauth/(?:provision|waiting|callback|sign-in|consent|nextcloud|confirm|not-me|done)
          | authorize(?:/|\?) )""",
)
#: The parameters of an authorization request of any issuer (RFC 6749 §4.1.1, RFC 9101 §5), and the user code of a
#: device (RFC 8628 §3.3.1). Some issuers need no `response_type`, and send the answer where the client registered.
_QUESTIONS = frozenset({"response_type", "request_uri", "request", "redirect_uri", "scope"})
#: No server takes a longer address, and no link of a text without any white space is so long.
_LONGEST_ADDRESS = 32_768
_LONGEST_PATH = 3
#: More characters than any segment of a consent path has. Each begins a segment, so what follows does not matter.
_LONGEST_SEGMENT = 24
#: How often a link is decoded: by the program that shows it, and by each page that redirects the browser.
_MOST_DECODINGS = 5
#: What a browser reads as one slash: also `\\`, `//` and `/./`.
_SLASHES = re.compile(r"[/\\](?:\.?[/\\])*")
#: Browsers remove these from a link (URL Standard, basic URL parser).
_DROPPED = str.maketrans("", "", "\t\n\r")
#: In Markdown a backslash before punctuation stands for the punctuation (CommonMark, 2.4).
_ESCAPED = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
#: Without one of these a word is no link.
_OF_LINKS = re.compile(r"[/\\%&?;#]")
#: A quick look at JSON. Every consent path and every question contains one of these; none has a letter with a third
#: case (as `s` has).
_HINTS = ("flow", "oauth", "author", "%", "&")
_HINT = re.compile(
    r"(?:client\\*[ ._+\[]\\*id|user\\*[ ._+\[]\\*code)|"
    r"""[<"'](?: |\\[nrt])*+(?:[a-z](?:[a-z0-9+.-]|\\[nrt])*+:|www\.|[/\\])[^<>"']*\\[nrt]"""
)


def neutralise_links(text: str) -> str:
    """Replace links to consent pages."""
    if _BLANK.search(text) is not None:
        text = _DELIMITED.sub(_spaced, text)
    return _TOKEN.sub(_of_token, text)


def may_hold_link(written: str) -> bool:
    """Tell quickly whether a whole JSON response may contain a consent link; hardly any does."""
    folded = written.lower()
    return any(hint in folded for hint in _HINTS) or _HINT.search(folded) is not None


def _spaced(link: re.Match[str]) -> str:
    whole = link.group()
    return NEUTRALISED if _BLANK.search(whole) is not None and _grants(whole.strip()) else whole


def _of_token(token: re.Match[str]) -> str:
    whole = token.group()
    if _OF_LINKS.search(whole) is None:
        return whole
    plain = _RUN.sub(_of_run, whole)
    if _CUT_RUNS.search(plain) is None or not _grants(plain, longest_query=_LONGEST_ADDRESS):
        return plain
    return NEUTRALISED


def _of_run(run: re.Match[str]) -> str:
    whole = run.group()
    plain = _WORD.sub(_of_word, whole)
    return NEUTRALISED if _CUT_WORDS.search(whole) is not None and _grants(plain) else plain


def _of_word(word: re.Match[str]) -> str:
    return NEUTRALISED if _grants(word.group()) else word.group()


def _grants(link: str, *, longest_query: int | None = None) -> bool:
    """Tell whether a link leads to a page that grants access."""
    if _OF_LINKS.search(link) is None:
        return False
    return any(
        _leads_to_consent(_SLASHES.sub("/", plain))
        or ((longest_query is None or len(plain) <= longest_query) and _asks(plain))
        for plain in _decodings(link)
    )


def _decodings(link: str) -> Iterator[str]:
    """Yield a link as it is read at last: by a program, a browser, and by each page that decodes it again."""
    for _ in range(_MOST_DECODINGS):
        # Markdown and HTML read `&#102;low` as `flow`, and a browser and Nextcloud read `%66low` as it.
        plain = unquote(character_references.unescape(link)).translate(_DROPPED)
        yield plain
        if "\\" in plain and (unescaped := _ESCAPED.sub("", plain)) != plain:
            yield unescaped
        if plain == link:
            break
        link = plain


def _asks(link: str) -> bool:
    """Tell whether a link is an authorization request at any issuer."""
    names = parameter_names.read(link)
    return "user_code" in names or ("client_id" in names and not names.isdisjoint(_QUESTIONS))


def _leads_to_consent(link: str) -> bool:
    """Tell whether a link contains a consent path, with or without the segments that `..` removes.

    A browser removes those segments before the request, but not after `?` or `#`: there they must not hide the path
    before them.
    """
    if ".." not in link:
        return bool(_CONSENT_PATH.search(link))
    parts: list[str] = []
    for part in link.split("/"):
        if part != "..":
            parts.append(part)
        elif len(parts) > 1:
            # The remaining segments may be the path. No consent path is longer than three segments.
            last = (each[:_LONGEST_SEGMENT] for each in parts[-_LONGEST_PATH:])
            if _CONSENT_PATH.search("/".join(["", *last])):
                return True
            parts.pop()
    return bool(_CONSENT_PATH.search("/".join(parts)))
