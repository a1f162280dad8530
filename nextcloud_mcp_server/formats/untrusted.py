"""Parses numbers and JSON in texts that another user, a client or a server wrote.

Python itself raises RecursionError for deeply nested JSON, and ValueError for an integer of more than 4,300 digits,
also where `isdecimal` has accepted it.
"""

import json
import re
from typing import Final

#: Enough for a 64-bit number.
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")


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
