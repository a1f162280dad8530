"""A fake identity provider: its metadata, keys, introspection, and the tokens it signs."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.nextcloud.http import open_pool

ISSUER = "https://id.test"
RESOURCE = "https://mcp.test/mcp"

#: 2026-11-27 12:00 UTC.
NOW = 1_795_780_800.0

Handler = Callable[[httpx2.Request], Coroutine[None, None, httpx2.Response]]
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@cache
def rsa_key(name: str = "rsa", bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return a key, generated once: that takes a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def private_key(kind: str) -> Private:
    """Return a key of a kind: RSA, P-256, P-384 or Ed25519."""
    curves = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1}
    if kind in curves:
        return ec.generate_private_key(curves[kind]())
    return ed25519.Ed25519PrivateKey.generate() if kind == "Ed25519" else rsa_key(kind)


def public_jwk(private: Private, **members: object) -> dict[str, Any]:
    """Return the public key as in an issuer's key set."""
    match private:
        case rsa.RSAPrivateKey():
            jwk = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        case ec.EllipticCurvePrivateKey():
            jwk = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
        case ed25519.Ed25519PrivateKey():
            jwk = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {**{name: value for name, value in jwk.items() if name != "key_ops"}, "use": "sig", **members}


def claims(**changes: object) -> dict[str, Any]:
    """Return the claims of an access token for this server; None leaves a claim out."""
    made: dict[str, object] = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": RESOURCE,
        "exp": NOW + 300,
        "iat": NOW - 10,
        "client_id": "claude",
        "scope": "notes:read",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not None}


def signed(
    payload: Mapping[str, Any],
    key: Private | None = None,
    *,
    alg: str = "RS256",
    header: Mapping[str, object] | None = None,
) -> str:
    """Sign a token; a header set to None is left out."""
    made = {"kid": "one", "typ": "at+jwt", **(header or {})}
    kept = {name: value for name, value in made.items() if value is not None}
    return jwt.encode(dict(payload), key or rsa_key(), alg, {"typ": "", **kept})


def raw_token(
    header: Mapping[str, object] | bytes, payload: Mapping[str, object] | bytes, rest: str = "AA"
) -> str:
    """Build a token from parts, without a valid signature."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    return ".".join([*(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), rest])


@dataclass
class IdentityProvider:
    """Answers below the pool; a test may read its requests and change its responses."""

    issuer: str = ISSUER
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    keys: list[Any] = field(default_factory=lambda: [public_jwk(rsa_key(), kid="one", alg="RS256")])
    asked: list[httpx2.Request] = field(default_factory=list[httpx2.Request])
    instead: dict[str, Handler] = field(default_factory=dict[str, Handler])
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def __post_init__(self) -> None:
        self.metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "introspection_endpoint": f"{self.issuer}/introspect",
            "subject_types_supported": ["public"],
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["openid"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        path = request.url.path
        if path in self.instead:
            return await self.instead[path](request)
        if path == "/.well-known/openid-configuration":
            return httpx2.Response(200, json=self.metadata)
        if path == "/jwks":
            return httpx2.Response(200, json={"keys": self.keys})
        if path == "/introspect":
            token = httpx2.QueryParams(request.content.decode())["token"]
            return httpx2.Response(200, json=self.tokens.get(token, {"active": False}))
        return httpx2.Response(404, json={"error": "not_found"})

    def count(self, path: str) -> int:
        """Count the requests for a path."""
        return sum(request.url.path == path for request in self.asked)

    def outgoing(self) -> Outgoing:
        """Return the connections to it."""
        return Outgoing(open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(self)))

    def discovery(self, monotonic: Callable[[], float]) -> Discovery:
        """Return its discovery."""
        return Discovery(self.issuer, self.outgoing(), monotonic=monotonic)

    def key_set(self, monotonic: Callable[[], float]) -> KeySet:
        """Return its key set."""
        return KeySet(self.discovery(monotonic), self.outgoing(), monotonic=monotonic)


def answering(status: int, **options: Any) -> Handler:  # noqa: ANN401 - the options of a response
    """Return a handler that always gives this response."""

    async def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, **options)

    return answer


async def silent(_: httpx2.Request) -> httpx2.Response:
    """Refuse the connection."""
    raise httpx2.ConnectError("refused")
