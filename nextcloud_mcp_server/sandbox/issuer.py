"""A small OpenID provider in process, for users and MCP clients, with faults that a real one rarely has."""

from collections.abc import Collection, Sequence
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.sandbox.faults import LostAnswer
from nextcloud_mcp_server.sandbox.issuer_faults import Endpoint, IssuerFaults
from nextcloud_mcp_server.sandbox.issuer_keys import ALGORITHM
from nextcloud_mcp_server.sandbox.issuer_pages import SignInPages
from nextcloud_mcp_server.sandbox.issuer_state import (
    Account,
    Family,
    IssuerClient,
    IssuerContext,
    IssuerState,
)
from nextcloud_mcp_server.sandbox.issuer_tokens import TokenEndpoints, TokenMaker
from nextcloud_mcp_server.sandbox.request_log import RequestLog, RequestRecord
from nextcloud_mcp_server.sandbox.state import Clock, system_clock

_ALICE = Account("u-7f3a", "alice", "alice", "Alice Example", "alice@example.test")
_BOB = Account("u-c912", "bob", "bob", "Bob Builder", "bob@example.test")
_ENDPOINTS: dict[str, Endpoint] = {
    "/.well-known/openid-configuration": "discovery",
    "/.well-known/oauth-authorization-server": "discovery",
    "/jwks": "jwks",
    "/authorize": "authorize",
    "/token": "token",
    "/introspect": "introspection",
}


class Issuer:
    """An issuer with alice and bob. `app` is the ASGI application, the rest is for tests.

    `url` is the issuer identifier. In process it is what the client's base URL has to be; `serving()`
    replaces it with the URL of the port. User names are the uids of the sandbox Nextcloud; `scopes` are
    those it names besides its own, and it grants whatever is asked for.
    """

    def __init__(
        self,
        *,
        url: str = "https://id.example.test",
        clock: Clock = system_clock,
        access_token_seconds: int = 900,
        people: Collection[Account] = (_ALICE, _BOB),
        scopes: Sequence[str] = (),
    ) -> None:
        state = IssuerState(accounts={one.username: one for one in people})
        self._context = IssuerContext(url, clock, state)
        self._tokens = TokenMaker(self._context, seconds=access_token_seconds)
        self._scopes = ("openid", "profile", "email", "offline_access", *scopes)
        self.state = state
        self.faults = self._context.faults
        self.keys = self._context.keys
        self.requests = RequestLog()
        self.app = Starlette(
            routes=[
                *(Route(path, self._metadata) for path, name in _ENDPOINTS.items() if name == "discovery"),
                Route("/jwks", self._jwks),
                *SignInPages(self._context).routes(),
                *TokenEndpoints(self._context, self._tokens).routes(),
            ],
            middleware=[Middleware(_Frontend, faults=self.faults, log=self.requests)],
        )

    @property
    def url(self) -> str:
        """Return the issuer identifier."""
        return self._context.url

    def served_at(self, origin: str) -> str:
        """Take the origin as the issuer identifier."""
        self._context.url = origin
        return origin

    def add_client(
        self,
        client_id: str,
        *,
        redirect_uris: Sequence[str] = (),
        secret: str | None = None,
        opaque_tokens: bool = False,
    ) -> IssuerClient:
        """Register a client; without a secret it is public."""
        made = IssuerClient(client_id, tuple(redirect_uris), secret, opaque_tokens)
        self.state.clients[client_id] = made
        return made

    def access_token(
        self,
        username: str,
        *,
        audience: str | Sequence[str],
        client_id: str = "assistant",
        scope: str = "openid",
    ) -> str:
        """Issue an access token as if the user had signed in to the client."""
        resources = (audience,) if isinstance(audience, str) else tuple(audience)
        family = Family(
            client_id,
            self.state.accounts[username],
            tuple(scope.split()),
            resources,
            None,
            self._context.now(),
        )
        return self._tokens.access_token(family)

    def uid_of(self, token: str) -> str | None:
        """Check a bearer as a Nextcloud with user_oidc does: set it as its `state.check_bearer`."""
        claims = self._tokens.live_claims(token)
        return None if claims is None else str(claims["preferred_username"])

    def metadata(self) -> dict[str, Any]:
        """Return the metadata (OpenID Connect Discovery, RFC 8414). Clients cannot register."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "introspection_endpoint": f"{self.url}/introspect",
            "revocation_endpoint": f"{self.url}/revoke",
            "end_session_endpoint": f"{self.url}/logout",
            "scopes_supported": list(self._scopes),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "claims_supported": ["sub", "name", "email", "preferred_username"],
        }

    async def _metadata(self, request: Request) -> Response:
        del request
        return JSONResponse(self.metadata())

    async def _jwks(self, request: Request) -> Response:
        del request
        return JSONResponse(self.keys.document())


class _Frontend:
    """The outermost layer: faults and the request log."""

    def __init__(self, app: ASGIApp, *, faults: IssuerFaults, log: RequestLog) -> None:
        self._app = app
        self._faults = faults
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        faults, endpoint = self._faults, _ENDPOINTS.get(scope["path"], "other")
        if (slow := faults.take("slow", endpoint)) is not None:
            await anyio.sleep(slow.seconds)
        down = faults.take("down", endpoint) is not None
        lost = not down and faults.take("lost_answer", endpoint) is not None

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._remember(Request(scope), message["status"])
            if not lost:
                await send(message)

        answer = Response("The issuer is down.", status_code=503) if down else self._app
        await answer(scope, receive, watched)
        if lost:
            # The head promises a byte that never comes, so the connection has to break.
            head = [(b"content-length", b"1")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            raise LostAnswer("The connection broke before the answer arrived.")

    def _remember(self, request: Request, status: int) -> None:
        scheme = request.headers.get("Authorization", "").partition(" ")[0].lower()
        self._log.add(
            RequestRecord(
                method=request.method,
                path=request.url.path,
                query=request.url.query,
                user=None,
                auth=scheme or "none",
                status=status,
            )
        )
