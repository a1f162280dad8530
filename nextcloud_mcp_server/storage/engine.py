"""Opens the database: its kind, its schema, its repositories."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy.ext.asyncio import AsyncEngine

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.storage.accounts import AccountRepository
from nextcloud_mcp_server.storage.audit import AuditRepository
from nextcloud_mcp_server.storage.authorization_transactions import AuthorizationTransactionRepository
from nextcloud_mcp_server.storage.clients import ClientRepository
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.elicitations import ElicitationRepository
from nextcloud_mcp_server.storage.failed_exchanges import FailedExchangeRepository
from nextcloud_mcp_server.storage.grant_requests import GrantRequestRepository
from nextcloud_mcp_server.storage.grants import GrantRepository
from nextcloud_mcp_server.storage.key_rotation import KeyRotation
from nextcloud_mcp_server.storage.login_flows import LoginFlowRepository
from nextcloud_mcp_server.storage.logouts import LogoutRepository
from nextcloud_mcp_server.storage.oauth_tokens import OAuthTokenRepository
from nextcloud_mcp_server.storage.outbox import OutboxRepository
from nextcloud_mcp_server.storage.overview import OverviewRepository
from nextcloud_mcp_server.storage.pending_grants import PendingGrantRepository
from nextcloud_mcp_server.storage.post_restore import PostRestoreRepository
from nextcloud_mcp_server.storage.recognition import MISSING_DRIVER
from nextcloud_mcp_server.storage.sealing_keys import SealingKeyRepository
from nextcloud_mcp_server.storage.sign_ins import SignInRepository
from nextcloud_mcp_server.storage.spent_codes import SpentCodeRepository
from nextcloud_mcp_server.storage.sqlite import Sqlite
from nextcloud_mcp_server.storage.transaction import Backend, Listen, Transactions, translated

if TYPE_CHECKING:
    from nextcloud_mcp_server.storage.postgres import Postgres

_POSTGRES = frozenset({"postgresql+asyncpg", "postgresql", "postgres"})


class Database:
    """The repositories of one open database."""

    def __init__(self, engine: AsyncEngine, transactions: Transactions, *, listen: Listen | None) -> None:
        self._engine = engine
        self._transactions = transactions
        #: Receives notifications of consent requests that other processes end; None if they can only be polled.
        self.listen = listen
        self.elicitations = ElicitationRepository(transactions)
        self.login_flows = LoginFlowRepository(transactions)
        self.grants = GrantRepository(transactions)
        self.audit = AuditRepository(transactions)
        self.outbox = OutboxRepository(transactions)
        self.sign_ins = SignInRepository(transactions)
        self.grant_requests = GrantRequestRepository(transactions)
        self.pending_grants = PendingGrantRepository(transactions)
        self.failed_exchanges = FailedExchangeRepository(transactions)
        self.spent_codes = SpentCodeRepository(transactions)
        self.accounts = AccountRepository(transactions)
        self.auth_transactions = AuthorizationTransactionRepository(transactions)
        self.clients = ClientRepository(transactions)
        self.restored = PostRestoreRepository(transactions)
        self.oauth_tokens = OAuthTokenRepository(transactions)
        self.logouts = LogoutRepository(transactions)
        self.key_rotation = KeyRotation(transactions)
        self.sealing_keys = SealingKeyRepository(transactions)
        self.overview = OverviewRepository(transactions)

    @classmethod
    async def open(cls, url: str, *, keys: KeyRing, clock: Callable[[], datetime]) -> "Database":
        """Open the database and upgrade its schema; several processes may do so at once.

        Raises:
            ConfigurationError: The URL names no database that this program can use.
            ForeignDatabase: It holds tables of another program, or a newer version of this server wrote it.
            StorageError: It cannot be used now.
        """
        backend = backend_of(url)
        engine = backend.engine()
        try:
            with translated(backend.advice):
                await backend.prepare(engine)
        except BaseException:  # raised again: a start that is cancelled leaves no connection open
            await engine.dispose()
            raise
        transactions = Transactions(engine, backend, keys=keys, clock=clock)
        return cls(engine, transactions, listen=backend.listen)

    def one_reading(self) -> AbstractAsyncContextManager[None]:
        """Let all queries of a block be one transaction; the block waits for nothing but the database."""
        return self._transactions.one_reading()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


def file_url(path: Path) -> str:
    """Return the DATABASE_URL of a SQLite file, on any platform."""
    return f"sqlite:///{quote(path.as_posix(), safe='/:')}"


def backend_of(url: str) -> Backend:
    """Return the backend for a database URL, by its scheme.

    Raises:
        ConfigurationError: The URL names no database that this program can use.
        StorageError: The file it names cannot be opened.
    """
    return _postgres(url) if url.partition("://")[0] in _POSTGRES else Sqlite(url)


async def postgres_state(url: str) -> tuple[str | None, tuple[str, ...], frozenset[bytes]]:
    """Return the schema version (None without one), the tables and the ids of the keys in PostgreSQL.

    Raises:
        ConfigurationError: The URL names no database that this program can use.
        StorageError: The database cannot be reached.
    """
    return await _postgres(url).state()


def _postgres(url: str) -> "Postgres":
    try:
        # A single-user server does not need the driver.
        from nextcloud_mcp_server.storage.postgres import Postgres  # noqa: PLC0415 (see above)
    except ModuleNotFoundError:
        raise ConfigurationError(MISSING_DRIVER) from None
    return Postgres(url)
