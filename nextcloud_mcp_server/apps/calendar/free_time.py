"""Finds times without events."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from nextcloud_mcp_server.apps.calendar import results
from nextcloud_mcp_server.apps.calendar.agenda import Span
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import recurrence
from nextcloud_mcp_server.formats.ical import Component
from nextcloud_mcp_server.formats.ical_time import DAY

_SATURDAY: Final = 5
_MIDNIGHT: Final = "24:00"


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of a day to search; `end` None is midnight."""

    start: time
    end: time | None
    weekends: bool

    @classmethod
    def of(cls, start: str, end: str, *, weekends: bool) -> "Hours":
        """Parse the hours.

        Raises:
          InvalidInput: They are invalid, or end before they begin.
        """
        try:
            first = time.fromisoformat(start)
            last = None if end == _MIDNIGHT else time.fromisoformat(end)
        except ValueError:
            raise InvalidInput("'day_from' and 'day_to' must be times such as 09:00 and 17:00.") from None
        if last is not None and last <= first:
            raise InvalidInput("'day_to' must be later than 'day_from'; the end of the day is 24:00.")
        return cls(first.replace(tzinfo=None), None if last is None else last.replace(tzinfo=None), weekends)

    def on(self, day: datetime, zone: tzinfo) -> Span:
        """Return the hours of one day as moments."""
        last = day if self.end is not None else day + DAY
        start, end = datetime.combine(day, self.start, zone), datetime.combine(last, self.end or time(), zone)
        return start.astimezone(UTC), end.astimezone(UTC)


def takes_time(one: Component, mine: frozenset[str]) -> bool:
    """Tell whether an event blocks the user's time: not cancelled, marked as free, or declined."""
    return not (
        results.is_free(one) or recurrence.is_cancelled(one) or results.answer_of(one, mine) == "DECLINED"
    )


def slots(
    low: datetime, high: datetime, busy: Iterable[Span], *, hours: Hours, zone: tzinfo, shortest: timedelta
) -> list[Span]:
    """List the free times between two moments, in order and each as long as possible; days are in `zone`."""
    taken = sorted((start.astimezone(UTC), end.astimezone(UTC)) for start, end in busy)
    found: list[Span] = []
    day = low.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    last = high.astimezone(zone).replace(tzinfo=None)
    while day < last:
        if hours.weekends or day.weekday() < _SATURDAY:
            start, end = hours.on(day, zone)
            found += _between(max(start, low), min(end, high), taken, shortest)
        day += DAY
    return [(start.astimezone(zone), end.astimezone(zone)) for start, end in found]


def _between(start: datetime, end: datetime, taken: list[Span], shortest: timedelta) -> list[Span]:
    found: list[Span] = []
    for begin, stop in taken:
        if stop <= start or begin >= end:
            continue
        if begin - start >= shortest:
            found.append((start, begin))
        start = max(start, stop)
    if end - start >= shortest:
        found.append((start, end))
    return found
