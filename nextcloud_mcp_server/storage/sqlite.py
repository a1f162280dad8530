"""SQLite: one file, which the processes of one computer share."""

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import aiosqlite
from sqlalchemy import URL, Connection, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE
from nextcloud_mcp_server.storage.sqlite_driver import connect

_BUSY_SECONDS = 10
_MIGRATION_WAIT_SECONDS = 60
_URL_FAULT = (
    "DATABASE_URL must name a SQLite file, as in sqlite:////var/lib/nextcloud-mcp/mcp.db, or a database in"
    " PostgreSQL, as in postgresql://name@host/database."
)


class Sqlite:
    """A database file; its write-ahead log lets readers go on while one process writes."""

    advice = "Check the file, its folder and the free space."
    connections = 4
    reading_options: Mapping[str, str] = {}
    listen = None

    def __init__(self, url: str) -> None:
        """Find the file, and create it if there is none.

        Raises:
            ConfigurationError: The URL does not name a SQLite file.
            StorageError: The file cannot be opened for writing.
        """
        self._path = _path(url)
        _make_private(self._path)

    def engine(self) -> AsyncEngine:
        """Create the connection pool; no connection is opened yet."""
        engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=str(self._path)),
            async_creator=lambda: connect(self._path, timeout=_BUSY_SECONDS),
            pool_size=self.connections,
            max_overflow=0,
            hide_parameters=True,
        )
        event.listen(engine.sync_engine, "connect", _enforce_foreign_keys)
        return engine

    def begin_writing(self, connection: Connection) -> None:
        """Take the file's one write lock when the transaction begins."""
        # Without it, a transaction that first reads and then writes would fail at once if another process wrote
        # in between, instead of waiting.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    async def prepare(self, engine: AsyncEngine) -> None:
        """Upgrade the schema, in one process at a time."""
        if await _is_ready(engine):
            return
        async with _migration_lock(self._path):
            if await _is_ready(engine):
                return
            # Alembic takes a third of a second, which a start with a current schema must not pay.
            from nextcloud_mcp_server.storage.migration import upgrade  # noqa: PLC0415 (see above)

            version = await _current_version(engine)
            async with engine.begin() as connection:
                await connection.run_sync(self.begin_writing)
                await connection.run_sync(upgrade, version=version)
            async with engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")


async def _current_version(engine: AsyncEngine) -> str | None:
    """Return the schema version with one plain query; None if there is none."""
    async with engine.connect() as connection:
        try:
            found = await connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 (a constant of ours)
        except DBAPIError:
            return None
    return found


async def _is_ready(engine: AsyncEngine) -> bool:
    if await _current_version(engine) != SCHEMA_VERSION:
        return False
    # A copy made by SQLite's own backup command has no write-ahead log.
    async with engine.connect() as connection:
        mode = await connection.exec_driver_sql("PRAGMA journal_mode")
        return mode.scalar() == "wal"


@contextlib.asynccontextmanager
async def _migration_lock(path: Path) -> AsyncGenerator[None]:
    """Let one process at a time migrate.

    An exclusive transaction on an empty side database is a lock that every platform has and that ends with its
    process, so no lock is ever orphaned.
    """
    side = path.with_name(f"{path.name}.lock")
    _make_private(side)
    async with aiosqlite.connect(side, timeout=_MIGRATION_WAIT_SECONDS, isolation_level=None) as lock:
        try:
            await lock.execute("BEGIN EXCLUSIVE")
        except aiosqlite.DatabaseError as error:
            raise StorageError(
                f"The lock {side} cannot be taken ({error}). Wait until no other process migrates the database;"
                " when there is none, delete this file."
            ) from error
        yield


def _path(url: str) -> Path:
    try:
        parsed = make_url(url)
    except ArgumentError:
        # `from None`: the URL may hold a password, which the library repeats.
        raise ConfigurationError(_URL_FAULT) from None
    if parsed.drivername not in ("sqlite", "sqlite+aiosqlite") or parsed.database in (None, "", ":memory:"):
        raise ConfigurationError(_URL_FAULT)
    return Path(parsed.database).absolute()


def _make_private(path: Path) -> None:
    """Make the file 0600 in a 0700 folder; SQLite gives the log files beside it the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageError(
            f"The database file {path} cannot be opened for writing ({error.strerror})."
            " Check its folder's permissions, or name another file in DATABASE_URL."
        ) from error
    # Another owner's file that this process may write to was shared on purpose.
    with contextlib.suppress(PermissionError):
        path.chmod(0o600)


def _enforce_foreign_keys(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    del record
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
