"""The source of a request: the peer, or the address that a trusted reverse proxy reports.

Any client can send these headers. They are trusted only if the peer is a proxy in the operator's settings, and
removed in any case, so that no later layer can trust them by mistake.
"""

import logging
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class TrustedProxies:
    """Replaces the proxy's address, scheme and Host by the client's.

    In each list the right end counts, to which the operator's proxies append. Everything left of the first
    address that is no such proxy could have been sent by the client.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = tuple(networks)
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the values from before the proxies."""
        if scope["type"] == "http":
            scope = self._without_proxies(scope)
        await self._app(scope, receive, send)

    def _without_proxies(self, scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        kept = [(name, value) for name, value in scope["headers"] if not names_proxy(name.decode("latin-1"))]
        peer = _parse(client_address(scope))
        if peer is None or not self._is_ours(peer):
            self._warn_once(headers, peer)
            return {**scope, "headers": kept}
        scheme = _last(headers, "x-forwarded-proto").lower()
        host = _last(headers, "x-forwarded-host")
        if host:
            # `guard` checks it afterwards: only names of this server pass.
            kept = [(name, value) for name, value in kept if name != b"host"]
            kept.append((b"host", host.encode("latin-1")))
        return {
            **scope,
            "headers": kept,
            "client": (str(self._origin(headers, peer)), 0),
            "scheme": scheme if scheme in {"http", "https"} else scope["scheme"],
        }

    def _warn_once(self, headers: Headers, peer: Address | None) -> None:
        """Tell the operator of the first ignored header; once only, because any client can send one."""
        if self._has_warned or "x-forwarded-for" not in headers:
            return
        self._has_warned = True
        logger.warning(
            "A request from %s carries X-Forwarded-For, which is ignored: TRUSTED_PROXIES does not name this address. "
            "If it is your reverse proxy, add it there; else all users seem to come from it and share one rate limit.",
            peer or "a socket",
        )

    def _origin(self, headers: Headers, peer: Address) -> Address:
        found = peer
        for text in reversed(_words(headers, "x-forwarded-for")):
            address = _parse(text)
            if address is None:
                break
            found = address
            if not self._is_ours(address):
                break
        return found

    def _is_ours(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def names_proxy(header: str) -> bool:
    """Tell whether a header is one that proxies add."""
    name = header.lower()
    return name in ("forwarded", "via") or name.startswith("x-forwarded-")


def client_address(scope: Scope) -> str:
    """Return the address of a request's client; empty for a socket without an address."""
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


def network_of(address: str) -> str:
    """Shorten an address to its network, which its user recognizes and which identifies no machine."""
    parsed = _parse(address)
    if parsed is None:
        return ""
    bits = 24 if isinstance(parsed, IPv4Address) else 48
    return str(ip_network(f"{parsed}/{bits}", strict=False))


def _words(headers: Headers, name: str) -> list[str]:
    return [word.strip() for value in headers.getlist(name) for word in value.split(",")]


def _last(headers: Headers, name: str) -> str:
    return (_words(headers, name) or [""])[-1]


def _parse(text: str) -> Address | None:
    """Parse an address as proxies write it: bare, in brackets, with a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket for both families shows IPv4 peers in this form.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
