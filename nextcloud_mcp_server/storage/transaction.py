"""Connections and transactions: the one place where the database library's errors are translated."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

import anyio
from sqlalchemy import Connection, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing


class Transactions:
    """What repositories share: transactions, keys and the clock."""

    def __init__(self, engine: AsyncEngine, *, keys: KeyRing, clock: Callable[[], datetime]) -> None:
        self.keys = keys
        self.now = clock
        self._engine = engine
        self._writer = engine.execution_options()
        event.listen(self._writer.sync_engine, "begin", _begin_immediate)
        # SQLite lets one write at a time and makes the others sleep and retry; within this process
        # a queue is fairer and faster.
        self._queue = anyio.Lock()

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Lend a connection for one query."""
        with translated(), anyio.CancelScope(shield=True):
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Lend a connection in a transaction that commits at the end, or leaves nothing behind.

        It is shielded from cancellation: a caller that goes away must not leave a connection
        half-way, and no statement here waits for another host.
        """
        async with self._queue:
            with translated(), anyio.CancelScope(shield=True):
                async with self._writer.begin() as connection:
                    yield connection


@contextmanager
def translated() -> Generator[None]:
    """Turn the library's errors into ours, without statements or values."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        raise StorageError(
            f"The database cannot be used ({cause}). Check the file, its folder and the free space."
        ) from error


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads first and writes later could find that another process wrote in
    # between, and would fail at once instead of waiting its turn.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
