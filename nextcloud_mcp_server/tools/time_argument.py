"""Parses a time that a client gives."""

from datetime import UTC, datetime

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.account import Account


async def read(nc: Account, name: str, text: str) -> datetime:
    """Parse a date or time in ISO 8601 and return it in UTC; without an offset it is in the user's zone.

    The user's time zone is fetched only for such a time.

    Raises:
      InvalidInput: It is invalid; the error names the argument.
    """
    try:
        moment = timestamp.read(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=await nc.zone())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"'{name}' must be a date such as 2026-11-27 or a time such as 2026-11-27T15:00:00+01:00."
        ) from None
