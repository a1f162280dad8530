"""Reads a moment that a model wrote."""

from datetime import UTC, datetime

from nextcloud_mcp_server.errors import InvalidInput


def read(name: str, text: str) -> datetime:
    """Read a date or a moment in ISO 8601; one without a zone is in UTC.

    Raises:
        InvalidInput: It is none; the sentence names the argument.
    """
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"'{name}' must be a date such as 2026-11-27 or 2026-11-27T15:00:00Z.") from None
