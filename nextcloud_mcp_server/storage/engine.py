"""Opens the database: file and permissions, schema, repositories."""

import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import aiosqlite
from sqlalchemy import URL, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.storage.audit import AuditRepository
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.elicitations import ElicitationRepository
from nextcloud_mcp_server.storage.grant_legs import GrantLegRepository
from nextcloud_mcp_server.storage.grants import GrantRepository
from nextcloud_mcp_server.storage.held_grants import HeldGrantRepository
from nextcloud_mcp_server.storage.login_flows import LoginFlowRepository
from nextcloud_mcp_server.storage.models import SCHEMA_VERSION, VERSION_TABLE
from nextcloud_mcp_server.storage.outbox import OutboxRepository
from nextcloud_mcp_server.storage.redemptions import RedemptionRepository
from nextcloud_mcp_server.storage.sign_ins import SignInRepository
from nextcloud_mcp_server.storage.transaction import Transactions, translated

_BUSY_SECONDS = 10
_MIGRATION_WAIT_SECONDS = 60
_CONNECTIONS = 4
_URL_FAULT = "DATABASE_URL must name a SQLite file, as in sqlite:////var/lib/nextcloud-mcp/mcp.db."


class Database:
    """The repositories over one open database."""

    def __init__(self, engine: AsyncEngine, transactions: Transactions) -> None:
        self._engine = engine
        self.elicitations = ElicitationRepository(transactions)
        self.login_flows = LoginFlowRepository(transactions)
        self.grants = GrantRepository(transactions)
        self.audit = AuditRepository(transactions)
        self.outbox = OutboxRepository(transactions)
        self.sign_ins = SignInRepository(transactions)
        self.grant_legs = GrantLegRepository(transactions)
        self.held_grants = HeldGrantRepository(transactions)
        self.redemptions = RedemptionRepository(transactions)

    @classmethod
    async def open(cls, url: str, *, keys: KeyRing, clock: Callable[[], datetime]) -> "Database":
        """Open the database and bring its schema up to date; several processes may do so at once.

        Raises:
            ConfigurationError: The URL does not name a SQLite file.
            ForeignDatabase: There are tables of another program.
            StorageError: The file cannot be used, or a newer version of this program wrote it.
        """
        path = _path(url)
        _make_private(path)
        engine = create_async_engine(
            _url(path),
            connect_args={"timeout": _BUSY_SECONDS, "isolation_level": None},
            pool_size=_CONNECTIONS,
            max_overflow=0,
            hide_parameters=True,
        )
        event.listen(engine.sync_engine, "connect", _enforce_foreign_keys)
        transactions = Transactions(engine, keys=keys, clock=clock)
        try:
            with translated():
                await _prepare(engine, transactions, path)
        except BaseException:
            await engine.dispose()
            raise
        return cls(engine, transactions)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


def file_url(path: Path) -> str:
    """Write the DATABASE_URL of a SQLite file, on any platform."""
    return f"sqlite:///{quote(path.as_posix(), safe='/:')}"


async def current_version(engine: AsyncEngine) -> str | None:
    """Read the schema's version with one plain query; None when there is none."""
    async with engine.connect() as connection:
        try:
            found = await connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 (a constant of ours)
        except DBAPIError:
            return None
    return found


async def _prepare(engine: AsyncEngine, transactions: Transactions, path: Path) -> None:
    if await _is_ready(engine):
        return
    async with _migration_lock(path):
        if await _is_ready(engine):
            return
        # Alembic costs a third of a second, which a start with a current schema must not pay.
        from nextcloud_mcp_server.storage.migration import upgrade  # noqa: PLC0415 (see above)

        version = await current_version(engine)
        async with transactions.writing() as connection:
            await connection.run_sync(upgrade, version=version)
        async with engine.connect() as connection:
            await connection.exec_driver_sql("PRAGMA journal_mode=WAL")


async def _is_ready(engine: AsyncEngine) -> bool:
    if await current_version(engine) != SCHEMA_VERSION:
        return False
    # A copy made by SQLite's own backup command comes back without write-ahead log.
    async with engine.connect() as connection:
        mode = await connection.exec_driver_sql("PRAGMA journal_mode")
        return mode.scalar() == "wal"


@contextlib.asynccontextmanager
async def _migration_lock(path: Path) -> AsyncGenerator[None]:
    """Let one process at a time migrate.

    An exclusive transaction on an empty side database is a lock that every platform has and that
    ends with its process, so none is ever left behind.
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


def _url(path: Path) -> URL:
    return URL.create("sqlite+aiosqlite", database=str(path))


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
    # Someone else's file that we may write to was shared on purpose.
    with contextlib.suppress(PermissionError):
        path.chmod(0o600)


def _enforce_foreign_keys(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    del record
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
