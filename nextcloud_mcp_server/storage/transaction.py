"""Connections and transactions: the one place where the database library's errors are converted."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol

import anyio
from sqlalchemy import Connection, event
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from nextcloud_mcp_server.errors import StorageError, StorageUnavailable
from nextcloud_mcp_server.storage.crypto import KeyRing

#: Yields the notifications of other processes that a consent request has ended, as long as they can be received.
Listen = Callable[[], AbstractAsyncContextManager[AsyncGenerator[None]]]

_DATA_EXCEPTION = "22"  # the class of SQLSTATEs whose message quotes a value
#: The classes of SQLSTATEs that are about the statement: its values, its constraints, its syntax.
_SAID = frozenset({_DATA_EXCEPTION, "23", "42"})


class Backend(Protocol):
    """The differences between the kinds of databases."""

    @property
    def advice(self) -> str:
        """What the operator can do about a database that cannot be used."""
        ...

    @property
    def connections(self) -> int:
        """How many connections the pool has."""
        ...

    @property
    def reading_options(self) -> Mapping[str, str]:
        """The execution options of a connection that reads."""
        ...

    @property
    def listen(self) -> Listen | None:
        """Receives other processes' notifications of ended consent requests; None if there are none."""
        ...

    def engine(self) -> AsyncEngine:
        """Create the connection pool; no connection is opened yet."""
        ...

    def begin_writing(self, connection: Connection) -> None:
        """Let one transaction at a time write, in any number of processes; the others wait."""
        ...

    async def prepare(self, engine: AsyncEngine) -> None:
        """Upgrade the schema, in one process at a time."""
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
        # A writer that waits in the database occupies a connection; within this process a queue is fairer and
        # faster.
        self._queue = anyio.Lock()
        # The library's pool gives a connection to the first caller after its release, so that of hundreds of
        # waiting callers some are passed over until their time limit. This queue is fair; one connection is
        # reserved for the writer.
        self._places = anyio.Semaphore(backend.connections - 1)
        self._joined: ContextVar[AsyncConnection | None] = ContextVar("joined", default=None)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection for one query; within `one_reading` the one of that block."""
        joined = self._joined.get()
        if joined is not None:
            with translated(self._advice):
                yield joined
            return
        async with self._places:
            with translated(self._advice), anyio.CancelScope(shield=True):
                async with self._reader.connect() as connection:
                    yield connection

    @asynccontextmanager
    async def one_reading(self) -> AsyncGenerator[None]:
        """Let all queries of this block use one connection, in one transaction.

        The block must not wait for anything but the database.
        """
        async with self.reading() as connection:
            joined = self._joined.set(connection)
            try:
                yield
            finally:
                self._joined.reset(joined)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection in a transaction that commits at the end, or rolls back.

        What it reads does not change before it ends: writing transactions run one after the other, in every
        database and for any number of processes. It is shielded from cancellation: a cancelled caller must not
        leave a connection half-way, and no statement here waits for another host than the database's, which has
        a time limit.
        """
        async with self._queue:
            with translated(self._advice), anyio.CancelScope(shield=True):
                async with self._writer.begin() as connection:
                    yield connection


@contextmanager
def translated(advice: str) -> Generator[None]:
    """Convert the library's errors, without statements or values."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        # `from None`: PostgreSQL's details repeat the whole row, and logs print causes.
        kind = StorageUnavailable if _may_pass(error) else StorageError
        raise kind(f"The database cannot be used ({_cause(error)}). {advice}") from None


def _may_pass(error: Exception) -> bool:
    """Tell whether the state of the database is the cause, and not what a statement says."""
    if isinstance(error, OSError):
        return True
    said = isinstance(error, DataError | IntegrityError | ProgrammingError)
    return isinstance(error, DBAPIError) and not said and _sqlstate(error)[:2] not in _SAID


def _sqlstate(error: DBAPIError) -> str:
    return getattr(error.driver_exception, "sqlstate", None) or ""


def _cause(error: Exception) -> str:
    driver = error.driver_exception if isinstance(error, DBAPIError) else None
    if not isinstance(error, DBAPIError) or driver is None or _sqlstate(error).startswith(_DATA_EXCEPTION):
        return type(driver or error).__name__
    # PostgreSQL's error has its first line separate from the details, and SQLite's error is one line.
    return getattr(driver, "message", None) or str(driver) or type(driver).__name__
