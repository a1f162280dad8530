"""A time zone that only the calendar object itself describes (VTIMEZONE), such as one of Outlook's."""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from io import StringIO
from typing import Final, Protocol, Self, cast

#: Further back than the clocks are ever put forward at once.
_BEFORE: Final = timedelta(days=1)


class _ZoneReader(Protocol):
    def get(self) -> tzinfo: ...


class DescribedZone(tzinfo):
    """A zone with the name it has in its object; two of the same name and description are the same.

    Times follow RFC 5545 §3.3.5: an hour that the clocks skip is by the offset before, one that they show
    twice is the first, unless `fold` says the second.
    """

    def __init__(self, key: str, written: str, rules: tzinfo) -> None:
        self.key: Final = key
        self._written = written
        self._rules = rules

    @classmethod
    @lru_cache(maxsize=64)
    def read(cls, key: str, written: str) -> Self | None:
        """Read a description; None when it means nothing.

        The same description gives the same object, because Python compares times of one object by their clocks.
        """
        from dateutil import tz  # noqa: PLC0415 - hardly any zone needs it  # pyright: ignore[reportMissingModuleSource]

        try:
            return cls(key, written, cast("_ZoneReader", tz.tzical(StringIO(written))).get())
        except (ValueError, TypeError, AttributeError, IndexError):
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescribedZone) and (self.key, self._written) == (other.key, other._written)

    def __hash__(self) -> int:
        return hash((self.key, self._written))

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Give the offset at a time by these clocks."""
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
        """Give by how much the clocks are put forward."""
        return None if dt is None else dt.replace(tzinfo=self._rules).dst()

    def tzname(self, dt: datetime | None) -> str | None:
        """Give the short name of the time."""
        return None if dt is None else dt.replace(tzinfo=self._rules).tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Give what these clocks show at a time in UTC."""
        return dt.replace(tzinfo=UTC).astimezone(self._rules).replace(tzinfo=self)
