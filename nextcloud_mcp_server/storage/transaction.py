"""Connections and transactions: the one place where the database library's errors are translated."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Protocol

import anyio
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing

#: Lends the announcements of other processes that a consent request has ended, as long as they can be heard.
Listen = Callable[[], AbstractAsyncContextManager[AsyncGenerator[None]]]

_DATA_EXCEPTION = "22"  # the class of SQLSTATEs whose message quotes a value


class Backend(Protocol):
    """What differs between the kinds of databases."""

    @property
    def advice(self) -> str:
        """Say what a user does about a database that cannot be used."""
        ...

    @property
    def connections(self) -> int:
        """Say how many connections the pool has."""
        ...

    @property
    def reading_options(self) -> Mapping[str, str]:
        """Name the execution options of a connection that reads."""
        ...

    @property
    def listen(self) -> Listen | None:
        """Hear of other processes' ended consent requests; None where they cannot be heard of."""
        ...

    def engine(self) -> AsyncEngine:
        """Make the pool of connections; none is opened yet."""
        ...

    def begin_writing(self, connection: Connection) -> None:
        """Let one transaction at a time write, in however many processes; the others wait their turn."""
        ...

    async def prepare(self, engine: AsyncEngine) -> None:
        """Bring the schema up to date, in one process at a time."""
        ...


class Transactions:
    """What repositories share: transactions, keys and the clock."""

    def __init__(
        self, engine: AsyncEngine, backend: Backend, *, keys: KeyRing, clock: Callable[[], datetime]
    ) -> None:
        self.keys = keys
        self.now = clock
        self._advice = backend.advice
        self._reader = engine.execution_options(**backend.reading_options)
        self._writer = engine.execution_options()
        event.listen(self._writer.sync_engine, "begin", backend.begin_writing)
        # The database makes those who want to write wait, which costs each a connection; within
        # this process a queue is fairer and faster.
        self._queue = anyio.Lock()
        # The library's pool gives a connection to the first caller after it is free, so that of
        # hundreds who wait some are passed over until they give up. This queue is fair; one connection
        # stays for the one who writes.
        self._places = anyio.Semaphore(backend.connections - 1)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Lend a connection for one query."""
        async with self._places:
            with translated(self._advice), anyio.CancelScope(shield=True):
                async with self._reader.connect() as connection:
                    yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Lend a connection in a transaction that commits at the end, or leaves nothing behind.

        What it reads no one changes before it ends: transactions that write come one after the
        other, whatever the database and however many processes share it. It is shielded from
        cancellation: a caller that goes away must not leave a connection half-way, and no
        statement here waits for another host than the database's, which has a time limit.
        """
        async with self._queue:
            with translated(self._advice), anyio.CancelScope(shield=True):
                async with self._writer.begin() as connection:
                    yield connection


@contextmanager
def translated(advice: str) -> Generator[None]:
    """Turn the library's errors into ours, without statements or values."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        # `from None`: what PostgreSQL adds to an error repeats the whole row, and logs print causes.
        raise StorageError(f"The database cannot be used ({_cause(error)}). {advice}") from None


def _cause(error: Exception) -> str:
    driver = error.driver_exception if isinstance(error, DBAPIError) else None
    state: str | None = getattr(driver, "sqlstate", None)
    if driver is None or (state or "").startswith(_DATA_EXCEPTION):
        return type(driver or error).__name__
    # PostgreSQL's error has its first line apart from the details, and SQLite's is one line.
    return getattr(driver, "message", None) or str(driver) or type(driver).__name__
