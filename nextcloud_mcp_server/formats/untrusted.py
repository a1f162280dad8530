"""Parses numbers and JSON in texts that another user, a client or a server wrote.

Python itself raises RecursionError for deeply nested JSON, and ValueError for an integer of more than 4,300 digits,
also where `isdecimal` has accepted it.
"""

import json
import re
from collections import deque
from typing import Final

#: Enough for a 64-bit number.
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
#: A string of JSON; one that does not end reaches to the end of the text.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ELEMENTS: Final = (b",", b"[", b"{")
_PIECE: Final = 65_536


def integer(text: str) -> int | None:
    """Parse an integer in decimal digits; None for anything else, and for more than 20 digits."""
    return int(text) if _INTEGER.fullmatch(text) else None


def read_json(text: str | bytes) -> object:
    """Parse a JSON text.

    Raises:
      ValueError: It is invalid or nested too deeply, or has a number with too many digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None


def has_more_elements(text: bytes, most: int) -> bool:
    """Tell whether a JSON text has more elements than `most`, without making any; its syntax is not checked.

    A parser makes objects of hundreds of bytes for each element, which may be of two bytes.
    """
    # Those in strings count here, too: only where they are many it is worth telling them apart.
    if _elements(text) <= most:
        return False
    # An object of so many elements has twice as many strings, with two quotes each; a quote in a string is escaped.
    strings = text.count(b'"') - text.count(b'\\"')
    return strings > 4 * most + 2 or _outside_strings(text, most) > most


def _outside_strings(text: bytes, most: int) -> int:
    """Count the elements outside of strings, up to more than `most`.

    It is done in pieces: all strings at once take twenty times the text, and no other thread runs meanwhile.
    """
    found = at = 0
    while at < len(text) and found <= most:
        end = min(at + _PIECE, len(text))
        last = next(iter(deque(_STRING.finditer(text, at, end), maxlen=1)), None)
        # A string at the end of the piece may go on; an escape may be cut, too.
        if last is not None and last.end() >= end - 1 and end < len(text):
            if last.start() == at and (whole := _STRING.match(text, at)) is not None:
                at = whole.end()
                continue
            end = last.start()
        found += _elements(_STRING.sub(b"", text[at:end]))
        at = end
    return found


def _elements(text: bytes) -> int:
    return sum(map(text.count, _ELEMENTS))
