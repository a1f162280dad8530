"""Results as text for people: tables, contents, prompts. Nothing in a text of a server can control the terminal."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

import mcp_types as types

from nextcloud_mcp_server.logs import one_line

#: About as many characters have a token.
_CHARACTERS_PER_TOKEN: Final = 4
#: What a terminal acts on or reorders; ends of lines and tabs stay.
_ACTED_ON: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NARROWEST: Final = 20


def safe(text: str) -> str:
    """Write what a terminal would act on as escapes; ends of lines stay."""
    return _ACTED_ON.sub(
        lambda found: found.group().encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n")
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Return lines with aligned columns; the last column is cut where the line would be wider than `width`."""
    cells = [list(header), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    if width is not None:
        rest = sum(widths[:-1]) + 2 * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(width - rest, _NARROWEST))
    return [
        "  ".join(_fitted(cell, room) for cell, room in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _fitted(cell: str, room: int) -> str:
    return cell.ljust(room) if len(cell) <= room else f"{cell[: room - 1]}…"


def call_text(result: types.CallToolResult) -> str:
    """Return the texts of a result by lines; what is structured follows as JSON after a line `---`."""
    text = "\n".join(content_text(block) for block in result.content)
    if result.structured_content is None:
        return text
    # Many servers send what is structured as text, too.
    if text.strip() and _is_same(text, result.structured_content):
        return text
    return f"{text}\n---\n{json.dumps(result.structured_content, indent=2, ensure_ascii=False)}"


def _is_same(text: str, structured: dict[str, Any]) -> bool:
    """Say whether a text is a structured content in another form."""
    return text.strip() == json.dumps(structured, indent=2, ensure_ascii=False)


def content_text(block: types.ContentBlock) -> str:
    """Return one block of content as text; what is no text is described."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return binary_text(block.data, block.mime_type)
        case types.ResourceLink():
            return f"[resource {block.uri}] {block.title or block.name}"
        case types.EmbeddedResource():
            return resource_text(block.resource)


def resource_text(
    contents: types.TextResourceContents | types.BlobResourceContents, *, whole: bool = False
) -> str:
    """Return the text of a resource; if it is binary, its kind and size, or all of it in base64."""
    if isinstance(contents, types.TextResourceContents):
        return contents.text
    if whole:
        return f"[base64 {contents.mime_type or 'application/octet-stream'}] {contents.blob}"
    return binary_text(contents.blob, contents.mime_type)


def binary_text(data: str, mime_type: str | None) -> str:
    """Describe what is binary."""
    return f"[base64 {mime_type or 'application/octet-stream'}] {len(data) * 3 // 4} bytes"


def resource_bytes(contents: types.TextResourceContents | types.BlobResourceContents) -> bytes:
    """Return what a file of this resource holds.

    Raises:
        ValueError: It is no base64.
    """
    if isinstance(contents, types.TextResourceContents):
        return contents.text.encode()
    try:
        return base64.b64decode(contents.blob, validate=True)
    except binascii.Error as error:
        raise ValueError("The server sent what is no base64.") from error


def prompt_text(result: types.GetPromptResult) -> str:
    """Return the messages of a prompt, each below the role that says it."""
    return "\n\n".join(f"[{message.role}]\n{content_text(message.content)}" for message in result.messages)


def shortened(text: str, max_tokens: int | None) -> str:
    """Cut a text that has more tokens than allowed, and say so in its place."""
    if max_tokens is None or len(text) <= max_tokens * _CHARACTERS_PER_TOKEN:
        return text
    left_out = len(text) - max_tokens * _CHARACTERS_PER_TOKEN
    return f"{text[: max_tokens * _CHARACTERS_PER_TOKEN]}\n[{left_out} more characters are left out]"


def as_json(model: Any) -> Any:  # noqa: ANN401 - any model, any JSON
    """Return a model of the protocol as JSON, with the names that it has there."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def task_support(tool: types.Tool) -> str:
    """Return whether a tool runs as a task (2025-11-25): Required, Optional, or Forbidden as is usual."""
    support = None if tool.execution is None else tool.execution.task_support
    return (support or "forbidden").capitalize()
