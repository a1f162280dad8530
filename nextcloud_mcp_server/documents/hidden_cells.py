"""Names the rows and columns of a sheet that are hidden, filtered out or collapsed."""

from typing import Final

#: The maximum number of ranges named of each kind; a filter can leave thousands.
MAX_RANGES: Final = 20
_LETTERS: Final = 26


class HiddenCells:
    """Collects the hidden parts of one sheet; rows and columns are counted from 1."""

    def __init__(self) -> None:
        self._columns: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int]] = []

    def add_columns(self, first: int, last: int) -> None:
        """Add columns; each call must be to the right of the one before."""
        _append(self._columns, first, last)

    def add_rows(self, first: int, last: int) -> None:
        """Add rows; each call must be below the one before."""
        _append(self._rows, first, last)

    def line(self) -> str:
        """Return the ranges as `[Hidden: columns C to E; rows 3, 5 to 9]`; "" without any."""
        columns = [(column_letters(first), column_letters(last)) for first, last in self._columns]
        rows = [(str(first), str(last)) for first, last in self._rows]
        parts = [_describe("column", columns), _describe("row", rows)]
        return f"[Hidden: {'; '.join(filter(None, parts))}]" if any(parts) else ""


def column_letters(number: int) -> str:
    """Return the letters of a column: A for 1, AA for 27."""
    letters = ""
    while number > 0:
        number, letter = divmod(number - 1, _LETTERS)
        letters = chr(ord("A") + letter) + letters
    return letters


def _append(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    if ranges and ranges[-1][1] + 1 == first:
        ranges[-1] = (ranges[-1][0], last)
    elif len(ranges) <= MAX_RANGES and first <= last:
        ranges.append((first, last))


def _describe(kind: str, ranges: list[tuple[str, str]]) -> str:
    if not ranges:
        return ""
    names = [first if first == last else f"{first} to {last}" for first, last in ranges[:MAX_RANGES]]
    more = ", and more" if len(ranges) > MAX_RANGES else ""
    plural = "" if len(names) == 1 and ranges[0][0] == ranges[0][1] else "s"
    return f"{kind}{plural} {', '.join(names)}{more}"
