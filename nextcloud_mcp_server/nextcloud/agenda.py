"""What takes place in a range, read from the objects of a calendar."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from time import thread_time
from typing import Final, NamedTuple

from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import ReadObject
from nextcloud_mcp_server.nextcloud.ical import Unreadable
from nextcloud_mcp_server.nextcloud.recurrence import MOST_OCCURRENCES, Occurrence, Series
from nextcloud_mcp_server.nextcloud.scheduling import Notice

EVENT: Final = "VEVENT"
#: Once one calendar has given so many, each further series gives only a few: a user may have shared thousands.
MOST_EVENTS: Final = 50_000
_FEW: Final = 10
#: How long the objects of one calendar are worked on. What is shared may be made to take very long.
_MOST_SECONDS: Final = 20.0

Span = tuple[datetime, datetime]


class Event(NamedTuple):
    """Something that takes place: which object says so, and when; after a change, who was told of it."""

    stored: Stored
    series: Series
    at: Occurrence
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Agenda:
    """What takes place in a range.

    `unreadable` counts objects that cannot be understood, or not in time, `cut` those that recur too often to be
    listed whole. `zone` is where the reader is, `mine` holds the addresses that the user is invited by, where
    they were asked for.
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
    """Read objects and list what takes place in a range; one that is broken hides no other.

    `clock` tells how long this has been worked on.
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
            # Also what would end after the last day that there is.
            unreadable += 1
            continue
        cut += len(found) > most
        events += [Event(one.stored, series, at) for at in found[:most]]
    return Agenda(events, unreadable, cut)
