"""A sandbox Nextcloud and this server in processes of its own, as chat clients start it."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from nextcloud_mcp_server.protocol.wire import EXTENSION_ID
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.settings.names import known_variables
from tests.integration.personal_app import People, link_in

LIST = "nc_notes_list_notes"
URL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
DRAFT: dict[str, Any] = {"extensions": {EXTENSION_ID: {}}}

ROOT = Path(__file__).parents[2]
LONGEST_LINE = 1_000_000
CLIENT_INFO = {"name": "lines", "version": "1"}


class Lines:
    """A client over stdio: one JSON-RPC message per line, of 2025-11-25 or 2026-07-28."""

    def __init__(self, process: Process, *, modern: dict[str, Any] | None = None) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._modern = modern
        self._answers: dict[int, dict[str, Any]] = {}
        self._next = 0
        self.notices: list[dict[str, Any]] = []

    async def open(self, capabilities: dict[str, Any], *, version: str = "2025-11-25") -> dict[str, Any]:
        """Perform the handshake and return the initialize result."""
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
        answer = await self.request("initialize", params)
        await self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    async def send(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting for its response."""
        self._next += 1
        if self._modern is not None:
            meta = {
                PROTOCOL_VERSION_META_KEY: "2026-07-28",
                CLIENT_INFO_META_KEY: CLIENT_INFO,
                CLIENT_CAPABILITIES_META_KEY: self._modern,
            }
            params = {**params, "_meta": {**params.get("_meta", {}), **meta}}
        await self.write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    async def answer(self, id_: int) -> dict[str, Any]:
        """Wait for the response to a request; fail for anything that is not MCP."""
        with anyio.fail_after(120):
            while id_ not in self._answers:
                await self.read()
        return self._answers.pop(id_)

    async def read(self) -> None:
        """Read one message: a response, a notification or a request."""
        message = json.loads(await self._lines.receive_until(b"\n", LONGEST_LINE))
        assert message["jsonrpc"] == "2.0"
        if await self.take(message):
            return
        if "id" in message:
            self._answers[message["id"]] = message
        else:
            self.notices.append(message)

    async def take(self, message: dict[str, Any]) -> bool:
        """Handle a message in another way; return whether it was handled."""
        del message
        return False

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its response."""
        return await self.answer(await self.send(method, params))

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}})

    async def kill(self) -> None:
        """Kill the server, as a crash or a power failure does."""
        self.process.kill()
        await self.process.wait()

    async def leave(self) -> tuple[int, bytes]:
        """Close the server's input; return its exit code and the rest of its output."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        rest = b""
        with anyio.fail_after(60):
            try:
                while True:
                    rest += await self._lines.receive()
            except anyio.EndOfStream:
                return await self.process.wait(), rest

    async def write(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")


@dataclass
class StdioApp(People):
    """A user's computer, on which the server may be started several times."""

    settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a server process: its settings, and nothing of the tester's."""
        known = known_variables()
        mine = {name: value for name, value in os.environ.items() if name not in known}
        ours = {
            "DATA_DIR": str(self.data_dir),
            "NEXTCLOUD_HOST": self.nextcloud_url,
            "PYTHONPATH": str(ROOT),
            # A held call must outlast the consent on a slow machine; it ends at once with the consent.
            "HOLD_SECONDS": "100",
            # Elsewhere it depends on the machine; tests/integration/test_loopback_pages.py has the other one.
            "CONSENT_PAGE": "nextcloud",
        }
        return mine | ours | self.settings

    @property
    def log(self) -> Path:
        """The file with the stderr of the processes."""
        return self.data_dir.with_suffix(".log")

    @property
    def polls(self) -> list[int]:
        """The statuses with which Nextcloud answered the polls of login flows."""
        seen = self.sandbox.requests.records
        return [one.status for one in seen if one.path.endswith("/login/v2/poll")]

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of this program."""
        return [sys.executable, "-m", "nextcloud_mcp_server", *arguments]

    @asynccontextmanager
    async def process(self, *arguments: str) -> AsyncGenerator[Process]:
        """Start a command; it is killed at the end if it still runs."""
        with self.log.open("ab") as log:
            started = await anyio.open_process(
                self.command(*arguments), stderr=log, env=self.environment, cwd=ROOT
            )
        async with started:
            try:
                yield started
            finally:
                if started.returncode is None:
                    started.kill()

    @asynccontextmanager
    async def lines(
        self,
        capabilities: dict[str, Any] | None = None,
        *,
        modern: bool = False,
        version: str = "2025-11-25",
    ) -> AsyncGenerator[Lines]:
        """Start a server over stdio and connect a client that writes JSON-RPC itself."""
        async with self.process("serve", "--transport", "stdio") as process:
            client = Lines(process, modern=(capabilities or {}) if modern else None)
            if not modern:
                await client.open(capabilities or {}, version=version)
            yield client

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:  # noqa: ANN401 - the SDK's options
        """Start a server over stdio with the SDK's client, as chat clients do."""
        command, *arguments = self.command("serve", "--transport", "stdio")
        server = StdioServerParameters(command=command, args=arguments, env=self.environment, cwd=ROOT)
        async with Client(server, **options) as client:
            yield client


@asynccontextmanager
async def open_stdio_app(folder: Path) -> AsyncGenerator[StdioApp]:
    """Serve a sandbox; each test starts this server itself."""
    sandbox = Sandbox.demo()
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        yield StdioApp(sandbox, nextcloud_url, folder, group)
        group.cancel_scope.cancel()


def link(answer: dict[str, Any]) -> str:
    """Return the link in a response of any form."""
    if "error" in answer:
        return answer["error"]["data"]["elicitations"][0]["url"]
    if answer["result"].get("resultType") == "input_required":
        return answer["result"]["inputRequests"]["provision"]["params"]["url"]
    return link_in(answer["result"]["content"][0]["text"])


def shows_notes(answer: dict[str, Any]) -> bool:
    return "Shopping list" in str(answer.get("result", {}).get("structuredContent"))


async def call_until_connected(client: Lines) -> dict[str, Any]:
    """Repeat a call until it succeeds.

    Clients that get text are held for 4 s, and a killed process's lease is 15 s.
    """
    with anyio.fail_after(120):
        while not shows_notes(answer := await client.call(LIST)):  # noqa: ASYNC110 - another process gives no event
            # Clients that get an error are not held.
            await anyio.sleep(0.5)
    return answer
