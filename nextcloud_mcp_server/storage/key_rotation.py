"""Key rotation: which key sealed each row, and sealing rows again beside a running server."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    LargeBinary,
    Row,
    Select,
    Table,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.authorization_transactions import auth_transaction_place
from nextcloud_mcp_server.storage.clients import client_place
from nextcloud_mcp_server.storage.columns import SealedValue
from nextcloud_mcp_server.storage.crypto import KEY_ID_AT, KEY_ID_BYTES, KeyRing, Seal, Sealed
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.tasks import task_place
from nextcloud_mcp_server.storage.transaction import Transactions

#: Rows that are read, and then stored in one transaction: the server waits for so many at most.
BATCH = 50

#: For tables whose rows belong to a user: the column that identifies the row in `KeyRing.at`.
_NAMED_BY = {
    "access_tokens": "token_hash",
    "accounts": "id",
    "audit": "id",
    "codes": "code_hash",
    "credentials": "id",
    "elicitations": "id_hash",
    "grant_requests": "state_hash",
    "pending_grants": "id",
    "login_flows": "id",
    "outbox": "id",
    "permissions": "client_id",
    "sign_ins": "token_hash",
    "token_families": "family_hash",
}
#: For the other sealed tables, and rows that are bound to more than a user: the function that returns the seal.
_PLACES: Mapping[str, Callable[[KeyRing, Row[Any]], Seal]] = {
    "authorization_transactions": auth_transaction_place,
    "clients": client_place,
    "tasks": task_place,
}


@dataclass(frozen=True, slots=True)
class SealedRows:
    """How many rows of a table hold a value that this key has sealed."""

    table: str
    key_id: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Resealed:
    """The values of one row to be replaced, and the new ones."""

    primary_key: tuple[Any, ...]
    old: Mapping[str, Sealed]
    new: Mapping[str, Sealed]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a table that were read and sealed again, and are not stored yet.

    `unreadable` counts values that cannot be decrypted; they are not changed. `last` is the primary key to
    continue after.
    """

    table: Table
    rows: Sequence[Resealed]
    unreadable: int
    last: tuple[Any, ...]


@dataclass(slots=True)
class Rotated:
    """The result of one pass over all tables, in rows; `unreadable` counts values."""

    resealed: int = 0
    changed_meanwhile: int = 0
    unreadable: int = 0
    unreadable_tables: set[str] = field(default_factory=set[str])


class KeyRotation:
    """Works on all users' rows, for the operator who replaces a key."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @property
    def key_ids(self) -> list[bytes]:
        """Return the ids of the configured keys; the first one seals."""
        return self._transactions.keys.ids

    async def counts(self, *only: str) -> list[SealedRows]:
        """Count the rows of each table, or of these, by the keys that sealed them, configured or not.

        A row whose values have different keys counts for each of them. This reads whole tables.
        """
        counted: list[SealedRows] = []
        for table in sealed_tables():
            if only and table.name not in only:
                continue
            ids = [_key_id(column) for column in sealed_columns(table)]
            query = select(func.count(), *ids).select_from(table).group_by(*ids)
            rows: Counter[bytes] = Counter()
            async with self._transactions.reading() as connection:
                for row in await connection.execute(query):
                    number, *key_ids = cast("tuple[Any, ...]", row)
                    for key_id in set(key_ids) - {None}:
                        rows[key_id] += number
            counted += [SealedRows(table.name, key_id, number) for key_id, number in sorted(rows.items())]
        return counted

    async def rotate(
        self,
        *,
        pause: Callable[[], Awaitable[object]],
        progress: Callable[[int], object],
        batch_size: int = BATCH,
    ) -> Rotated:
        """Seal every row that another key has sealed with the first key.

        It may be ended at any moment: each batch is stored completely or not at all, and the next call
        continues. `pause` is awaited after each batch, so that a running server can write.
        """
        rotated = Rotated()
        for table in sealed_tables():
            after: tuple[Any, ...] | None = None
            # Not further: a server that still seals with another key would keep this pass from ending.
            until = await self._last(table)
            while (batch := await self.read(table, after=after, until=until, limit=batch_size)) is not None:
                stored = await self.store(batch)
                rotated.resealed += stored
                rotated.changed_meanwhile += len(batch.rows) - stored
                if batch.unreadable:
                    rotated.unreadable += batch.unreadable
                    rotated.unreadable_tables.add(table.name)
                after = batch.last
                progress(rotated.resealed)
                await pause()
        return rotated

    async def _last(self, table: Table) -> tuple[Any, ...] | None:
        """Return the greatest primary key of a table; None if it is empty."""
        key = list(table.primary_key)
        query = select(*key).order_by(*(column.desc() for column in key)).limit(1)
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else tuple(row)

    async def read(
        self,
        table: Table,
        *,
        limit: int,
        after: tuple[Any, ...] | None = None,
        until: tuple[Any, ...] | None = None,
    ) -> Batch | None:
        """Read the next rows that another key has sealed, and seal them again; None after the last one.

        Their primary keys are greater than `after` and not greater than `until`.
        """
        keys = self._transactions.keys
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(_stale(table, keys.ids[0], after, until).limit(limit))).all()
        if not rows:
            return None
        resealed = [_reseal(keys, table, row) for row in rows]
        return Batch(
            table,
            rows=[row for row, _ in resealed if row.new],
            unreadable=sum(unreadable for _, unreadable in resealed),
            last=_primary_key(table, rows[-1]),
        )

    async def store(self, batch: Batch) -> int:
        """Store a batch in one transaction; return how many rows were stored.

        Rows that changed or were deleted meanwhile are left out. Each sealed value has a nonce of its own, so
        an equal value was not written since.
        """
        stored = 0
        async with self._transactions.writing() as connection:
            for row in batch.rows:
                columns = batch.table.c
                unchanged = [columns[name] == sealed for name, sealed in row.old.items()]
                same_row = [
                    column == value
                    for column, value in zip(batch.table.primary_key, row.primary_key, strict=True)
                ]
                done = await connection.execute(
                    update(batch.table).where(*same_row, *unchanged).values(dict(row.new))
                )
                stored += done.rowcount
        return stored


def sealed_tables() -> Iterator[Table]:
    """Iterate over the tables with sealed values, in the order of their dependencies."""
    return (table for table in metadata.sorted_tables if sealed_columns(table))


def sealed_columns(table: Table) -> list[Column[Any]]:
    """Return the sealed columns of a table."""
    return [column for column in table.columns if isinstance(column.type, SealedValue)]


def place_of(keys: KeyRing, table: Table, row: Row[Any]) -> Seal:
    """Return the seal for the values of a row."""
    place = _PLACES.get(table.name)
    if place is not None:
        return place(keys, row)
    return keys.at(table.name, Principal(row.issuer, row.subject), getattr(row, _NAMED_BY[table.name]))


def _reseal(keys: KeyRing, table: Table, row: Row[Any]) -> tuple[Resealed, int]:
    """Seal again the values that another key has sealed.

    The second part of the result counts those that cannot be decrypted.
    """
    seal, unreadable = place_of(keys, table, row), 0
    old: dict[str, Sealed] = {}
    new: dict[str, Sealed] = {}
    for column in sealed_columns(table):
        sealed: Sealed | None = getattr(row, column.name)
        if sealed is None or sealed.key_id == keys.ids[0]:
            continue
        try:
            new[column.name] = seal.seal(column.name, seal.open(column.name, sealed))
            old[column.name] = sealed
        except Unsealable:
            unreadable += 1
    return Resealed(_primary_key(table, row), old, new), unreadable


def _stale(
    table: Table, newest: bytes, after: tuple[Any, ...] | None, until: tuple[Any, ...] | None
) -> Select[Any]:
    key = list(table.primary_key)
    query = select(table).where(or_(*(_key_id(column) != newest for column in sealed_columns(table))))
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))
    if until is not None:
        query = query.where(tuple_(*key) <= tuple_(*until))
    return query.order_by(*key)


def _key_id(column: Column[Any]) -> ColumnElement[bytes]:
    # Not bound parameters: PostgreSQL would treat those of SELECT and GROUP BY as different expressions.
    return func.substr(
        column,
        literal_column(str(KEY_ID_AT + 1), Integer),
        literal_column(str(KEY_ID_BYTES), Integer),
        type_=LargeBinary(),
    )


def _primary_key(table: Table, row: Row[Any]) -> tuple[Any, ...]:
    return tuple(getattr(row, column.name) for column in table.primary_key)
