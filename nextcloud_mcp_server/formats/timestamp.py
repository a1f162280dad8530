"""Times as Nextcloud sends them, in Unix seconds, and as clients send them, in ISO 8601."""

from datetime import UTC, date, datetime
from typing import Final

#: 9999-12-31T23:59:59Z, the last second that a datetime can represent.
_LAST_SECOND: Final = 253_402_300_799


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


def moment(seconds: int) -> datetime:
    """Convert Unix seconds; a value out of range becomes the nearest valid time instead of an error.

    Users set some of these, such as when a form closes, a status ends or a note was changed.
    """
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_SECOND), UTC)


def read(text: str) -> datetime:
    """Parse a date or time in ISO 8601 (RFC 3339 allows a small z); aware when it has an offset.

    Raises:
      ValueError: It is invalid.
    """
    text = text.strip()
    return datetime.fromisoformat(f"{text[:-1]}Z" if text.endswith("z") else text)


def day(text: str) -> date | None:
    """Parse a date in any form of ISO 8601, such as 2026-12-08, 20261208 or 2026-W50-2; None if invalid."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
