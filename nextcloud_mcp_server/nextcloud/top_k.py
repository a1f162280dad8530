"""One page out of a long list: of one that is seen passing by, and of one that is answered longer than asked for."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


#: A position as a plain tuple, which costs a long list half as much.
Place = tuple[int, str, str]


class Position(NamedTuple):
    """Where an item stands in a sorted list: a number, then its name.

    A page begins after the position of the last item seen, so that items which come or go
    between two pages shift nothing.
    """

    number: int
    folded: str
    name: str

    @classmethod
    def of(cls, number: int, name: str) -> "Position":
        """Stand by this number, and among equals by name regardless of case."""
        return cls(number, name.casefold(), name)


class Cut(NamedTuple, Generic[Item]):
    """A page of an answer, and whether the answer holds more behind it."""

    rows: list[Item]
    more: bool


def cut(rows: Sequence[Item], limit: int, *, offset: int = 0, total: int | None = None) -> Cut[Item]:
    """Keep `limit` rows of an answer to a request for that many, which the app may have paid no heed to.

    Row `offset` was asked for as the first. An app that answers more rows than it was asked for, and as many as
    there are in `total`, has ignored that as well.
    """
    first = offset if total is not None and offset and len(rows) > limit and len(rows) >= total else 0
    return Cut(list(rows[first : first + limit]), len(rows) > first + limit)


class TopK(Generic[Item]):
    """Keeps the first `limit` items behind a position, and counts all."""

    def __init__(self, position: Callable[[Item], Place], *, limit: int, after: Position | None) -> None:
        self.total = 0
        self._position = position
        self._limit = limit
        self._after = after
        self._kept: list[Item] = []

    def offer(self, item: Item) -> None:
        """Count an item, and keep it while it may belong on the page."""
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
        """Give the page in order, and whether more comes after it."""
        self._cut(self._limit + 1)
        return self._kept[: self._limit], len(self._kept) > self._limit
