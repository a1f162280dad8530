"""Reads a moment that a client gave."""

from datetime import UTC, datetime

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud import timestamp
from nextcloud_mcp_server.nextcloud.account import Account


async def read(nc: Account, name: str, text: str) -> datetime:
    """Read a date or time in ISO 8601 and give it in UTC; without an offset it is by the clock of the person's zone.

    Only for such a time Nextcloud is asked where the person is.

    Raises:
        InvalidInput: It is none; the sentence names the argument.
    """
    try:
        moment = timestamp.read(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=await nc.calendar.zone())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"'{name}' must be a date such as 2026-11-27 or a time such as 2026-11-27T15:00:00+01:00."
        ) from None
