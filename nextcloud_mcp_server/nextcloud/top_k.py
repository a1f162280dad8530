"""One page of a long list: of a list that streams by, or of a response longer than requested."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


#: A position as a plain tuple, which halves the time for a long list.
Place = tuple[int, str, str]


class Position(NamedTuple):
    """The position of an item in a sorted list: a number, then its name.

    A page begins after the position of the last item seen, so items that are added or removed between two pages shift
    nothing.
    """

    number: int
    folded: str
    name: str

    @classmethod
    def of(cls, number: int, name: str) -> "Position":
        """Return the position for a number; equal numbers are sorted by name, ignoring case."""
        return cls(number, name.casefold(), name)


class Cut(NamedTuple, Generic[Item]):
    """A page of a response, and whether there are more items after it."""

    rows: list[Item]
    more: bool


def cut(rows: Sequence[Item], limit: int, *, offset: int = 0, total: int | None = None) -> Cut[Item]:
    """Keep `limit` rows of a response to a request for that many, which the app may have ignored.

    The request began at row `offset`. A response with more rows than requested, and as many as `total`, has ignored
    the offset as well.
    """
    first = offset if total is not None and offset and len(rows) > limit and len(rows) >= total else 0
    return Cut(list(rows[first : first + limit]), len(rows) > first + limit)


class TopK(Generic[Item]):
    """Keeps the first `limit` items after a position, and counts all."""

    def __init__(self, position: Callable[[Item], Place], *, limit: int, after: Position | None) -> None:
        self.total = 0
        self._position = position
        self._limit = limit
        self._after = after
        self._kept: list[Item] = []

    def offer(self, item: Item) -> None:
        """Count an item, and keep it while it may belong to the page."""
        self.total += 1
        if self._after is not None and self._position(item) <= self._after:
            return
        self._kept.append(item)
        if len(self._kept) > 2 * self._limit + 1:
            self._cut(self._limit + 1)

    def _cut(self, length: int) -> None:
        self._kept.sort(key=self._position)
        del self._kept[length:]

    def page(self) -> tuple[list[Item], bool]:
        """Return the page in order, and whether there are more items after it."""
        self._cut(self._limit + 1)
        return self._kept[: self._limit], len(self._kept) > self._limit
