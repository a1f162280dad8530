"""A time zone that only the calendar object itself defines (VTIMEZONE), such as one of Outlook's."""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from io import StringIO
from typing import Final, Self

#: More than any single change of the UTC offset.
_BEFORE: Final = timedelta(days=1)


class DescribedZone(tzinfo):
    """A time zone with the name it has in its object; equal names and definitions are equal.

    Times follow RFC 5545 §3.3.5: a time that does not exist uses the offset before the gap; of a time that occurs
    twice, the first is meant, unless `fold` is 1.
    """

    def __init__(self, key: str, written: str, rules: tzinfo) -> None:
        self.key: Final = key
        self._written = written
        self._rules = rules

    @classmethod
    @lru_cache(maxsize=64)
    def read(cls, key: str, written: str) -> Self | None:
        """Parse a VTIMEZONE; None when it is invalid.

        The same definition returns the same object, because Python compares two times of one tzinfo object by their
        local time.
        """
        from dateutil import tz  # noqa: PLC0415 - hardly any zone needs it  # pyright: ignore[reportMissingModuleSource]

        try:
            rules = tz.tzical(StringIO(written)).get()
            return None if rules is None else cls(key, written, rules)
        except (ValueError, TypeError, AttributeError, IndexError):
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescribedZone) and (self.key, self._written) == (other.key, other._written)

    def __hash__(self) -> int:
        return hash((self.key, self._written))

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return the UTC offset at a local time."""
        if dt is None:
            return None
        clock = dt.replace(tzinfo=self._rules)
        offset = clock.utcoffset()
        if offset is None or dt.fold:
            return offset
        shown = (clock.replace(tzinfo=UTC) - offset).astimezone(self._rules)
        skipped = shown.replace(tzinfo=None) != dt.replace(tzinfo=None)
        return (clock - _BEFORE).utcoffset() if skipped else offset

    def dst(self, dt: datetime | None) -> timedelta | None:
        """Return the daylight saving offset at a local time."""
        return None if dt is None else dt.replace(tzinfo=self._rules).dst()

    def tzname(self, dt: datetime | None) -> str | None:
        """Return the abbreviation at a local time."""
        return None if dt is None else dt.replace(tzinfo=self._rules).tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Convert a time in UTC to local time."""
        return dt.replace(tzinfo=UTC).astimezone(self._rules).replace(tzinfo=self)
