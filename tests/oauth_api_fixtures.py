"""The OAuth endpoints of the authorization server on a database of their own, and clients of them."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx2
from starlette.applications import Starlette
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.web.client_limits import ClientLimits
from nextcloud_mcp_server.web.limits import Limits, Rates
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.oauth_api import OPEN_PATHS, oauth_routes
from tests.clients_fixtures import SCOPES
from tests.tokens_fixtures import CALLBACK, ISSUER, VERIFIER, Desk, Moment, code_grant, open_desk

PUBLIC: dict[str, Any] = {
    "client_name": "Claude",
    "redirect_uris": [CALLBACK],
    "token_endpoint_auth_method": "none",
}


@dataclass(frozen=True)
class FakeServices:
    """What the endpoints use."""

    clients: Clients
    registration: Registration | None
    tokens: Tokens


@dataclass
class OAuthApiFixture:
    """The endpoints as they are served: behind the guard, with the parts of a `Desk`."""

    desk: Desk
    rates: Rates = field(default_factory=Rates)
    #: The error of each request before anything is looked up.
    broken: Exception | None = None
    services: FakeServices = field(init=False)
    app: ASGIApp = field(init=False)

    def __post_init__(self) -> None:
        records, clock = self.desk.database.clients, self.desk.moment
        registration = Registration(records, ClientRules(scopes=SCOPES), clock=clock)
        self.services = FakeServices(Clients(records, clock=clock), registration, self.desk.tokens)
        self.serve()

    def serve(self, *, registers: bool = True) -> None:
        """Serve again, with new rate limiters."""
        routes = oauth_routes(
            self._opened,
            issuer=ISSUER,
            mcp_path="/mcp",
            scopes=SCOPES,
            registers=registers,
            limits=ClientLimits(Limits(self.rates)),
        )
        config = WebConfig(
            allowed_hosts=frozenset({urlsplit(ISSUER).netloc}),
            allowed_origins=frozenset(),
            bearer_secret=None,
            secure_cookies=True,
            any_origin=OPEN_PATHS,
            refuse_forwarded=False,
        )
        self.app = guard(Starlette(routes=routes), config)

    async def _opened(self) -> FakeServices:
        if self.broken is not None:
            raise self.broken
        return self.services

    def http(self, address: str = "203.0.113.9") -> httpx2.AsyncClient:
        """Return an HTTP client at an address."""
        transport = httpx2.ASGITransport(self.app, client=(address, 1))
        return httpx2.AsyncClient(transport=transport, base_url=ISSUER)

    async def registered(self, http: httpx2.AsyncClient, **fields: object) -> dict[str, Any]:
        """Register a client, public by default."""
        answer = await http.post("/register", json={**PUBLIC, **fields})
        assert answer.status_code == 201, answer.text
        described: dict[str, Any] = answer.json()
        return described

    async def code_form(self, client_id: str) -> dict[str, str]:
        """Let Alice allow a client, and return the form that it sends with its code."""
        return {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": await self.desk.give(code_grant(client_id=client_id)),
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }

    async def connected(self, http: httpx2.AsyncClient) -> dict[str, Any]:
        """Register a public client and fetch its tokens."""
        client_id = str((await self.registered(http))["client_id"])
        answer = await http.post("/token", data=await self.code_form(client_id))
        assert answer.status_code == 200, answer.text
        return {**answer.json(), "client_id": client_id}


def refresh_form(tokens: dict[str, Any], **fields: str) -> dict[str, str]:
    """Return the form with which a public client refreshes its tokens."""
    return {
        "grant_type": "refresh_token",
        "client_id": tokens["client_id"],
        "refresh_token": tokens["refresh_token"],
        **fields,
    }


def basic(client_id: str, secret: str) -> dict[str, str]:
    """Return the header of a client that authenticates with a secret (RFC 6749 §2.3.1)."""
    return raw_basic(f"{quote_plus(client_id)}:{quote_plus(secret)}")


def raw_basic(joined: str) -> dict[str, str]:
    """Return a Basic header with exactly this content."""
    return {"Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}"}


@asynccontextmanager
async def open_api(url: str, keys: KeyRing, **fields: Any) -> AsyncGenerator[OAuthApiFixture]:  # noqa: ANN401 - the harness's own
    """Open a database, and the endpoints on it."""
    async with open_desk(url, keys, Moment()) as desk:
        yield OAuthApiFixture(desk, **fields)
