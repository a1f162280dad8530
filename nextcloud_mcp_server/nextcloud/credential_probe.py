"""What one refusal of a credential is worth: nothing, before a probe of another kind is refused as well.

A proxy, one app's route, or a user back end that hiccups answers 401 too. So the refused request is
followed by one probe, elsewhere and with the same credential: refused as well, the credential is
dead; answered, only the route refuses. These are the two requests that a doubtful credential is
sent with (Nextcloud counts every refusal against every user behind our address).
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Protocol, Self

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import error_mapping

Probe = Callable[[], Awaitable[httpx2.Response]]
#: What is known of a credential: it is dead, or works, or its account is disabled; None as long as nothing is.
Known = bool | errors.AccountDisabled | None

_OF_USER: Final = ("GET", "/ocs/v2.php/cloud/user?format=json")
#: DAV asks for a credential in a way of its own, and its root needs no uid.
_OF_DAV: Final = ("PROPFIND", "/remote.php/dav/")
_OCS: Final = "/ocs/"


class Slot(Protocol):
    """Surrounds one request with a credential; others with it wait while it is in doubt."""

    async def __aenter__(self) -> Self:
        """Wait for the turn.

        Raises:
            CredentialRejected: The credential is dead by now.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the turn back."""
        ...

    def accepted(self) -> None:
        """Note that Nextcloud has taken the credential."""
        ...

    async def settled(self, probe: Probe, error: errors.CredentialRejected) -> errors.NextcloudError:
        """Answer what a refusal is to be raised as: `error` when the probe is refused as well."""
        ...


class ConcurrencyLimiter(Protocol):
    """Gives out turns, one for each request."""

    def next(self) -> Slot:
        """Begin a request."""
        ...

    @property
    def just_accepted(self) -> bool:
        """Tell whether Nextcloud has taken the credential a moment ago, so that many requests may be sent with it."""
        ...


class NoSlot:
    """Surrounds requests that nothing else runs beside: without a credential, or before it is stored."""

    just_accepted: Final = False

    def next(self) -> Self:
        """See `ConcurrencyLimiter`."""
        return self

    async def __aenter__(self) -> Self:
        """See `Slot`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `Slot`."""

    def accepted(self) -> None:
        """See `Slot`."""

    async def settled(self, probe: Probe, error: errors.CredentialRejected) -> errors.NextcloudError:
        """See `Slot`."""
        return said(await is_dead(probe), error)


def probe_of(path: str) -> tuple[str, str]:
    """Choose what is asked to confirm the refusal of a path: another kind of route."""
    return _OF_DAV if path.startswith(_OCS) else _OF_USER


async def is_dead(probe: Probe) -> Known:
    """Ask once; None when the answer says nothing about the credential.

    A disabled account is refused everywhere, with 401 or 503; its access works again once it is enabled.
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
    """Word what a refusal turned out to be."""
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
