"""The events of a time range, read from calendar objects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from time import thread_time
from typing import Final, NamedTuple

from nextcloud_mcp_server.apps.calendar.scheduling import NotifiedGuest
from nextcloud_mcp_server.formats.ical import Unreadable
from nextcloud_mcp_server.formats.recurrence import MOST_OCCURRENCES, Occurrence, Series
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import ReadObject

EVENT: Final = "VEVENT"
#: Once one calendar has yielded this many events, each further series yields only a few: a shared calendar may
#: contain thousands of them.
MOST_EVENTS: Final = 50_000
_FEW: Final = 10
#: Seconds of processor time for the objects of one calendar. Another user may share a calendar built to take long.
_MOST_SECONDS: Final = 20.0

Span = tuple[datetime, datetime]


class Event(NamedTuple):
    """One occurrence of an event: its calendar object, its time and, after a change, its notices.

    The notices name the users who were notified of the change.
    """

    stored: Stored
    series: Series
    at: Occurrence
    notices: tuple[NotifiedGuest, ...] = ()


@dataclass(frozen=True, slots=True)
class Agenda:
    """The events of a time range.

    `unreadable` counts objects that are malformed or took too long to read. `cut` counts those that recur too often
    to be listed completely. `zone` is the reader's time zone. `mine` holds the addresses by which the user is
    invited, where they were requested.
    """

    events: list[Event]
    unreadable: int
    cut: int
    zone: tzinfo = UTC
    mine: frozenset[str] = frozenset()


def agenda(
    objects: Sequence[ReadObject],
    low: datetime,
    high: datetime,
    zone: tzinfo,
    *,
    clock: Callable[[], float] = thread_time,
) -> Agenda:
    """List the events of a range from calendar objects; a broken object does not hide the others.

    `clock` measures the time spent; work stops at the limit.
    """
    events: list[Event] = []
    unreadable = cut = 0
    begun = clock()
    for number, one in enumerate(objects):
        if clock() - begun > _MOST_SECONDS:
            return Agenda(events, unreadable + len(objects) - number, cut)
        most = MOST_OCCURRENCES if len(events) < MOST_EVENTS else _FEW
        try:
            series = one.series(EVENT)
            found = series.between(low, high, zone, most=most)
        except (Unreadable, OverflowError):
            # Includes objects that would end after the last representable date.
            unreadable += 1
            continue
        cut += len(found) > most
        events += [Event(one.stored, series, at) for at in found[:most]]
    return Agenda(events, unreadable, cut)
