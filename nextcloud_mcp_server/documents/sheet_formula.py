"""Shared formulas of a workbook: stored in the first cell, and moved to the others."""

import re
from typing import Final

#: A text in quotes, the name of a sheet in quotes, a name or function, or a reference such as `$B7`.
_TOKEN: Final = re.compile(
    r"""("[^"]*"|'[^']*'!?)|(?<![\w.$])(\$?)([A-Z]{1,3})(\$?)([1-9]\d{0,6})(?![\w.(])""", re.ASCII
)
_PLACE: Final = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})", re.ASCII)


class Shared:
    """Stores the shared formulas by their number (ECMA-376, part 1, 18.3.1.40)."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}
        self._number = ""

    def begin(self, number: str) -> None:
        """Set the number of the next formula; "" for one that is not shared."""
        self._number = number

    def of(self, formula: str, place: str) -> str:
        """Return the formula of a cell; "" without one."""
        if formula and self._number:
            self._known[self._number] = formula, place
        if formula or self._number not in self._known:
            return formula
        return moved(*self._known[self._number], place)


def moved(formula: str, start: str, end: str) -> str:
    """Move a formula from one cell to another: relative references move along, those with `$` stay."""
    old, new = _PLACE.fullmatch(start), _PLACE.fullmatch(end)
    if old is None or new is None:
        return formula
    right, down = _count(new[1]) - _count(old[1]), int(new[2]) - int(old[2])

    def move(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        column = found[3] if found[2] else _letters(_count(found[3]) + right)
        row = int(found[5]) if found[4] else int(found[5]) + down
        return f"{found[2]}{column}{found[4]}{row}"

    return _TOKEN.sub(move, formula)


def _count(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _letters(number: int) -> str:
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
