"""A sandbox Nextcloud, this server, users and clients, for the integration tests."""

import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import uvicorn
from anyio.abc import TaskGroup
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.protocol.wire import EXTENSION_ID
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.server.composition import ServerParts
from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.web.connections import KEEP_ALIVE_SECONDS
from nextcloud_mcp_server.web.stopping import StopState

Action = Literal["accept", "decline", "cancel"]
Go = Callable[[str], Awaitable[Any]]


class Clock:
    """Follows the real clock, and can be moved forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def link_in(text: str) -> str:
    """Return the link in a text: it is on a line of its own, followed by text."""
    found = re.search(r"^(https?://\S+)$(?=\n\n\S)", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


async def until(holds: Callable[[], bool], *, seconds: float = 60) -> None:
    """Wait for a condition that another program fulfils without an event."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - see above
            await anyio.sleep(0.01)


class Asked:
    """An elicitation callback that records the questions, and sends the user to the link."""

    def __init__(self, people: "People") -> None:
        self._people = people
        self._action: Action = "accept"
        self._once = False
        self._after = 0.0
        self.go: Go | None = None
        self.urls: list[str] = []

    def by(
        self, go: Go | None, *, action: Action = "accept", once: bool = False, after: float = 0.0
    ) -> "Asked":
        """Set what the user does with a link, after how many seconds; `once` opens each link once."""
        self.go, self._action, self._once, self._after = go, action, once, after
        return self

    async def __call__(self, _: object, params: ElicitRequestParams) -> ElicitResult:
        url = str(getattr(params, "url", ""))
        if self.go is not None and not (self._once and url in self.urls):
            self._people.consent_request(self.go, url)
        self.urls.append(url)
        self._people.pass_seconds(self._after)
        return ElicitResult(action=self._action)


@dataclass
class People:
    """A sandbox Nextcloud, and users with browsers."""

    sandbox: Sandbox
    nextcloud_url: str
    data_dir: Path
    group: TaskGroup
    _open_pages: int = field(default=0, init=False)
    _troubles: list[Exception] = field(default_factory=list[Exception], init=False)

    @asynccontextmanager
    async def person(self, name: str = "alice") -> AsyncGenerator[Person]:
        """Yield a user with a new browser."""
        async with httpx2.AsyncClient(timeout=60) as browser:
            yield Person(name, name, browser=browser)
            await until(lambda: self._open_pages == 0)
        if self._troubles:
            raise self._troubles[0]

    def pass_seconds(self, seconds: float) -> None:
        """Move the server's clock forward, where it is a fake one."""
        assert seconds == 0, "the clock of another process stays as it is"

    def consent_request(self, go: Go, url: str) -> None:
        """Send a user to a page while the test continues."""

        async def going() -> None:
            try:
                await go(url)
            except Exception as error:  # noqa: BLE001 - raised where the test can fail by it, see `person`
                self._troubles.append(error)
            finally:
                self._open_pages -= 1

        self._open_pages += 1
        self.group.start_soon(going)


def uvicorn_server(asgi: ASGIApp) -> uvicorn.Server:
    """Return a server that keeps idle connections like the real one.

    A shorter time could close one during a request.
    """
    config = uvicorn.Config(
        asgi, log_config=None, timeout_graceful_shutdown=1, timeout_keep_alive=KEEP_ALIVE_SECONDS
    )
    return uvicorn.Server(config)


@asynccontextmanager
async def served(asgi: ASGIApp, listener: socket.socket) -> AsyncGenerator[None]:
    """Serve an application on this socket while the block runs."""
    server = uvicorn_server(asgi)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(server.serve, sockets=[listener]))
        await until(lambda: server.started)
        try:
            yield
        finally:
            server.should_exit = True


@dataclass
class PersonalApp(People):
    """Adds this server, over HTTP."""

    clock: Clock
    lifetime: timedelta = LIFETIME
    url: str = ""
    secret: str = "a-secret-of-the-tests-0123456789"
    parts: ServerParts[Any] | None = None
    _stop: Callable[[], Any] | None = None
    _port: int = 0
    overrides: dict[str, object] = field(default_factory=dict[str, object])

    def pass_seconds(self, seconds: float) -> None:
        self.clock.ahead += timedelta(seconds=seconds)

    async def start(self, **overrides: object) -> None:
        """Start this server, with the port and data of the previous one, if any."""
        self.overrides |= overrides
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        given = {
            "nextcloud_host": self.nextcloud_url,
            "data_dir": self.data_dir,
            "transport": "http",
            "nextcloud_mcp_secret": self.secret,
            "hold_seconds": 50,
        }
        config = environment.load(**(given | self.overrides))
        site = PublicUrls.of(config, "127.0.0.1", self._port)
        stop_state = StopState()
        asgi, self.parts = build_http_app(
            config, site, overrides=Overrides(clock=self.clock), stop_state=stop_state
        )
        server = uvicorn_server(asgi)
        finished = anyio.Event()

        async def serve() -> None:
            await server.serve(sockets=[listener])
            finished.set()

        async def stop() -> None:
            stop_state.is_stopping = server.should_exit = True
            with anyio.fail_after(60):
                await finished.wait()

        self._stop = stop
        self.group.start_soon(serve)
        await until(lambda: server.started)
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Stop this server; its database stays."""
        if self._stop is not None:
            await self._stop()

    @asynccontextmanager
    async def raw(
        self, *, draft: bool = False, capabilities: dict[str, Any] | None = None
    ) -> AsyncGenerator[HandshakeClient]:
        """Connect a client that writes JSON-RPC itself."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            draft_ones: dict[str, Any] = {"extensions": {EXTENSION_ID: {}}}
            declared = draft_ones if draft else capabilities or {}
            client = HandshakeClient(http, f"{self.url}/mcp", capabilities=declared)
            await client.open()
            yield client

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - the SDK's options
        """Connect the SDK's client with the server's secret."""
        headers = {"Authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, **options) as client:
                yield client


@asynccontextmanager
async def open_personal_app(folder: Path, sandbox: Sandbox) -> AsyncGenerator[PersonalApp]:
    """Serve the sandbox and start this server; everything ends with the test."""
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        made = PersonalApp(sandbox, nextcloud_url, folder, group, Clock())
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
            group.cancel_scope.cancel()
