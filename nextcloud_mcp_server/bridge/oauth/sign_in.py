"""Signs in to a server and out of it on the user's command."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import anyio
import httpx2

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.certificate import distrusted
from nextcloud_mcp_server.bridge.oauth.access import now
from nextcloud_mcp_server.bridge.oauth.authorization import SIGN_IN_SECONDS, Paste, SignIn
from nextcloud_mcp_server.bridge.oauth.challenge import Challenge, bearer_challenge
from nextcloud_mcp_server.bridge.oauth.grant import Grant
from nextcloud_mcp_server.bridge.oauth.http_auth import check_encrypted
from nextcloud_mcp_server.bridge.oauth.network import Network, OpenHttp
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.target import Target
from nextcloud_mcp_server.bridge.oauth.tokens import revoke
from nextcloud_mcp_server.errors import AuthorizationFailed, BridgeError

_LOCK_SECONDS: Final = 120.0
_PROBE_SECONDS: Final = 30.0
_UNAUTHORIZED: Final = 401
_PROBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}

Revoked = Literal["revoked", "not offered", "failed"]


@dataclass(frozen=True, slots=True)
class SignedOut:
    """What a sign-out did: whether there were tokens, and whether the authorization server revoked them."""

    had_tokens: bool
    revoked: Revoked = "not offered"


async def sign_in(
    target: Target,
    store: TokenStore,
    browser: Browser,
    *,
    paste: Paste | None = None,
    open_http: OpenHttp = httpx2.AsyncClient,
    clock: Callable[[], datetime] = now,
    seconds: float = SIGN_IN_SECONDS,
) -> Grant:
    """Sign the user in, whatever tokens there are, and keep the new ones.

    Raises:
      AuthorizationFailed: No tokens were obtained, or they cannot be kept.
      UnsafeUrl: The server names a page that is not opened.
    """
    check_encrypted(target)
    network = Network(target.url, open_http)
    challenge = Challenge() if target.manual else await _challenge(target, open_http)
    async with store.lock(target.url, "sign-in", seconds=_LOCK_SECONDS):
        # Before the user is asked: a keyring that is locked would lose the answer.
        known = await store.load(target.url)
        grant = await SignIn(network, target, browser, clock, paste, seconds).run(challenge, known)
        async with store.lock(target.url, "refresh", seconds=_LOCK_SECONDS):
            await store.save(target.url, grant)
    return grant


async def sign_out(
    target: Target, store: TokenStore, *, open_http: OpenHttp = httpx2.AsyncClient
) -> SignedOut:
    """Delete the tokens of a server here, and revoke them where the authorization server offers it.

    Raises:
      TokenStoreFailed: The tokens here cannot be deleted.
    """
    network = Network(target.url, open_http)
    # No other process may refresh them in between, and keep what is new.
    async with store.lock(target.url, "refresh", seconds=_LOCK_SECONDS):
        grants = await store.remove(target.url)
        results = [await _revoked(network, grant) for grant in grants]
    if "failed" in results:
        return SignedOut(bool(grants), "failed")
    return SignedOut(bool(grants), "revoked" if "revoked" in results else "not offered")


async def _revoked(network: Network, grant: Grant) -> Revoked:
    if grant.revocation_endpoint is None:
        return "not offered"
    try:
        return "revoked" if await revoke(network, grant) else "failed"
    except BridgeError:
        # The tokens here are gone already; the caller says that those at the server may not be.
        return "failed"


async def _challenge(target: Target, open_http: OpenHttp) -> Challenge:
    """Ask the server without a token, for what its 401 says."""
    try:
        with anyio.fail_after(_PROBE_SECONDS):
            async with (
                open_http() as http,
                http.stream("POST", target.url, json=_PROBE, headers=_ACCEPT, auth=None) as response,
            ):
                return bearer_challenge(response) if response.status_code == _UNAUTHORIZED else Challenge()
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        if (certificate := distrusted(error)) is not None:
            raise AuthorizationFailed(f"The certificate of {target.server_id} {certificate}") from None
        raise AuthorizationFailed(
            f"{target.server_id} cannot be reached; check its url, or try again later."
        ) from None
