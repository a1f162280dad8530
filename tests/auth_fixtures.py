"""A sandbox Nextcloud and several server processes on one database, in process and without waiting."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.consent.policy import LIFETIME, Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.principal import Caller, personal, personal_caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import ElicitationRequired, ElicitationUnknown
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    Grant,
    Permission,
    SignedIn,
)

NEXTCLOUD = "http://nextcloud.test"
READ = frozenset({"notes:read"})
WRITE = frozenset({"notes:write"})

CALLER = personal_caller(NEXTCLOUD, "Claude Code")

Answer = Callable[[httpx2.Request], Awaitable[httpx2.Response | None]]


def page_url(elicitation_id: str) -> str:
    return f"https://mcp.test/oauth/provision?elicitationId={elicitation_id}"


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    moment: datetime = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        return self.moment.timestamp()

    def forward(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class Network(httpx2.AsyncBaseTransport):
    """The network to the sandbox; a test may replace or delay a response, or break the connection."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._through = httpx2.ASGITransport(sandbox.app)
        self.asked: list[httpx2.Request] = []
        self.before: Answer | None = None
        self.after: Answer | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if self.before is not None and (answer := await self.before(request)) is not None:
            return answer
        response = await self._through.handle_async_request(request)
        if self.after is not None:
            await self.after(request)
        return response

    def to(self, path: str) -> list[httpx2.Request]:
        return [request for request in self.asked if request.url.path.endswith(path)]

    async def cut(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)


@dataclass
class Process:
    """One server process."""

    database: Database
    nextcloud: Nextcloud
    provider: LoginFlowProvider
    provisioning: Provisioning
    consent_service: ConsentService
    outbox: Outbox
    audit: AuditLog
    poller: Poller
    accounts: GrantedAccounts
    finished: list[str] = field(default_factory=list[str])

    async def ask(self, caller: Caller, scopes: frozenset[str] = READ) -> Elicitation:
        """Ask for consent as a tool call does."""
        try:
            await self.accounts.open(caller, scopes)
        except ElicitationRequired as need:
            found = await self.provisioning.find(need.elicitation_id, caller)
            assert found is not None
            return found
        raise AssertionError("nothing was asked")

    @property
    def user(self) -> SignedIn:
        """The one user, who need not sign in."""
        user = self.consent_service.implicit_user
        assert user is not None
        return user

    async def view(self, elicitation_id: str) -> ConsentRequest | None:
        """Look at a consent request on its page; None for an unknown link."""
        try:
            return await self.consent_service.view(elicitation_id, self.user)
        except ElicitationUnknown:
            return None

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> ConsentRequest:
        """Tick scopes on the page, and press Allow."""
        assert await self.consent_service.allow(elicitation_id, self.user, "", scopes) is None
        return await self.consent_service.view(elicitation_id, self.user)

    async def decline(self, elicitation_id: str) -> None:
        """Press the other button."""
        await self.consent_service.decline(elicitation_id, self.user)

    async def grant(self, caller: Caller) -> Grant | None:
        return await self.database.grants.find(caller.principal, caller.client_id)


@dataclass
class ProcessHost:
    """The sandbox, the clock, the network between them and the server processes."""

    folder: Path
    template: Path
    clock: Clock
    sandbox: Sandbox
    network: Network
    keys: KeyRing
    stack: AsyncExitStack
    caller: Caller = CALLER
    url: str = NEXTCLOUD

    async def process(
        self,
        *,
        bound: frozenset[str] = frozenset(SCOPES),
        direct: bool = False,
        pages: tuple[Callable[[str], str], Callable[[str], Awaitable[bool]]] | None = None,
        keys: KeyRing | None = None,
        url: str = NEXTCLOUD,
        host: str = "nextcloud.test",
        lifetime: timedelta = LIFETIME,
    ) -> Process:
        """Start another process on the same database; `pages` are those of a loopback port, and whether one is gone."""
        file = self.folder / "state.db"
        if not file.exists():
            # Creating the schema takes a second, which not every test has to spend.
            shutil.copy(self.template, file)
        path = file_url(file)
        database = await Database.open(path, keys=keys or self.keys, clock=self.clock)
        self.stack.push_async_callback(database.aclose)
        pool = open_pool(ca_bundle=None, user_agent="Nextcloud MCP server (test)", transport=self.network)
        nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
        provider = LoginFlowProvider(nextcloud, database, clock=self.clock)
        finished: list[str] = []

        async def on_finished(elicitation_id: str) -> None:
            finished.append(elicitation_id)

        policy = Policy(url, host, bound, None if direct else page_url)
        if pages is not None:
            policy = Policy(url, host, bound, *pages)
        policy = replace(policy, lifetime=lifetime)
        person = personal(url)
        provisioning = Provisioning(
            database, provider, policy, clock=self.clock, on_finished=on_finished, within=person
        )
        outbox = Outbox(database, provider, clock=self.clock, within=person)
        audit = AuditLog(database, clock=self.clock)
        consent_service = ConsentService(
            database,
            provisioning,
            None,
            None,
            outbox=outbox,
            policy=policy,
            exchange_limiter=ExchangeLimiter(database, clock=self.clock),
            clock=self.clock,
            on_changed=lambda: None,
        )
        poller = Poller(
            database,
            provider,
            provisioning,
            clock=self.clock,
            wake=provider.next_start,
            outbox=outbox,
            within=person,
        )
        accounts = GrantedAccounts(
            database, nextcloud, provisioning, outbox, audit, monotonic=self.clock.seconds
        )
        return Process(
            database,
            nextcloud,
            provider,
            provisioning,
            consent_service,
            outbox,
            audit,
            poller,
            accounts,
            finished,
        )

    def confirm(self, name: str = "alice", *, flow: int | None = -1) -> str:
        """Grant access at Nextcloud, in a login flow or outside any; return the app password."""
        made = self.sandbox.state.new_app_password(self.sandbox.state.users[name], login_name=name)
        if flow is not None:
            self.sandbox.state.login_flows[flow].granted = made
        return made.secret

    async def connect(self, process: Process, scopes: frozenset[str] = READ) -> str:
        """Complete one consent request, and return the app password."""
        consent_request = await process.ask(self.caller, scopes)
        await process.approve(consent_request.id, scopes)
        secret = self.confirm()
        self.clock.forward(2)
        await process.poller.run_once()
        return secret

    @property
    def app_passwords(self) -> set[str]:
        """The app passwords that Nextcloud accepts."""
        return set(self.sandbox.state.app_passwords)

    def refusals(self) -> int:
        """The number of 401 responses of Nextcloud."""
        return sum(record.status == 401 for record in self.sandbox.requests.records)

    def sql(self, statement: str) -> None:
        """Change the database file directly."""
        with closing(sqlite3.connect(self.folder / "state.db", isolation_level=None)) as connection:
            connection.execute(statement)

    @contextmanager
    def failing(self, change: str) -> Generator[None]:
        """Let one kind of change, such as `INSERT ON audit`, fail as on a full disk."""
        self.sql(f"CREATE TRIGGER full BEFORE {change} BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        try:
            yield
        finally:
            self.sql("DROP TRIGGER full")

    async def give(
        self, process: Process, *, secret: str, client_id: str = "local", scopes: frozenset[str] = READ
    ) -> None:
        """Store a grant as another process would, without a consent request."""
        now, person = self.clock(), self.caller.principal
        consent_request, _ = await process.database.elicitations.open(
            principal=person,
            client_id=client_id,
            client_name="Other",
            kind="other",
            scopes=scopes,
            ttl=timedelta(minutes=10),
            new_url=page_url,
        )
        account = Account(f"account-{secret}", person, self.url, "alice", "Alice", None, now)
        hidden = SecretStr(secret)
        credential = Credential(secret, account.id, "login_flow", "alice", hidden, False, 1, now)
        permission = Permission(person, client_id, "Other", scopes, now)
        await process.database.grants.complete(
            elicitation=consent_request,
            flow=None,
            account=account,
            credential=credential,
            permission=permission,
            audit=AuditEntry(now, person, client_id, "consent", "granted"),
        )


def small_sandbox(clock: Clock) -> Sandbox:
    """Build a sandbox without content: alice and bob, and the app `oauth2` alone. It takes 4 ms, a demo 15."""
    sandbox = Sandbox(clock=clock, apps=["oauth2"])
    for name in ("alice", "bob"):
        sandbox.add_user(name, display_name=name.title())
    return sandbox


@asynccontextmanager
async def open_harness(
    folder: Path,
    template: Path,
    version: ProfileName = USUAL,
    *,
    url: str = NEXTCLOUD,
    sandbox_of: Callable[[Clock], Sandbox] | None = None,
) -> AsyncGenerator[ProcessHost]:
    """Build the fixture; everything is closed at the end. `url` names the one user."""
    clock = Clock()
    sandbox = Sandbox.demo(clock=clock, version=version) if sandbox_of is None else sandbox_of(clock)
    keys = KeyRing.parse([SecretStr(new_key())])
    async with AsyncExitStack() as stack:
        caller = personal_caller(url, "Claude Code")
        yield ProcessHost(folder, template, clock, sandbox, Network(sandbox), keys, stack, caller, url)


async def make_template(folder: Path) -> Path:
    """Create an empty database."""
    file = folder / "template.db"
    database = await Database.open(file_url(file), keys=KeyRing.parse([SecretStr(new_key())]), clock=Clock())
    await database.aclose()
    return file


async def together(*jobs: Callable[[], Awaitable[object]]) -> None:
    """Run all jobs concurrently."""

    async def run(job: Callable[[], Awaitable[object]]) -> None:
        await job()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(run, job)
