"""Parts of long texts: a page at an offset, and a snippet."""

from collections.abc import Callable
from dataclasses import dataclass

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.sanitize import sent_twice

MAX_TEXT_BYTES = 30_000
# The text is sent twice, once of it as JSON, and a result may have 80,000 bytes.
_MAX_SENT_BYTES = 72_000
_SNIPPET_CHARACTERS = 160
_CONTINUATION = 0b1000_0000


@dataclass(frozen=True, slots=True)
class TextPage:
    """A part of a text. Following `next_offset` returns every byte once."""

    text: str
    size: int
    next_offset: int | None


def cut(text: str, *, offset: int, limit: int) -> TextPage:
    """Take up to `limit` bytes from `offset` on, up to a line end, or between words or at least characters.

    Raises:
      InvalidInput: The offset is beyond the end.
    """
    data = text.encode()
    if offset > len(data):
        raise InvalidInput(f"'offset' is beyond the end: the text has {len(data)} bytes.")
    start = _boundary(data, offset)
    while True:
        end = _end(data, start, start + limit)
        part = data[start:end].decode()
        if sent_twice(part) <= _MAX_SENT_BYTES:
            return TextPage(text=part, size=len(data), next_offset=end if end < len(data) else None)
        limit //= 2


async def cut_aside(
    text: str, *, uid: str, offset: int, limit: int, clean: Callable[[str], str] | None = None
) -> TextPage:
    """Take a page of a text of Nextcloud as `cut` does, `aside`; `clean` changes the whole text before.

    Raises:
      InvalidInput: The offset is beyond the end.
    """

    def work() -> TextPage:
        return cut(text if clean is None else clean(text), offset=offset, limit=limit)

    return await aside(work, uid=uid, size=len(text))


def snippet(text: str, at: int | None) -> str:
    """Return the text around a position, or the beginning, on one line."""
    start = max(0, (at or 0) - _SNIPPET_CHARACTERS // 3)
    part = text[start : start + _SNIPPET_CHARACTERS]
    before, after = "…" if start else "", "…" if start + len(part) < len(text) else ""
    return f"{before}{' '.join(part.split())}{after}"


def _boundary(data: bytes, at: int) -> int:
    while at < len(data) and _continues(data[at]):
        at += 1
    return at


def _continues(byte: int) -> bool:
    """Tell whether a byte of UTF-8 continues a character (RFC 3629 §3)."""
    return byte & 0b1100_0000 == _CONTINUATION


def _end(data: bytes, start: int, end: int) -> int:
    if end >= len(data):
        return len(data)
    # A very long line is cut; otherwise pages would be tiny. Half of a link is not found on either page, so words are
    # cut only if they are as long.
    for mark in (b"\n", b" "):
        whole = data.rfind(mark, start, end) + 1
        if whole > start + (end - start) // 2:
            return whole
    while end > start and _continues(data[end]):
        end -= 1
    return end if end > start else _boundary(data, start + 1)
