"""Pages of lists: rows within a byte limit, and the cursor for the rows after them."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, takewhile
from types import GenericAlias
from typing import Final, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats.text_size import is_longer
from nextcloud_mcp_server.nextcloud.sanitize import grows_by, sent_bytes
from nextcloud_mcp_server.nextcloud.top_k import Position

#: Rows are sent twice, as text and as structured content, and a result may have 80,000 bytes.
MAX_ROWS_BYTES: Final = 36_000

#: The maximum size of a character after escaping: `<U+E0041>`.
_ESCAPED: Final = 9

_CURSOR = TypeAdapter(tuple[str, int, str], config=ConfigDict(defer_build=True, strict=True))
#: Numbers in cursors: ids, and seconds before and after 1970. More digits than Nextcloud's own have are forged.
_MOST: Final = 2**63

Row = TypeVar("Row")


def fit(rows: Sequence[Row], room: int = MAX_ROWS_BYTES, *, most: int | None = None) -> list[Row]:
    """Return as many rows from the start as fit, at least one.

    `most` is the maximum size of all rows, where that is known without encoding them.
    """
    if not rows or (most is not None and most <= room) or _size(rows, room) <= room:
        return list(rows)
    ends = accumulate((_size([row], room) - 1 for row in rows), initial=1)
    return list(rows[: max(1, sum(1 for _ in takewhile(room.__ge__, ends)) - 1)])


def fair(lists: Sequence[Sequence[Row]], room: int = MAX_ROWS_BYTES) -> list[int]:
    """Divide the room between lists, one row of each in turn; return the number of rows for each.

    A list that needs less leaves its share to the others.
    """
    taken = [0] * len(lists)
    open_ = [number for number, rows in enumerate(lists) if rows]
    while open_:
        for number in list(open_):
            size = _size([lists[number][taken[number]]], room)
            if size > room and any(taken):
                open_.remove(number)
                continue
            room -= size
            taken[number] += 1
            if taken[number] == len(lists[number]):
                open_.remove(number)
    return taken


def fitting(texts: Sequence[str], room: int) -> list[str]:
    """Return as many texts as fit, the last one cut."""
    taken: list[str] = []
    for one in texts:
        # A text of megabytes is not measured: escaped and in JSON it is no shorter.
        size = room + 1 if len(one) > room else sent_bytes(one)
        if size > room:
            return [*taken, one[: room // _ESCAPED]]
        room -= size
        taken.append(one)
    return taken


def _size(rows: Sequence[Row], room: int) -> int:
    """Count the bytes of these rows as a JSON list; of more than `room`, without those of escapes."""
    if is_longer(rows, room):
        return room + 1
    written = _writer(type(rows[0])).dump_json(rows, exclude_none=True)
    return len(written) if len(written) > room else len(written) + grows_by(written)


@cache
def _writer(row: type[object]) -> TypeAdapter[Sequence[object]]:
    return TypeAdapter(cast("type[Sequence[object]]", GenericAlias(list, (row,))))


def seal(position: Position, *filters: object) -> str:
    """Return a cursor for the model, bound to the filters of its list."""
    parts = [_fingerprint(filters), position.number, position.name]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def unseal(cursor: str | None, *filters: object, least: int = -_MOST) -> Position | None:
    """Parse a cursor of `seal`; None for the first page. `least` is the smallest number that the list writes.

    A client can forge a cursor: what a list reads from the name of the position it must check itself.

    Raises:
      InvalidInput: It is not a cursor of this server, or belongs to a list with other filters.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        fingerprint, number, name = _CURSOR.validate_json(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
    except (ValueError, ValidationError):
        fingerprint, number, name = "", 0, ""
    if fingerprint != _fingerprint(filters) or not least <= number < _MOST:
        raise of_another_list()
    return Position.of(number, name)


def of_another_list() -> InvalidInput:
    """Return the error for a cursor that this list did not write."""
    return InvalidInput(
        "That cursor does not belong to this list. Repeat the call with the same arguments, or without cursor."
    )


class Listing:
    """The pages of a list that is fetched completely for each of them."""

    def __init__(self, cursor: str | None, *filters: object) -> None:
        """Read the cursor; `start` is how many rows were shown before.

        Raises:
          InvalidInput: As `unseal`.
        """
        here = unseal(cursor, *filters, least=0)
        self.start = 0 if here is None else here.number
        self._filters = filters

    def page(
        self, found: Sequence[Row], limit: int | None = None, *, room: int = MAX_ROWS_BYTES
    ) -> tuple[list[Row], str | None]:
        """Return the rows of the page, and the cursor for those after it."""
        end = None if limit is None else self.start + limit
        rows = fit(found[self.start : end], room)
        return rows, self.after(len(rows), len(found))

    def after(self, shown: int, total: int) -> str | None:
        """Return the cursor after a page with so many rows; None at the end of the list."""
        seen = self.start + shown
        return seal(Position.of(seen, ""), *self._filters) if seen < total else None


def _fingerprint(filters: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(filters).encode()).hexdigest()[:8]
