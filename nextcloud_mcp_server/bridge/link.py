"""One transport with the SDK's client on it, until either ends."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client import ClientExtension, IncomingMessage, Transport
from mcp.client.session import ElicitationFnT, SamplingFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.http_client import HttpClient
from nextcloud_mcp_server.bridge.schema_check import SchemaCheck
from nextcloud_mcp_server.bridge.stdio import StdioTransport
from nextcloud_mcp_server.errors import NextcloudMcpError

logger = logging.getLogger(__name__)

#: Newest first; a server that has none of them is refused.
SPOKEN_VERSIONS: Final = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
_CLIENT_INFO: Final = types.Implementation(name="nextcloud-mcp-server-client", version="0.1.0")


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the server may ask or tell. What has no handler is not declared as a capability."""

    elicitation: ElicitationFnT | None = None
    sampling: SamplingFnT | None = None
    sampling_capabilities: types.SamplingCapability | None = None
    notification: Callable[[types.ServerNotification], Awaitable[None]] | None = None
    #: A line that a server over stdio printed to stderr; secrets and control characters are hidden.
    diagnostic: Callable[[str], None] | None = None
    extensions: Sequence[ClientExtension] = ()
    client_info: types.Implementation | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """How requests over HTTP are sent, and how large an answer may be; tests pass a transport of their own."""

    max_bytes: int
    auth: httpx2.Auth | None = None
    transport: httpx2.AsyncBaseTransport | None = None


class Link:
    """The state of one transport; `ended` is set once nothing of it is left."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.scope = anyio.CancelScope()
        self.close = anyio.Event()
        self.ended = anyio.Event()
        self._fault: NextcloudMcpError | None = None
        self.client: Client
        self.http: HttpClient | None = None
        self.process: StdioTransport | None = None

    @property
    def fault(self) -> NextcloudMcpError | None:
        """Why it ended, if that is known."""
        return self._fault or (self.process.fault if self.process is not None else None)

    @property
    def session_lost(self) -> bool:
        """Whether the server has forgotten the session."""
        return self.http is not None and self.http.session_lost

    @property
    def is_over(self) -> bool:
        """Whether no message can come or go any more."""
        over = self.close.is_set() or self.ended.is_set() or self.scope.cancel_called
        return over or (self.process is not None and self.process.over)

    def fault_of(self, token: str) -> NextcloudMcpError | None:
        """Return what failed, by the token of the answer that stood in."""
        return None if self.http is None else self.http.faults.pop(token, None)

    def fail(self, fault: NextcloudMcpError) -> None:
        """End the link: the transport would wait for an answer that can no longer come."""
        self._fault = self._fault or fault
        self.scope.cancel()


@asynccontextmanager
async def opened(link: Link, handlers: Handlers, wire: Wire) -> AsyncGenerator[Client]:
    """Open the transport of a server and the SDK's client on it."""
    server = link.server

    def diagnostic(line: str) -> None:
        logger.debug("mcp server stderr: %s", line, extra={"server": server.id})
        if handlers.diagnostic is not None:
            handlers.diagnostic(line)

    async def notified(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            logger.debug("The server %s sent something that is no message.", server.id)
        elif handlers.notification is not None:
            await handlers.notification(message)

    async with AsyncExitStack() as stack:
        transport: Transport
        if server.transport == "stdio":
            link.process = StdioTransport(server, diagnostic=diagnostic, max_bytes=wire.max_bytes)
            transport = link.process.open()
        else:
            transport = await _over_http(link, stack, wire)
        client = await stack.enter_async_context(
            Client(
                transport,
                read_timeout_seconds=server.timeout_seconds,
                elicitation_callback=handlers.elicitation if server.elicitation_enabled else None,
                sampling_callback=handlers.sampling if server.sampling_enabled else None,
                sampling_capabilities=handlers.sampling_capabilities if server.sampling_enabled else None,
                message_handler=notified,
                client_info=handlers.client_info or _CLIENT_INFO,
                extensions=handlers.extensions,
            )
        )
        # The SDK's own check runs a server's patterns in Python's `re`, which nothing could end.
        setattr(client.session, "_output_schema_validator", _result_check)  # noqa: B010 - the SDK offers no other way
        yield client


def _result_check(tool: str, schema: dict[str, Any]) -> SchemaCheck:
    """Return what checks the results of a tool, in the place and with the error of the SDK's own.

    Raises:
        RuntimeError: The schema is not valid.
    """
    from jsonschema import SchemaError  # noqa: PLC0415 - the import is slow, and few results need it

    try:
        return SchemaCheck(schema)
    except SchemaError as error:
        raise RuntimeError(f"Invalid schema for tool {tool}: {error.message}") from None


async def _over_http(link: Link, stack: AsyncExitStack, wire: Wire) -> Transport:
    server = link.server
    if server.transport == "http":
        link.http = HttpClient(server, max_bytes=wire.max_bytes, auth=wire.auth, transport=wire.transport)
        await stack.enter_async_context(link.http)
        return streamable_http_client(server.url, http_client=link.http, max_sse_event_size=wire.max_bytes)

    def client(
        headers: dict[str, str] | None = None,  # noqa: ARG001 - the three that the SDK passes are set already
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001 - the same
        auth: httpx2.Auth | None = None,
    ) -> HttpClient:
        # An answer to a message comes on the stream: a message that did not arrive gets none.
        link.http = HttpClient(
            server, max_bytes=wire.max_bytes, auth=auth, transport=wire.transport, on_fault=link.fail
        )
        return link.http

    return sse_client(server.url, auth=wire.auth, httpx_client_factory=client)
