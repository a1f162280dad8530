"""Signs the user in: from a server's challenge to tokens, by the authorization code flow with PKCE (RFC 7636)."""

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.oauth.callback import Callback, CallbackPage, open_callback, read_callback
from nextcloud_mcp_server.bridge.oauth.challenge import Challenge
from nextcloud_mcp_server.bridge.oauth.discovery import (
    AuthorizationServer,
    find_resource,
    find_server,
    wanted_scopes,
)
from nextcloud_mcp_server.bridge.oauth.grant import ClientIdentity, Grant
from nextcloud_mcp_server.bridge.oauth.network import Network
from nextcloud_mcp_server.bridge.oauth.registration import identify
from nextcloud_mcp_server.bridge.oauth.target import Target
from nextcloud_mcp_server.bridge.oauth.tokens import exchange_code, known_error
from nextcloud_mcp_server.errors import AuthorizationFailed, NextcloudMcpError

#: Servers keep a sign-in for 5 to 10 minutes.
SIGN_IN_SECONDS: Final = 600.0
_PASTE: Final = (
    "If that browser runs on another computer, its last page cannot be shown there: copy the address of that page "
    "(http://127.0.0.1:…/callback?…) and paste it here."
)
_DONE: Final = ("Signed in", "Your chat client has access now. You can close this page.")
_FAILED: Final = "Not signed in"
_OTHER_STATE: Final = (
    "The pasted address does not belong to this sign-in; paste the address of its last page."
)


class Paste(Protocol):
    """Where the user pastes the address of the last page."""

    async def line(self) -> str:
        """Wait for a line; "" at the end of the input."""
        ...


@dataclass(frozen=True, slots=True)
class Pkce:
    """A secret of this client, and what the authorization server may see of it."""

    verifier: str
    challenge: str


def pkce(entropy: Callable[[int], bytes] = secrets.token_bytes) -> Pkce:
    """Make a verifier of 32 random bytes, and its challenge with S256 (RFC 7636 §4.1, §4.2)."""
    verifier = _base64url(entropy(32))
    return Pkce(verifier, _base64url(hashlib.sha256(verifier.encode()).digest()))


def authorization_url(
    server: AuthorizationServer,
    client: ClientIdentity,
    *,
    scopes: Sequence[str],
    state: str,
    challenge: str,
    resource: str,
) -> str:
    """Return the URL that the user opens; parameters that the endpoint has already stay."""
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": resource,
    }
    if scopes:
        asked["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        # OpenID Connect Core §11: without it, the scope is ignored.
        asked["prompt"] = "consent"
    parts = urlsplit(server.authorization_endpoint)
    kept = [
        (name, text) for name, text in parse_qsl(parts.query, keep_blank_values=True) if name not in asked
    ]
    return parts._replace(query=urlencode([*kept, *asked.items()]), fragment="").geturl()


@dataclass(frozen=True, slots=True)
class SignIn:
    """Signs the user in at the authorization server of one MCP server."""

    network: Network
    target: Target
    browser: Browser
    clock: Callable[[], datetime]
    paste: Paste | None = None
    seconds: float = SIGN_IN_SECONDS

    async def run(self, challenge: Challenge, known: Grant | None, more: Sequence[str] = ()) -> Grant:
        """Get tokens; `known` are those of last time, and `more` scopes are asked for besides.

        Raises:
          AuthorizationFailed: No tokens were obtained; its text says why.
          UnsafeUrl: The authorization server names a page that is not opened.
        """
        resource = await find_resource(self.network, self.target, challenge.resource_metadata)
        server = await find_server(self.network, self.target, resource)
        # Credentials of one authorization server are never shown to another.
        same = known if known is not None and known.issuer == server.issuer else None
        scopes = wanted_scopes(self.target, resource, server, challenge.scope)
        scopes = tuple(dict.fromkeys([*more, *scopes]))
        async with self._page(None if same is None else same.client) as page:
            client = await identify(
                self.network,
                self.target,
                server,
                redirect_uri=page.redirect_uri,
                scopes=scopes,
                known=None if same is None else same.client,
                clock=self.clock,
            )
            secret, state = pkce(), secrets.token_urlsafe(24)
            url = authorization_url(
                server, client, scopes=scopes, state=state, challenge=secret.challenge, resource=resource.id
            )

            async def exchange(callback: Callback) -> Grant:
                return await exchange_code(
                    self.network,
                    server,
                    client,
                    code=_code(callback, server),
                    verifier=secret.verifier,
                    resource=resource.id,
                    requested=" ".join(scopes),
                    clock=self.clock,
                )

            page.expect(state)
            return await self._ask(url, page, exchange)

    @asynccontextmanager
    async def _page(self, known: ClientIdentity | None) -> AsyncGenerator[CallbackPage]:
        """Listen at the configured port, or at the one that the registration of last time named, if it is free."""
        port = self.target.port
        if not port and known is not None and known.origin == "registered":
            try:
                async with open_callback(urlsplit(known.redirect_uri).port or 0):
                    port = urlsplit(known.redirect_uri).port or 0
            except AuthorizationFailed:
                port = 0
        async with open_callback(port) as page:
            yield page

    async def _ask(
        self, url: str, page: CallbackPage, exchange: Callable[[Callback], Awaitable[Grant]]
    ) -> Grant:
        """Show the page, wait for the redirect, and say there how the exchange of the code ended."""
        host = urlsplit(url).netloc
        # A task group would wrap what its block raises.
        failure: NextcloudMcpError | None = None
        grant: Grant | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(page.serve)
            try:
                await self.browser.show(url, f"{self.target.url} asks you to sign in at {host}.")
                if self.paste is not None:
                    self.browser.say(_PASTE)
                    group.start_soon(self._read_pasted, page, self.paste)
                grant = await exchange(await self._callback(page))
                await page.finish(*_DONE)
            except NextcloudMcpError as error:
                failure = error
                await page.finish(_FAILED, str(error))
            group.cancel_scope.cancel()
        if grant is None:
            raise failure or AuthorizationFailed("The sign-in ended without an answer.")
        return grant

    async def _callback(self, page: CallbackPage) -> Callback:
        try:
            with anyio.fail_after(self.seconds):
                return await page.wait()
        except TimeoutError:
            foreign = " An answer came, but to another sign-in." if page.foreign else ""
            raise AuthorizationFailed(
                f"No answer came from the browser within {self.seconds / 60:.0f} minutes.{foreign} Sign in again with: "
                f"nextcloud-mcp-server client auth {self.target.server_id}"
            ) from None

    async def _read_pasted(self, page: CallbackPage, paste: Paste) -> None:
        while line := await paste.line():
            callback = read_callback(line.strip())
            if callback is not None and page.take(callback):
                page.pasted()
                return
            self.browser.say(_OTHER_STATE)


def _code(callback: Callback, server: AuthorizationServer) -> str:
    """Return the code of a redirect.

    Raises:
      AuthorizationFailed: It comes from another authorization server (RFC 9207), or says no.
    """
    # RFC 9207 §2.4: a server that says that it sends `iss` always would have sent it.
    is_other = (
        server.sends_issuer if callback.iss is None else callback.iss != (server.issuer or callback.iss)
    )
    if is_other:
        raise AuthorizationFailed(
            "The answer to the sign-in comes from another authorization server; it was not used."
        )
    if callback.error == "access_denied":
        raise AuthorizationFailed("You did not allow the access.")
    if callback.code is None:
        raise AuthorizationFailed(
            f"The authorization server refused the sign-in ({known_error(callback.error)})."
        )
    return callback.code


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
