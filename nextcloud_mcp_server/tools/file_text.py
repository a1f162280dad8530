"""Text out of a part of a file: whole characters, whole lines where possible, within the budget."""

import json
from dataclasses import dataclass
from typing import Final

#: The most bytes of text one page holds.
MAX_TEXT_BYTES: Final = 30_000
#: Bytes to fetch beyond a page, so that its last character is whole.
LOOKAHEAD: Final = 4

# A page goes out twice, once of it as JSON, and a result may have 80,000 bytes.
_MAX_SENT_BYTES: Final = 72_000
_LONGEST_CHARACTER: Final = 4
_CONTINUATION: Final = 0b10
#: Above this share of bytes that are no UTF-8, a page is not text.
_MAX_BROKEN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """A page of text: which bytes of the data it is, and whether all of them were UTF-8."""

    text: str
    start: int
    end: int
    exact: bool


def cut(data: bytes, *, limit: int, inside: bool, is_last: bool) -> Part | None:
    """Take up to `limit` bytes of text; None when the data is not text.

    `inside`: the file begins before the data, so its first bytes may be the rest of a character.
    `is_last`: the file ends with the data.
    """
    part = page(data, limit=limit, inside=inside, is_last=is_last)
    broken = not part.exact and part.text.count("\ufffd") > _MAX_BROKEN * len(part.text)
    return None if broken or "\0" in part.text else part


def page(data: bytes, *, limit: int, inside: bool, is_last: bool) -> Part:
    """Take up to `limit` bytes of what is known to be text; see `cut`."""
    start = _rest_of_a_character(data) if inside else 0
    while True:
        end = _end(data, start, limit, is_last=is_last)
        part = data[start:end]
        text = part.decode("utf-8", "replace")
        if len(text.encode()) + len(json.dumps(text, ensure_ascii=False).encode()) <= _MAX_SENT_BYTES:
            break
        limit //= 2
    return Part(text, start, end, exact=text.encode() == part)


def _rest_of_a_character(data: bytes) -> int:
    start = 0
    while start < min(len(data), _LONGEST_CHARACTER - 1) and _continues(data[start]):
        start += 1
    return start


def _end(data: bytes, start: int, limit: int, *, is_last: bool) -> int:
    end = min(start + limit, len(data))
    if end == len(data) and is_last:
        return end
    line = data.rfind(b"\n", start, end) + 1
    # A very long line is cut rather than answered in tiny parts.
    if line > start + (end - start) // 2:
        return line
    whole = _without_a_begun_character(data, start, end)
    # Less than one character was asked for: give that one.
    return whole if whole > start else min(len(data), start + _length(data[start : start + 1]))


def _without_a_begun_character(data: bytes, start: int, end: int) -> int:
    for back in range(1, min(_LONGEST_CHARACTER, end - start + 1)):
        at = end - back
        if not _continues(data[at]):
            return at if _length(data[at : at + 1]) > back else end
    return end


def _continues(byte: int) -> bool:
    return byte >> 6 == _CONTINUATION


def _length(lead: bytes) -> int:
    """Say how long the character is that begins with this byte."""
    if lead < b"\xc0":
        return 1
    return 2 if lead < b"\xe0" else 3 if lead < b"\xf0" else 4
