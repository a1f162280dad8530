"""Ids: numbers of Nextcloud's apps, handled as text.

A JavaScript client reads a JSON number as a 64-bit float, so an id above 2^53 may come back from it as the id of
another object, or of none (RFC 8259 §6; `Number.MAX_SAFE_INTEGER`). So every id is text, in results and arguments.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

#: Enough for an unsigned 64-bit number.
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_MOST: Final = 10**20
#: Above this, a float (JSON's 7.0 arrives as one) cannot distinguish neighbouring integers.
_EXACT: Final = 2**53


def _plain(value: object) -> object:
    """Convert an integer to text; return other values unchanged for the next validator."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        value = int(value)
    return str(value) if isinstance(value, int) and abs(value) < _MOST else value


def _digits(value: object) -> object:
    plain = _plain(value)
    if not isinstance(plain, str) or _DIGITS.fullmatch(text := plain.strip()) is None:
        raise PydanticCustomError("id", 'must be an id as the tools answer it: digits, such as "7"')
    return text.lstrip("0") or "0"


#: The id of a note, card, row, message and so on: digits only, so it is safe in a path. Integers are accepted too.
Id = Annotated[str, BeforeValidator(_digits)]

#: An id that may contain more than digits, such as that of an event. Integers are accepted too.
TextId = Annotated[str, BeforeValidator(_plain)]


def number(id_: str) -> int:
    """Return the number, for sorting or for an app that needs a JSON number."""
    return int(id_)
