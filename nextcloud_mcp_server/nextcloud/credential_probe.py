"""Confirms the rejection of a credential by one probe on another kind of route.

A proxy, the route of one app, or a failing user back end answers 401 too. So a rejected request is followed by one
probe with the same credential on another route. If the probe is rejected as well, the credential is dead; if it is
accepted, only the route rejects. These two requests are all that are sent with a doubtful credential: Nextcloud
counts every rejection against this server's address, which all users share.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import error_mapping

Probe = Callable[[], Awaitable[httpx2.Response]]
#: The result of a probe: True, the credential is dead; False, it works; or its account is disabled. None is unknown.
Known = bool | errors.AccountDisabled | None

_OF_USER: Final = ("GET", "/ocs/v2.php/cloud/user?format=json")
#: DAV authenticates in a way of its own, and its root needs no uid.
_OF_DAV: Final = ("PROPFIND", "/remote.php/dav/")
_OCS: Final = "/ocs/"


class Slot:
    """Surrounds one request; this one without a limit, for requests without a credential that is stored."""

    #: Whether Nextcloud has just accepted the credential: many requests may use it.
    just_accepted: Final = False

    def next(self) -> Self:
        """Return the slot for a request: this one."""
        return self

    async def __aenter__(self) -> Self:
        """Wait until the request may be sent; other requests wait while the credential is in doubt.

        Raises:
          CredentialRejected: The credential is dead by now.
        """
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the slot."""

    def leave(self) -> None:
        """Release the slot before its end: the response has begun, and its rest may take long."""

    def accepted(self) -> None:
        """Record that Nextcloud has accepted the credential."""

    async def settled(self, probe: Probe, error: errors.CredentialRejected) -> errors.NextcloudError:
        """Return the error to raise after a rejection: `error` when the probe is rejected as well."""
        return said(await is_dead(probe), error)


def probe_of(path: str) -> tuple[str, str]:
    """Return the method and path of the probe for a rejected path: another kind of route."""
    return _OF_DAV if path.startswith(_OCS) else _OF_USER


async def is_dead(probe: Probe) -> Known:
    """Send the probe once; return None when its answer says nothing about the credential.

    Nextcloud rejects a disabled account everywhere, with 401 or 503; its credential works again once the account is
    enabled.
    """
    try:
        response = await probe()
    except (errors.NotNextcloud, httpx2.HTTPError, httpx2.StreamError):
        return None
    status = response.status_code
    if status >= int(httpx2.codes.BAD_REQUEST):
        error = error_mapping.from_response(response, {})
        if isinstance(error, errors.AccountDisabled):
            return error
    if status == int(httpx2.codes.UNAUTHORIZED):
        return True
    return False if status < int(httpx2.codes.BAD_REQUEST) else None


def said(dead: Known, error: errors.CredentialRejected) -> errors.NextcloudError:
    """Return the error for the result of a probe."""
    if isinstance(dead, errors.AccountDisabled):
        return errors.AccountDisabled(str(dead))
    if dead:
        return error
    if dead is None:
        return errors.Unavailable(
            "Nextcloud refused the access once and could not be asked again whether it still holds. Nothing has "
            "ended; try again in a minute."
        )
    return errors.RouteRefused(
        "Nextcloud refuses the access for this one request, though it takes it elsewhere, so the access stays. Try "
        "once more; if it stays, the administrator should look at the app or at the proxy in front of Nextcloud."
    )
