"""Ids: numbers of Nextcloud's apps, carried as text.

A JavaScript client reads a JSON number as a 64-bit float, so an id above 2^53 comes back from it as the id of
another thing, or of none (RFC 8259 §6; `Number.MAX_SAFE_INTEGER`). So every id is text, in results and arguments.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

#: Enough for an unsigned number of 64 bits.
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_MOST: Final = 10**20
#: Above it a float, as which JSON's 7.0 arrives, no longer tells neighbours apart.
_EXACT: Final = 2**53


def _plain(value: object) -> object:
    """Write an integer as text; what is none is left for the next check to judge."""
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


#: The id of a note, card, row, message and so on: digits. Read from an integer too; nothing else is taken, so
#: one can stand in a path as it is.
Id = Annotated[str, BeforeValidator(_digits)]

#: An id that may be more than digits, such as that of an event; read from an integer too.
TextId = Annotated[str, BeforeValidator(_plain)]


def number(id_: str) -> int:
    """Give the number, where ids are sorted or where an app wants one in JSON."""
    return int(id_)
