"""The pages of a single-user server on the real consent engine, with the sandbox as its Nextcloud."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import httpx2
from pydantic import SecretStr
from sqlalchemy import Engine, event
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID
from nextcloud_mcp_server.errors import ElicitationUnknown, NextcloudMcpError
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.records import AuditEntry, ElicitationState
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.routes import routes
from tests.auth_fixtures import NEXTCLOUD, Clock, Process, ProcessHost, open_harness, page_url, small_sandbox
from tests.clients_fixtures import IN_ORDER

SECRET = "a-secret-for-programs"
HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
NEXTCLOUD_HOST = "cloud.example.org"
_CHANGES = ("INSERT", "UPDATE", "DELETE")


@dataclass
class Statements:
    """The statements that requests of a test sent to any database; those of its fixtures do not count."""

    seen: list[str] = field(default_factory=list[str])
    #: Raised in place of running the next statement: a bug, at a place that no code expects.
    fault: Exception | None = None
    #: Only a statement with this text is not run.
    fault_at: str = ""
    transactions: int = 0
    _hears: bool = True

    def reset(self) -> None:
        """Forget what was heard, and raise nothing any more."""
        self.seen.clear()
        self.fault, self.fault_at, self.transactions = None, "", 0

    def touch(self, table: str) -> bool:
        """Tell whether a statement names a table."""
        return any(table in statement for statement in self.seen)

    @property
    def changes(self) -> list[str]:
        """The statements that write."""
        return [statement for statement in self.seen if statement.startswith(_CHANGES)]

    @contextmanager
    def unheard(self) -> Generator[None]:
        """Leave out what runs in this block."""
        before, self._hears = self._hears, False
        try:
            yield
        finally:
            self._hears = before

    def begin(self, _: object) -> None:
        if self._hears:
            self.transactions += 1

    def hear(self, _: object, __: object, statement: str, *___: object) -> None:
        if not self._hears:
            return
        self.seen.append(statement)
        if self.fault is not None and self.fault_at in statement:
            raise self.fault


@contextmanager
def heard() -> Generator[Statements]:
    """Record the statements of all databases."""
    statements = Statements()
    heard_of = {"before_cursor_execute": statements.hear, "begin": statements.begin}
    for name, hear in heard_of.items():
        event.listen(Engine, name, hear)
    try:
        yield statements
    finally:
        for name, hear in heard_of.items():
            event.remove(Engine, name, hear)


@dataclass
class SingleUserPages:
    """Consent requests of the one user, and the server process behind their pages."""

    harness: ProcessHost
    process: Process
    statements: Statements
    url: str
    ids: list[str] = field(default_factory=list[str])
    _usual: Process = field(init=False)

    def __post_init__(self) -> None:
        self._usual = self.process

    async def ready(self) -> ConsentService:
        return self.process.consent_service

    @property
    def clock(self) -> Clock:
        return self.harness.clock

    @property
    def flows(self) -> int:
        """How many login flows were started at Nextcloud."""
        return len(self.harness.network.to("/login/v2"))

    async def open(
        self,
        *,
        client_name: str = "Claude Code",
        host: str = NEXTCLOUD_HOST,
        needed: Sequence[str] = ("notes:read",),
        offered: Sequence[str] = IN_ORDER,
        granted: Sequence[str] = (),
    ) -> str:
        """Let a client ask for consent; return the id of the consent request.

        If all that is needed was `granted` before, Nextcloud does not accept that credential any more.
        """
        with self.statements.unheard():
            if host != NEXTCLOUD_HOST or set(offered) != set(IN_ORDER):
                bound = frozenset(offered)
                self.process = await self.harness.process(bound=bound, url=self.url, host=host)
            # Requests of one client would be one request.
            client_id = f"{PERSONAL_CLIENT_ID}-{len(self.ids)}" if self.ids else PERSONAL_CLIENT_ID
            if granted:
                await self._give(client_id, frozenset(granted), works=not set(needed) <= set(granted))
            elicitation, _ = await self.process.database.elicitations.open(
                principal=self.harness.caller.principal,
                client_id=client_id,
                client_name=client_name,
                kind="page",
                scopes=frozenset(needed),
                ttl=LIFETIME,
                new_url=page_url,
            )
            self.ids.append(elicitation.id)
            return elicitation.id

    async def _give(self, client_id: str, scopes: frozenset[str], *, works: bool) -> None:
        secret = self.harness.confirm(flow=None)
        await self.harness.give(self.process, secret=secret, client_id=client_id, scopes=scopes)
        if not works:
            await self.process.database.grants.mark_needs_reauth(secret, version=1)

    async def state(self, elicitation_id: str) -> ElicitationState:
        with self.statements.unheard():
            found = await self.process.database.elicitations.find(elicitation_id)
        assert found is not None
        return found.state

    async def login_url(self, elicitation_id: str) -> str:
        """Return the URL of the login flow of a consent request."""
        with self.statements.unheard():
            flow = await self.process.database.login_flows.find(elicitation_id)
        assert flow is not None
        return flow.login_url.get_secret_value()

    async def ticked(self, elicitation_id: str) -> frozenset[str]:
        """Return the scopes that the user chose: of the login flow, or of the grant that it became."""
        with self.statements.unheard():
            flow = await self.process.database.login_flows.find(elicitation_id)
            if flow is not None:
                return flow.scopes
            found = await self.process.database.elicitations.find(elicitation_id)
            assert found is not None
            grant = await self.process.database.grants.find(found.principal, found.client_id)
        assert grant is not None
        assert grant.permission is not None
        return grant.permission.scopes

    async def complete(self, elicitation_id: str, uid: str = "alice") -> None:
        """Confirm at Nextcloud as a user; press Allow before, if no browser did."""
        with self.statements.unheard():
            if (await self.state(elicitation_id)).final:
                return
            if await self.process.database.login_flows.find(elicitation_id) is None:
                await self.process.approve(elicitation_id, frozenset({"notes:read"}))
            if (await self.state(elicitation_id)).final:
                return
            token = (await self.login_url(elicitation_id)).rpartition("/")[2]
            flows = self.harness.sandbox.state.login_flows
            self.harness.confirm(uid, flow=[one.login_token for one in flows].index(token))
            self.clock.forward(2)
            await self.process.poller.run_once()
        assert (await self.state(elicitation_id)) is ElicitationState.COMPLETE

    async def end(
        self,
        elicitation_id: str,
        state: ElicitationState,
        *,
        failure: Failure | None = None,
        account_name: str | None = None,
    ) -> None:
        """Store how a consent request ended, with any text."""
        person = self.harness.caller.principal
        with self.statements.unheard():
            await self.process.database.elicitations.finish(
                elicitation_id,
                state,
                failure=failure,
                account_name=account_name,
                audit=AuditEntry(self.clock(), person, PERSONAL_CLIENT_ID, "consent", state),
            )

    async def decline(self, elicitation_id: str) -> None:
        with self.statements.unheard():
            await self.process.decline(elicitation_id)

    async def fail(self, elicitation_id: str, failure: Failure) -> None:
        await self.end(elicitation_id, ElicitationState.FAILED, failure=failure)

    def forget(self) -> None:
        """Reset everything, so that the next test begins with an empty database."""
        empty(self.harness.folder / "state.db")
        self.statements.reset()
        self.ids.clear()
        self.harness.network.asked.clear()
        self.harness.sandbox.state.login_flows.clear()
        self.harness.sandbox.state.app_passwords.clear()
        self.process = self._usual
        self.clock.moment = Clock().moment
        self.break_network(None)

    def expire(self) -> None:
        """Let the time of every consent request pass."""
        self.clock.moment += LIFETIME + timedelta(seconds=1)

    def break_network(self, fault: Exception | None) -> None:
        """Let each request to Nextcloud fail; None mends it."""

        async def fail(_: httpx2.Request) -> httpx2.Response | None:
            if fault is not None:
                raise fault
            return None

        self.harness.network.before = fail


def empty(file: Path) -> None:
    """Delete all rows of a database file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        tables = "".join(f'DELETE FROM "{table}";' for table in metadata.tables)
        connection.executescript(f"BEGIN IMMEDIATE;{tables}COMMIT")


@asynccontextmanager
async def open_single_user_pages(
    folder: Path, template: Path, *, url: str = NEXTCLOUD
) -> AsyncGenerator[SingleUserPages]:
    """Build the fixture; everything is closed at the end. `url` is that of the Nextcloud."""
    with heard() as statements:
        async with open_harness(folder, template, url=url, sandbox_of=small_sandbox) as harness:
            process = await harness.process(bound=frozenset(IN_ORDER), url=url, host=NEXTCLOUD_HOST)
            statements.seen.clear()
            yield SingleUserPages(harness, process, statements, url)


def config(**changes: object) -> WebConfig:
    """Single-user mode on loopback."""
    usual = WebConfig(
        allowed_hosts=frozenset({HOST}),
        allowed_origins=frozenset({ORIGIN}),
        bearer_secret=SecretStr(SECRET),
        secure_cookies=False,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


async def echo(request: Request) -> PlainTextResponse:
    """Replace MCP: read the body and return its size."""
    return PlainTextResponse(str(len(await request.body())))


async def broken(_request: Request) -> PlainTextResponse:
    raise NextcloudMcpError("This route always fails.")


async def _nothing() -> ConsentService:
    raise ElicitationUnknown("Nothing is stored here.")


def application(
    pages: SingleUserPages | None = None, settings: WebConfig | None = None, *, keys: Sequence[bytes] = ()
) -> ASGIApp:
    """Build the application as the server does; without `pages` every link is unknown."""
    methods = ["GET", "POST", "DELETE"]
    consent, clock = (_nothing, Clock()) if pages is None else (pages.ready, pages.clock)
    served = routes(consent, csrf_keys=_keys(keys), clock=clock)
    inner = Starlette(routes=[Route("/mcp", echo, methods=methods), Route("/mcp/broken", broken), *served])
    return guard(inner, settings or config())


def _keys(keys: Sequence[bytes]) -> Callable[[], Sequence[bytes]]:
    return lambda: keys or [b"k" * 32]


def browser_of(
    pages: SingleUserPages | None, settings: WebConfig | None = None, **headers: str
) -> httpx2.AsyncClient:
    """Return a browser: it keeps cookies, requests pages, and sends the origin of its forms."""
    usual = {"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"}
    transport = httpx2.ASGITransport(application(pages, settings))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=usual | headers)
