"""Verifies the bearer token of every request: its user, its client and its scopes.

Tokens are verified only here, and never passed on: Nextcloud gets a credential of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from nextcloud_mcp_server.auth import token_scopes
from nextcloud_mcp_server.auth.introspection import KEEP_SECONDS, Introspection
from nextcloud_mcp_server.auth.jwks import ALGORITHMS, KeySet
from nextcloud_mcp_server.auth.jwt_check import (
    LEEWAY_SECONDS,
    Claims,
    SignedToken,
    check_audience,
    check_times,
    decode,
    read_header,
)
from nextcloud_mcp_server.auth.principal import is_unverified
from nextcloud_mcp_server.errors import TokenRefused
from nextcloud_mcp_server.storage.records import Principal

TokenScopes = Literal["required", "ignore"]

_MAX_IDENTITY_CHARS = 255

#: Claims of ID tokens (OpenID Connect Core §2, §3.3.2.11) and logout tokens, which no access token has.
_NOT_FOR_ACCESS = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "events"})


@dataclass(frozen=True, slots=True)
class VerifierConfig:
    """The operator's settings for tokens; `audience` is this server's name in `aud`.

    `typ` lists the types that access tokens may carry.
    """

    audience: str
    typ: frozenset[str] = frozenset({"at+jwt"})
    algorithms: frozenset[str] = ALGORITHMS
    identity_claim: str = "sub"
    token_scopes: TokenScopes = "required"  # noqa: S105 - the setting's value is no password
    scope_prefix: str = ""
    leeway_seconds: float = LEEWAY_SECONDS


@dataclass(frozen=True, slots=True)
class Bearer:
    """The user and the client of a token, and its scopes; with `scopes` None the token limits nothing.

    `introspected` tells that the issuer itself said these claims; it is asked again within `KEEP_SECONDS`.
    """

    principal: Principal
    client_id: str
    scopes: frozenset[str] | None
    expires_at: int
    claims: Claims = field(repr=False)
    introspected: bool = False


class Verifier:
    """Verifies the tokens of the configured issuers, signed ones and (with `introspection`) opaque ones."""

    def __init__(
        self,
        config: VerifierConfig,
        issuers: Mapping[str, KeySet],
        *,
        introspection: Introspection | None = None,
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._issuers = issuers
        self._introspection = introspection
        self._clock = clock
        self._typ = frozenset(typ.lower().removeprefix("application/") for typ in config.typ)
        if "jwt" in self._typ:
            # A plain JWT may have the type JWT or none (RFC 7519 §5.1).
            self._typ |= {""}

    async def verify(self, token: str) -> Bearer:
        """Verify a token and return its user, client and scopes.

        Raises:
            TokenRefused: The token is not for this server, or not valid any more.
            IssuerUnavailable: The token cannot be verified now; the request must be refused.
            ConfigurationError: The token can never be verified with these settings.
        """
        signed = SignedToken.parse(token)
        if signed is not None:
            return await self._signed(signed)
        if self._introspection is None or "." in token:
            # Encrypted tokens (RFC 7516) have dots too.
            raise TokenRefused("The token is not a signed JWT.")
        return await self._opaque(token, self._introspection)

    def forget(self) -> None:
        """Drop the cached answers of issuers about tokens."""
        if self._introspection is not None:
            self._introspection.forget()

    async def _signed(self, token: SignedToken) -> Bearer:
        config = self._config
        header = read_header(token, algorithms=config.algorithms)
        issuer = token.claims.get("iss")
        keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None or not isinstance(issuer, str):
            raise TokenRefused("The token is of another issuer.")
        claims = decode(
            token,
            await keys.key(header.kid, header.alg),
            issuer=issuer,
            audience=config.audience,
            typ=self._typ,
            now=self._clock().timestamp(),
            leeway_seconds=config.leeway_seconds,
            algorithms=config.algorithms,
        )
        return self._bearer(claims, issuer)

    async def _opaque(self, token: str, introspection: Introspection) -> Bearer:
        claims = await introspection.ask(token)
        if claims.get("iss", introspection.issuer) != introspection.issuer:
            raise TokenRefused("The token is of another issuer.")
        check_audience(claims, self._config.audience)
        now = self._clock().timestamp()
        check_times(claims, now=now, leeway_seconds=self._config.leeway_seconds)
        # RFC 7662 §2.2 makes `exp` optional; without it the answer is used no longer than it is cached.
        bearer = self._bearer({"exp": now + KEEP_SECONDS, **claims}, introspection.issuer)
        return replace(bearer, introspected=True)

    def _bearer(self, claims: Claims, issuer: str) -> Bearer:
        config = self._config
        _refuse_other_tokens(claims)
        _text(claims, "sub")
        if is_unverified(claims, config.identity_claim, unsaid=True):
            raise TokenRefused("The token's e-mail address, by which people are known, is not verified.")
        named = token_scopes.granted(claims, prefix=config.scope_prefix)
        # Even if tokens need not carry this server's scopes, a token that carries some is limited to them.
        limited = bool(named) or config.token_scopes == "required"  # noqa: S105 - see above
        return Bearer(
            principal=Principal(issuer, _text(claims, config.identity_claim)),
            client_id=_text(claims, "client_id" if "client_id" in claims else "azp"),
            scopes=named if limited else None,
            expires_at=int(claims["exp"]),
            claims=claims,
        )


def _refuse_other_tokens(claims: Claims) -> None:
    """Refuse other kinds of tokens of an issuer, where the header's type does not name the kind.

    Keycloak names the kind in a claim `typ`, and its older versions put `nonce` into access tokens too.
    """
    kind = claims.get("typ")
    if kind not in (None, "Bearer") or (kind is None and _NOT_FOR_ACCESS & set(claims)):
        raise TokenRefused("The token is not an access token.")


def _text(claims: Claims, name: str) -> str:
    """Read a claim that identifies a user or client.

    Without this check, all tokens without the claim would share one user or one client.
    """
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_IDENTITY_CHARS or not value.isprintable():
        raise TokenRefused("The token does not say whose it is, or for which client.")
    return value
