"""Tools for the user status: presence and status message."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from nextcloud_mcp_server.apps.status.client import Status, StatusClient
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud import file_errors, outcome
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.outcome import Part
from nextcloud_mcp_server.tools import time_argument
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

status = Toolset("status")

#: The maximum of a signed 32-bit number, in Unix seconds.
_LATEST: Final = 2**31 - 1


class PersonStatus(Status):
    """Whose status it is, and the status."""

    person: str


class StatusSet(Result):
    """The status now, and what it was before, to set it back."""

    now: Status
    before: Status
    note: str | None = None


@status.tool("Read a status", read_only=True)
@require_provisioning("status:read")
async def nc_status_get_status(
    nc: Account,
    person: Annotated[str | None, Field(description="Name or account of another person.")] = None,
) -> PersonStatus:
    """Tell whether the person, or another user, is there, and what they say about it."""
    if person is None:
        return _shown(nc.uid, await nc.client(StatusClient).own())
    user = await nc.client(StatusClient).find_person(person)
    return _shown(str(user), await nc.client(StatusClient).of(user.id))


def _shown(person: str, found: Status) -> PersonStatus:
    return PersonStatus.model_construct(person=person, **dict(found))


@status.tool("Set the own status", destructive=True, repeatable=True)
@require_provisioning("status:write")
async def nc_status_set_status(
    nc: Account,
    *,
    status: Literal["online", "away", "busy", "dnd", "invisible"] | None = None,
    message: Annotated[
        str | None,
        Field(max_length=80, description='"" takes message and icon off.'),
        Empty("takes message and icon off"),
    ] = None,
    icon: Annotated[
        str | None, Field(max_length=20, description="One emoji."), Empty("takes the icon off")
    ] = None,
    clear_at: Annotated[
        str | None,
        Field(description='When all of it ends, such as 2026-11-27T15:00:00Z; "" for never.'),
        Empty("never"),
    ] = None,
) -> StatusSet:
    """Set what is given of the person's own status, which others see; the answer says what it was before."""
    if status is None and message is None and icon is None and clear_at is None:
        raise InvalidInput("Say what to set: status, message, icon or clear_at.")
    until = None if not clear_at else _last(await time_argument.read(nc, "clear_at", clear_at))
    before = now = await nc.client(StatusClient).own()
    said = message is not None or icon is not None or clear_at is not None
    if said:
        # A new message does not end when the old one would have.
        until = before.clear_at if message is None and clear_at is None else until
        now = await _say(nc, before, message, icon, until)
    failed = None
    if status is not None:
        now, failed = await _be(nc, status, now, said=said)
    pairs = {"message": message, "icon": icon, "status": None if failed else status}
    parts = [
        Part(name, sent, getattr(now, name), getattr(before, name))
        for name, sent in pairs.items()
        if sent is not None
    ]
    if clear_at is not None:
        parts.append(Part("clear_at", _iso(until), _iso(now.clear_at), _iso(before.clear_at)))
    notes = (failed, outcome.compare("Nextcloud", parts))
    return StatusSet(now=now, before=before, note=" ".join(filter(None, notes)) or None)


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _last(at: datetime) -> datetime:
    """Return the second at which a status ends.

    Raises:
      InvalidInput: It exceeds the four bytes of Nextcloud's database column.
    """
    seconds = int(at.timestamp())
    if seconds > _LATEST:
        raise InvalidInput(
            "'clear_at' is later than Nextcloud can keep the end of a status, which is 2038-01-19T03:14:07Z: send an "
            'earlier one, or "" for never.'
        )
    return timestamp.moment(seconds)


async def _say(
    nc: Account, before: Status, message: str | None, icon: str | None, until: datetime | None
) -> Status:
    if message is None and icon is None and before.message_id is not None:
        return await nc.client(StatusClient).end_predefined(before.message_id, until)
    if icon is None:
        icon = None if message == "" else before.icon
    return await nc.client(StatusClient).set_message(
        (before.message if message is None else message) or None, icon or None, until
    )


async def _be(nc: Account, presence: str, now: Status, *, said: bool) -> tuple[Status, str | None]:
    """Set the user's presence; an error says which changes were made before."""
    try:
        return await nc.client(StatusClient).set_presence(presence), None
    except file_errors.OF_ACCESS:
        raise
    except NextcloudError as error:
        if not said:
            raise
        return now, f"The message is set, but '{presence}' is not{file_errors.perhaps(error)}. {error}"
