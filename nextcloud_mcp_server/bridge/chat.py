"""The chat client that started the bridge, over stdio: its messages, and what it can be asked."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from mcp.client._transport import TransportStreams
from mcp.server.stdio import stdio_server
from mcp.shared.dispatcher import OnNotify, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND

from nextcloud_mcp_server.bridge.envelope import Hello, Message, hello_of


class ChatClient:
    """One chat client, from its first message to the end of its input."""

    def __init__(self, streams: TransportStreams) -> None:
        self._dispatcher = JSONRPCDispatcher(*streams)
        self._hello: Hello | None = None
        #: Set once the chat client takes requests and changes.
        self._ready = anyio.Event()
        #: Changes that it could not take yet; each is one of a whole list, so one of a kind is enough.
        self._held: dict[str, Message | None] = {}

    @property
    def hello(self) -> Hello:
        """How the chat client described itself.

        Raises:
            MCPError: It has not yet.
        """
        if self._hello is None:
            raise MCPError(INVALID_REQUEST, "The first message must be initialize or server/discover.")
        return self._hello

    def greet(self, method: str, params: Mapping[str, object] | None) -> bool:
        """Read how the chat client describes itself; return whether this was its first message.

        Raises:
            MCPError: It speaks no version that the bridge speaks.
        """
        given = hello_of(method, params)
        if self._hello is None and given is None and method != "ping":
            raise MCPError(INVALID_REQUEST, "The first message must be initialize or server/discover.")
        if self._hello is not None or given is None:
            return False
        self._hello = given
        if given.modern:
            # 2026-07-28 has no handshake.
            self._ready.set()
        return True

    async def begin(self) -> None:
        """Take the word of the chat client that the handshake is over, and send it what was held back."""
        self._ready.set()
        while self._held:
            method = next(iter(self._held))
            await self._dispatcher.notify(method, self._held.pop(method))

    async def run(self, group: TaskGroup, on_request: OnRequest, on_notify: OnNotify) -> None:
        """Answer the chat client until it closes its input; then end the group."""
        await self._dispatcher.run(on_request, on_notify)
        group.cancel_scope.cancel()

    async def request(self, method: str, params: Message) -> Message:
        """Send the chat client a request of a remote server, or of the bridge itself.

        Raises:
            MCPError: It answered with an error, or takes no requests.
        """
        if self.hello.modern:
            raise MCPError(METHOD_NOT_FOUND, f"This chat client takes no requests such as {method}.")
        await self._ready.wait()
        return await self._dispatcher.send_raw_request(method, params)

    async def notify(self, method: str, params: Message | None) -> None:
        """Send the chat client a notification; a change waits for the end of the handshake."""
        if method.endswith("/list_changed") and not self._ready.is_set():
            self._held[method] = params
            return
        await self._dispatcher.notify(method, params)


@asynccontextmanager
async def stdio() -> AsyncGenerator[TransportStreams]:
    """Open this program's own input and output; whatever else is printed goes to stderr."""
    async with stdio_server() as (read, write):
        yield read, write


def say(sentence: str) -> None:
    """Print a line for the user where chat clients keep their servers' diagnostics."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201 - stdout belongs to the protocol
