"""Trusts the system's certificates, read at the first TLS connection: reading them takes 40 ms or more."""

import ssl
import threading
from collections.abc import Iterable
from functools import cache
from typing import Self

import httpx2

from nextcloud_mcp_server import errors


class Trust(ssl.SSLContext):
    """A context for clients that delegates its connections to another, which is made at the first one.

    By itself it trusts no certificate, so a connection that bypasses the other context fails. anyio calls `wrap_bio`
    of a subclass in a thread, so the event loop does not wait for the files either.
    """

    def __new__(cls, ca_bundle: str | None = None) -> Self:  # noqa: ARG004  # __init__ takes it
        """Make a context that requires a certificate with the host's name."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, ca_bundle: str | None = None) -> None:
        """Trust the certificates of a bundle too, which is read at once.

        Raises:
          ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
        """
        self._protocols: list[str] = []
        self._lock = threading.Lock()
        self._other = _read(ca_bundle) if ca_bundle else None

    @property
    def is_read(self) -> bool:
        """Tell whether the certificates were read."""
        return self._other is not None

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Offer these protocols in the next connections."""
        self._protocols = list(alpn_protocols)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  # the signature of the standard library
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a TLS connection; the first one reads the certificates."""
        with self._lock:
            self._other = self._other or _read(None)
            self._other.set_alpn_protocols(self._protocols)
            return self._other.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


@cache
def _read(ca_bundle: str | None) -> ssl.SSLContext:
    """Read the certificates of the system and of the bundle."""
    context = httpx2.create_ssl_context()
    if ca_bundle:
        try:
            context.load_verify_locations(cafile=ca_bundle)
        except (OSError, ssl.SSLError):
            raise errors.ConfigurationError(
                "NEXTCLOUD_CA_BUNDLE cannot be read as certificates. Set it to the path of a PEM file."
            ) from None
    return context
