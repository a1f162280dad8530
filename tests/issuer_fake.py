"""A fake identity provider: discovery, keys, tokens; users sign in with one method call."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from tests.auth_fixtures import Clock

ISSUER = "https://id.test"
CLIENT = "mcp-server"
SECRET = "client-secret"

Params = dict[str, list[str]]

#: Changes a callback's query on its way.
Change = Callable[[Params], Params]


@cache
def signing_key(number: int = 0) -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """Answers like a certified provider, unless a test changes that.

    `metadata`, `claims` and `tokens` are merged into the responses; None removes a member.
    """

    clock: Clock
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    claims: dict[str, Any] = field(default_factory=dict[str, Any])
    tokens: dict[str, Any] = field(default_factory=dict[str, Any])
    header: dict[str, Any] = field(default_factory=dict[str, Any])
    userinfo: dict[str, Any] = field(default_factory=dict[str, Any])
    key: RSAPrivateKey = field(default_factory=signing_key)
    asked: list[httpx2.Request] = field(default_factory=list[httpx2.Request])
    instead: Callable[[httpx2.Request], httpx2.Response | None] = lambda _: None
    _codes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _count: int = 0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if (answer := self.instead(request)) is not None:
            return answer
        match request.url.path:
            case "/.well-known/openid-configuration":
                return httpx2.Response(200, json=over(self._metadata(), self.metadata))
            case "/keys":
                return httpx2.Response(200, json={"keys": [public_jwk()]})
            case "/token":
                return self._token(request)
            case "/userinfo":
                return httpx2.Response(200, json=self.userinfo)
            case _:
                return httpx2.Response(404)

    def token_requests(self) -> list[dict[str, str]]:
        return [dict(parse_qsl(one.content.decode())) for one in self.asked if one.url.path == "/token"]

    def sign_in(self, url: str, name: str, /, **claims: object) -> Params:
        """Let a user sign in at the URL of an authorization request; return the callback's query."""
        query = parse_qs(urlsplit(url).query, strict_parsing=True)
        self._count += 1
        code = f"code-of-{name}-{self._count}"
        self._codes[code] = {"query": query, "claims": {"sub": name, "name": name.title(), **claims}}
        params = {"code": [code], "state": query["state"]}
        if self.metadata.get("authorization_response_iss_parameter_supported"):
            params["iss"] = [ISSUER]
        return params

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "userinfo_endpoint": f"{ISSUER}/userinfo",
            "jwks_uri": f"{ISSUER}/keys",
            "scopes_supported": ["openid", "profile", "email"],
            "subject_types_supported": ["public"],
            "code_challenge_methods_supported": ["S256"],
        }

    def _token(self, request: httpx2.Request) -> httpx2.Response:
        form = dict(parse_qsl(request.content.decode()))
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {basic}" and form.get("client_secret") != SECRET:
            return httpx2.Response(401, json={"error": "invalid_client"})
        known = self._codes.pop(form.get("code", ""), None)
        if known is None or not fits(known["query"], form):
            return httpx2.Response(400, json={"error": "invalid_grant", "error_description": "<b>no</b>"})
        now = int(self.clock.seconds())
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "nonce": known["query"]["nonce"][0],
            **known["claims"],
        }
        id_token = jwt.encode(
            over(claims, self.claims), self.key, algorithm="RS256", headers={"kid": "one", **self.header}
        )
        answer = {
            "access_token": "access-token-of-the-issuer",
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": id_token,
        }
        return httpx2.Response(200, json=over(answer, self.tokens))


def over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**below, **above}.items() if value is not None}


def fits(query: Params, form: dict[str, str]) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return query["code_challenge"] == [challenge] and query["redirect_uri"] == [form.get("redirect_uri")]


def public_jwk() -> dict[str, str]:
    numbers = signing_key().public_key().public_numbers()
    return {
        "kty": "RSA",
        "kid": "one",
        "use": "sig",
        "n": base64.urlsafe_b64encode(numbers.n.to_bytes(256)).decode().rstrip("="),
        "e": base64.urlsafe_b64encode(numbers.e.to_bytes(3)).decode().rstrip("="),
    }


def at_hash(access_token: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(access_token.encode()).digest()[:16]).decode().rstrip("=")


def html(text: str = "<html></html>") -> httpx2.Response:
    return httpx2.Response(200, text=text, headers={"Content-Type": "text/html"})


def huge() -> httpx2.Response:
    return httpx2.Response(200, content=json.dumps({"access_token": "a" * 1_000_000}))


def without(name: str) -> Change:
    return lambda params: {key: values for key, values in params.items() if key != name}


def with_(name: str, *values: str) -> Change:
    return lambda params: {**params, name: list(values)}


def twice(name: str) -> Change:
    return lambda params: {**params, name: params[name] * 2}
