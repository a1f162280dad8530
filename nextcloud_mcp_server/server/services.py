"""The parts that need the database or the network, opened with the first call that needs them.

A chat client starts its servers when it starts, and often never calls them. So nothing here is imported, opened or
migrated earlier: SQLAlchemy alone takes a fifth of a second and 20 MB.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2

from nextcloud_mcp_server.auth.accounts import Accounts
from nextcloud_mcp_server.auth.consent.policy import Policy, lifetime_of
from nextcloud_mcp_server.auth.operator_accounts import OperatorAccounts
from nextcloud_mcp_server.errors import NextcloudMcpError, StorageError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.program import user_agent
from nextcloud_mcp_server.nextcloud.theming import KnownTheming, Theming
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.server.database_file import refuse_unusable_file
from nextcloud_mcp_server.settings.environment import Settings

if TYPE_CHECKING:
    # The types only: what they import is left to the first call that needs it.
    from starlette.types import ASGIApp

    from nextcloud_mcp_server.auth.audit import AuditLog
    from nextcloud_mcp_server.auth.broker import Broker
    from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
    from nextcloud_mcp_server.auth.outbox import Outbox
    from nextcloud_mcp_server.storage.crypto import KeyRing
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: Consent requests that an earlier process left unfinished are continued so long after the start.
RESUME_SECONDS = 5.0
#: Between two tries to open a database that is away, while no call comes.
RETRY_SECONDS = 30.0

#: Work in the background, for as long as the services are open.
Job = Callable[[], Coroutine[Any, Any, None]]


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a test replaces: the network to Nextcloud and the identity provider, and the clock.

    `documents` is the network to the metadata documents of clients, and `resolve` finds the addresses of their hosts.
    """

    transport: httpx2.AsyncBaseTransport | None = None
    clock: Callable[[], datetime] = now
    documents: httpx2.AsyncBaseTransport | None = None
    resolve: Callable[[str], Awaitable[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """The open parts that every mode has.

    `provisioning` is None where the operator configured the credential, `redirect_provider` where users consent in a
    login flow. `forget` drops the cached accounts after a change of what a client may do.
    """

    database: "Database"
    nextcloud: Nextcloud
    policy: Policy
    accounts: Accounts
    provisioning: "Provisioning | None"
    outbox: "Outbox"
    audit: "AuditLog"
    broker: "Broker"
    redirect_provider: "RedirectProvider | None"
    forget: Callable[[], None]
    jobs: tuple[Job, ...]

    @property
    def bound(self) -> frozenset[str]:
        """The scopes that the operator's settings allow."""
        return self.policy.bound

    async def finished(self, elicitation_ids: Sequence[str]) -> list[str]:
        """Return those of the consent requests that have ended."""
        if self.provisioning is None:
            return list(elicitation_ids)
        return await self.provisioning.finished(elicitation_ids)

    async def run(self) -> None:
        """Run the background jobs for as long as the services are open."""
        async with anyio.create_task_group() as group:
            for job in self.jobs:
                group.start_soon(job)


def open_key_ring(settings: Settings) -> "KeyRing":
    """Return the keys that seal stored secrets; without a setting, a key file is created and its path logged.

    Raises:
        ConfigurationError: They cannot be read or created.
    """
    from nextcloud_mcp_server.storage.crypto import KeyRing, load_or_create_key_file  # noqa: PLC0415 - at the first call

    if settings.token_encryption_keys:
        return KeyRing.parse(settings.token_encryption_keys, source=settings.key_source)
    settings.open_data_dir()
    texts, made = load_or_create_key_file(settings.key_file)
    if made:
        logger.warning(
            "made the key that seals what is stored: %s; keep it with your backups", settings.key_file
        )
    return KeyRing.parse(texts, source=settings.key_source)


def sub_keys(settings: Settings, purpose: str) -> Callable[[], Sequence[bytes]]:
    """Return a function that reads the key ring and derives sub-keys at its first call only.

    That is at the first request that needs them, since the keys are created with the database.
    """
    return cache(lambda: open_key_ring(settings).derive(purpose))


def nextcloud_url_of(settings: Settings) -> NextcloudUrl:
    """Return the normalised URL of Nextcloud, which also identifies the user in single-user mode."""
    return NextcloudUrl.parse(settings.require_nextcloud())


def public_url_of(settings: Settings) -> NextcloudUrl | None:
    """Return the URL under which browsers reach Nextcloud, if it differs."""
    return NextcloudUrl.parse(settings.nextcloud_public_url) if settings.nextcloud_public_url else None


def policy_of(
    settings: Settings,
    page_url: Callable[[str], str] | None,
    page_is_gone: Callable[[str], Awaitable[bool]] | None = None,
) -> Policy:
    """Return what the settings say about consent."""
    url = nextcloud_url_of(settings)
    return Policy(
        str(url),
        _host(public_url_of(settings) or url),
        settings.offered_scopes,
        page_url,
        page_is_gone,
        lifetime_of(settings.elicitation_timeout_seconds),
    )


def open_pool_of(settings: Settings, overrides: "Overrides") -> httpx2.AsyncClient:
    """Open an HTTP client for Nextcloud or the identity provider, which trusts the certificates in the settings.

    Raises:
        ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
    """
    bundle = str(settings.nextcloud_ca_bundle) if settings.nextcloud_ca_bundle else None
    return open_pool(ca_bundle=bundle, user_agent=user_agent(), transport=overrides.transport)


class Network:
    """Nextcloud, and the account whose app password is in the operator's settings; both are created at first use.

    Neither needs the database. So where the operator configured an app password, a client that only lists tools does
    not open it.
    """

    def __init__(self, settings: Settings, overrides: Overrides) -> None:
        self._settings = settings
        self._overrides = overrides
        self._pool: httpx2.AsyncClient | None = None

    @cached_property
    def nextcloud(self) -> Nextcloud:
        """The Nextcloud of the settings, with a connection pool of its own.

        Raises:
            ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
        """
        self._pool = open_pool_of(self._settings, self._overrides)
        public_url = public_url_of(self._settings)
        return Nextcloud(nextcloud_url_of(self._settings), self._pool, public_url=public_url)

    @cached_property
    def operator(self) -> OperatorAccounts | None:
        """The account whose app password is in the settings; None if there is none.

        Raises:
            ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
        """
        credential = self._settings.operator_credential
        if credential is None:
            return None
        login_name, secret = credential
        logger.warning("acting as %s with the app password from the settings, for every client", login_name)
        bound = self._settings.offered_scopes
        return OperatorAccounts(self.nextcloud, login_name=login_name, secret=secret, bound=bound)

    @cached_property
    def theming(self) -> KnownTheming:
        """What Nextcloud calls itself, for the pages."""

        async def fetch() -> Theming | None:
            return await self.nextcloud.theming()

        return KnownTheming(fetch)

    def shows_cloud(self, app: "ASGIApp") -> "ASGIApp":
        """Wrap an application with pages, so that they show this Nextcloud."""
        from nextcloud_mcp_server.web.cloud import ShowsCloud  # noqa: PLC0415 - where there are pages

        host = _host(public_url_of(self._settings) or nextcloud_url_of(self._settings))
        return ShowsCloud(app, self.theming, host=host)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            # A server that is stopped still closes its connections.
            with anyio.CancelScope(shield=True):
                await self._pool.aclose()


@asynccontextmanager
async def open_database(
    settings: Settings, *, clock: Callable[[], datetime] = now, any_keys: bool = False
) -> AsyncGenerator["Database"]:
    """Open the database, migrate its schema, and close it again.

    With `any_keys` keys of another database are no error, for the commands that work on keys.

    Raises:
        ConfigurationError: The keys cannot be read, or they are not the keys of this database.
        StorageError: The database cannot be used.
    """
    from nextcloud_mcp_server.storage.engine import Database  # noqa: PLC0415 - see above

    if not any_keys:
        # Before a key file is created beside a database that was sealed with another key.
        refuse_unusable_file(settings)
    settings.open_data_dir()
    database = await Database.open(settings.database_address, keys=open_key_ring(settings), clock=clock)
    try:
        if not any_keys:
            await database.sealing_keys.adopt(source=settings.key_source)
        yield database
    finally:
        # A server that is stopped still closes its files.
        with anyio.CancelScope(shield=True):
            await database.aclose()


#: What a mode opens in addition: what its pages and its tokens need.
AuthT = TypeVar("AuthT")


class LazyServices(Generic[AuthT]):
    """Opens the services with the first call that needs them, in a task of its own that no caller can cancel."""

    def __init__(
        self,
        open_: Callable[[], AbstractAsyncContextManager[tuple[Services, AuthT]]],
        *,
        resume_seconds: float = RESUME_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._open = open_
        self._resume_seconds = resume_seconds
        self._retry_seconds = retry_seconds
        self._wanted = anyio.Event()
        self._answered = anyio.Event()
        self._opened: tuple[Services, AuthT] | None = None
        self._failure: NextcloudMcpError | None = None

    async def get(self) -> Services:
        """Return the services, opened if they are not.

        Raises:
            NextcloudMcpError: They could not be opened; the next call tries again.
        """
        services, _ = await self._get()
        return services

    async def auth(self) -> AuthT:
        """Return what the mode opens in addition.

        Raises:
            NextcloudMcpError: The services could not be opened; the next call tries again.
        """
        _, auth = await self._get()
        return auth

    async def _get(self) -> tuple[Services, AuthT]:
        if self._opened is None:
            answered = self._answered
            self._wanted.set()
            await answered.wait()
        if self._opened is None:
            raise self._failure or StorageError("The server is shutting down; call again in a moment.")
        return self._opened

    async def run(self, *, resume: bool) -> None:
        """Wait for the first call, open the services and keep them open; runs as long as the server.

        With `resume` they are opened soon in any case, because an earlier process left unfinished work; after a failure
        again and again.
        """
        seconds = self._resume_seconds
        while True:
            with anyio.move_on_after(seconds if resume else None):
                await self._wanted.wait()
            try:
                async with self._open() as (services, auth):
                    self._opened = services, auth
                    self._answered.set()
                    await services.run()
            except NextcloudMcpError as error:
                logger.error("%s", error)  # noqa: TRY400 - a sentence for the operator, not a trace
                self._failure = error
            except Exception:  # a supervisor: the next caller tries again
                logger.exception("the server's parts could not be opened, or ended")
                self._failure = StorageError("Something went wrong at the start; the log says what.")
            finally:
                self._opened = None
                self._answered.set()
                self._wanted, self._answered, seconds = anyio.Event(), anyio.Event(), self._retry_seconds


def _host(url: NextcloudUrl) -> str:
    return urlsplit(str(url)).netloc
