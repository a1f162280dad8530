"""Puts access tokens on the requests to one server, and answers its 401 and 403 (RFC 6750 §3.1)."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx2

try:
    # The SDK stops a request's time limit while its own provider waits for the user. It has no public name.
    from mcp.shared._request_clock import waiting_on_a_person  # pyright: ignore[reportPrivateUsage]
except ImportError:  # pragma: no cover - another version of the SDK
    waiting_on_a_person: Callable[[], AbstractContextManager[None]] = nullcontext

from nextcloud_mcp_server.bridge.browser import Browser, is_loopback
from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.oauth.access import Access, now
from nextcloud_mcp_server.bridge.oauth.authorization import SignIn
from nextcloud_mcp_server.bridge.oauth.challenge import bearer_challenge
from nextcloud_mcp_server.bridge.oauth.grant import Grant
from nextcloud_mcp_server.bridge.oauth.network import Network, OpenHttp
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.target import Target, target_of
from nextcloud_mcp_server.errors import AuthorizationFailed

_STEP_UPS: Final = 3
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403


class HttpAuth(httpx2.Auth):
    """Authenticates requests to one server; each answer is passed on as it comes."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._origin = _origin(httpx2.URL(access.target.url))
        self._limits: set[anyio.CancelScope] = set()

    @contextmanager
    def not_limiting_users(self, limit: anyio.CancelScope) -> Generator[None]:
        """Let a time limit for the server stand still while the user signs in."""
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    @contextmanager
    def _waiting(self) -> Generator[None]:
        limits, began = [*self._limits], anyio.current_time()
        ends = [limit.deadline for limit in limits]
        for limit in limits:
            limit.deadline = float("inf")
        try:
            with waiting_on_a_person():
                yield
        finally:
            for limit, end in zip(limits, ends, strict=True):
                limit.deadline = end + anyio.current_time() - began

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token; once again after 401, and after 403 with more scopes, three times at most.

        Raises:
          AuthorizationFailed: The server wants what this client could not get.
        """
        if _origin(request.url) != self._origin:
            # A redirect or an endpoint that the server named: another host gets no token.
            yield request
            return
        seen = self._access.attempts
        grant = await self._access.current()
        response = yield _with_token(request, grant)
        if response.status_code == _UNAUTHORIZED:
            challenge = bearer_challenge(response)
            await _drop_body(response)
            with self._waiting():
                grant = await self._access.after_refusal(grant, challenge, seen)
            response = yield _with_token(request, grant)
            if response.status_code == _UNAUTHORIZED:
                await self._access.end(grant)
                raise self._failed("refuses the access that was just given")
        asked: set[str | None] = set()
        while response.status_code == _FORBIDDEN and (challenge := bearer_challenge(response)).wants_scopes:
            # Asking the user for the same once more would change nothing.
            if len(asked) == _STEP_UPS or challenge.scope in asked:
                raise self._failed("wants more rights than the sign-in gave")
            asked.add(challenge.scope)
            await _drop_body(response)
            seen = self._access.attempts
            with self._waiting():
                grant = await self._access.with_more_scopes(grant, challenge, seen)
            response = yield _with_token(request, grant)

    def _failed(self, what: str) -> AuthorizationFailed:
        name = self._access.target.server_id
        return AuthorizationFailed(
            f"{name} {what}. Sign in again with: nextcloud-mcp-server client auth {name}"
        )


def http_auth(
    server: Server,
    store: TokenStore,
    browser: Browser | None,
    *,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
    name: str | None = None,
    open_http: OpenHttp = httpx2.AsyncClient,
) -> HttpAuth | None:
    """Return what authenticates requests to a configured server; None where it is `oauth = "off"`.

    Without `browser` the user is not asked to sign in; `name` is what the user calls the server, if not its id.

    Raises:
      AuthorizationFailed: The server's URL is not encrypted.
      ConfigurationError: The port of the variable is none.
    """
    if server.oauth == "off":
        return None
    return auth_for(target_of(server, environment, port=port, name=name), store, browser, open_http=open_http)


def auth_for(
    target: Target,
    store: TokenStore,
    browser: Browser | None,
    *,
    open_http: OpenHttp = httpx2.AsyncClient,
    clock: Callable[[], datetime] = now,
) -> HttpAuth:
    """Return what authenticates requests to a server; without `browser` the user is not asked to sign in.

    Raises:
      AuthorizationFailed: The server's URL is not encrypted.
    """
    check_encrypted(target)
    network = Network(target.url, open_http)
    sign_in = None if browser is None else SignIn(network, target, browser, clock)
    return HttpAuth(Access(target, store, network, sign_in, clock=clock))


def check_encrypted(target: Target) -> None:
    """Refuse to send tokens where others on the network could read them.

    Raises:
      AuthorizationFailed: The server's URL is neither https nor on this computer.
    """
    parts = urlsplit(target.url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise AuthorizationFailed(
            f"{target.server_id} has no https URL: others on the network could read an access token. Use https, or "
            'oauth = "off".'
        )


def _with_token(request: httpx2.Request, grant: Grant | None) -> httpx2.Request:
    if grant is not None:
        request.headers["Authorization"] = f"Bearer {grant.access_token.get_secret_value()}"
    return request


async def _drop_body(response: httpx2.Response) -> None:
    """Close a refused answer unread: HTTPX reads it to its end before the next request, and it may have none."""
    await response.aclose()
    response._content = b""  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - there is no public way


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
