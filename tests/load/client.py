"""A client that writes raw JSON-RPC, so that no client SDK affects the measurements."""

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol

import anyio
import httpx2
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

PROTOCOL_VERSION = "2025-11-25"
_CLIENT = {
    "protocolVersion": PROTOCOL_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_LONGEST_LINE = 64 * 1024 * 1024

Result = dict[str, Any]


class CallFailed(Exception):
    """A server answered with an error in place of a result."""


class Channel(Protocol):
    """A way to send a message and receive its response."""

    async def send(self, message: Mapping[str, Any]) -> Result | None:
        """Send a message; return None for a notification."""
        ...


class Client:
    """One MCP session over a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last_id = 0

    async def request(self, method: str, params: Mapping[str, Any]) -> Result:
        """Send one request and return its result.

        Raises:
          CallFailed: The response was an error, or a tool's result was one.
        """
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer = await self._channel.send(message)
        if answer is None or "error" in answer or answer["result"].get("isError"):
            raise CallFailed(f"{method} {json.dumps(params)[:120]}: {json.dumps(answer)[:400]}")
        return answer["result"]

    async def handshake(self) -> None:
        """Initialize the connection, as a client of 2025-11-25 does."""
        await self.request("initialize", _CLIENT)
        await self._channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[Result, float]:
        """Call a tool; returns the result and the seconds it took."""
        began = time.perf_counter()
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        return result, time.perf_counter() - began


class StdioChannel:
    """Messages over the pipes of a process."""

    def __init__(self, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise CallFailed("the process was started without pipes")
        self._input = process.stdin
        self._output: ByteReceiveStream = process.stdout
        self._waiting: dict[int, tuple[anyio.Event, list[Result]]] = {}
        self._sending = anyio.Lock()

    async def read(self) -> None:
        """Deliver the responses as they arrive, until the process closes its output."""
        reader = BufferedByteReceiveStream(self._output)
        try:
            while True:
                line = await reader.receive_until(b"\n", _LONGEST_LINE)
                message: Result = json.loads(line)
                if (waiter := self._waiting.pop(message.get("id", 0), None)) is not None:
                    waiter[1].append(message)
                    waiter[0].set()
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            for event, _ in self._waiting.values():
                event.set()

    async def send(self, message: Mapping[str, Any]) -> Result | None:
        """Write one line and wait for the response with its id."""
        event, answers = anyio.Event(), list[Result]()
        if "id" in message:
            self._waiting[message["id"]] = (event, answers)
        async with self._sending:
            await self._input.send(json.dumps(message).encode() + b"\n")
        if "id" not in message:
            return None
        await event.wait()
        if not answers:
            raise CallFailed("the server closed its output")
        return answers[0]


class HttpChannel:
    """Messages over streamable HTTP."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._headers = {"Accept": "application/json, text/event-stream"}

    async def send(self, message: Mapping[str, Any]) -> Result | None:
        """Post one message and return the response in the body."""
        response = await self._http.post(self._url, json=message, headers=self._headers)
        if response.is_error:
            raise CallFailed(f"HTTP {response.status_code}: {response.text[:400]}")
        if "id" not in message:
            return None
        if message["method"] == "initialize":
            self._headers["MCP-Protocol-Version"] = PROTOCOL_VERSION
            if session := response.headers.get("mcp-session-id"):
                self._headers["Mcp-Session-Id"] = session
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            events = (line[5:] for line in response.text.split("\n") if line.startswith("data:"))
            messages: list[Result] = [json.loads(event) for event in events if event.strip()]
            return next(each for each in messages if each.get("id") == message["id"])
        return response.json()


def http_pool(*, auth: tuple[str, str] | None = None, base_url: str = "") -> httpx2.AsyncClient:
    """Open a pool that is large enough for every measurement and never keeps a cookie."""
    return httpx2.AsyncClient(
        auth=auth,
        base_url=base_url,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64),
        timeout=300,
    )


@asynccontextmanager
async def stdio_client(process: Process) -> AsyncGenerator[Client]:
    """Connect to the pipes of a process, which may still be starting."""
    channel = StdioChannel(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.read)
        client = Client(channel)
        await client.handshake()
        yield client
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def http_client(process: Process, url: str) -> AsyncGenerator[Client]:
    """Connect to a server that is still starting; retry until it listens."""
    async with http_pool() as http:
        client = Client(HttpChannel(http, url))
        while True:
            try:
                await client.handshake()
                break
            except httpx2.TransportError as error:
                if process.returncode is not None:
                    raise CallFailed(f"the server ended with code {process.returncode}") from error
                await anyio.sleep(0.01)
        yield client
