"""Normalises texts (UAX #15) in time proportional to their length.

Python sorts the combining marks of one letter by insertion: 160,000 of them take 20 seconds, during which no other
thread runs. No language writes more than a few; UAX #15 (§13, Stream-Safe Text Format) allows 30. A longer run is
normalised in pieces, and so is a long text, so that other threads run between them.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

#: 30 characters of which each may be a combining mark. Halfwidth sound marks are letters for `\w`.
_RUN: Final = r"((?:[^\w\s\x00-\u02ff]|[\uff9e\uff9f]){30})"
#: A piece ends before an ASCII character, which composes with none before it, if there is one soon.
_PIECE: Final = r"(?s).{1,65536}[^\x00-\x7f]{0,1000}"
_compiled: Final = cache(re.compile)


def normalised(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Return a text in a normal form; a run of more than 30 combining marks keeps some of its order."""
    return "".join(unicodedata.normalize(form, piece) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces that can be normalised one by one; an ordinary text of a few pages is one."""
    if text.isascii():
        yield text
        return
    for part in _compiled(_PIECE).finditer(text):
        yield from _compiled(_RUN).split(part[0])
