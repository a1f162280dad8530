"""Everything that needs the database or the network, opened when first needed.

A chat client starts its servers when it starts, and often never calls them; so nothing here is
imported, opened or migrated before the first call that needs it (SQLAlchemy alone takes a fifth of
a second and 20 MB).
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import httpx2

from nextcloud_mcp_server.auth.accounts import Accounts, GrantedAccounts
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.operator_accounts import OperatorAccounts
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.principal import Caller, personal, personal_caller
from nextcloud_mcp_server.errors import (
    ConsentDeclined,
    ElicitationRequired,
    NextcloudMcpError,
    StorageError,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import ElicitationState, Principal

if TYPE_CHECKING:
    from nextcloud_mcp_server.auth.consent.service import ConsentService
    from nextcloud_mcp_server.storage.crypto import KeyRing
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: Consent requests that an earlier process left unfinished are taken up this long after the start.
RESUME_SECONDS = 5.0

CONNECT_POLL_SECONDS = 1.0

#: The look at Nextcloud comes when a client that has just started us has long had its list of tools.
CHECK_SERVER_SECONDS = 3.0


def now() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a test puts in the place of the world: the way to Nextcloud, and the clock.

    `documents` and `resolve` are the way to the documents of chat clients, and to the addresses of
    their hosts.
    """

    transport: httpx2.AsyncBaseTransport | None = None
    clock: Callable[[], datetime] = now
    documents: httpx2.AsyncBaseTransport | None = None
    resolve: Callable[[str], Awaitable[Sequence[str]]] | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """The opened parts, and the background work that belongs to them."""

    database: "Database"
    nextcloud: Nextcloud
    accounts: Accounts
    provisioning: Provisioning | None
    audit: AuditLog
    bound: frozenset[str]
    work: tuple[Callable[[], Coroutine[Any, Any, None]], ...]
    consent_service: "ConsentService | None"

    async def run(self) -> None:
        """Poll, send and write for as long as the server runs."""
        async with anyio.create_task_group() as group:
            for job in self.work:
                group.start_soon(job)


def open_key_ring(settings: Settings) -> "KeyRing":
    """Read the sealing keys; personal mode makes its own at the first use and says where.

    Raises:
        ConfigurationError: They cannot be read or made.
    """
    from nextcloud_mcp_server.storage.crypto import KeyRing, load_or_create_key_file  # noqa: PLC0415 - see above

    if settings.token_encryption_keys:
        return KeyRing.parse(settings.token_encryption_keys)
    settings.open_data_dir()
    texts, made = load_or_create_key_file(settings.key_file)
    if made:
        logger.warning(
            "made the key that seals what is stored: %s; keep it with your backups", settings.key_file
        )
    return KeyRing.parse(texts)


def sub_keys(settings: Settings, purpose: str) -> Callable[[], Sequence[bytes]]:
    """Return a function that reads the key ring and derives sub-keys at its first call only.

    That is at the first request that needs them, since the keys are made with the database.
    """
    return cache(lambda: open_key_ring(settings).derive(purpose))


def nextcloud_url_of(settings: Settings) -> NextcloudUrl:
    """Read the address of the Nextcloud in its one normal form, which also names the user."""
    return NextcloudUrl.parse(settings.require_nextcloud())


def public_url_of(settings: Settings) -> NextcloudUrl | None:
    """Read the address that browsers know Nextcloud by, where it differs."""
    return NextcloudUrl.parse(settings.nextcloud_public_url) if settings.nextcloud_public_url else None


def policy_of(settings: Settings, page_url: Callable[[str], str] | None) -> Policy:
    """Put together what the settings say about consent."""
    url = nextcloud_url_of(settings)
    bound = settings.offered_scopes
    return Policy(str(url), _host(public_url_of(settings) or url), bound, page_url)


def open_pool_of(settings: Settings, overrides: "Overrides") -> httpx2.AsyncClient:
    """Open connections to Nextcloud, or to the identity provider, with the settings' certificates.

    Raises:
        ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
    """
    bundle = str(settings.nextcloud_ca_bundle) if settings.nextcloud_ca_bundle else None
    return open_pool(ca_bundle=bundle, user_agent=_user_agent(), transport=overrides.transport)


@asynccontextmanager
async def open_database(
    settings: Settings, *, clock: Callable[[], datetime] = now
) -> AsyncGenerator["Database"]:
    """Open the database, with its schema brought up to date, and close it again.

    Raises:
        ConfigurationError: The keys cannot be read.
        StorageError: The database cannot be used.
    """
    from nextcloud_mcp_server.storage.engine import Database  # noqa: PLC0415 - see above

    settings.open_data_dir()
    database = await Database.open(settings.database_address, keys=open_key_ring(settings), clock=clock)
    try:
        yield database
    finally:
        # A server that is told to stop still closes its files properly.
        with anyio.CancelScope(shield=True):
            await database.aclose()


def listening_jobs(
    database: "Database", pending: Pending
) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
    """List the work of hearing what other processes finish, where the database can announce it."""
    return () if database.listen is None else (partial(pending.listen, database.listen),)


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    page_url: Callable[[str], str] | None,
    pending: Pending,
    overrides: Overrides,
) -> AsyncGenerator[Services]:
    """Open everything, and close it again.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """
    clock = overrides.clock
    policy = policy_of(settings, page_url)
    async with (
        open_database(settings, clock=clock) as database,
        open_pool_of(settings, overrides) as pool,
    ):
        nextcloud = Nextcloud(nextcloud_url_of(settings), pool, public_url=public_url_of(settings))
        provider = LoginFlowProvider(nextcloud, database, clock=clock)
        person = personal(policy.nextcloud_url)
        provisioning_of = partial(
            Provisioning, database, provider, policy, clock=clock, on_finished=pending.finish
        )
        provisioning = provisioning_of(within=person)
        outbox = Outbox(database, provider, clock=clock, within=person)
        audit = AuditLog(database, clock=clock)
        wake = provider.next_start
        poller = Poller(
            database, provider, provisioning, clock=clock, wake=wake, outbox=outbox, within=person
        )
        work = (poller.run, outbox.run, audit.run, *listening_jobs(database, pending))
        # With an operator's credential there is nothing to consent to: no request is anyone's.
        user = person if settings.operator_credential is None else Principal("", "")
        consent_service = _consent_service(
            database, provisioning_of(within=user), outbox, policy, clock=clock
        )
        accounts = _operator_accounts(settings, nextcloud, policy) or GrantedAccounts(
            database, nextcloud, provisioning, outbox, audit, poll_now=poller.poll_now
        )
        asked = provisioning if settings.operator_credential is None else None
        yield Services(database, nextcloud, accounts, asked, audit, policy.bound, work, consent_service)


def _operator_accounts(settings: Settings, nextcloud: Nextcloud, policy: Policy) -> OperatorAccounts | None:
    """Use the credential of the settings for every call; None without one."""
    if settings.operator_credential is None:
        return None
    login_name, secret = settings.operator_credential
    logger.warning("acting as %s with the app password from the settings, for every client", login_name)
    return OperatorAccounts(nextcloud, login_name=login_name, secret=secret, bound=policy.bound)


def _consent_service(
    database: "Database",
    provisioning: Provisioning,
    outbox: Outbox,
    policy: Policy,
    *,
    clock: Callable[[], datetime],
) -> "ConsentService | None":
    """Put together what is behind the pages, for one user who need not sign in; None without pages."""
    if policy.page_url is None:
        return None
    from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.auth.consent.service import ConsentService  # noqa: PLC0415 - HTTP only

    return ConsentService(
        database,
        provisioning,
        None,
        None,
        outbox=outbox,
        policy=policy,
        exchange_limiter=ExchangeLimiter(database, clock=clock),
        clock=clock,
        on_changed=_nothing_is_cached,
    )


def _nothing_is_cached() -> None:
    """Do nothing: without an account page no permission is changed."""


class LazyServices:
    """Opens the services when a user asks for it, in a task of its own that no caller can cancel."""

    def __init__(
        self,
        open_: Callable[[], AbstractAsyncContextManager[Services]],
        *,
        resume_seconds: float = RESUME_SECONDS,
    ) -> None:
        self._open = open_
        self._resume_seconds = resume_seconds
        self._wanted = anyio.Event()
        self._answered = anyio.Event()
        self._services: Services | None = None
        self._failure: NextcloudMcpError | None = None

    async def get(self) -> Services:
        """Open the services, or return it.

        Raises:
            NextcloudMcpError: It could not be opened; asking again tries again.
        """
        if self._services is None:
            answered = self._answered
            self._wanted.set()
            await answered.wait()
        if self._services is None:
            raise self._failure or StorageError("The server is shutting down; call again in a moment.")
        return self._services

    async def run(self, *, resume: bool) -> None:
        """Wait until the services is wanted, then keep it open; runs as long as the server.

        `resume` opens it soon in any case, because an earlier process left work behind.
        """
        while True:
            with anyio.move_on_after(self._resume_seconds if resume else None):
                await self._wanted.wait()
            try:
                async with self._open() as services:
                    self._services = services
                    self._answered.set()
                    await services.run()
            except NextcloudMcpError as error:
                logger.error("%s", error)  # noqa: TRY400 - a sentence for the operator, not a trace
                self._failure = error
            except Exception:  # a supervisor: the next caller tries again
                logger.exception("the server's parts could not be opened, or ended")
                self._failure = StorageError("Something went wrong at the start; the log says what.")
            finally:
                self._services = None
                self._answered.set()
                self._wanted, self._answered, resume = anyio.Event(), anyio.Event(), False


async def check_server(
    settings: Settings, overrides: Overrides, *, after_seconds: float = CHECK_SERVER_SECONDS
) -> None:
    """Check once, some time after the start, whether the Nextcloud can be used; log what is wrong with it."""
    await anyio.sleep(after_seconds)
    url = nextcloud_url_of(settings)
    try:
        async with open_pool_of(settings, overrides) as pool:
            info = await Nextcloud(url, pool).server_info()
    except NextcloudMcpError as error:
        logger.warning("%s To check the set-up: nextcloud-mcp-server doctor --nextcloud %s", error, url)
        return
    if info.maintenance:
        logger.warning("This Nextcloud is in maintenance mode; calls will fail until that ends.")


async def connect_account(
    services: Services,
    pending: Pending,
    url: str,
    *,
    show: Callable[[str], None],
    progress: Callable[[str], None],
    seconds: int = 600,
) -> str:
    """Walk the user through one consent from the terminal; the answer is the account's name.

    Raises:
        ConsentDeclined: The consent request ended without access, or took too long; its text says how.
        NextcloudMcpError: It could not be started.
    """
    caller = personal_caller(url, "The command line")
    try:
        await services.accounts.open(caller, services.bound)
    except ElicitationRequired as need:
        show(need.url)
        for waited in range(seconds):
            progress(f"Waiting for you to confirm in the browser… {waited} s")
            if await pending.wait(need.elicitation_id, seconds=CONNECT_POLL_SECONDS):
                break
        await _check_consent_request(services, need.elicitation_id, caller)
        await services.accounts.open(caller, services.bound)
    known = await services.accounts.connection(caller)
    return known.display_name or known.account_name


async def _check_consent_request(services: Services, elicitation_id: str, caller: Caller) -> None:
    """Refuse to go on after a consent request that gave nothing: that would start another one no one asked for."""
    consent_request = (
        await services.provisioning.find(elicitation_id, caller.principal) if services.provisioning else None
    )
    if consent_request is None or consent_request.state is ElicitationState.COMPLETE:
        return
    reason = consent_request.error or _ENDINGS.get(consent_request.state, "The link was not used in time.")
    raise ConsentDeclined(f"Not connected: {reason}")


_ENDINGS = {ElicitationState.DECLINED: "you declined."}


def _host(url: NextcloudUrl) -> str:
    return urlsplit(str(url)).netloc


def _user_agent() -> str:
    import platform  # noqa: PLC0415 - costs a subprocess on some systems
    from importlib.metadata import version  # noqa: PLC0415 - only needed here

    # Nextcloud shows it under "Devices & sessions", so it names the computer.
    return (
        f"Nextcloud MCP server {version('nextcloud-mcp-server')} ({platform.node() or 'this local_folder'})"
    )
