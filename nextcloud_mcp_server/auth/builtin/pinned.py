"""Requests to hosts that strangers name: only to public addresses, and to the very ones that were checked.

A name is resolved once, here. Were it checked and then resolved again when the connection is made, its owner
could answer with a public address first and with one of our network the second time.
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

#: Looked up at a time, of the names that strangers choose; one whose servers are silent takes half a minute.
MOST_LOOKUPS = 8
_lookups = threading.BoundedSemaphore(MOST_LOOKUPS)


class AddressRefused(httpx2.TransportError):
    """A host is not one that strangers may have us ask."""


class HostUnknown(httpx2.ConnectError):
    """No address is known for a host's name."""


async def resolve(host: str) -> list[str]:
    """Look up all addresses of a host.

    In threads of its own: those of the event loop are few, and look up Nextcloud's name too.

    Raises:
        OSError: It is not known, or too many others are being looked up.
    """
    return await anyio.to_thread.run_sync(_look_up, host, abandon_on_cancel=True)


def _look_up(host: str) -> list[str]:
    # Here and not around it: who waits gives up after seconds, and the thread goes on.
    if not _lookups.acquire(blocking=False):
        raise OSError("too many names are being looked up")
    try:
        found = socket.getaddrinfo(host, _HTTPS_PORT, type=socket.SOCK_STREAM)
    finally:
        _lookups.release()
    return [str(address[0]) for *_, address in found]


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends https requests through `inner` to a checked address; TLS and `Host` keep the name.

    `inner` must keep no connections: they are found again by address, and the certificate of one
    name says nothing about another name on the same address.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, resolve: Resolve = resolve) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            AddressRefused: It is not https on its own port, or an address of its host is not public.
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
                # What TLS names and checks the certificate against.
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        """Close what is below."""
        await self._inner.aclose()

    async def _checked(self, host: str) -> list[str]:
        try:
            found = list(dict.fromkeys(await self._resolve(host)))
        except (OSError, UnicodeError):
            raise HostUnknown("the host is not known") from None
        # One that is not public spoils them all: the name's owner may not have a second try.
        if not all(map(is_public, found)):
            raise AddressRefused("the host has an address that is not public")
        # Without a route for IPv6, which is common in containers, its addresses only cost time.
        return sorted(found, key=lambda address: ":" in address)[:_MOST_ADDRESSES]


class ProxiedTransport(httpx2.AsyncBaseTransport):
    """Sends https requests through `inner`, which hands them to a proxy; the proxy looks the name up.

    So the address that is asked is not checked here: it is for the proxy to refuse addresses of its own network.
    A name that is known here too, and leads to an address that is not public, is refused all the same.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, resolve: Resolve = resolve) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            AddressRefused: It is not https on its own port, or its host is known here as one that is not public.
            TransportError: The proxy does not answer, or does not get an answer.
        """
        _check_form(request.url)
        known: Sequence[str] = ()
        # Behind a firewall names of the internet are often unknown, and a lookup may take until its end.
        with anyio.move_on_after(_LOOKUP_SECONDS), suppress(OSError, UnicodeError):
            known = await self._resolve(request.url.host)
        if not all(map(is_public, known)):
            raise AddressRefused("the host has an address that is not public")
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close what is below."""
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
    """Open a client for hosts that strangers name; it has no cookies, and keeps no connections.

    Without a `proxy` it connects to the addresses itself, whatever the environment says.
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
