"""Normalises texts (UAX #15) in time proportional to their length.

Python sorts the combining marks of one letter by insertion: 160,000 of them take 20 seconds, during which no other
thread runs. No language writes more than a few; UAX #15 (§13, Stream-Safe Text Format) allows 30. A longer run is
normalised in pieces.
"""

import re
import unicodedata
from functools import cache
from typing import Final, Literal

#: 30 characters of which each may be a combining mark. Halfwidth sound marks are letters for `\w`.
_RUN: Final = r"((?:[^\w\s\x00-\u02ff]|[\uff9e\uff9f]){30})"
_run: Final = cache(re.compile)


def normalised(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form; a run of more than 30 combining marks keeps some of its order."""
    if text.isascii():
        return text
    # Most texts have no such run, and then this is one piece.
    return "".join(unicodedata.normalize(form, piece) for piece in _run(_RUN).split(text))
