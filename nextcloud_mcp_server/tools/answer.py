"""Converts the result of a tool body to the response: text, structured content, a size limit.

No text is sent as another user wrote it: links to consent pages are replaced, hidden characters are escaped.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import PydanticSerializationError, from_json

from nextcloud_mcp_server.errors import Link, TooLarge
from nextcloud_mcp_server.formats.text_size import is_longer
from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden, may_hide, meant, shown
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools.consent_links import NEUTRALISED, may_hold_link, neutralise_links
from nextcloud_mcp_server.tools.result import Document, ImageResult, NextStep, Result

#: The limit for text and structured content of one result together; about 25,000 tokens.
MAX_RESULT_BYTES = 80_000
#: A longer result is refused before its texts are made safe, which takes a second for each megabyte.
_MOST_CLEANED = 10 * MAX_RESULT_BYTES
#: The maximum length of an error sentence. It may quote names, such as all labels of a board.
_MAX_SENTENCE = 4_000
#: Of a text in the data of an error only so much is sent; no URI of this server is longer.
_MAX_IN_DATA = 16_384


def holds_neutralised_links(value: object) -> bool:
    """Tell whether an argument contains the replacement text: writing it would lose the user's link."""
    if isinstance(value, list):
        return any(holds_neutralised_links(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        return any(holds_neutralised_links(item) for item in cast("dict[str, object]", value).values())
    return isinstance(value, str) and NEUTRALISED in value


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
    if is_longer(value, _MOST_CLEANED):
        # A text of megabytes takes seconds and ten times its size before it is JSON.
        raise _too_large(f"more than {2 * _MOST_CLEANED:,}")
    written, data = _json_of(value)
    if len(written) > _MOST_CLEANED:
        raise _too_large(f"{2 * len(written.encode()):,}")
    if may_hold_link(written) or may_hide(written):
        data = cast("dict[str, Any]", _clean(data))
        written = compact(data)
    if isinstance(value, NextStep) and value.link:
        # After the texts were cleaned, which would replace it.
        data = {**data, "next_step": wire.with_link(data["next_step"], value.link)}
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
        raise _too_large(f"{size:,}")
    return CallToolResult(content=content, structured_content=data, is_error=False)


def _too_large(size: str) -> TooLarge:
    return TooLarge(
        f"The result is {size} bytes, too much for one answer; ask for less, with 'limit' where the tool has it."
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
    return wire.with_link(line, link) if link else line


def error_data(data: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Make the data of an error safe, such as a URI or a method's name as the client wrote it; its shape stays."""
    return _in_texts(data, lambda text: safe(text[:_MAX_IN_DATA]))


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
