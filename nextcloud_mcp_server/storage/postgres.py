"""PostgreSQL: one database, which the replicas of a server share. Needs the extra `postgres`."""

import os
import socket
from collections.abc import Mapping
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
from sqlalchemy import Connection, NullPool, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from nextcloud_mcp_server.errors import ConfigurationError, StorageError, StorageUnavailable
from nextcloud_mcp_server.storage.listener import Listener
from nextcloud_mcp_server.storage.recognition import KEY_TABLE, SCHEMA_VERSION, VERSION_TABLE

#: Any number that no other program locks in this database.
WRITE_LOCK = 0x6E63_6D63_7001
_CONNECT_SECONDS = 10
#: Other transactions end long before; one that takes longer belongs to a process that hangs.
_TURN_SECONDS = 10
#: Longer than `_TURN_SECONDS`, so that the database reports the error first.
_STATEMENT_SECONDS = 15
_MIGRATION_SECONDS = 60
#: Some of the pool's connections are hardly ever needed. Docker's balancer forgets one after fifteen minutes.
_SILENT_SECONDS = 60
#: PostgreSQL cuts a longer name off, whose last part tells containers apart.
_NAME_BYTES = 63


class Postgres:
    """A database that only this server uses; its URL is one that `psql` accepts, too."""

    advice = "Check that PostgreSQL runs, and that the account in DATABASE_URL owns the database there."
    connections = 8
    #: A single query needs no transaction, nor its two round trips.
    reading_options: Mapping[str, str] = {"isolation_level": "AUTOCOMMIT"}

    def __init__(self, url: str) -> None:
        self._dsn = _dsn(url)
        self.listen = Listener(self.connect).listen

    def engine(self) -> AsyncEngine:
        """Create the connection pool; no connection is opened yet."""
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            pool_size=self.connections,
            max_overflow=0,
            # The one used last: each keeps the statements that it has met, 10 kB each here, and more there.
            pool_use_lifo=True,
            # After a restart of the database the pool holds broken connections.
            pool_pre_ping=True,
            hide_parameters=True,
        )

    async def connect(
        self, *, statement_seconds: float = _STATEMENT_SECONDS, turn_seconds: float = _TURN_SECONDS
    ) -> asyncpg.Connection:
        """Open one connection.

        Raises:
            StorageUnavailable: It cannot be opened.
        """
        turn = f"{turn_seconds * 1000:.0f}ms"
        settings = {
            "application_name": process_name(),
            "default_transaction_isolation": "read committed",
            "lock_timeout": turn,
            # A replica whose machine died in a transaction must not block the others.
            "idle_in_transaction_session_timeout": turn,
            # A firewall forgets a connection that is silent for long, and a query on it would wait for its time limit.
            "tcp_keepalives_idle": f"{_SILENT_SECONDS}s",
        }
        try:
            return await asyncpg.connect(
                self._dsn,
                timeout=_CONNECT_SECONDS,
                command_timeout=statement_seconds,
                server_settings=settings,
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            # `from None`: the driver's frames hold the password.
            raise StorageUnavailable(
                f"PostgreSQL cannot be used ({error or type(error).__name__}). {self.advice}"
            ) from None

    async def state(self) -> tuple[str | None, tuple[str, ...], frozenset[bytes]]:
        """Return the schema version, the tables and the ids of the keys, without changing anything.

        The version is None if there is no schema yet.

        Raises:
            StorageError: The database cannot be reached.
        """
        connection = await self.connect()
        try:
            found = await connection.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            )
            tables = tuple(str(row[0]) for row in found)
            if VERSION_TABLE not in tables:
                return None, tables, frozenset()
            version = await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 (a constant of ours)
            keys = await connection.fetch(f"SELECT key_id FROM {KEY_TABLE}") if KEY_TABLE in tables else ()  # noqa: S608 (a constant of ours)
            return version, tables, frozenset(bytes(row[0]) for row in keys)
        except asyncpg.PostgresError as error:
            raise StorageError(f"PostgreSQL cannot be used ({error}). {self.advice}") from None
        finally:
            await connection.close()

    def begin_writing(self, connection: Connection) -> None:
        """Take the one lock for writing transactions; it ends with the transaction.

        Each following statement sees everything committed before, and no other transaction writes between two
        of them. So a transaction may read and then write, as with SQLite. It takes a few milliseconds; readers
        never wait.
        """
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})")

    async def prepare(self, engine: AsyncEngine) -> None:
        """Upgrade the schema, in one process at a time, while no other one writes."""
        async with engine.connect() as connection:
            if await connection.run_sync(_current_version) == SCHEMA_VERSION:
                return
        # Alembic takes a third of a second, which a start with a current schema must not pay.
        from nextcloud_mcp_server.storage.migration import upgrade  # noqa: PLC0415 (see above)

        patient = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=partial(
                self.connect, statement_seconds=_MIGRATION_SECONDS * 2, turn_seconds=_MIGRATION_SECONDS
            ),
            poolclass=NullPool,
            hide_parameters=True,
        )
        async with patient.begin() as connection:
            await connection.run_sync(self.begin_writing)
            version = await connection.run_sync(_current_version)
            if version != SCHEMA_VERSION:
                await connection.run_sync(upgrade, version=version)


def process_name() -> str:
    """Return the name of this process in `pg_stat_activity`, by which the processes of a database are counted."""
    name = f"nextcloud-mcp-server {os.getpid()}@"
    return name + socket.gethostname()[-(_NAME_BYTES - len(name)) :]


def _current_version(connection: Connection) -> str | None:
    # A query on a missing table would abort the transaction.
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 (a constant of ours)


def _dsn(url: str) -> str:
    """Convert the URL for the driver: one scheme, and PostgreSQL's own name for how to use TLS."""
    try:
        parts = urlsplit(url)
        valid = bool(parts.path.strip("/")) and parts.port != 0
    except ValueError:
        valid = False
        parts = urlsplit("")
    if not valid:
        # The URL may hold a password, so it is not repeated.
        raise ConfigurationError(
            "DATABASE_URL does not name a database in PostgreSQL: write it like postgresql://name@host/database."
        )
    query = [("sslmode" if name == "ssl" else name, text) for name, text in parse_qsl(parts.query)]
    return parts._replace(scheme="postgresql", query=urlencode(query)).geturl()
