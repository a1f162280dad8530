"""Cuts text from a part of a file: whole characters, whole lines where possible, within the limit."""

import codecs
from dataclasses import dataclass
from typing import Final

from nextcloud_mcp_server.documents.charset import SAMPLE_BYTES, UTF8, Beginning, Charset, is_certain
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.byte_range import Chunk
from nextcloud_mcp_server.nextcloud.sanitize import sent_twice

#: The maximum bytes of text on one page.
MAX_TEXT_BYTES: Final = 30_000
#: Bytes to fetch beyond a page, so that its last character is complete: some encodings use four bytes, and the first
#: ones may belong to the character before.
LOOKAHEAD: Final = 8

# A page is sent twice, once of it as JSON, and a result may have 80,000 bytes.
_MAX_SENT_BYTES: Final = 72_000
_LONGEST_CHARACTER: Final = 4
_CONTINUATION: Final = 0b10
_LOW_SURROGATE: Final = 0b110111
#: With a greater share of invalid bytes, a page is not text.
_MAX_BROKEN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """A page of text: its byte range in the data, and whether all of it is valid."""

    text: str
    start: int
    end: int
    exact: bool


def cut(data: bytes, *, limit: int, offset: int, is_last: bool, charset: Charset = UTF8) -> Part | None:
    """Take up to `limit` bytes of text; None when the data is not text.

    `offset`: where in the file the data begins; unless it is 0, the first bytes may belong to a character before it.
    `is_last`: the file ends with the data.
    """
    part = page(data, limit=limit, offset=offset, is_last=is_last, charset=charset)
    broken = not part.exact and part.text.count("\ufffd") > _MAX_BROKEN * len(part.text)
    return None if broken or "\0" in part.text else part


def page(data: bytes, *, limit: int, offset: int, is_last: bool, charset: Charset = UTF8) -> Part:
    """Take up to `limit` bytes of data that is known to be text; see `cut`."""
    start = _rest_of_a_character(data, charset, offset)
    mark = len(charset.bom) if offset == 0 else 0
    while True:
        end = _end(data, max(start, mark), limit, is_last=is_last, charset=charset)
        part = data[max(start, mark) : end]
        text = part.decode(charset.codec, "replace")
        if sent_twice(text) <= _MAX_SENT_BYTES:
            break
        limit //= 2
    return Part(text, start, end, exact=_is_exact(part, charset))


def _is_exact(part: bytes, charset: Charset) -> bool:
    try:
        part.decode(charset.codec)
    except UnicodeError:
        return False
    return True


def _rest_of_a_character(data: bytes, charset: Charset, offset: int) -> int:
    """Return where the first character begins; 0 where only the text before could tell."""
    if offset == 0:
        return 0
    start = -offset % charset.unit
    if charset.codec == "utf-8":
        while start < min(len(data), _LONGEST_CHARACTER - 1) and data[start] >> 6 == _CONTINUATION:
            start += 1
    elif "-16-" in charset.codec:
        high = start + charset.codec.endswith("le")
        start += 2 if data[high : high + 1] and data[high] >> 2 == _LOW_SURROGATE else 0
    return start


def _end(data: bytes, start: int, limit: int, *, is_last: bool, charset: Charset) -> int:
    end = min(start + limit, len(data))
    if end == len(data) and is_last:
        return end
    # A very long line is cut; otherwise pages would be tiny. Half of a link is not found on either page, so words are
    # cut only if they are as long.
    for mark in ("\n", " "):
        after = _after_last(mark, data, start, end, charset)
        if after > start + (end - start) // 2:
            return after
    whole = end - _begun(data[start:end], charset)
    while whole == start and end < len(data):
        # Fewer bytes than one character were requested: return one character.
        end += 1
        whole = end - _begun(data[start:end], charset)
    return whole if whole > start else len(data)


def _after_last(mark: str, data: bytes, start: int, end: int, charset: Charset) -> int:
    """Return the end of the last line or word; 0 without one. No encoding has these bytes in another character."""
    sought = mark.encode(charset.codec)
    at = data.rfind(sought, start, end)
    while at > 0 and (at - start) % charset.unit:
        at = data.rfind(sought, start, at + len(sought) - 1)
    return at + len(sought) if at >= 0 else 0


def _begun(data: bytes, charset: Charset) -> int:
    """Count the bytes at the end that begin an incomplete character."""
    decoder = codecs.getincrementaldecoder(charset.codec)("replace")
    decoder.decode(data, final=False)
    return len(decoder.getstate()[0])


async def charset_of(nc: Account, chunk: Chunk) -> Charset | None:
    """Return the encoding of a file from one of its chunks.

    A later chunk may need the file's beginning, which is fetched unless it was seen in the same version of the file.
    """
    if chunk.offset == 0:
        whole = chunk.is_last and len(chunk.data) <= SAMPLE_BYTES
        beginning = Beginning.of(chunk.data[:SAMPLE_BYTES], whole=whole)
        nc.seen_files.keep(chunk.path, chunk.version, beginning)
        return beginning.charset
    if is_certain(chunk.data):
        return UTF8
    beginning = nc.seen_files.take(Beginning, chunk.path, chunk.version)
    if beginning is None:
        head = await nc.files.read(chunk.path, length=SAMPLE_BYTES)
        beginning = Beginning.of(head.data)
        nc.seen_files.keep(head.path, head.version, beginning)
    return beginning.of_part(chunk.data)
