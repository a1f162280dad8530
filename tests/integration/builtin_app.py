"""A sandbox Nextcloud and this server in mode `builtin`, for the integration tests."""

import json
import secrets
import socket
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.server.services import Overrides
from tests.integration.oidc_app import OidcApp
from tests.integration.personal_app import Clock
from tests.tokens_fixtures import VERIFIER, challenge_of

CALLBACK = "http://127.0.0.1:9/callback"
READ = ("notes:read",)


@dataclass
class BuiltinApp(OidcApp):
    """Users with only an account at Nextcloud; `documents` are metadata documents of clients."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def _settings(self) -> dict[str, object]:
        return {
            "mode": "builtin",
            "nextcloud_host": self.nextcloud_url,
            "nextcloud_mcp_server_url": self.url,
            "nextcloud_oauth_client_id": self.known.client_id,
            "nextcloud_oauth_client_secret": self.known.client_secret,
            "token_encryption_keys": self.key,
            "data_dir": self.data_dir,
            "hold_seconds": 50,
        }

    def replacements(self) -> Overrides:
        """Return the clock, and a network in which only these documents exist."""
        return Overrides(clock=self.clock, documents=httpx2.MockTransport(self._document), resolve=_resolve)

    async def _document(self, request: httpx2.Request) -> httpx2.Response:
        url = f"https://{request.headers['Host']}{request.url.raw_path.decode()}"
        if url not in self.documents:
            return httpx2.Response(404)
        headers = {"Content-Type": "application/json"}
        return httpx2.Response(200, content=json.dumps(self.documents[url]), headers=headers)

    async def register(self, http: httpx2.AsyncClient, **fields: object) -> dict[str, Any]:
        """Register a client, public by default."""
        described = {
            "client_name": "Claude",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            **fields,
        }
        answer = await http.post(f"{self.url}/register", json=described)
        assert answer.status_code == 201, answer.text
        registered: dict[str, Any] = answer.json()
        return registered

    def authorize_url(self, client_id: str | None, **fields: str | None) -> str:
        """Return the URL that a client opens; None leaves a parameter out."""
        return authorize_url(self.url, client_id, **fields)

    async def exchange_code(
        self, http: httpx2.AsyncClient, client_id: str, code: str, /, **fields: str
    ) -> httpx2.Response:
        """Exchange a code like a public client."""
        form = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            **fields,
        }
        return await http.post(f"{self.url}/token", data=form)

    async def sign_in(
        self, person: Person, http: httpx2.AsyncClient, *, only: Collection[str] = READ, **fields: object
    ) -> dict[str, Any]:
        """Register a client, sign its user in, and return its tokens."""
        client_id = str((await self.register(http, **fields))["client_id"])
        back = await person.sign_in(self.authorize_url(client_id), until=CALLBACK, only=only)
        answer = await self.exchange_code(http, client_id, code_in(back))
        assert answer.status_code == 200, answer.text
        return {**answer.json(), "client_id": client_id}

    def connected(self) -> list[str]:
        """List the users with access at Nextcloud, each grant once."""
        known = {(one.uid, one.grant_id) for one in self.sandbox.state.app_passwords.values()}
        return sorted(uid for uid, _ in known)


def authorize_url(server: str, client_id: str | None, **fields: str | None) -> str:
    """Return the URL that a client opens; None leaves a parameter out."""
    asked: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "state": secrets.token_urlsafe(8),
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        "resource": f"{server}/mcp",
        **fields,
    }
    query = urlencode({name: text for name, text in asked.items() if text is not None})
    return f"{server}/authorize?{query}"


def query_of(url: str) -> dict[str, list[str]]:
    """Return the parameters of a URL."""
    return parse_qs(urlsplit(url).query, keep_blank_values=True)


def code_in(url: str) -> str:
    """Return the code in the redirect to a client."""
    return query_of(url)["code"][0]


async def _resolve(host: str) -> Sequence[str]:
    del host
    return ["93.184.216.34"]


@asynccontextmanager
async def open_builtin_app(folder: Path, **overrides: object) -> AsyncGenerator[BuiltinApp]:
    """Serve a Nextcloud and this server."""
    clock, version = Clock(), cast("ProfileName", overrides.get("sandbox_version", USUAL))
    sandbox = Sandbox.demo(clock=clock, version=version)
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            known = sandbox.state.new_oauth_client("MCP server", f"{url}/oauth/callback/nextcloud")
            builtin_app = BuiltinApp(
                sandbox, nextcloud_url, folder, group, Issuer(), clock, listener, known, overrides=overrides
            )
            await builtin_app.start()
            try:
                yield builtin_app
            finally:
                await builtin_app.stop()
        group.cancel_scope.cancel()
