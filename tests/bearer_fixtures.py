"""The multi-user server: the real MCP server and verifier, with a fake issuer at the network."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from json import loads
from typing import Any

import httpx2
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.scopes import offered
from nextcloud_mcp_server.auth.token_scopes import asked
from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from nextcloud_mcp_server.demo.wire_client import Message, StatelessClient
from nextcloud_mcp_server.protocol.availability import Availability
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import Track
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.services import Services
from nextcloud_mcp_server.tools.state import State
from nextcloud_mcp_server.web.bearer import BearerLayer
from nextcloud_mcp_server.web.caller import caller_of, scopes_of
from nextcloud_mcp_server.web.metadata import Resource, metadata_routes
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.request_limiter import RequestLimiter
from nextcloud_mcp_server.web.session_limiter import SessionLimiter
from tests.auth_fixtures import NEXTCLOUD, Process, ProcessHost, page_url
from tests.issuer_fixtures import (
    ISSUER,
    RESOURCE,
    IdentityProvider,
    Private,
    Time,
    claims,
    public_jwk,
    rsa_key,
    signed,
)
from tests.services_fixtures import services_of, with_accounts

#: The scopes of the toolsets that are enabled by default.
SCOPES = sorted(offered(("notes", "files"), read_only=False))

ORIGIN = "https://mcp.test"

INITIALIZE: Message = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
LIST: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

#: A second issuer, whose key has the same id as that of the first.
SECOND = "https://second.test"


def second_key() -> Private:
    return rsa_key("second")


@dataclass
class Served:
    """The server and its surroundings."""

    harness: ProcessHost
    process: Process
    provider: IdentityProvider
    time: Time
    app: ASGIApp

    def http(self, token: str | None = None) -> httpx2.AsyncClient:
        """Open a client that sends a token with every request."""
        headers = {"Accept": "application/json, text/event-stream"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx2.ASGITransport(self.app)
        return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers)

    @asynccontextmanager
    async def session(self, token: str) -> AsyncGenerator["Session"]:
        """Open a session (2025-11-25)."""
        async with self.http(token) as http:
            opened = await http.post("/mcp", json=INITIALIZE)
            session = Session(http, opened.headers["Mcp-Session-Id"])
            await session.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield session

    @asynccontextmanager
    async def joining(self, token: str, session: str) -> AsyncGenerator["Session"]:
        """Return an existing session."""
        async with self.http(token) as http:
            yield Session(http, session)

    @asynccontextmanager
    async def stateless(self, token: str) -> AsyncGenerator[StatelessClient]:
        """Open a client of 2026-07-28 that can open pages."""
        async with self.http(token) as http:
            yield StatelessClient(http, "/mcp", capabilities={"elicitation": {"url": {}}})


@dataclass
class Session:
    """Requests that name a session."""

    http: httpx2.AsyncClient
    id: str

    async def send(
        self, method: str, *, json: object = None, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Send any request for the MCP path."""
        named = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": "2025-11-25"}
        return await self.http.request(method, "/mcp", json=json, headers=named | (headers or {}))

    async def post(self, message: Message) -> httpx2.Response:
        """Send one message."""
        return await self.send("POST", json=message)

    async def call(self, params: Message) -> httpx2.Response:
        """Call a tool."""
        return await self.post({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})

    async def tools(self) -> set[str]:
        """List the tools."""
        answer = await self.post(LIST)
        data = next(line for line in answer.text.splitlines() if line.startswith("data:") and len(line) > 6)
        tools: list[Message] = loads(data.removeprefix("data:"))["result"]["tools"]
        return {tool["name"] for tool in tools}


@asynccontextmanager
async def serving(
    harness: ProcessHost,
    process: Process,
    *,
    limiter: RequestLimiter | None = None,
    sessions: Callable[[ASGIApp], ASGIApp] = SessionLimiter,
    **config: Any,  # noqa: ANN401 - fields of VerifierConfig
) -> AsyncGenerator[Served]:
    """Assemble the server as the program does."""
    provider, time = IdentityProvider(), Time()
    second = IdentityProvider(SECOND, keys=[public_jwk(second_key(), kid="one")])
    verifier = Verifier(
        VerifierConfig(audience=RESOURCE, **config),
        {one.issuer: one.key_set(time) for one in (provider, second)},
        introspection=Introspection(
            provider.discovery(time), provider.outgoing(), client=("mcp", SecretStr("secret")), monotonic=time
        ),
        clock=harness.clock,
    )
    specs = mcp_server.select(("notes", "files"), exclude=(), read_only=False)

    async def woken(elicitation_id: str) -> None:
        await pending.finish(elicitation_id)

    policy = Policy(NEXTCLOUD, "nextcloud.test", frozenset(SCOPES), page_url)
    provisioning = Provisioning(
        process.database, process.provider, policy, clock=harness.clock, on_finished=woken
    )
    accounts = GrantedAccounts(
        process.database,
        process.nextcloud,
        provisioning,
        process.outbox,
        process.audit,
        monotonic=harness.clock.seconds,
    )
    pending = Pending(provisioning.finished)
    services = with_accounts(services_of(process, harness.clock), policy, accounts, provisioning)

    async def open_services() -> Services:
        return services

    state = State(
        services=open_services,
        caller=caller_of,
        pending=pending,
        notifier=CompletionNotifier(pending),
        availability=Availability(
            mcp_server.facts(specs), ChangeNotifier(lambda ctx: caller_of(ctx).principal), scopes=scopes_of
        ),
        dialect="auto",
        hold_seconds=0.05,
    )
    track = Track(
        lambda ctx, consent_request: provisioning.find(consent_request, caller_of(ctx)),
        pending,
        timeout_seconds=0.05,
    )
    mcp, _ = mcp_server.create(specs, state, track, state_keys=lambda: [b"k" * 32])
    resource = Resource(RESOURCE, (ISSUER,), asked(SCOPES))
    routes = mcp.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    ).routes
    inner = Starlette(routes=[*routes, *metadata_routes(resource)])
    layer = BearerLayer(
        sessions(inner),
        resource=resource,
        verify=verifier.verify,
        needs=mcp_server.needs(specs),
        clock=harness.clock,
        limiter=limiter,
    )
    web = WebConfig(
        allowed_hosts=frozenset({"mcp.test"}),
        allowed_origins=frozenset({ORIGIN, "https://inspector.test"}),
        bearer_secret=None,
        secure_cookies=True,
    )
    async with mcp.session_manager.run():
        yield Served(harness, process, provider, time, guard(layer, web))


def token(*, key: Private | None = None, header: dict[str, object] | None = None, **changes: object) -> str:
    """Sign an access token with all scopes, unless changed."""
    return signed(claims(**({"scope": " ".join(SCOPES)} | changes)), key, header=header)
