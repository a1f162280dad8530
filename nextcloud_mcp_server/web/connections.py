"""Limits on connections: time to send a request's headers, and open connections per network.

uvicorn only limits idle connections. A client that sends one byte of its headers now and then, or nothing at
all, could keep its connection open without limit.
"""

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Protocol, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nextcloud_mcp_server.auth.rate_limiter import network_of

#: How long the headers of a request may take, from the first byte, or from the opening of the connection.
HEADER_SECONDS = 15.0

#: Open connections per network; the reverse proxies of `TRUSTED_PROXIES` have no such limit.
MOST_OF_NETWORK = 256

#: How long an idle connection stays open: some clients reuse sockets that were idle for a minute.
KEEP_ALIVE_SECONDS = 75


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of connections, and how many are open."""

    proxies: Sequence[IPv4Network | IPv6Network] = ()
    header_seconds: float = HEADER_SECONDS
    most_of_network: int = MOST_OF_NETWORK
    open: Counter[str] = field(default_factory=Counter[str])

    def network(self, peer: str) -> str | None:
        """Return the network that a connection counts for; None for one of the operator's proxies."""
        try:
            address = ip_address(peer)
        except ValueError:
            return None
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in proxies for proxies in self.proxies):
            return None
        return network_of(str(address))


class _Timer(Protocol):
    def cancel(self) -> None: ...


class LimitedConnection(H11Protocol):
    """uvicorn's connection, which is closed if a request's headers are late."""

    limits = ConnectionLimits()
    _network: str | None = None
    _header_timer: _Timer | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as the base class has it
        """Wait for the first request, unless the network has too many connections."""
        super().connection_made(transport)
        network = self.limits.network(self.client[0] if self.client else "")
        if network is not None and self.limits.open[network] >= self.limits.most_of_network:
            transport.abort()
            return
        self._network = network
        if network is not None:
            self.limits.open[network] += 1
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count one connection less."""
        super().connection_lost(exc)
        self._stop_watching()
        if self._network is not None:
            self.limits.open -= Counter([self._network])
            self._network = None

    def data_received(self, data: bytes) -> None:
        """Handle data, and check whether a request has begun."""
        super().data_received(data)
        if self._waits_for_request():
            self._watch_headers()
        else:
            self._stop_watching()

    def on_response_complete(self) -> None:
        """Start the time limit for headers if a part of a request or of a body has arrived already.

        The connection stays open for another request.
        """
        super().on_response_complete()
        half_a_body = self.conn.their_state is h11.SEND_BODY
        if self._waits_for_request() and (half_a_body or self.conn.trailing_data[0]):
            self._watch_headers()

    def _waits_for_request(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _watch_headers(self) -> None:
        # Started once per request: another byte does not extend it.
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.limits.header_seconds, self.transport.close)

    def _stop_watching(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def server_config(app: Any, limits: ConnectionLimits, **options: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's
    """Build uvicorn's configuration for the application."""
    # Each server counts its own.
    protocol = cast("Any", type("LimitedConnection", (LimitedConnection,), {"limits": limits}))
    return uvicorn.Config(
        app,
        http=protocol,
        # WebSocket is not used here, and its connections would bypass these limits.
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=3,
        **options,
    )


class AnnouncedServer(uvicorn.Server):
    """Calls `listening` as soon as connections are accepted."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._listening()
