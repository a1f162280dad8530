"""Opens the transport of one configured server, and remembers what went wrong below its messages."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.envelope import as_object
from nextcloud_mcp_server.bridge.http_client import FAULT_KEY, HttpClient
from nextcloud_mcp_server.bridge.stdio import StdioTransport
from nextcloud_mcp_server.errors import NextcloudMcpError

#: The most bytes of one message.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024

#: Returns what authorizes the requests to a server; made anew for every connection.
MakeAuth = Callable[[], httpx2.Auth | None]


class Transport:
    """The transport of one server, which can be opened again after it ended."""

    def __init__(
        self,
        server: Server,
        diagnostic: Callable[[str], None],
        auth: MakeAuth = lambda: None,
        *,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._server = server
        self._diagnostic = diagnostic
        self._auth = auth
        self._max_bytes = max_bytes
        self._http: HttpClient | None = None
        self._process: StdioTransport | None = None
        self._fault: NextcloudMcpError | None = None

    @property
    def session_lost(self) -> bool:
        """Whether the server has forgotten the session, and so has not begun a call."""
        return self._http is not None and self._http.session_lost

    @property
    def fault(self) -> str:
        """Why the transport ended, as a sentence; empty if it does not know."""
        fault = self._fault or (self._process.fault if self._process is not None else None)
        return "" if fault is None else str(fault)

    def fault_of(self, error: MCPError) -> str:
        """Return what failed, for an error that stands in for an answer which never came; else nothing."""
        token = as_object(error.error.data).get(FAULT_KEY)
        if not isinstance(token, str) or self._http is None:
            return ""
        fault = self._http.faults.pop(token, None)
        return "" if fault is None else str(fault)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Yield the streams of a new connection; nothing of it is left when the block is left."""
        server, limit = self._server, self._max_bytes
        self._fault = self._http = self._process = None
        async with AsyncExitStack() as stack:
            if server.transport == "stdio":
                self._process = StdioTransport(server, diagnostic=self._diagnostic, max_bytes=limit)
                yield await stack.enter_async_context(self._process.open())
            elif server.transport == "http":
                self._http = HttpClient(server, max_bytes=limit, auth=self._auth())
                await stack.enter_async_context(self._http)
                yield await stack.enter_async_context(
                    streamable_http_client(server.url, http_client=self._http, max_sse_event_size=limit)
                )
            else:
                yield await stack.enter_async_context(
                    sse_client(server.url, timeout=server.timeout_seconds, httpx_client_factory=self._for_sse)
                )

    def _for_sse(self, *_: Any, **__: Any) -> HttpClient:  # noqa: ANN401 - the factory that the SDK calls
        self._http = HttpClient(
            self._server, max_bytes=self._max_bytes, auth=self._auth(), on_fault=self._remember
        )
        return self._http

    def _remember(self, fault: NextcloudMcpError) -> None:
        self._fault = fault
