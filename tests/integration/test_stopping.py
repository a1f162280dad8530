"""A server over HTTP that is told to stop: real processes, and a Nextcloud that answers when the test lets it."""

import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import pytest
from anyio.abc import Process
from starlette.types import ASGIApp, Receive, Scope, Send

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import serving
from tests.integration.personal_app import until
from tests.integration.stdio_app import CLIENT_INFO, LIST, StdioApp

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send"),
]

#: The program, with more time for its last calls: here they wait for a test, which may be slow.
PROGRAM = """
import runpy
from nextcloud_mcp_server.web import stopping
stopping.LAST_CALLS_SECONDS = 300
runpy.run_module("nextcloud_mcp_server", run_name="__main__", alter_sys=True)
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}


class Computer(StdioApp):
    """Starts the program as above."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *arguments]


@dataclass
class SlowNextcloud:
    """A sandbox that answers requests for notes when `open` is set."""

    sandbox: Sandbox
    open: anyio.Event = field(default_factory=anyio.Event)
    was_asked: anyio.Event = field(default_factory=anyio.Event)

    @property
    def app(self) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if "/apps/notes/" in scope["path"]:
                self.was_asked.set()
                await self.open.wait()
            await self.sandbox.app(scope, receive, send)

        return answer

    def served_at(self, origin: str) -> str:
        return self.sandbox.served_at(origin)


@dataclass
class Served:
    """A server that runs, and a client of 2025-11-25 with its session."""

    process: Process
    http: httpx2.AsyncClient
    address: str
    session: dict[str, str]
    log: Path

    async def call(self, method: str, params: dict[str, Any]) -> str:
        """Send a request; the answer is the text of its stream, or of its refusal."""
        message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
        return (await self.http.post(self.address, json=message, headers=self.session)).text

    async def until_ready_is(self, status: str) -> int:
        """Wait for a status of `/readyz`, where Nextcloud may be late once; return that of HTTP."""
        with anyio.fail_after(60):
            while True:
                answer = await self.http.get(urljoin(self.address, "/readyz"))
                if answer.json()["status"] == status:
                    return answer.status_code
                await anyio.sleep(0.02)

    async def refuses_connections(self) -> bool:
        try:
            async with httpx2.AsyncClient() as http:
                await http.get(urljoin(self.address, "/healthz"))
        except httpx2.ConnectError:
            return True
        return False


@asynccontextmanager
async def served(folder: Path, nextcloud: SlowNextcloud, *, drain: int) -> AsyncGenerator[Served]:
    async with serving(nextcloud) as url, anyio.create_task_group() as group:
        app = Computer(nextcloud.sandbox, url, folder, group)
        app.settings |= {"NEXTCLOUD_USERNAME": "alice", "NEXTCLOUD_APP_PASSWORD": "alice"}
        app.settings["SHUTDOWN_DRAIN_SECONDS"] = str(drain)
        arguments = ("serve", "--transport", "http", "--port", "0", "--no-local-auth")
        headers = {"Accept": "application/json, text/event-stream"}
        async with (
            app.process(*arguments) as process,
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
        ):
            await until(lambda: "listening on" in app.log.read_text("utf-8"))
            (address,) = re.findall(r'listening on ([^\s"]+)', app.log.read_text("utf-8"))
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            began = await http.post(address, json=message)
            session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
            yield Served(process, http, address, session, app.log)
        nextcloud.open.set()


async def test_a_call_that_is_under_way_is_answered_after_the_port_was_closed(tmp_path: Path) -> None:
    nextcloud = SlowNextcloud(Sandbox.demo())
    answers: list[str] = []
    async with served(tmp_path / "data", nextcloud, drain=0) as server:

        async def call() -> None:
            answers.append(await server.call("tools/call", {"name": LIST, "arguments": {}}))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(60):
                await nextcloud.was_asked.wait()
                server.process.send_signal(signal.SIGTERM)
                while not await server.refuses_connections():  # noqa: ASYNC110 - another process
                    await anyio.sleep(0.02)
                # sse-starlette, of which the SDK's streams are made, looks twice a second whether the server stops.
                await anyio.sleep(1)
            nextcloud.open.set()
        with anyio.fail_after(60):
            await server.process.wait()

    assert "Shopping list" in answers[0]
    assert server.process.returncode == -signal.SIGTERM


async def test_a_server_that_drains_says_so_and_serves_until_a_second_signal_ends_it(tmp_path: Path) -> None:
    nextcloud = SlowNextcloud(Sandbox.demo())
    async with served(tmp_path / "data", nextcloud, drain=300) as server:
        before = await server.until_ready_is("ready")
        server.process.send_signal(signal.SIGTERM)
        after = await server.until_ready_is("stopping")
        listed = await server.call("tools/list", {})
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            await server.process.wait()

    assert (before, after) == (200, 503)
    assert LIST in listed
    assert server.process.returncode == -signal.SIGTERM


async def test_two_signals_at_once_leave_no_trace_in_the_log(tmp_path: Path) -> None:
    """As when a user presses Ctrl+C twice."""
    async with served(tmp_path / "data", SlowNextcloud(Sandbox.demo()), drain=0) as server:
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGINT)
        with anyio.fail_after(60):
            await server.process.wait()

    assert "Traceback" not in server.log.read_text("utf-8")
    assert server.process.returncode == 130
