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
            return cls(at, *_counted(past // _MINUTE, "minute"))
        if past < _DAY:
            return cls(at, *_counted(past // _HOUR, "hour"))
        if past < _COUNTED_BACK:
            return cls(at, *_counted(past // _DAY, "day"))
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


def _counted(count: int, unit: str) -> tuple[str, int]:
    return (unit, 1) if count == 1 else (f"{unit}s", count)
