"""The keys an issuer signs with (RFC 7517), cached for ten minutes and shared by all users."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
from jwt import PyJWK, PyJWTError

from nextcloud_mcp_server.auth.cached import Ages, Cached
from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import IssuerUnavailable, TokenRefused

logger = logging.getLogger(__name__)

_AGES = Ages(fresh_seconds=600.0, stale_seconds=86_400.0)
_MOST_KEYS = 100
_OK = 200

#: Algorithm → the type and curve of its keys. No symmetric algorithm, so that a public key can never be used as a
#: shared secret.
_FITTING: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
}

#: The algorithms a token may be signed with.
ALGORITHMS = frozenset(_FITTING)

Jwk = dict[str, Any]


class KeySet:
    """Finds the key for a token's header."""

    def __init__(
        self,
        discovery: Discovery,
        outgoing: Outgoing,
        *,
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._discovery = discovery
        self._outgoing = outgoing
        self._cached = Cached(self._fetch, _AGES, monotonic=monotonic)

    async def key(self, kid: str | None, alg: str) -> PyJWK:
        """Return the key with this id for this algorithm; without an id, the only key for the algorithm.

        An unknown id may be a new key, so the set is fetched again, but at most every 30 seconds: else an
        attacker could make this server send requests to the issuer at any rate.

        Raises:
            TokenRefused: There is no such key.
            IssuerUnavailable: The keys could not be fetched.
        """
        keys = await self._cached.get()
        found = keys.find(kid, alg)
        if found is None and kid is not None:
            found = (await self._cached.renew()).find(kid, alg)
        if found is None:
            raise TokenRefused("The token names no key that its issuer signs with.")
        return found

    async def _fetch(self) -> "_Keys":
        metadata = await self._discovery.get()
        answer = await self._outgoing.json("GET", metadata.jwks_uri)
        listed = answer.fields.get("keys")
        if answer.status != _OK or not isinstance(listed, list):
            raise IssuerUnavailable(
                f"The identity provider's keys are not found at its jwks_uri (status {answer.status})."
            )
        return _Keys(cast("list[object]", listed))


class _Keys:
    def __init__(self, listed: list[object]) -> None:
        if len(listed) > _MOST_KEYS:
            logger.warning(
                "the identity provider lists %d keys; the first %d are used", len(listed), _MOST_KEYS
            )
        jwks = [cast("Jwk", item) for item in listed[:_MOST_KEYS] if isinstance(item, dict)]
        self._jwks = [jwk for jwk in jwks if _may_verify(jwk)]
        self._made: dict[tuple[str | None, str], PyJWK | None] = {}

    def find(self, kid: str | None, alg: str) -> PyJWK | None:
        if (kid, alg) in self._made:
            return self._made[kid, alg]
        fitting = [jwk for jwk in self._jwks if kid in (None, jwk.get("kid")) and _fits(jwk, alg)]
        made = _make(fitting[0], alg) if len(fitting) == 1 else None
        if fitting:
            # Unknown ids are not cached: an attacker can invent any number of them.
            self._made[kid, alg] = made
        return made


def _may_verify(jwk: Jwk) -> bool:
    """Tell whether a key is public and meant for signatures (RFC 7517 §4.2, §4.3)."""
    operations: object = jwk.get("key_ops", ["verify"])
    return (
        jwk.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in cast("list[object]", operations)
        and not {"d", "k"} & set(jwk)
    )


def _fits(jwk: Jwk, alg: str) -> bool:
    kind, curve = _FITTING.get(alg, (None, None))
    return (
        jwk.get("kty") == kind and (curve is None or jwk.get("crv") == curve) and jwk.get("alg", alg) == alg
    )


def _make(jwk: Jwk, alg: str) -> PyJWK | None:
    try:
        key = PyJWK.from_dict(jwk, alg)
        weak = key.Algorithm.check_key_length(key.key)
    except (PyJWTError, ValueError, TypeError):
        weak = "it cannot be read"
        key = None
    if weak:
        logger.warning("a key of the identity provider is not used: %s", weak)
        return None
    return key
