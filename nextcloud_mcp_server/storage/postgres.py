"""PostgreSQL: one database, which the replicas of a server share. Needs the extra `postgres`."""

from collections.abc import Mapping
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
from sqlalchemy import Connection, NullPool, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.storage.listener import Listener
from nextcloud_mcp_server.storage.models import SCHEMA_VERSION, VERSION_TABLE

#: Any number will do that no other program locks in our database.
WRITE_LOCK = 0x6E63_6D63_7001
_CONNECT_SECONDS = 10
#: The others' turns are over long before; one that takes longer belongs to a process that hangs.
_TURN_SECONDS = 10
#: Longer than a turn, so that the database speaks first.
_STATEMENT_SECONDS = 15
_MIGRATION_SECONDS = 60


class Postgres:
    """A database that this program has for itself; its address is what `psql` takes, too."""

    advice = "Check that PostgreSQL runs, and what DATABASE_URL names."
    connections = 8
    #: One query needs no transaction around it, nor the two round trips of one.
    reading_options: Mapping[str, str] = {"isolation_level": "AUTOCOMMIT"}

    def __init__(self, url: str) -> None:
        self._dsn = _dsn(url)
        self.listen = Listener(self.connect).listen

    def engine(self) -> AsyncEngine:
        """Make the pool of connections; none is opened yet."""
        return create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            pool_size=self.connections,
            max_overflow=0,
            # After a restart of the database the pool holds connections that lead nowhere.
            pool_pre_ping=True,
            hide_parameters=True,
        )

    async def connect(
        self, *, statement_seconds: float = _STATEMENT_SECONDS, turn_seconds: float = _TURN_SECONDS
    ) -> asyncpg.Connection:
        """Open one connection.

        Raises:
            StorageError: It cannot be opened.
        """
        turn = f"{turn_seconds * 1000:.0f}ms"
        settings = {
            "application_name": "nextcloud-mcp-server",
            "default_transaction_isolation": "read committed",
            "lock_timeout": turn,
            # A replica whose computer died in its turn must not keep the others from theirs.
            "idle_in_transaction_session_timeout": turn,
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
            raise StorageError(
                f"PostgreSQL cannot be used ({error or type(error).__name__}). {self.advice}"
            ) from None

    async def version(self) -> str | None:
        """Read the schema's version, and change nothing; None when there is nothing of ours yet.

        Raises:
            StorageError: The database cannot be reached.
        """
        connection = await self.connect()
        try:
            if await connection.fetchval("SELECT to_regclass($1)", VERSION_TABLE) is None:
                return None
            return await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 (a constant of ours)
        finally:
            await connection.close()

    def begin_writing(self, connection: Connection) -> None:
        """Take the one lock of those who write; it ends with the transaction.

        Each statement that follows sees all that was committed before, and nothing changes between
        two of them, so a transaction may read and then write, as with SQLite. A turn is a few
        milliseconds; readers never wait.
        """
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})")

    async def prepare(self, engine: AsyncEngine) -> None:
        """Bring the schema up to date, in one process at a time, while no other one writes."""
        async with engine.connect() as connection:
            if await connection.run_sync(_current_version) == SCHEMA_VERSION:
                return
        # Alembic costs a third of a second, which a start with a current schema must not pay.
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


def _current_version(connection: Connection) -> str | None:
    # Asking a table that is not there would end the transaction.
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 (a constant of ours)


def _dsn(url: str) -> str:
    """Write the address as the driver takes it: one scheme, and PostgreSQL's own name for how to use TLS."""
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
