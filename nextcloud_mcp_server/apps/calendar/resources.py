"""Events as resources: `nc://calendar/personal/4711.ics`."""

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from nextcloud_mcp_server.apps.calendar import results
from nextcloud_mcp_server.apps.calendar.agenda import EVENT, Event
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.formats import ical_time, timestamp
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.caldav import Calendar
from nextcloud_mcp_server.resources.collection import Collections, Member
from nextcloud_mcp_server.resources.kind import About

#: The range of the list: from yesterday, for users in time zones where it is still today, for this long.
_AHEAD: Final = timedelta(days=31)
_ROWS: Final = 200


class Events(Collections):
    """The kind of events, by calendar and name. The next weeks are listed, one calendar per page."""

    about = About(
        "calendar",
        template="nc://calendar/{calendar}/{event}",
        name="event",
        title="Event",
        description="All about an event or a series, by its calendar and its name there (the event_id of the tools).",
        action="nc_calendar_get_event",
        listing="nc_calendar_list_events",
    )
    place = "calendars"
    too_large = "The event is too large for one resource; nc_calendar_get_event shortens it."

    def __init__(self, *, clock: Callable[[], datetime] = timestamp.now) -> None:
        self._clock = clock

    async def collections(self, nc: Account) -> Sequence[Calendar]:
        """Fetch the calendars that may have events."""
        return [each for each in await nc.client(CalendarClient).calendars() if EVENT in each.kinds]

    async def rows(self, nc: Account, name: str, cursor: str | None) -> tuple[list[Member], str | None]:  # noqa: ARG002 - all on one page
        """List the events of a calendar in the next weeks, a series by its next occurrence."""
        events = (await self._coming(nc, name))[:_ROWS]
        return [
            Member(each.stored.id, f"{_title(each)} ({ical_time.shown(each.at.start)})") for each in events
        ], None

    async def members(self, nc: Account, name: str) -> AsyncGenerator[Member]:
        """List the events of a calendar in the next weeks."""
        for event in await self._coming(nc, name):
            yield Member(event.stored.id, _title(event))

    async def details(self, nc: Account, value: str) -> results.EventDetails:
        """Fetch one event or series."""
        return results.details(await nc.client(CalendarClient).get(value))

    async def _coming(self, nc: Account, calendar: str) -> list[Event]:
        """List the events of the next weeks in order, each event and each series once."""
        low = self._clock() - timedelta(days=1)
        agenda = await nc.client(CalendarClient).between(low, low + _AHEAD, zone=UTC, calendar=calendar)
        events: dict[str, Event] = {}
        for event in sorted(agenda.events, key=lambda one: ical_time.instant(one.at.start, UTC)):
            events.setdefault(event.stored.id, event)
        return list(events.values())


def _title(event: Event) -> str:
    return results.row(event, frozenset()).title
