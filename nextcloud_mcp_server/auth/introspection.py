"""Asks an issuer whether an opaque token is active (RFC 7662). Every failure refuses the token."""

import logging
from collections.abc import Callable
from hashlib import sha256

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwt_check import Claims
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable, TokenRefused

logger = logging.getLogger(__name__)

#: A revoked token works for this long at most.
KEEP_SECONDS = 60.0

_MOST_KEPT = 10_000

#: Any unauthenticated caller can cause a request to the issuer, so no more than this many run at once.
_AT_ONCE = 10

_OK = 200


class Introspection:
    """Introspects tokens and caches the answers by the token's hash; `client` authenticates this server."""

    def __init__(
        self,
        discovery: Discovery,
        outgoing: Outgoing,
        *,
        client: tuple[str, SecretStr],
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.issuer = discovery.issuer
        self._discovery = discovery
        self._outgoing = outgoing
        self._client = client
        self._monotonic = monotonic
        self._kept: dict[bytes, tuple[float, Claims]] = {}
        self._semaphore = anyio.Semaphore(_AT_ONCE)

    async def ask(self, token: str) -> Claims:
        """Return the issuer's claims about an active token; audience and expiry are not checked here.

        Raises:
            TokenRefused: The issuer does not know the token (any more), or the token is no access token.
            IssuerUnavailable: The issuer could not be asked.
            ConfigurationError: The issuer offers no introspection.
        """
        key, now = sha256(token.encode()).digest(), self._monotonic()
        until, claims = self._kept.get(key, (now, {}))
        if now < until:
            return claims
        kept: object = None
        while kept is not self._kept:
            # An answer that began before a logout may be older than it.
            kept = self._kept
            async with self._semaphore:
                claims = await self._ask(token)
        self._keep(key, claims)
        return claims

    def forget(self) -> None:
        """Drop the cached answers, and those that are still on their way: some tokens may have been ended."""
        self._kept = {}

    async def _ask(self, token: str) -> Claims:
        endpoint = (await self._discovery.get()).introspection_endpoint
        if endpoint is None:
            raise ConfigurationError(
                "The identity provider's metadata has no introspection_endpoint, so opaque tokens cannot be "
                "checked: have it issue JWT access tokens."
            )
        form = {"token": token, "token_type_hint": "access_token"}
        answer = await self._outgoing.json("POST", endpoint, form=form, basic=self._client)
        said = answer.fields
        if answer.status != _OK or "active" not in said:
            # 401 means that the issuer does not accept this server's own client; the token is not at fault.
            logger.error(
                "the identity provider does not say whether a token is valid (status %d); check "
                "INTROSPECTION_CLIENT_ID and its secret",
                answer.status,
            )
            raise IssuerUnavailable("The identity provider does not say whether the token is valid.")
        if said["active"] is not True:
            raise TokenRefused("The token is not active.")
        # Issuers answer for refresh tokens too; Keycloak and Hydra say so in `typ` and `token_use`.
        if _lower(said.get("token_type", "bearer")) != "bearer" or (
            _lower(said.get("token_use", "access_token")) not in ("access_token", "access")
        ):
            raise TokenRefused("The token is not an access token.")
        return said

    def _keep(self, key: bytes, claims: Claims) -> None:
        now = self._monotonic()
        self._kept.pop(key, None)
        self._kept[key] = (now + KEEP_SECONDS, claims)
        while len(self._kept) > _MOST_KEPT or next(iter(self._kept.values()))[0] <= now:
            del self._kept[next(iter(self._kept))]


def _lower(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""
