"""Limits on connections: time to send a request's headers, and open connections per network.

uvicorn only limits idle connections. A client that sends one byte of its headers now and then, or nothing at
all, could keep its connection open without limit.

A request of many headers, or a body in pieces of a few bytes, is refused: the parser makes an object for each of them,
and every other request waits meanwhile. So is one whose chunks have long extensions: h11 drops them, so they count for
no limit of the body. Two of h11's patterns are replaced, since they try every way to divide white space between their
parts: one header of 60 KB took 20 seconds.

Connections that wait for a request give way to new ones of their network: otherwise another user of the computer could
make the consent page unavailable with idle sockets. RFC 9112 §9.5 lets a server close an idle connection at any time.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final, Protocol, cast

import h11
import uvicorn
from h11 import _readers as _h11_readers  # pyright: ignore[reportPrivateUsage]
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nextcloud_mcp_server.auth.rate_limiter import network_of

#: The size of a request's headers; a callback may have 32 KB.
MAX_HEADER_BYTES = 65_536

#: How long the headers of a request may take, from the first byte, or from the opening of the connection.
HEADER_SECONDS = 15.0

#: Open connections per network; the reverse proxies of `TRUSTED_PROXIES` have no such limit.
MOST_OF_NETWORK = 256

#: Headers of one request, with those behind its body.
MOST_HEADERS = 128

#: The chunks of a body: so many, and one more for so many bytes.
FREE_CHUNKS = 128
BYTES_OF_A_CHUNK = 1_024

#: The path of a request, which is decoded before any route is looked for. Those of this server are short.
MOST_PATH_BYTES = 2_048

#: What is no content in the body of a request: lengths and extensions of its chunks, and headers behind it. No client
#: needs extensions (RFC 9112 §7.1.1), and the length of a chunk with its line ends is shorter than this.
FREE_FRAMING_BYTES = 8_192
FRAMING_OF_A_CHUNK = 24

#: The cookies of a request, together: each takes time to read, and a browser sends a few.
MOST_COOKIE_BYTES = 16_384

#: h11's patterns for a header or trailer, and for the line before a chunk (RFC 9112 §5 and §7.1), so that no part gives
#: back what it has taken: the time is proportional to the line.
LINEAR_PATTERNS: Final = {
    "header_field_re": re.compile(
        rb"(?P<field_name>[-!#$%&'*+.^_`|~0-9a-zA-Z]+):[ \t]*+"
        rb"(?P<field_value>(?>[^\x00\s](?:[^\x00\n\r\f\v]*[^\x00\s])?)?+)[ \t]*+"
    ),
    "chunk_header_re": re.compile(
        rb"(?P<chunk_size>[0-9A-Fa-f]{1,20})(?P<chunk_ext>;[^\r\n]*+)?+[ \t]*+\r\n"
    ),
}
for _name, _pattern in LINEAR_PATTERNS.items():
    if not hasattr(_h11_readers, _name):
        raise ImportError(f"h11 has no pattern {_name} any more: see whether its successor takes linear time")
    setattr(_h11_readers, _name, _pattern)

#: How long an idle connection stays open: some clients reuse sockets that were idle for a minute.
KEEP_ALIVE_SECONDS = 75


@dataclass(slots=True)
class _Open:
    """The open connections of a network: how many, and those that wait for a request, oldest first.

    `silent` are those that have sent no complete request.
    """

    count: int = 0
    silent: "dict[LimitedConnection, None]" = field(default_factory=dict["LimitedConnection", None])
    idle: "dict[LimitedConnection, None]" = field(default_factory=dict["LimitedConnection", None])

    @property
    def oldest_waiting(self) -> "LimitedConnection | None":
        """The connection that gives way to a new one: the oldest of the kind of which there are more.

        Else connections of one kind could hold almost all places, and the few of the other kind, such as a browser
        that is about to send its request, would give way to each other.
        """
        larger = self.silent if len(self.silent) >= len(self.idle) else self.idle
        return next(iter(larger), None)


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of connections, and those that are open, by network."""

    proxies: Sequence[IPv4Network | IPv6Network] = ()
    header_seconds: float = HEADER_SECONDS
    most_of_network: int = MOST_OF_NETWORK
    open: defaultdict[str, _Open] = field(default_factory=lambda: defaultdict(_Open))

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


class _BoundedParser(h11.Connection):
    """h11's parser, which refuses a request of too many headers or chunks; `refusal` says why."""

    _headers = _chunks = _bytes = _framing = 0
    refusal = ""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event.

        Raises:
            RemoteProtocolError: The request is malformed, or consists of too many parts.
        """
        before = len(self._receive_buffer)
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._headers, self._chunks, self._bytes, self._framing = len(event.headers), 0, 0, 0
            self.refusal = _too_large(event)
        else:
            # Also what was read and gave no event yet, such as the end of a chunk.
            self._framing += before - len(self._receive_buffer)
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_end
            self._bytes += len(event.data)
            self._framing -= len(event.data)
        elif isinstance(event, h11.EndOfMessage):
            self._headers += len(event.headers)
        self.refusal = self.refusal or self._too_many()
        if self.refusal:
            raise h11.RemoteProtocolError(self.refusal)
        return event

    def drop_received(self) -> None:
        """Free what has arrived and was not parsed; the connection is over."""
        self._receive_buffer = type(self._receive_buffer)()

    def _too_many(self) -> str:
        if self._headers > MOST_HEADERS:
            return "The request has too many headers."
        if self._chunks > FREE_CHUNKS + self._bytes / BYTES_OF_A_CHUNK:
            return "The chunks of the body are too small."
        if self._framing > FREE_FRAMING_BYTES + self._chunks * FRAMING_OF_A_CHUNK:
            return "The chunks of the body have extensions that are too long."
        return ""


def _too_large(request: h11.Request) -> str:
    """Return why path or headers are too large, or nothing: h11 checks only headers in several pieces."""
    if len(request.target.partition(b"?")[0]) > MOST_PATH_BYTES:
        return "The path of the request is too long."
    sizes = [(name, len(name) + len(value)) for name, value in request.headers]
    if sum(size for name, size in sizes if name == b"cookie") > MOST_COOKIE_BYTES:
        return "The cookies of the request are too large."
    return "The headers of the request are too large." if sum(s for _, s in sizes) > MAX_HEADER_BYTES else ""


class _Timer(Protocol):
    def cancel(self) -> None: ...


class LimitedConnection(H11Protocol):
    """uvicorn's connection, which is closed if a request's headers are late."""

    limits = ConnectionLimits()
    _network: str | None = None
    _header_timer: _Timer | None = None
    _is_lost = False
    #: Requests that were handed to the application and have not ended there.
    _running = 0

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(config, *arguments, **named)
        self.conn = _BoundedParser(h11.SERVER, MAX_HEADER_BYTES)
        self.app: Any = self._counted(self.app)

    def _counted(self, app: Any) -> Any:  # noqa: ANN401 - an application, as uvicorn has it
        async def run(*arguments: Any) -> None:  # noqa: ANN401 - scope, receive and send
            self._running += 1
            try:
                await app(*arguments)
            finally:
                self._running -= 1
                self._leave()

        return run

    def _leave(self) -> None:
        """Give up the place in the network, once the connection and its requests are over.

        Else a client that resets its connections could have any number of requests at work.
        """
        if self._is_lost and not self._running:
            self._count_less()
            # It refers to this object, which would wait for Python's collector.
            self.app = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as the base class has it
        """Wait for the first request.

        If the network has too many connections, the oldest that waits for a request is closed. If all of them are
        busy, the new one is closed.
        """
        super().connection_made(transport)
        if self.client is None:
            # Reset before it was accepted: the system knows its address no longer, but still has its request.
            transport.abort()
            return
        network = self.limits.network(self.client[0])
        if network is not None and not self._has_room(network):
            transport.abort()
            return
        self._network = network
        if network is not None:
            self.limits.open[network].count += 1
            self.limits.open[network].silent[self] = None
        self._watch_headers()

    def _has_room(self, network: str) -> bool:
        held = self.limits.open.get(network)
        if held is None or held.count < self.limits.most_of_network:
            return True
        oldest = held.oldest_waiting
        if oldest is None:
            return False
        oldest.give_way()
        return True

    def give_way(self) -> None:
        """Close a connection that waits for a request."""
        self._count_less()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count one connection less when its request has ended, and free what has arrived and nobody will read.

        What else is left of it waits for the application, which may be about to refuse the request.
        """
        super().connection_lost(exc)
        # uvicorn stops this timer only for a connection that was closed, and not for one that was reset: it would hold
        # the connection, with all headers of its last request, until it would have ended anyway.
        self._unset_keepalive_if_required()
        self._stop_watching()
        self._is_lost = True
        self._is_busy()
        self._leave()
        self.conn.drop_received()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None:
            cycle.body = bytearray()

    def _count_less(self) -> None:
        if self._network is None:
            return
        held = self.limits.open[self._network]
        self._is_busy()
        held.count -= 1
        if not held.count:
            del self.limits.open[self._network]
        self._network = None

    def _is_busy(self) -> None:
        if self._network is not None:
            self.limits.open[self._network].silent.pop(self, None)
            self.limits.open[self._network].idle.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Handle data, and check whether a request has begun."""
        super().data_received(data)
        if self._waits_for_request():
            self._watch_headers()
        else:
            self._stop_watching()
            self._is_busy()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request and say why, if nothing was answered yet; close the connection."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None:
            # What the application still sends goes nowhere.
            cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.refusal or msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Start the time limit for headers if a part of a request or of a body has arrived already.

        The connection stays open for another request.
        """
        super().on_response_complete()
        if not self._waits_for_request():
            return
        if self._network is not None:
            self.limits.open[self._network].idle[self] = None
        half_a_body = self.conn.their_state is h11.SEND_BODY
        if half_a_body or self.conn.trailing_data[0]:
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
