"""Requests to untrusted hosts: only to public addresses, and only to the addresses that were checked.

A name is resolved once, here. If it were resolved again for the connection, its owner could answer first with a
public address and then with one of the internal network.
"""

import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.public_address import is_public

Resolve = Callable[[str], Awaitable[Sequence[str]]]

_HTTPS_PORT = 443
_MOST_ADDRESSES = 3
_CONNECT_SECONDS = 2.0
_LOOKUP_SECONDS = 1.0

#: Concurrent lookups of untrusted names; a lookup whose name servers do not answer takes half a minute.
MOST_LOOKUPS = 8
_lookups = threading.BoundedSemaphore(MOST_LOOKUPS)


class AddressRefused(httpx2.TransportError):
    """A host that requests to untrusted hosts must not reach."""


class HostUnknown(httpx2.ConnectError):
    """A host's name has no known address."""


async def resolve(host: str) -> list[str]:
    """Return all addresses of a host.

    It uses threads of its own: the event loop has few, and they look up Nextcloud's name too.

    Raises:
        OSError: The name is not known, or too many other names are being looked up.
    """
    return await anyio.to_thread.run_sync(_look_up, host, abandon_on_cancel=True)


def _look_up(host: str) -> list[str]:
    # Acquired in the thread, and not by the caller: the caller gives up after seconds, and the thread goes on.
    if not _lookups.acquire(blocking=False):
        raise OSError("too many names are being looked up")
    try:
        found = socket.getaddrinfo(host, _HTTPS_PORT, type=socket.SOCK_STREAM)
    finally:
        _lookups.release()
    return [str(address[0]) for *_, address in found]


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends https requests through `inner` to a checked address; TLS and `Host` keep the name.

    `inner` must keep no connections: it would find them again by address, and the certificate of one name
    proves nothing about another name on the same address.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, resolve: Resolve = resolve) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            AddressRefused: The URL is not https on its own port, or an address of its host is not public.
            TransportError: No address answers.
        """
        url = request.url
        _check_form(url)
        failure = httpx2.ConnectError("the host has no address")
        for address in await self._checked(url.host):
            pinned = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                # The name for TLS' SNI and certificate check.
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()

    async def _checked(self, host: str) -> list[str]:
        try:
            found = list(dict.fromkeys(await self._resolve(host)))
        except (OSError, UnicodeError):
            raise HostUnknown("the host is not known") from None
        # One address that is not public refuses all: the name's owner must not get a second try.
        if not all(map(is_public, found)):
            raise AddressRefused("the host has an address that is not public")
        # Without a route for IPv6, which is common in containers, its addresses only cost time.
        return sorted(found, key=lambda address: ":" in address)[:_MOST_ADDRESSES]


class ProxiedTransport(httpx2.AsyncBaseTransport):
    """Sends https requests through `inner`, which hands them to a proxy; the proxy resolves the name.

    So the address is not checked here: the proxy must refuse addresses of its own network. A name that also
    resolves here, to an address that is not public, is refused all the same.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, resolve: Resolve = resolve) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            AddressRefused: The URL is not https on its own port, or its host resolves here to one not public.
            TransportError: The proxy does not answer, or gets no answer itself.
        """
        _check_form(request.url)
        known: Sequence[str] = ()
        # Behind a firewall, public names often do not resolve, and a lookup may last until its time limit.
        with anyio.move_on_after(_LOOKUP_SECONDS), suppress(OSError, UnicodeError):
            known = await self._resolve(request.url.host)
        if not all(map(is_public, known)):
            raise AddressRefused("the host has an address that is not public")
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


def _check_form(url: httpx2.URL) -> None:
    if url.scheme != "https" or url.port is not None:
        raise AddressRefused("only https on its own port is asked")


def open_outside(
    *,
    user_agent: str,
    inner: httpx2.AsyncBaseTransport | None = None,
    resolve: Resolve = resolve,
    proxy: SecretStr | None = None,
) -> httpx2.AsyncClient:
    """Open a client for requests to untrusted hosts; it has no cookies, and keeps no connections.

    Without a `proxy` it connects directly, whatever the environment says.
    """
    nothing_kept = httpx2.Limits(max_keepalive_connections=0, max_connections=20)
    through = None if proxy is None else proxy.get_secret_value()
    below = inner or httpx2.AsyncHTTPTransport(limits=nothing_kept, proxy=through, trust_env=False)
    transport = PinnedTransport if proxy is None else ProxiedTransport
    return httpx2.AsyncClient(
        transport=transport(below, resolve=resolve),
        headers={"User-Agent": user_agent},
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx2.Timeout(5.0, connect=_CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=False,
    )
