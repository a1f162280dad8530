"""SQLite's driver, with one round trip to its thread for each statement.

aiosqlite runs the database in a thread. SQLAlchemy creates a cursor, runs the statement, fetches all rows and
closes the cursor one after the other: four round trips for a query, each of which costs more than the query. Here
they are one, and a connection that has only read is released without any.

aiosqlite is used by its public interface: `execute_fetchall` runs a statement and fetches its rows in one round trip.
A cursor class of this module, below it, returns the cursor's other data with the rows. The one exception is in
`WholeConnection`; docs/decisions/0011-sqlite-driver.md has the reasons.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import aiosqlite


class _Rows(list[Any]):
    """All rows of a statement, and the cursor's data about them."""

    def __init__(self, rows: Iterable[Any], cursor: sqlite3.Cursor) -> None:
        super().__init__(rows)
        self.description = cursor.description
        self.rowcount = cursor.rowcount
        self.lastrowid = cursor.lastrowid


class _DriverCursor(sqlite3.Cursor):
    """A cursor in the thread; it is closed there, with the statement."""

    def fetchall(self) -> _Rows:
        rows = _Rows(super().fetchall() if self.description else [], self)
        self.close()
        return rows

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        super().executemany(sql, parameters)
        self.close()
        return self


class _DriverConnection(sqlite3.Connection):
    """The connection that aiosqlite uses in the thread."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:  # noqa: ANN401 - typeshed has a private type here
        return self.cursor(_DriverCursor).execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self.cursor(_DriverCursor).executemany(sql, parameters)


@dataclass(slots=True)
class WholeCursor:
    """The cursor that SQLAlchemy sees: all rows of a statement have been fetched already."""

    connection: "WholeConnection"
    description: Any = None
    rowcount: int = -1
    lastrowid: int | None = None
    rows: list[Any] = field(default_factory=list[Any])

    async def __aenter__(self) -> Self:
        """Do nothing: there is no cursor in the thread."""
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement, and keep its rows."""
        rows = cast("_Rows", await self.connection.execute_fetchall(statement, parameters))
        self.rows, self.description = rows, rows.description
        self.rowcount, self.lastrowid = rows.rowcount, rows.lastrowid

    async def executemany(self, statement: str, several: Sequence[Sequence[Any]]) -> None:
        """Run a statement with each row of parameters; it returns no rows."""
        done = await self.connection.executemany(statement, several)
        self.rowcount = done.rowcount

    async def fetchall(self) -> list[Any]:
        """Return the rows."""
        return self.rows

    async def close(self) -> None:
        """Do nothing: the cursor in the thread is closed already."""


class WholeConnection(aiosqlite.Connection):
    """A connection that runs each statement in one round trip; the caller begins transactions."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        def open_in_thread() -> sqlite3.Connection:
            return sqlite3.connect(path, timeout=timeout, isolation_level=None, factory=_DriverConnection)

        super().__init__(open_in_thread, iter_chunk_size=1)
        # A process that ends must not wait for a connection that was not closed. There is no public way to ask
        # for that; SQLAlchemy does the same for the connections that it opens itself.
        self._thread.daemon = True

    def cursor(self) -> Any:  # noqa: ANN401 - not the one of the class above
        """Return a cursor."""
        return WholeCursor(self)

    async def rollback(self) -> None:
        """Roll back, if a transaction is open."""
        if self.in_transaction:
            await super().rollback()


async def connect(path: Path, *, timeout: float) -> WholeConnection:  # noqa: ASYNC109 - SQLite's own, for locks
    """Open a connection that waits so many seconds for another process's lock."""
    connection = WholeConnection(path, timeout=timeout)
    await connection
    return connection
