"""An MCP server and its authorization server at the network, for the tests of the client, and a user's browser."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.oauth.network import Network
from nextcloud_mcp_server.bridge.oauth.target import Target

SERVER = "https://mcp.example/mcp"
ISSUER = "https://as.example"
RESOURCE_METADATA = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
SERVER_METADATA = f"{ISSUER}/.well-known/oauth-authorization-server"

#: What the browser sends back in place of the usual parameters.
Redirect = Callable[[dict[str, str]], dict[str, str]]


def described(**changes: object) -> dict[str, Any]:
    """Return the metadata of the authorization server; None takes a member out."""
    fields: dict[str, Any] = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


@dataclass
class FakeServers:
    """Answers for both servers; `replies` go before what they would answer, by URL."""

    metadata: dict[str, Any] = field(default_factory=described)
    resource: dict[str, Any] | None = field(
        default_factory=lambda: {
            "resource": SERVER,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["read"],
        }
    )
    challenge: str = f'Bearer resource_metadata="{RESOURCE_METADATA}"'
    replies: dict[str, httpx2.Response | Exception] = field(
        default_factory=dict[str, httpx2.Response | Exception]
    )
    #: The scopes that a call needs.
    needs: set[str] = field(default_factory=set[str])
    #: What the user allows; None for everything.
    allows: set[str] | None = None
    expires_in: int | None = 3600
    rotates: bool = True
    requests: list[httpx2.Request] = field(default_factory=list[httpx2.Request])
    #: Access tokens that are valid, with their scopes.
    valid: dict[str, str] = field(default_factory=dict[str, str])
    refresh_tokens: dict[str, str] = field(default_factory=dict[str, str])
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    opened: list[str] = field(default_factory=list[str])
    pages: list[str] = field(default_factory=list[str])
    said: list[str] = field(default_factory=list[str])
    redirect: Redirect | None = None
    sends_issuer: bool = False
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def http(self) -> httpx2.AsyncClient:
        """Open the client that reaches both."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))

    def network(self) -> Network:
        return Network(SERVER, self.http)

    def browser(self) -> Browser:
        """Return a browser whose user agrees."""
        return Browser(self.said.append, launch=self.visit)

    def forms(self, path: str) -> list[dict[str, str]]:
        """Return the forms that were sent to a path of the authorization server."""
        return [_form(one) for one in self.requests if one.url.path == path]

    def asked(self) -> list[str]:
        """Return the URLs that were fetched."""
        return [str(one.url) for one in self.requests if one.method == "GET"]

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request."""
        # A copy: the client sends the same object once again, with another token.
        self.requests.append(
            httpx2.Request(request.method, request.url, headers=request.headers, content=request.content)
        )
        reply = self.replies.get(str(request.url))
        if isinstance(reply, Exception):
            raise reply
        if reply is not None:
            return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)
        url = str(request.url)
        if url == SERVER:
            return self._call(request)
        if url == RESOURCE_METADATA and self.resource is not None:
            return _json(self.resource)
        if url == SERVER_METADATA:
            return _json(self.metadata)
        if url.startswith(f"{ISSUER}/") and request.method == "POST":
            return {"/token": self._token, "/register": self._register, "/revoke": self._revoke}[
                request.url.path
            ](request)
        return httpx2.Response(404)

    def visit(self, url: str) -> bool:
        """Open the authorization page; its user agrees, and the browser follows the redirect."""
        self.opened.append(url)
        asked = {name: texts[0] for name, texts in parse_qs(urlsplit(url).query).items()}
        code = f"code-{len(self.opened)}-Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9Xy9"
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"]}
        if self.sends_issuer:
            back["iss"] = ISSUER
        if self.redirect is not None:
            back = self.redirect(back)
        thread = threading.Thread(target=self._follow, args=(asked["redirect_uri"], back), daemon=True)
        thread.start()
        self._threads.append(thread)
        return True

    def leave(self) -> str:
        """Wait until the browser has its last page; return it."""
        for thread in self._threads:
            thread.join(10)
        return self.pages[-1]

    def _follow(self, redirect_uri: str, back: dict[str, str]) -> None:
        self.pages.append(httpx2.get(f"{redirect_uri}?{urlencode(back)}", timeout=10).text)

    def _call(self, request: httpx2.Request) -> httpx2.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            return httpx2.Response(401, headers={"WWW-Authenticate": self.challenge})
        if not self.needs <= set(self.valid[token].split()):
            wanted = f'Bearer error="insufficient_scope", scope="{" ".join(sorted(self.needs))}"'
            return httpx2.Response(403, headers={"WWW-Authenticate": wanted})
        return _json({"jsonrpc": "2.0", "id": 1, "result": {}})

    def _token(self, request: httpx2.Request) -> httpx2.Response:
        form = _form(request)
        if form["grant_type"] == "refresh_token":
            scope = self.refresh_tokens.get(form["refresh_token"])
            if scope is None:
                return _json({"error": "invalid_grant"}, status=400)
            if self.rotates:
                del self.refresh_tokens[form["refresh_token"]]
            return self._issue(scope)
        asked = self.codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        if asked is None or challenge.rstrip("=") != asked["code_challenge"]:
            return _json({"error": "invalid_grant"}, status=400)
        for name in ("redirect_uri", "resource"):
            assert form[name] == asked[name]
        scopes = asked.get("scope", "").split()
        return self._issue(" ".join(one for one in scopes if self.allows is None or one in self.allows))

    def _issue(self, scope: str) -> httpx2.Response:
        number = len(self.valid) + 1
        access, refresh = f"access-{number}", f"refresh-{number}"
        self.valid[access] = scope
        fields: dict[str, Any] = {"access_token": access, "token_type": "bearer", "scope": scope}
        if self.expires_in is not None:
            fields["expires_in"] = self.expires_in
        if self.rotates or not self.refresh_tokens:
            self.refresh_tokens[refresh] = scope
            fields["refresh_token"] = refresh
        return _json(fields)

    def _register(self, request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content)
        number = len(self.forms("/register"))
        return _json({**asked, "client_id": f"client-{number}"}, status=201)

    def _revoke(self, request: httpx2.Request) -> httpx2.Response:
        token = _form(request)["token"]
        self.valid.pop(token, None)
        self.refresh_tokens.pop(token, None)
        return httpx2.Response(200)


def target(**changes: Any) -> Target:  # noqa: ANN401 - the fields of the class
    """Return the configuration of the server."""
    return replace(Target("example", SERVER), **changes)


def _json(value: object, *, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, json=value)


def _form(request: httpx2.Request) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(request.content.decode()).items()}
