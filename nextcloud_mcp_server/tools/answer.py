"""From what a tool body returns to what goes out: text, structured content, a size limit.

No text goes out as a user wrote it: consent-shaped links are replaced, hidden characters are shown.
"""

import html
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import unquote

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import PydanticSerializationError, from_json

from nextcloud_mcp_server.errors import Link, TooLarge, with_link
from nextcloud_mcp_server.nextcloud.sanitize import may_hide, meant, shown, visible
from nextcloud_mcp_server.tools.result import Document, ImageResult, Result

#: Text and structured content of one result together; about 25,000 tokens.
MAX_RESULT_BYTES = 80_000
#: The longest sentence about an error. It may repeat names, such as all labels of a board.
_MAX_SENTENCE = 4_000

#: Stands where a link was that could make a person grant access (security.md, rule 11).
DEFANGED = "[link removed: it would open a consent page]"

# Text that a user put into a note could offer the reader a consent link of the attacker's own
# making, on the person's own Nextcloud; such links are never passed on.
_WORD = re.compile(r"""[^\s<>"'()\[\]]+""")
#: A path may hold brackets, and a part that is left again by `..` would hide the rest from the words.
_RUN = re.compile(r"""[^\s<>"']+""")
_CONSENT_PATH = re.compile(
    r"""(?ix) / (?: login/(?:v2/)?flow | apps/oauth2/authorize | apps/oidc/authorize
          | oauth/(?:provision|waiting|callback) | authorize(?:/|\?) )""",
)
#: The parameters of an authorization request of any issuer (RFC 6749 §4.1.1, RFC 9101 §5), and the code of a device
#: that asks (RFC 8628 §3.3.1).
_CLIENT, _QUESTION, _DEVICE = (
    re.compile(rf"[?&;](?:{names})=")
    for names in ("client_id", "response_type|request_uri|request", "user_code")
)
_LONGEST_PATH = 3
#: How often a link is decoded: by who shows it, and by each page that sends the browser on.
_MOST_DECODINGS = 5
#: What a browser reads as one slash: also `\\`, `//` and `/./`.
_SLASHES = re.compile(r"[/\\](?:\.?[/\\])*")
#: A browser drops these from a link (URL Standard, basic URL parser).
_DROPPED = str.maketrans("", "", "\t\n\r")


def neutralise_links(text: str) -> str:
    """Replace consent-shaped links."""
    return _RUN.sub(_cleaned, text)


def _cleaned(run: re.Match[str]) -> str:
    whole = run.group()
    plain = _WORD.sub(_neutralised, whole)
    # Whatever is decoded still holds two dots, a `%` or an `&`.
    climbs = plain == whole and (".." in whole or "%" in whole or "&" in whole)
    return _neutralised(run) if climbs else plain


def _neutralised(word: re.Match[str]) -> str:
    link = word.group()
    if "/" not in link and "\\" not in link and "%" not in link and "&" not in link:
        return link
    for _ in range(_MOST_DECODINGS):
        # Decoded, because Markdown and HTML take `&#102;low` for `flow`, a browser and Nextcloud `%66low`.
        plain = unquote(html.unescape(link)).translate(_DROPPED)
        if _leads_to_consent(_SLASHES.sub("/", plain)) or _asks(plain):
            return DEFANGED
        if plain == link:
            break
        # Again, because a page that sends the browser on decodes the address in its own.
        link = plain
    return word.group()


def _asks(link: str) -> bool:
    """Tell whether a link asks for access at whatever issuer it leads to."""
    return bool(_DEVICE.search(link)) or bool(_CLIENT.search(link) and _QUESTION.search(link))


def _leads_to_consent(link: str) -> bool:
    """Tell whether a link has a consent path in it, with or without the parts that `..` leaves again.

    A browser takes those out before it asks, but none behind `?` or `#`: there they must not hide what stands before.
    """
    if ".." not in link:
        return bool(_CONSENT_PATH.search(link))
    parts: list[str] = []
    for part in link.split("/"):
        if part != "..":
            parts.append(part)
        elif len(parts) > 1:
            # What is left may have been the path. No consent path is longer than three parts.
            if _CONSENT_PATH.search("/".join(["", *parts[-_LONGEST_PATH:]])):
                return True
            parts.pop()
    return bool(_CONSENT_PATH.search("/".join(parts)))


def _may_hold_link(written: str) -> bool:
    """Rule out at once, for a whole answer in JSON, what hardly any answer has.

    Every consent path has one of these words; they hold no letter that has a third case (as `s` has).
    """
    folded = written.lower()
    return any(hint in folded for hint in ("flow", "oauth", "author", "er_code", "%", "&"))


def holds_neutralised_links(value: object) -> bool:
    """Tell whether an argument repeats our replacement: writing it back would lose the person's link."""
    if isinstance(value, list):
        return any(holds_neutralised_links(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        return any(holds_neutralised_links(item) for item in cast("dict[str, object]", value).values())
    return isinstance(value, str) and DEFANGED in value


def safe(text: str) -> str:
    """Make a text of any origin fit for a model: consent links replaced first, as nothing is hidden in them then."""
    return shown(neutralise_links(text))


def arguments_meant(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Read in all texts of arguments the visible escapes of an answer as the characters they stand for."""
    return _in_texts(value, meant)


def result(value: Result, *, remarks: Sequence[str] = ()) -> CallToolResult:
    """Shape a tool's return value; `remarks` are sentences about the answer as a whole.

    Raises:
        TooLarge: Text and structured content together exceed `MAX_RESULT_BYTES`.
    """
    written, data = _json_of(value)
    if _may_hold_link(written) or may_hide(written):
        data = cast("dict[str, Any]", _clean(data))
        written = compact(data)
    if remarks:
        # In front, because clients cut off the end.
        data = {"remarks": [visible(neutralise_links(remark)) for remark in remarks], **data}
        written = compact(data)
    text = _document(data) if isinstance(value, Document) else written
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    if isinstance(value, ImageResult):
        content.append(ImageContent(type="image", data=value.base64, mime_type=value.mime_type))
    size = len(written.encode()) + len(text.encode())
    if size > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The result is {size:,} bytes, too much for one answer; ask for less, with 'limit' where the tool has it."
        )
    return CallToolResult(content=content, structured_content=data, is_error=False)


def failure(sentence: str, link: Link | None = None) -> CallToolResult:
    """Shape an error the model can act on; see `refusal`."""
    return CallToolResult(content=[TextContent(type="text", text=refusal(sentence, link))], is_error=True)


def refusal(sentence: str, link: Link | None = None) -> str:
    """Write an error in one line, whatever the names have in them that it repeats; a link of ours stands below."""
    safe = visible(neutralise_links(sentence))
    if len(safe) > _MAX_SENTENCE:
        safe = f"{safe[: _MAX_SENTENCE - 1]}…"
    return with_link(safe, link) if link else safe


def compact(data: object) -> str:
    """JSON without a byte of decoration."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _document(data: dict[str, Any]) -> str:
    head = compact({key: item for key, item in data.items() if key != "content"})
    return f"{head}\n\n{data['content']}"


def _json_of(value: Result) -> tuple[str, dict[str, Any]]:
    try:
        written = value.model_dump_json(exclude_none=True)
        return written, cast("dict[str, Any]", from_json(written))
    except PydanticSerializationError:
        # A broken surrogate, which no JSON in UTF-8 can hold; it is hidden, and so will be shown.
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
