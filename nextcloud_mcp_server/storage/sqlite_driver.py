"""SQLite's driver, with one trip to its thread for each statement.

The driver runs the database in a thread. The library above it makes a cursor, runs the statement,
fetches all rows and closes the cursor one after the other: four trips for a query, each of which costs
more than the query. Here they are one, and a connection that has only read is given back without any.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiosqlite

Run = Callable[[sqlite3.Cursor], object]


@dataclass(slots=True)
class WholeCursor:
    """What the library above reads of a cursor: a statement's rows, of which the database knows nothing more."""

    connection: "WholeConnection"
    description: Any = None
    rowcount: int = -1
    lastrowid: int | None = None
    rows: list[Any] = field(default_factory=list[Any])

    async def __aenter__(self) -> Self:
        """Be there without a trip."""
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement."""
        await self.connection.run(self, lambda cursor: cursor.execute(statement, parameters))

    async def executemany(self, statement: str, several: Sequence[Sequence[Any]]) -> None:
        """Run a statement with one row of parameters after the other."""
        await self.connection.run(self, lambda cursor: cursor.executemany(statement, several))

    async def fetchall(self) -> list[Any]:
        """Hand on what came."""
        return self.rows

    async def close(self) -> None:
        """Leave it at that: nothing is open."""


class WholeConnection(aiosqlite.Connection):
    """A connection that runs each statement as a whole; transactions begin where they are told to."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        super().__init__(
            lambda: sqlite3.connect(path, timeout=timeout, isolation_level=None), iter_chunk_size=1
        )
        # A process that ends must not wait for a connection that no one closed.
        self._thread.daemon = True

    def cursor(self) -> Any:  # noqa: ANN401 - not the one of the class above
        """Make a cursor."""
        return WholeCursor(self)

    async def rollback(self) -> None:
        """Go back, if there is anything to go back from."""
        if self.in_transaction:
            await super().rollback()

    async def run(self, whole: WholeCursor, run: Run) -> None:
        """Run a statement in the thread, and keep all that came of it."""

        def in_thread() -> None:
            cursor = self._conn.cursor()
            try:
                run(cursor)
                whole.description = cursor.description
                whole.rows = cursor.fetchall() if cursor.description else []
                whole.rowcount, whole.lastrowid = cursor.rowcount, cursor.lastrowid
            finally:
                cursor.close()

        await self._execute(in_thread)  # pyright: ignore[reportUnknownMemberType]


async def connect(path: Path, *, timeout: float) -> WholeConnection:  # noqa: ASYNC109 - SQLite's own, for locks
    """Open a connection that waits so many seconds for another process's lock."""
    connection = WholeConnection(path, timeout=timeout)
    await connection
    return connection
