"""A remote server at the far end of a network in memory: it answers what a test tells it to, and can be cut off."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.transport_context import TransportContext

from nextcloud_mcp_server.bridge.envelope import Hello, Message, as_object
from nextcloud_mcp_server.bridge.remote import Peer, Remote

#: Answers one request, or raises an MCPError.
Answer = Callable[["FarServer", str, Message], Awaitable[Message]]

HANDSHAKE = Hello("2025-11-25", {}, {"name": "chat"})
MODERN = Hello("2026-07-28", {}, {"name": "chat"})
NO_METHOD = -32601


class FarServer:
    """A server of one era; `requests` holds what came, and each connection is counted.

    With `greets` the answer is also that to a handshake or discovery of the other era.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        modern: bool = False,
        capabilities: Message | None = None,
        greets: bool = False,
    ) -> None:
        self.requests: list[tuple[str, Message]] = []
        self.notices: list[str] = []
        self.connections = 0
        self.session_lost = False
        self.fault = ""
        #: Why a connection cannot be opened.
        self.refusal: Exception | None = None
        self._answer = answer
        self._modern = modern
        self._capabilities = capabilities or {}
        self._greets = greets
        self._dispatcher: JSONRPCDispatcher | None = None
        self._cut = anyio.Event()

    def fault_of(self, error: MCPError) -> str:
        """Return what failed below an answer; here the tests write it into the error's data."""
        return str(as_object(error.error.data).get("fault", ""))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Connect a client."""
        self.connections += 1
        if self.refusal is not None:
            raise self.refusal
        self.session_lost = False
        self._cut = anyio.Event()
        async with create_client_server_memory_streams() as (near, far), anyio.create_task_group() as group:
            self._dispatcher = JSONRPCDispatcher(*far)
            await group.start(self._dispatcher.run, self._on_request, self._on_notice)
            group.start_soon(self._end_when_cut, far, self._cut)
            yield near
            group.cancel_scope.cancel()

    async def cut(self) -> None:
        """End the connection, as a server that dies does."""
        self._cut.set()

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        assert self._dispatcher is not None
        await self._dispatcher.notify(method, params)

    async def ask(self, method: str, params: Message) -> Message:
        """Send a request."""
        assert self._dispatcher is not None
        return await self._dispatcher.send_raw_request(method, params)

    def asked(self, method: str) -> list[Message]:
        """Return the parameters of all requests of a method."""
        return [params for name, params in self.requests if name == method]

    async def _end_when_cut(self, streams: TransportStreams, cut: anyio.Event) -> None:
        await cut.wait()
        for stream in streams:
            await stream.aclose()

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Message:
        del context
        given = dict(params or {})
        self.requests.append((method, given))
        described = {"capabilities": self._capabilities}
        if method == "initialize" and not self._modern:
            return {"protocolVersion": given["protocolVersion"], "serverInfo": {"name": "far"}, **described}
        if method == "server/discover" and self._modern:
            return {"supportedVersions": ["2026-07-28"], **described}
        if method in ("initialize", "server/discover") and not self._greets:
            raise MCPError(NO_METHOD, "Method not found")
        return await self._answer(self, method, given)

    async def _on_notice(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        del context, params
        self.notices.append(method)


async def echo(server: FarServer, method: str, params: Message) -> Message:
    """Answer with what came."""
    del server
    return {"method": method, "params": {key: value for key, value in params.items() if key != "_meta"}}


class Ears:
    """What hears of a remote server in the bridge's place."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.notices: list[tuple[str, Message | None]] = []
        self.asked: list[tuple[str, Message]] = []
        self.connected = 0
        self.more = anyio.Event()

    def peer(self, hello: Hello, *, acts: bool) -> Peer:
        """Return what the remote server is told about."""
        return Peer(
            hello=hello,
            acts=acts,
            on_request=self._on_request,
            on_notification=self._on_notification,
            on_connected=self._on_connected,
            say=self.said.append,
        )

    async def _on_request(self, remote: Remote, method: str, params: Message) -> Message:
        del remote
        self.asked.append((method, params))
        return {"answer": method}

    async def _on_notification(self, remote: Remote, method: str, params: Message | None) -> None:
        del remote
        self.notices.append((method, params))
        self.more.set()
        self.more = anyio.Event()

    async def _on_connected(self, remote: Remote) -> None:
        del remote
        self.connected += 1


@asynccontextmanager
async def remote_to(
    server: FarServer,
    hello: Hello = HANDSHAKE,
    *,
    acts: bool = True,
    hidden: frozenset[str] = frozenset(),
    ears: Ears | None = None,
    start_seconds: float = 60.0,
) -> AsyncGenerator[Remote]:
    """Put a server behind the bridge."""
    peer = (ears or Ears()).peer(hello, acts=acts)
    remote = Remote("far", server, peer, hidden=hidden, start_seconds=start_seconds)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(remote.run)
            yield remote
            group.cancel_scope.cancel()
