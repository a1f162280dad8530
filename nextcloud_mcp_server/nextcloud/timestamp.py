"""Times as Nextcloud answers them, in seconds since 1970, and as clients send them, in ISO 8601."""

from datetime import UTC, date, datetime
from typing import Final

#: 9999-12-31T23:59:59Z, after which no calendar has a day.
_LAST_SECOND: Final = 253_402_300_799


def moment(seconds: int) -> datetime:
    """Read a time; one that no calendar has becomes the nearest that it has, so that it hides nothing else.

    Users set some of them, such as when a form closes, a status ends or a note was changed.
    """
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST_SECOND), UTC)


def read(text: str) -> datetime:
    """Read a date or time in ISO 8601 (RFC 3339 allows a small z); aware when it names an offset.

    Raises:
        ValueError: It is none.
    """
    text = text.strip()
    return datetime.fromisoformat(f"{text[:-1]}Z" if text.endswith("z") else text)


def day(text: str) -> date | None:
    """Read a date in any form of ISO 8601, such as 2026-12-08, 20261208 or 2026-W50-2; None where it is none."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
