"""Events as resources: `nc://calendar/personal/4711.ics`."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from nextcloud_mcp_server.apps.calendar import results
from nextcloud_mcp_server.apps.calendar.agenda import EVENT, Event
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.errors import NotFound, TooLarge
from nextcloud_mcp_server.formats import ical_time
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources import collection
from nextcloud_mcp_server.resources.kind import (
    MAX_BYTES,
    MAX_VALUES,
    About,
    Contents,
    Listed,
    Marks,
    Page,
    Reader,
    Typed,
)

_JSON: Final = "application/json"
#: The range of the list: from yesterday, for users in time zones where it is still today, for this long.
_AHEAD: Final = timedelta(days=31)
_ROWS: Final = 200


def _clock() -> datetime:
    return datetime.now(UTC)


class Events:
    """The kind of events, by calendar and name. The next weeks are listed, one calendar per page."""

    about = About(
        toolset="calendar",
        scopes=frozenset({"calendar:read"}),
        template="nc://calendar/{calendar}/{event}",
        argument="calendar",
        name="event",
        title="Event",
        description="All about an event or a series, by its calendar and its name there (the event_id of the tools).",
        mime_type=_JSON,
        action="nc_calendar_get_event",
        listing="nc_calendar_list_events",
    )

    def __init__(self, *, clock: Callable[[], datetime] = _clock) -> None:
        self._clock = clock

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List the events of one calendar in the next weeks, a series by its next occurrence."""
        names = [each.id for each in await nc.client(CalendarClient).calendars() if EVENT in each.kinds]
        if not names:
            return Page([])
        here = collection.at(names, cursor)
        rows = [
            Listed(self.about.uri(event.stored.id), _shown(event), _JSON)
            for event in (await self._coming(nc, names[here]))[:_ROWS]
        ]
        return Page(rows, names[here + 1] if here + 1 < len(names) else None)

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Return all details of an event, as nc_calendar_get_event does."""
        found = results.details(await nc.client(CalendarClient).get(value)).model_dump_json(exclude_none=True)
        if len(found.encode()) > MAX_BYTES:
            raise TooLarge("The event is too large for one resource; nc_calendar_get_event shortens it.")
        return Contents(found, _JSON)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the state of each calendar, and the etags of events only where it has changed."""
        return await collection.look(nc, "calendars", values, before, listing=listing)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Find calendars by name, and events of one calendar in the next weeks by title."""
        if typed.name == self.about.argument:
            found = [
                each.id
                for each in await nc.client(CalendarClient).calendars()
                if EVENT in each.kinds and collection.begins(typed.value, each.id, each.name)
            ]
            return found[: MAX_VALUES + 1]
        try:
            events = await self._coming(nc, typed.others.get(self.about.argument, ""))
        except NotFound:
            return []
        named = [(event.stored.id.partition("/")[2], _title(event)) for event in events]
        return [name for name, title in named if collection.begins(typed.value, name, title)][
            : MAX_VALUES + 1
        ]

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


def _shown(event: Event) -> str:
    return f"{_title(event)} ({ical_time.shown(event.at.start)})"
