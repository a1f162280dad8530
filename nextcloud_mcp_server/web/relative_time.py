"""A point in time in words. The user's time zone is not known, so recent times are relative."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_COUNTED_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RelativeTime:
    """A key of the catalogue under `moment`, and the values of its sentence."""

    at: datetime
    kind: str
    count: int = 0

    @classmethod
    def of(cls, at: datetime, *, now: datetime) -> "RelativeTime":
        """Say how long ago a time was, or its day if that is a week or more."""
        past = now - at
        if past < _MINUTE:
            return cls(at, "now")
        if past < _HOUR:
            return cls(at, "minutes", past // _MINUTE)
        if past < _DAY:
            return cls(at, "hours", past // _HOUR)
        if past < _COUNTED_BACK:
            return cls(at, "days", past // _DAY)
        return cls(at, "date")

    @property
    def month(self) -> str:
        """The key of the month's name."""
        return f"month.{self.at.astimezone(UTC).month}"

    @property
    def day(self) -> int:
        """The day of the month."""
        return self.at.astimezone(UTC).day

    @property
    def year(self) -> int:
        """The year."""
        return self.at.astimezone(UTC).year

    @property
    def exact(self) -> str:
        """The time to the minute, with its zone."""
        return self.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def iso(self) -> str:
        """The exact time, for machines."""
        return self.at.astimezone(UTC).isoformat(timespec="seconds")
