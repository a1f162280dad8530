"""Evaluates a recurrence rule (RFC 5545 §3.3.10) in local time, always within limits.

A rule is another user's text: it may never end, never match, or match a million times a day. So the start of each
rule is moved to just before the requested range, and the number of steps is limited by the range.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Self, cast

from nextcloud_mcp_server.formats import ical_time, timestamp
from nextcloud_mcp_server.formats.ical import Unreadable
from nextcloud_mcp_server.formats.ical_time import DAY, Moment

_LAST_YEAR: Final = "9999"
_LONGEST_RULE: Final = 1_000
_TIMES_A_DAY: Final = 288
#: The maximum number of steps of a rule whose start cannot be moved, because it has COUNT: a daily rule for 100
#: years.
_MOST_STEPS: Final = 36_600
_RHYTHMS: Final = {
    "HOURLY": timedelta(hours=1),
    "DAILY": DAY,
    "WEEKLY": 7 * DAY,
    "MONTHLY": 28 * DAY,
    "YEARLY": 365 * DAY,
}
_PART = re.compile(r"[A-Z]+=[A-Z0-9,+:-]+")
_SAFE_DAY: Final = 28
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class _PastTheEnd(Exception):
    """A rule took more steps than the range has."""


class _Steps(int):
    """An interval that counts its uses.

    Without a limit, a rule that matches nothing, such as every 30 February, would run until the year 9999.
    """

    left: int

    def __new__(cls, interval: int, left: int) -> Self:
        made = super().__new__(cls, interval)
        made.left = left
        return made

    def __radd__(self, other: int) -> int:
        self._step()
        return other + int(self)

    def __mul__(self, other: int) -> int:
        self._step()
        return int(self) * other

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _PastTheEnd


class Rule:
    """A validated recurrence rule."""

    def __init__(self, value: str, start: Moment) -> None:
        parts = dict(part.split("=", 1) for part in self._parts(value))
        self.frequency = parts.pop("FREQ", "")
        if self.frequency not in _RHYTHMS:
            raise Unreadable("it recurs in a rhythm that is not known, or more often than every hour")
        times = [len(parts.get(each, "").split(",")) for each in ("BYHOUR", "BYMINUTE", "BYSECOND")]
        if times[0] * times[1] * times[2] > _TIMES_A_DAY:
            raise Unreadable("it recurs too many times a day")
        if parts.get("COUNT", "1").startswith("-"):
            # Some programs write this for a rule without end.
            del parts["COUNT"]
        until = parts.pop("UNTIL", None)
        # The last year stands for no end.
        self.until = None if until is None or until.startswith(_LAST_YEAR) else self._until(until, start)
        self.counts = "COUNT" in parts
        self.interval = self._interval(parts.pop("INTERVAL", "1"))
        self._rest = parts
        self._start = ical_time.on_clock(start)

    @staticmethod
    def _parts(value: str) -> list[str]:
        parts = [part for part in value.strip().upper().split(";") if part]
        if len(value) > _LONGEST_RULE or not all(_PART.fullmatch(part) for part in parts):
            raise Unreadable("its recurrence rule is not made of parts like FREQ=WEEKLY")
        return parts

    @staticmethod
    def _until(text: str, start: Moment) -> datetime:
        """Parse UNTIL in local time of the series; a date includes that whole day."""
        until: Moment
        if "T" in text and "-" in text:
            # Clients may write the time with or without an offset.
            try:
                until = timestamp.read(text)
            except ValueError:
                raise Unreadable("its end is none") from None
        else:
            until = ical_time.parse(text.replace("-", ""), None)
        if not isinstance(until, datetime):
            return ical_time.on_clock(until) + DAY - timedelta(seconds=1)
        if until.tzinfo is not None and isinstance(start, datetime) and start.tzinfo is not None:
            try:
                until = until.astimezone(start.tzinfo)
            except OverflowError:
                raise Unreadable("its end is none") from None
        return until.replace(tzinfo=None)

    @staticmethod
    def _interval(text: str) -> int:
        if not text.isdecimal() or not 0 < int(text[:6]) < _LONGEST_RULE or len(text) > len("1000"):
            raise Unreadable("its interval is none")
        return int(text)

    def written(self, until: str) -> str:
        """Return the rule with another UNTIL."""
        interval = "" if self.interval == 1 else str(self.interval)
        first = (("FREQ", self.frequency), ("INTERVAL", interval), ("UNTIL", until))
        return ";".join(f"{name}={value}" for name, value in (*first, *self._rest.items()) if value)

    def without_one(self) -> str | None:
        """Return the rule with COUNT reduced by one; None without COUNT."""
        if not self.counts:
            return None
        self._rest["COUNT"] = str(int(self._rest["COUNT"]) - 1)
        return self.written("")

    def between(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """Yield the matches in a range of local times, possibly with some before it.

        Raises:
          Unreadable: The rule is invalid.
        """
        start = self._start if self.counts else self._led_to(low)
        high = high if self.until is None else min(high, self.until)
        steps = max(0, min((high - start) // (_RHYTHMS[self.frequency] * self.interval) + 3, _MOST_STEPS))
        try:
            for found in self._plain(start, steps) or self._built(start, steps):
                if found > high:
                    return
                if found >= low:
                    yield found
        except _PastTheEnd:
            return
        except (ValueError, TypeError, OverflowError, IndexError, ZeroDivisionError):
            raise Unreadable("its rule means nothing") from None

    def _plain(self, start: datetime, steps: int) -> Iterator[datetime] | None:
        """Yield the matches of a daily or weekly rule, with or without weekdays; None for other rules.

        Most rules are of this kind, and this takes a tenth of the time.
        """
        names = self._rest.get("BYDAY", "").split(",") if "BYDAY" in self._rest else []
        if (
            not set(self._rest) <= {"BYDAY", "WKST", "COUNT"}
            or self.frequency not in ("DAILY", "WEEKLY")
            or not set(names) <= set(_DAYS)
            or (names and self.frequency == "DAILY")
        ):
            return None
        first = _DAYS.index(self._rest.get("WKST", "MO"))
        into_week = (start.weekday() - first) % 7
        days = sorted({(_DAYS.index(name) - first) % 7 - into_week for name in names}) or [0]
        period = self.interval * _RHYTHMS[self.frequency]
        dates = (start + step * period + timedelta(days=day) for step in range(steps) for day in days)
        times = (date for date in dates if date >= start)
        return islice(times, int(self._rest["COUNT"])) if self.counts else times

    def _built(self, start: datetime, steps: int) -> Iterable[datetime]:
        from dateutil import rrule  # noqa: PLC0415 - only what recurs needs it  # pyright: ignore[reportMissingModuleSource]

        text = ";".join(
            [f"FREQ={self.frequency}", *(f"{name}={value}" for name, value in self._rest.items())]
        )
        built = cast("rrule.rrule", rrule.rrulestr(text, dtstart=start))
        return built.replace(interval=_Steps(self.interval, steps))

    def _led_to(self, low: datetime) -> datetime:
        """Return a start shortly before the range from which the rule yields the same matches."""
        start = self._start
        periods = (low - start) // (_RHYTHMS[self.frequency] * self.interval) - 2
        if periods <= 0:
            return start
        if self.frequency in ("HOURLY", "DAILY", "WEEKLY"):
            return start + periods * self.interval * _RHYTHMS[self.frequency]
        if start.day > _SAFE_DAY:
            return start
        if self.frequency == "YEARLY":
            years = max(0, (low.year - 1 - start.year) // self.interval)
            return start.replace(year=start.year + years * self.interval)
        months = (low.year - start.year) * 12 + low.month - 1 - start.month
        years, month = divmod(start.month - 1 + max(0, months // self.interval) * self.interval, 12)
        return start.replace(year=start.year + years, month=month + 1)
