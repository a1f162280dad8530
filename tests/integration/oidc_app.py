"""A sandbox Nextcloud, an identity provider and the multi-user server, for the integration tests."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.sandbox.state import OAuthClient
from nextcloud_mcp_server.server.composition import ServerParts
from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.modes.multi_user import MultiUserAuth
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.names import env_name
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.records import Principal, SignedIn
from tests.clients_fixtures import IN_ORDER
from tests.integration.personal_app import Clock, People, served

EVERYTHING = " ".join(IN_ORDER)


@dataclass
class OidcApp(People):
    """Users with an account at the identity provider and one at Nextcloud."""

    issuer: Issuer
    clock: Clock
    listener: socket.socket
    known: OAuthClient
    parts: ServerParts[Any] | None = None
    config: environment.Settings | None = None
    overrides: dict[str, object] = field(default_factory=dict[str, object])
    key: str = field(default_factory=new_key)
    _stop: Callable[[], Awaitable[None]] | None = field(default=None, init=False)

    def token(self, name: str, *, client_id: str = "assistant", scope: str = EVERYTHING) -> str:
        """Let the identity provider issue an access token for this server."""
        return self.issuer.access_token(name, audience=f"{self.url}/mcp", client_id=client_id, scope=scope)

    @property
    def url(self) -> str:
        """The URL of this server, running or not."""
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    async def start(self, **overrides: object) -> None:
        """Run this server until it is stopped, with the data and the port of the previous one."""
        self.overrides |= overrides
        config = self.config = environment.load(**(self._settings() | self.overrides))
        stopping, stopped = anyio.Event(), anyio.Event()

        async def serve(*, task_status: TaskStatus[None]) -> None:
            # A duplicate: the port stays open while no server runs, and a client that connects then waits for the
            # next one.
            async with self._served(config, self.listener.dup()):
                task_status.started()
                await stopping.wait()
            stopped.set()

        async def stop() -> None:
            stopping.set()
            with anyio.fail_after(60):
                await stopped.wait()

        await self.group.start(serve)
        self._stop = stop

    async def stop(self) -> None:
        """Stop this server; its database stays."""
        if self._stop is not None:
            await self._stop()

    async def restart(self, **overrides: object) -> None:
        """Restart this server with these settings changed."""
        await self.stop()
        await self.start(**overrides)

    def variables(self) -> dict[str, str]:
        """Return the environment of this server, for a command in a process of its own."""
        return {env_name(name): str(value) for name, value in (self._settings() | self.overrides).items()}

    def _settings(self) -> dict[str, object]:
        return {
            "mode": "oidc",
            "nextcloud_host": self.nextcloud_url,
            "nextcloud_mcp_server_url": self.url,
            "oidc_issuer": self.issuer.url,
            "oidc_client_id": "us",
            "oidc_client_secret": "issuer-secret",
            "nextcloud_oauth_client_id": self.known.client_id,
            "nextcloud_oauth_client_secret": self.known.client_secret,
            "token_encryption_keys": self.key,
            "data_dir": self.data_dir,
            "hold_seconds": 50,
        }

    def replacements(self) -> Overrides:
        """Return the server's overrides for tests: its clock."""
        return Overrides(clock=self.clock)

    @asynccontextmanager
    async def replica(self) -> AsyncGenerator[int]:
        """Run a second server with the same settings, and yield its port."""
        assert self.config
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with self._served(self.config, listener):
                yield listener.getsockname()[1]

    @asynccontextmanager
    async def _served(self, config: environment.Settings, listener: socket.socket) -> AsyncGenerator[None]:
        site = PublicUrls.of(config, "127.0.0.1", listener.getsockname()[1])
        asgi, self.parts = build_http_app(config, site, overrides=self.replacements())
        async with served(asgi, listener):
            yield

    @asynccontextmanager
    async def client(self, token: str, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - the SDK's options
        """Connect the SDK's client with a user's token."""
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            self.client_over(http, **options) as client,
        ):
            yield client

    @asynccontextmanager
    async def client_over(self, http: httpx2.AsyncClient, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - the SDK's options
        """Connect the SDK's client with an HTTP client that fetches its own tokens."""
        transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client

    @asynccontextmanager
    async def raw(
        self, token: str, *, capabilities: dict[str, Any] | None = None
    ) -> AsyncGenerator[HandshakeClient]:
        """Connect a client that writes JSON-RPC itself."""
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
            client = HandshakeClient(http, f"{self.url}/mcp", capabilities=capabilities or {})
            await client.open()
            yield client


@asynccontextmanager
async def open_oidc_app(folder: Path, **overrides: object) -> AsyncGenerator[OidcApp]:
    """Serve a Nextcloud, an identity provider and this server."""
    clock, version = Clock(), cast("ProfileName", overrides.get("sandbox_version", USUAL))
    sandbox, issuer = Sandbox.demo(clock=clock, version=version), Issuer(scopes=IN_ORDER, clock=clock)
    async with (
        serving(sandbox) as nextcloud_url,
        serving(issuer),
        anyio.create_task_group() as group,
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            callback = f"http://127.0.0.1:{listener.getsockname()[1]}/oauth/callback"
            issuer.add_client("us", redirect_uris=[f"{callback}/sign-in"], secret="issuer-secret")
            known = sandbox.state.new_oauth_client("MCP server", f"{callback}/nextcloud")
            oidc_app = OidcApp(
                sandbox, nextcloud_url, folder, group, issuer, clock, listener, known, overrides=overrides
            )
            await oidc_app.start()
            try:
                yield oidc_app
            finally:
                await oidc_app.stop()
        group.cancel_scope.cancel()


async def disconnect(oidc_app: OidcApp, name: str) -> bool:
    """End all access of a user, like the account page; return whether Nextcloud has confirmed it."""
    assert oidc_app.parts is not None
    auth: MultiUserAuth = await oidc_app.parts.services.auth()
    person = Principal(oidc_app.issuer.url, oidc_app.issuer.state.accounts[name].subject)
    now = oidc_app.clock()
    return await auth.consent_service.disconnect(SignedIn(person, name, None, now, now))
