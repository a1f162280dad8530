"""Errors for a server that cannot be reached, as sentences that name the next step."""

import socket
import ssl
from collections.abc import Iterator

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import error_mapping
from nextcloud_mcp_server.nextcloud.retry import Cause, Passing, PassingError


def unreachable(error: httpx2.TransportError) -> errors.Unreachable:
    """Return the error for a failed connection; the library's own text may contain addresses."""
    causes = list(_causes(error))
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return errors.TlsFailed(
            "The certificate of the Nextcloud server is not trusted. For a private CA set "
            "NEXTCLOUD_CA_BUNDLE to its PEM file."
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return errors.TlsFailed(
            "Something answers at NEXTCLOUD_HOST, but it does not speak https://. Check the port, and "
            "whether the address begins with http:// there."
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return errors.Unreachable(
            "The name of the Nextcloud server cannot be found. Check the spelling of NEXTCLOUD_HOST, and "
            "this computer's network."
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return errors.Unreachable(
            "Nothing listens at NEXTCLOUD_HOST. Check its host and port; if they are right, Nextcloud is down: "
            "try again in a minute."
        )
    return errors.Unreachable(
        "The Nextcloud server cannot be reached. Try again in a minute; if it stays, the "
        "administrator should check NEXTCLOUD_HOST and the network."
    )


def translated(error: Exception) -> Exception:
    """Return the NextcloudError for an error of httpx2 or a time limit.

    The library's own text may contain addresses.
    """
    match error:
        case TimeoutError() | httpx2.TimeoutException():
            return errors.TimedOut(f"Nextcloud did not answer in time. {error_mapping.IN_DOUBT}")
        case httpx2.TransportError():
            found = unreachable(error)
            if isinstance(found, errors.TlsFailed):
                return found
            if not isinstance(error, httpx2.ConnectError):
                found = errors.Unreachable(
                    f"The connection broke before Nextcloud had answered. {error_mapping.IN_DOUBT}"
                )
            return PassingError(found, Passing(Cause.LOST))
        case httpx2.InvalidURL():
            return errors.InvalidName("A name or text is longer than any server takes: send a shorter one.")
        case _:
            return errors.ServerFault(f"Nextcloud's answer could not be read. {error_mapping.IN_DOUBT}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__
