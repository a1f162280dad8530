"""Converts the result of a tool body to the response: text, structured content, a size limit.

No text is sent as another user wrote it: links to consent pages are replaced, hidden characters are escaped.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import unquote

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import PydanticSerializationError, from_json

from nextcloud_mcp_server.errors import Link, TooLarge, with_link
from nextcloud_mcp_server.formats import character_references
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden, may_hide, meant, shown
from nextcloud_mcp_server.tools.result import Document, ImageResult, NextStep, Result

#: The limit for text and structured content of one result together; about 25,000 tokens.
MAX_RESULT_BYTES = 80_000
#: A longer result is refused before its texts are made safe, which takes a second for each megabyte.
_MOST_CLEANED = 10 * MAX_RESULT_BYTES
#: The maximum length of an error sentence. It may quote names, such as all labels of a board.
_MAX_SENTENCE = 4_000

#: Replaces a link that could make a user grant access (security.md, rule 11).
DEFANGED = "[link removed: it would open a consent page]"

# A note may contain text of another user with a consent link of an attacker's making, to the reader's own Nextcloud;
# such links are never passed on.
_WORD = re.compile(r"""[^\s<>"'()\[\]]+""")
#: A path may contain brackets; and a segment that `..` removes again would separate the words of the path.
_RUN = re.compile(r"""[^\s<>"']+""")
_CONSENT_PATH = re.compile(
    r"""(?ix) / (?: login/(?:v2/)?flow | apps/oauth2/authorize | apps/oidc/authorize
          | oauth/(?:provision|waiting|callback) | authorize(?:/|\?) )""",
)
#: The parameters of an authorization request of any issuer (RFC 6749 §4.1.1, RFC 9101 §5), and the user code of a
#: device (RFC 8628 §3.3.1).
_CLIENT, _QUESTION, _DEVICE = (
    re.compile(rf"[?&;](?:{names})=")
    for names in ("client_id", "response_type|request_uri|request", "user_code")
)
_LONGEST_PATH = 3
#: More characters than any segment of a consent path has. Each begins a segment, so what follows does not matter.
_LONGEST_SEGMENT = 24
#: How often a link is decoded: by the program that shows it, and by each page that redirects the browser.
_MOST_DECODINGS = 5
#: What a browser reads as one slash: also `\\`, `//` and `/./`.
_SLASHES = re.compile(r"[/\\](?:\.?[/\\])*")
#: Browsers remove these from a link (URL Standard, basic URL parser).
_DROPPED = str.maketrans("", "", "\t\n\r")


def neutralise_links(text: str) -> str:
    """Replace links to consent pages."""
    return _RUN.sub(_cleaned, text)


def _cleaned(run: re.Match[str]) -> str:
    whole = run.group()
    plain = _WORD.sub(_neutralised, whole)
    # Text that decoding would change contains two dots, a `%` or an `&`.
    climbs = plain == whole and (".." in whole or "%" in whole or "&" in whole)
    return _neutralised(run) if climbs else plain


def _neutralised(word: re.Match[str]) -> str:
    link = word.group()
    if "/" not in link and "\\" not in link and "%" not in link and "&" not in link:
        return link
    for _ in range(_MOST_DECODINGS):
        # Decoded, because Markdown and HTML read `&#102;low` as `flow`, and a browser and Nextcloud read `%66low` as
        # it.
        plain = unquote(character_references.unescape(link)).translate(_DROPPED)
        if _leads_to_consent(_SLASHES.sub("/", plain)) or _asks(plain):
            return DEFANGED
        if plain == link:
            break
        # Decoded again, because a page that redirects the browser decodes the address in its own URL.
        link = plain
    return word.group()


def _asks(link: str) -> bool:
    """Tell whether a link is an authorization request at any issuer."""
    return bool(_DEVICE.search(link)) or bool(_CLIENT.search(link) and _QUESTION.search(link))


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


def _may_hold_link(written: str) -> bool:
    """Tell quickly whether a whole JSON response may contain a consent link; hardly any does.

    Every consent path contains one of these words; none has a letter with a third case (as `s` has).
    """
    folded = written.lower()
    return any(hint in folded for hint in ("flow", "oauth", "author", "er_code", "client_id", "%", "&"))


def holds_neutralised_links(value: object) -> bool:
    """Tell whether an argument contains the replacement text: writing it would lose the user's link."""
    if isinstance(value, list):
        return any(holds_neutralised_links(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        return any(holds_neutralised_links(item) for item in cast("dict[str, object]", value).values())
    return isinstance(value, str) and DEFANGED in value


def safe(text: str) -> str:
    """Make any text safe for a model.

    Consent links are replaced first, while hidden characters are not yet escaped.
    """
    return shown(neutralise_links(text))


def arguments_meant(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Replace the visible escapes in all texts of arguments by the characters they stand for."""
    return _in_texts(value, meant)


def result(value: Result, *, remarks: Sequence[str] = ()) -> CallToolResult:
    """Build the response for a tool result; `remarks` are sentences about the whole result.

    Raises:
      TooLarge: Text and structured content together exceed `MAX_RESULT_BYTES`.
    """
    written, data = _json_of(value)
    if len(written) > _MOST_CLEANED:
        raise _too_large(2 * len(written.encode()))
    if _may_hold_link(written) or may_hide(written):
        data = cast("dict[str, Any]", _clean(data))
        written = compact(data)
    if isinstance(value, NextStep) and value.link:
        # After the texts were cleaned, which would replace it.
        data = {**data, "next_step": with_link(data["next_step"], value.link)}
        written = compact(data)
    if remarks:
        # First, because clients cut off the end.
        data = {"remarks": [one_line(remark) for remark in remarks], **data}
        written = compact(data)
    text = _document(data) if isinstance(value, Document) else written
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    if isinstance(value, ImageResult):
        content.append(ImageContent(type="image", data=value.base64, mime_type=value.mime_type))
    size = len(written.encode()) + len(text.encode())
    if size > MAX_RESULT_BYTES:
        raise _too_large(size)
    return CallToolResult(content=content, structured_content=data, is_error=False)


def _too_large(size: int) -> TooLarge:
    return TooLarge(
        f"The result is {size:,} bytes, too much for one answer; ask for less, with 'limit' where the tool has it."
    )


def one_line(text: str) -> str:
    """Make a sentence or name safe for a model: one line of at most `_MAX_SENTENCE` characters.

    It may quote megabytes of another user's text, so it is cut before it is made safe, and again afterwards.
    """
    line = escape_hidden(neutralise_links(text[: 2 * _MAX_SENTENCE]))
    return f"{line[: _MAX_SENTENCE - 1]}…" if len(line) > _MAX_SENTENCE else line


def failure(sentence: str, link: Link | None = None) -> CallToolResult:
    """Build the response for an error that the model can act on; see `refusal`."""
    return CallToolResult(content=[TextContent(type="text", text=refusal(sentence, link))], is_error=True)


def refusal(sentence: str, link: Link | None = None) -> str:
    """Return an error as one line, whatever names it quotes; this server's link follows it."""
    line = one_line(sentence)
    return with_link(line, link) if link else line


def compact(data: object) -> str:
    """Return JSON without optional white space."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _document(data: dict[str, Any]) -> str:
    head = compact({key: item for key, item in data.items() if key != "content"})
    return f"{head}\n\n{data['content']}"


def _json_of(value: Result) -> tuple[str, dict[str, Any]]:
    try:
        written = value.model_dump_json(exclude_none=True)
        return written, cast("dict[str, Any]", from_json(written))
    except PydanticSerializationError:
        # A lone surrogate, which JSON in UTF-8 cannot hold; it counts as hidden and is escaped.
        data = value.model_dump(mode="json", exclude_none=True)
        return compact(data), data


def _clean(value: object) -> object:
    return _in_texts(value, safe)


def _in_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_texts(item, change) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {change(key): _in_texts(item, change) for key, item in members.items()}
    return value
