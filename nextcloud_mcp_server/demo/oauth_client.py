"""An OAuth client that gets its token by MCP's authorization specification."""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from nextcloud_mcp_server.demo.answers import expect
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person

#: The client is registered with this address and any port (RFC 8252 §7.3); nothing listens there.
REDIRECT_URI = "http://127.0.0.1/callback"
_CALLBACK = "http://127.0.0.1:9/callback"
_SCOPE = re.compile(r'\bscope="(?P<scope>[^"]+)"')
_RESOURCE_METADATA = re.compile(r'resource_metadata="(?P<url>[^"]+)"')
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Found:
    """What a client discovers from an unauthorized response: the resource, and its authorization server."""

    challenge: str
    resource: str
    issuer: str


class OAuthClient:
    """A public client, registered or registering itself, that knows only the server's URL."""

    def __init__(self, client_id: str, http: httpx2.AsyncClient, *, scope: str = "openid") -> None:
        self._client_id = client_id
        self._http = http
        self._scope = scope

    def ask_for(self, challenge: str, *, keeping: Iterable[str]) -> None:
        """From now on request the scopes in a challenge, besides those that the token has (SEP-2350)."""
        named = _SCOPE.search(challenge)
        if named is None:
            raise NotAsPromised("the server's refusal does not say which scopes the call needs.")
        self._scope = " ".join(sorted({*named["scope"].split(), *keeping}))

    async def find(self, mcp_url: str) -> Found:
        """Send a request without a token, and follow the discovery in the response."""
        refused = await self._http.post(mcp_url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        expect(refused.status_code == _UNAUTHORIZED, "the server answers strangers")
        challenge = str(refused.headers.get("WWW-Authenticate"))
        named = _RESOURCE_METADATA.search(challenge)
        if named is None:
            raise NotAsPromised("the server's refusal does not say where to sign in.")
        about = await self._json(named["url"])
        return Found(challenge, str(about["resource"]), str(about["authorization_servers"][0]))

    async def register(self, found: Found, name: str) -> dict[str, Any]:
        """Register at the issuer and return its response (RFC 7591 §3.2.1)."""
        metadata = await self._json(f"{found.issuer}/.well-known/oauth-authorization-server")
        described = {
            "client_name": name,
            "redirect_uris": [REDIRECT_URI],
            "token_endpoint_auth_method": "none",
        }
        answer = await self._http.post(metadata["registration_endpoint"], json=described)
        registered: dict[str, Any] = answer.raise_for_status().json()
        self._client_id = str(registered["client_id"])
        return registered

    async def sign_in(self, found: Found, person: Person, *, only: Collection[str] | None = None) -> str:
        """Let the user sign in, and fetch a token for the server; `only` selects these scopes."""
        metadata = await self._json(f"{found.issuer}/.well-known/openid-configuration")
        verifier, state = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": _CALLBACK,
            "scope": self._scope,
            "resource": found.resource,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        url = f"{metadata['authorization_endpoint']}?{urlencode(asked)}"
        query = parse_qs(urlsplit(await person.sign_in(url, until=_CALLBACK, only=only)).query)
        expect(query["state"] == [state] and query["iss"] == [found.issuer], "another server answered")
        answer = await self._http.post(
            metadata["token_endpoint"],
            data={
                "grant_type": "authorization_code",
                "code": query["code"][0],
                "redirect_uri": _CALLBACK,
                "client_id": self._client_id,
                "code_verifier": verifier,
                "resource": found.resource,
            },
        )
        return str(answer.raise_for_status().json()["access_token"])

    async def _json(self, url: str) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._http.get(url)).raise_for_status().json()
        return answer


def claims_of(token: str) -> dict[str, Any]:
    """Decode a JWT for display; only the server verifies it."""
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims
