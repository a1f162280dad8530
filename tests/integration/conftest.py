import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from nextcloud_mcp_server import app, settings
from nextcloud_mcp_server.core import Outside
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.serve import serving


class Clock:
    """Goes with the real clock, and can be put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Asked:
    """An elicitation callback that remembers what it was asked, and sends the person there."""

    def __init__(self, group: anyio.abc.TaskGroup, go: Callable[[str], Any] | None, *, action: str = "accept") -> None:
        self._group = group
        self._go = go
        self._action = action
        self.urls: list[str] = []

    async def __call__(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        url = str(getattr(params, "url", ""))
        self.urls.append(url)
        if self._go is not None:
            self._group.start_soon(self._go, url)
        return ElicitResult(action=self._action)  # type: ignore[arg-type]


@dataclass
class World:
    """A sandbox Nextcloud, our server beside it, and people with browsers."""

    sandbox: Sandbox
    nextcloud_url: str
    data_dir: Path
    group: anyio.abc.TaskGroup
    clock: Clock
    url: str = ""
    secret: str = "a-secret-of-the-tests-0123456789"
    parts: app.Parts | None = None
    _stop: Callable[[], Any] | None = None
    _port: int = 0
    overrides: dict[str, Any] = field(default_factory=dict[str, Any])

    async def start(self, **overrides: Any) -> None:
        """Start our server, on the same port and data as before, if there was one."""
        self.overrides |= overrides
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        given = {
            "nextcloud_host": self.nextcloud_url,
            "data_dir": self.data_dir,
            "transport": "http",
            "nextcloud_mcp_secret": self.secret,
            "hold_seconds": 20,
        }
        config = settings.load(**(given | self.overrides))
        site = app.Site.of(config, "127.0.0.1", self._port)
        asgi, self.parts = app.build_http_app(config, site, outside=Outside(clock=self.clock))
        server = uvicorn.Server(
            uvicorn.Config(asgi, log_config=None, timeout_graceful_shutdown=1, timeout_keep_alive=1)
        )
        finished = anyio.Event()

        async def serve() -> None:
            await server.serve(sockets=[listener])
            finished.set()

        async def stop() -> None:
            server.should_exit = True
            with anyio.fail_after(10):
                await finished.wait()

        self._stop = stop
        self.group.start_soon(serve)
        with anyio.fail_after(10):
            while not server.started:
                await anyio.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Stop our server; its database stays."""
        if self._stop is not None:
            await self._stop()

    @asynccontextmanager
    async def person(self, name: str = "alice") -> AsyncGenerator[Person]:
        """Give somebody a fresh browser."""
        async with httpx2.AsyncClient(timeout=20) as browser:
            yield Person(name, name, browser=browser)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:
        """Connect the SDK's client with our secret."""
        headers = {"Authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                yield client


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    sandbox = Sandbox.demo()
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        made = World(sandbox, nextcloud_url, tmp_path / "data", group, Clock())
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
            group.cancel_scope.cancel()


@pytest.fixture
def asked(world: World) -> Callable[..., Asked]:
    """Make an elicitation callback that sends somebody to the page."""
    return lambda go, action="accept": Asked(world.group, go, action=action)
