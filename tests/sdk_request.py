"""Requests as the SDK passes them to handlers, with an outbound channel that records messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import ClientCapabilities


@dataclass
class Channel:
    """Replaces the transport."""

    sent: list[tuple[str, Mapping[str, Any] | None]] = field(default_factory=list[Any])
    progressed: list[tuple[float, float | None, str | None]] = field(default_factory=list[Any])

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: object = None) -> None:  # noqa: ARG002 - the SDK's signature
        self.sent.append((method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.progressed.append((progress, total, message))


@dataclass(frozen=True)
class HttpRequest:
    """The part of an HTTP request that handlers use."""

    headers: Mapping[str, str]


def request(
    *,
    version: str = "2025-11-25",
    capabilities: dict[str, Any] | None = None,
    name: str | None = None,
    session: str | None = None,
    headers: Mapping[str, str] | None = None,
    method: str = "tools/call",
    params: Mapping[str, Any] | None = None,
    channel: Channel | None = None,
    meta: Mapping[str, object] | None = None,
    request_id: int | None = 1,
) -> ServerRequestContext[Any, Any]:
    """Return one request; `session` is the id of an HTTP session, without it the request is over stdio."""
    channel = channel or Channel()
    info = {"name": name, "version": "1"} if name else None
    connection = Connection.from_envelope(version, info, capabilities, outbound=cast("Any", channel))
    if capabilities is not None:
        connection.client_capabilities = ClientCapabilities.model_validate(capabilities)
    http = None
    if session is not None or headers is not None:
        http = HttpRequest({**(headers or {}), **({"mcp-session-id": session} if session else {})})
    return ServerRequestContext(
        session=ServerSession(cast("Any", channel), connection),
        lifespan_context={},
        protocol_version=version,
        method=method,
        params=params,
        request_id=request_id,
        meta=cast("Any", meta),
        request=http,
    )
