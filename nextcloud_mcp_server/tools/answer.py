"""From what a tool body returns to what goes out: text, structured content, a size limit, defanged links."""

import json
import re
from typing import Any, cast
from urllib.parse import unquote

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import from_json

from nextcloud_mcp_server.errors import TooLarge
from nextcloud_mcp_server.tools.result import Document, ImageResult, Result

#: Text and structured content of one result together; about 25,000 tokens.
MAX_RESULT_BYTES = 80_000

#: Stands where a link was that could make a person grant access (security.md, rule 11).
DEFANGED = "[link removed: it would open a consent page]"

# Text that somebody put into a note could offer the reader a consent link of the attacker's own
# making, on the person's own Nextcloud; such links are never passed on.
_WORD = re.compile(r"""[^\s<>"'()\[\]]+""")
_CONSENT_PATH = re.compile(
    r"""(?ix) / (?: login/(?:v2/)?flow | apps/oauth2/authorize | apps/oidc/authorize
          | oauth/(?:provision|waiting|callback) )""",
)
#: What a browser reads as one slash: also `\\`, `//` and `/./`.
_SLASHES = re.compile(r"[/\\](?:\.?[/\\])*")


def defang(text: str) -> str:
    """Replace consent-shaped links."""
    return _WORD.sub(_defanged, text)


def _defanged(word: re.Match[str]) -> str:
    link = word.group()
    if "/" not in link and "\\" not in link and "%" not in link:
        return link
    # Decoded, because a browser and Nextcloud take `%66low` for `flow`.
    plain = _SLASHES.sub("/", unquote(link))
    return DEFANGED if _CONSENT_PATH.search(plain) else link


def _may_hold_link(written: str) -> bool:
    """Rule out at once, for a whole answer in JSON, what hardly any answer has.

    Every consent path has one of these words; they hold no letter that has a third case (as `s` has).
    """
    folded = written.lower()
    return "flow" in folded or "oauth" in folded or "author" in folded or "%" in folded


def holds_defanged(value: object) -> bool:
    """Tell whether an argument repeats our replacement: writing it back would lose the person's link."""
    if isinstance(value, list):
        return any(holds_defanged(item) for item in cast("list[object]", value))
    return isinstance(value, str) and DEFANGED in value


def result(value: Result) -> CallToolResult:
    """Shape a tool's return value.

    Raises:
        TooLarge: Text and structured content together exceed `MAX_RESULT_BYTES`.
    """
    written = value.model_dump_json(exclude_none=True)
    data = cast("dict[str, Any]", from_json(written))
    if _may_hold_link(written):
        data = cast("dict[str, Any]", _clean(data))
        written = compact(data)
    text = _document(data) if isinstance(value, Document) else written
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    if isinstance(value, ImageResult):
        content.append(ImageContent(type="image", data=value.base64, mime_type=value.mime_type))
    size = len(written.encode()) + len(text.encode())
    if size > MAX_RESULT_BYTES:
        raise TooLarge(
            f"The result is {size:,} bytes, too much for one answer; ask for a smaller page with 'limit'."
        )
    return CallToolResult(content=content, structured_content=data, is_error=False)


def failure(sentence: str) -> CallToolResult:
    """Shape an error the model can act on."""
    return CallToolResult(content=[TextContent(type="text", text=defang(sentence))], is_error=True)


def compact(data: object) -> str:
    """JSON without a byte of decoration."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _document(data: dict[str, Any]) -> str:
    head = compact({key: item for key, item in data.items() if key != "content"})
    return f"{head}\n\n{data['content']}"


def _clean(value: object) -> object:
    if isinstance(value, str):
        return defang(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in cast("dict[str, object]", value).items()}
    return value
