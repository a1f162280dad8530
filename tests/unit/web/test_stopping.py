"""The steps of a stop; `tests/integration/test_stopping.py` has real signals and processes."""

import logging
import signal
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field

import anyio
import httpx2
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nextcloud_mcp_server.web.connections import ConnectionLimits, LimitedConnection, server_config
from nextcloud_mcp_server.web.stopping import StoppingServer, StopState
from tests.integration.personal_app import until


class Server(StoppingServer):
    """A server in the process of a test, which gets its signals by a call."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@dataclass
class App:
    """Answers when `gate` is set; `/stream` is a stream, as those of the MCP endpoint."""

    stop_state: StopState = field(default_factory=StopState)
    gate: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.stop_state.stream() if scope["path"] == "/stream" else nullcontext():
            self.begun.set()
            await self.gate.wait()
            await Response("answered")(scope, receive, send)


@dataclass
class Running:
    server: Server
    url: str
    app: App
    said: list[str]
    ended: anyio.Event = field(default_factory=anyio.Event)
    answers: list[str] = field(default_factory=list[str])

    def signal(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)

    async def ask(self, path: str = "") -> None:
        async with httpx2.AsyncClient() as http:
            try:
                self.answers.append((await http.get(self.url + path, timeout=60)).text)
            except httpx2.HTTPError:
                self.answers.append("broken")


@asynccontextmanager
async def running(*, drain: float = 0, stop_state: float = 300) -> AsyncGenerator[Running]:
    app, said = App(), list[str]()
    listener = socket.create_server(("127.0.0.1", 0))
    config = server_config(app, ConnectionLimits(), lifespan="off")
    config.timeout_graceful_shutdown = 300
    server = Server(
        config,
        app.stop_state,
        listening=lambda: said.append("listening"),
        stopped=lambda: said.append("stopped"),
        drain_seconds=drain,
        last_calls_seconds=stop_state,
    )
    made = Running(server, f"http://127.0.0.1:{listener.getsockname()[1]}/", app, said)

    async def serve() -> None:
        await server.serve(sockets=[listener])
        made.ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        with anyio.fail_after(60):
            await until(lambda: server.started)
            yield made
            app.gate.set()
            made.signal()
            await made.ended.wait()
    # A second signal silences it, for the rest of its process.
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)


async def test_it_serves_while_it_drains_and_logs_that_it_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nextcloud_mcp_server")
    async with running(drain=300) as made:
        made.signal()
        await until(lambda: bool(caplog.messages))
        made.app.gate.set()
        await made.ask()

        assert made.app.stop_state.is_stopping
        assert made.answers == ["answered"]
        assert "/readyz answers 503, the port is closed in 300 s" in caplog.text

    assert made.said == ["listening", "stopped"]


async def test_it_ends_when_the_last_call_has_ended() -> None:
    async with running() as made, anyio.create_task_group() as group:
        group.start_soon(made.ask)
        await made.app.begun.wait()
        made.signal()
        await until(lambda: not made.server.servers[0].is_serving())
        assert made.server.should_exit is False
        made.app.gate.set()
        await made.ended.wait()

    assert made.answers == ["answered"]


async def test_calls_have_so_long_and_a_second_signal_breaks_them_off() -> None:
    async with running(stop_state=0) as made, anyio.create_task_group() as group:
        group.start_soon(made.ask)
        await made.app.begun.wait()
        made.signal()
        await until(lambda: made.server.should_exit)
        made.signal()
        await made.ended.wait()

    assert made.answers == ["broken"]


async def test_it_does_not_wait_for_a_stream() -> None:
    async with running() as made, anyio.create_task_group() as group:
        group.start_soon(made.ask, "stream")
        await made.app.begun.wait()
        made.signal()
        await until(lambda: made.server.should_exit)
        assert made.answers == []
        made.app.gate.set()

    assert made.answers == ["answered"]


async def test_an_idle_connection_is_closed_one_tick_after_the_port() -> None:
    """A request may have arrived on it that was not read yet, and a proxy does not repeat it."""
    async with running() as made:
        made.app.gate.set()
        async with await anyio.connect_tcp("127.0.0.1", int(made.url.strip("/").rpartition(":")[2])):
            await until(lambda: bool(made.server.server_state.connections))
            (connection,) = made.server.server_state.connections
            assert isinstance(connection, LimitedConnection)
            made.signal()
            seen: list[tuple[bool, bool]] = []
            for _ in range(2):
                # Waits for nothing, so no tick of the server itself comes between.
                await made.server.on_tick(1)
                seen.append((made.server.servers[0].is_serving(), connection.transport.is_closing()))

    assert seen == [(False, False), (False, True)]
