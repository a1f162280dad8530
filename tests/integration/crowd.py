"""A sandbox Nextcloud, an identity provider and our server for many people, for the integration tests."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from nextcloud_mcp_server import app, settings
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.core import Outside
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.storage.crypto import new_key
from tests.integration.world import Clock, People, served

EVERYTHING = " ".join(SCOPES)


@dataclass
class Crowd(People):
    """People who each have an account at the identity provider and one at Nextcloud."""

    issuer: Issuer
    clock: Clock
    parts: app.Parts | None = None
    url: str = ""
    config: settings.Settings | None = None
    overrides: dict[str, object] = field(default_factory=dict[str, object])
    key: str = field(default_factory=new_key)

    def token(self, name: str, *, client_id: str = "assistant", scope: str = EVERYTHING) -> str:
        """Have the identity provider issue an access token for us."""
        return self.issuer.access_token(name, audience=f"{self.url}/mcp", client_id=client_id, scope=scope)

    @asynccontextmanager
    async def started(self, **overrides: object) -> AsyncGenerator[None]:
        """Run our server while the block runs, with a client of its own at both providers."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            callback = f"{self.url}/oauth/callback"
            self.issuer.add_client("us", redirect_uris=[f"{callback}/sign-in"], secret="issuer-secret")
            known = self.sandbox.state.new_oauth_client("MCP server", f"{callback}/nextcloud")
            given: dict[str, object] = {
                "mode": "oidc",
                "nextcloud_host": self.nextcloud_url,
                "nextcloud_mcp_server_url": self.url,
                "oidc_issuer": self.issuer.url,
                "oidc_client_id": "us",
                "oidc_client_secret": "issuer-secret",
                "nextcloud_oauth_client_id": known.client_id,
                "nextcloud_oauth_client_secret": known.client_secret,
                "token_encryption_keys": self.key,
                "data_dir": self.data_dir,
                "hold_seconds": 20,
            }
            self.config = settings.load(**(given | self.overrides | overrides))
            async with self._served(self.config, listener):
                yield

    @asynccontextmanager
    async def replica(self) -> AsyncGenerator[int]:
        """Run a second server with the same settings, and name its port."""
        assert self.config
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with self._served(self.config, listener):
                yield listener.getsockname()[1]

    @asynccontextmanager
    async def _served(self, config: settings.Settings, listener: socket.socket) -> AsyncGenerator[None]:
        site = app.Site.of(config, "127.0.0.1", listener.getsockname()[1])
        asgi, self.parts = app.build_http_app(config, site, outside=Outside(clock=self.clock))
        async with served(asgi, listener):
            yield

    @asynccontextmanager
    async def client(self, token: str, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - the SDK's options
        """Connect the SDK's client with a person's token."""
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                yield client

    @asynccontextmanager
    async def raw(
        self, token: str, *, capabilities: dict[str, Any] | None = None
    ) -> AsyncGenerator[HandshakeClient]:
        """Connect a client that speaks JSON-RPC itself."""
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
            client = HandshakeClient(http, f"{self.url}/mcp", capabilities=capabilities or {})
            await client.open()
            yield client


@asynccontextmanager
async def open_crowd(folder: Path, **overrides: object) -> AsyncGenerator[Crowd]:
    """Serve a Nextcloud and an identity provider, and our server beside them."""
    clock = Clock()
    sandbox, issuer = Sandbox.demo(clock=clock), Issuer(scopes=tuple(SCOPES), clock=clock)
    async with (
        serving(sandbox) as nextcloud_url,
        serving(issuer),
        anyio.create_task_group() as group,
    ):
        crowd = Crowd(sandbox, nextcloud_url, folder, group, issuer, clock, overrides=overrides)
        async with crowd.started():
            yield crowd
        group.cancel_scope.cancel()
