"""Tools for calendars."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Final, Literal

from pydantic import Field

from nextcloud_mcp_server.apps.calendar import free_time, results
from nextcloud_mcp_server.apps.calendar.agenda import Agenda, Event
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import ical_time, zones
from nextcloud_mcp_server.formats.event_edit import Changes
from nextcloud_mcp_server.formats.ical_time import DAY, Moment
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.calendar_errors import DECK
from nextcloud_mcp_server.nextcloud.etag import normalise
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools import event_time, pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

calendar = Toolset("calendar")

_LONGEST_RANGE: Final = timedelta(days=1830)
_IN_TRASH: Final = (
    "It is in the calendar's trash, for 30 days unless the administrator set another time: nc_calendar_update_event "
    "with this event_id and etag and restore=true brings it back."
)
_TAKEN_OFF: Final = Empty("takes it off")
ChangedRule = Annotated[
    str | None, Field(description='"" ends the recurrence.'), Empty("ends the recurrence")
]
_BOARDS: Final = (
    "What has the app “deck” are Deck's boards, shown as lists of tasks: "
    "change their cards with nc_deck_update_card."
)
_ONE_BACK: Final = (
    "nc_calendar_update_event with this occurrence and its title makes it take place again; what had been "
    "changed of it alone is lost."
)

Zone = Annotated[str | None, Field(description="IANA name; default: the person's.")]
EventZone = Annotated[
    str | None,
    Field(description="IANA name; default: the person's; floating: none, the same on every clock."),
]
Occurrence = Annotated[str | None, Field(description="As listed; else the whole series.")]


@calendar.tool("List calendars", read_only=True)
@require_provisioning("calendar:read")
async def nc_calendar_list_calendars(nc: Account) -> results.CalendarList:
    """List the person's calendars and task lists, shared and subscribed ones too, and which can be written to."""
    found = await nc.client(CalendarClient).calendars()
    return results.CalendarList(
        calendars=[results.calendar_row(each) for each in found],
        note=_BOARDS if any(each.app == DECK for each in found) else None,
    )


@calendar.tool("List events", read_only=True)
@require_provisioning("calendar:read")
async def nc_calendar_list_events(
    nc: Account,
    start: Annotated[str, Field(description="ISO 8601 date or time.")],
    end: Annotated[str, Field(description="A date is included.")],
    *,
    calendar: str | None = None,
    query: Annotated[str | None, Field(description="In title, place or description.")] = None,
    timezone: Zone = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> results.EventList:
    """List what takes place between two dates in one calendar or all, each occurrence of a series by itself."""
    after = pagination.unseal(cursor, "events", start, end, calendar, query, timezone)
    found = await _during(nc, start, end, timezone, calendar)
    zone = found.zone
    window = TopK[Event](lambda event: _position(event, zone), limit=limit, after=after)
    for event in found.events:
        if _matches(event, query):
            window.offer(event)
    page, more = window.page()
    rows = pagination.fit([results.row(event, found.mine) for event in page])
    more = more or len(rows) < len(page)
    last = _position(page[len(rows) - 1], zone) if more else None
    return results.EventList(
        events=rows,
        total=window.total,
        cursor=last and pagination.seal(last, "events", start, end, calendar, query, timezone),
        note=_note(found),
    )


@calendar.tool("Read an event", read_only=True)
@require_provisioning("calendar:read")
async def nc_calendar_get_event(
    nc: Account, event_id: TextId, occurrence: Occurrence = None
) -> results.EventDetails:
    """Tell all about an event, or one occurrence of a series: description, who is invited, recurrence, etag."""
    return results.details(await nc.client(CalendarClient).get(event_id, occurrence))


@calendar.tool("Create an event")
@require_provisioning("calendar:write")
async def nc_calendar_create_event(
    nc: Account,
    title: str,
    start: Annotated[str, Field(description="ISO 8601; a date makes it all-day.")],
    *,
    end: Annotated[str | None, Field(description="All-day: the last day. Default: 1 hour or day.")] = None,
    timezone: EventZone = None,
    calendar: str = "personal",
    location: str | None = None,
    description: str | None = None,
    rrule: Annotated[str | None, Field(description="Such as FREQ=WEEKLY;BYDAY=MO;UNTIL=2026-12-31.")] = None,
    attendees: Annotated[list[str] | None, Field(description="E-mail addresses.")] = None,
    categories: list[str] | None = None,
    reminder_minutes: Annotated[int | None, Field(ge=0, le=40_320)] = None,
) -> results.EventWritten:
    """Create an event, once or recurring; Nextcloud sends invitations to the attendees."""
    zone = await event_time.clock(nc.zone, "start", start, timezone)
    changes = Changes(
        title=_title(title),
        start=event_time.first("start", start, zone, is_known=timezone is not None)
        if rrule
        else ical_time.given("start", start, zone),
        end=None if end is None else _last(ical_time.given("end", end, zone)),
        location=location,
        description=description,
        rule=rrule or None,
        attendees=attendees,
        categories=categories,
    )
    return _written(await nc.client(CalendarClient).create(calendar, changes, reminder=reminder_minutes))


@calendar.tool("Change an event", destructive=True)
@require_provisioning("calendar:write")
async def nc_calendar_update_event(
    nc: Account,
    event_id: TextId,
    etag: str,
    *,
    occurrence: Occurrence = None,
    title: str | None = None,
    start: str | None = None,
    end: Annotated[str | None, Field(description="All-day: the last day.")] = None,
    timezone: Annotated[str | None, Field(description="Default: the event's.")] = None,
    location: Annotated[str | None, _TAKEN_OFF] = None,
    description: Annotated[str | None, _TAKEN_OFF] = None,
    rrule: ChangedRule = None,
    attendees: Annotated[list[str] | None, Field(description="Replaces the list.")] = None,
    categories: list[str] | None = None,
    answer: Literal["accepted", "declined", "tentative"] | None = None,
    restore: Annotated[bool, Field(description="From the trash.")] = False,
) -> results.EventWritten:
    """Change the given fields of an event, a series or one occurrence, answer its invitation, or restore it.

    Nextcloud tells the others invited.
    """

    async def make(event: Event) -> Changes:
        return Changes(
            title=None if title is None else _title(title),
            start=await _given(nc, event, "start", start, timezone, rrule=rrule),
            end=_last(await _given(nc, event, "end", end, timezone)),
            location=location,
            description=description,
            rule=rrule,
            attendees=attendees,
            categories=categories,
        )

    calendars = nc.client(CalendarClient)
    fields = (title, start, end, location, description, rrule, attendees, categories, answer)
    given = any(field is not None for field in fields)
    if restore:
        if given or occurrence is not None:
            raise InvalidInput(
                "'restore' goes alone: restore the event first, then change it with its new etag."
            )
        return _written(await calendars.restore(event_id, if_match=etag))
    if not given:
        raise InvalidInput("Nothing to change: send at least one field, or 'answer'.")
    status = None if answer is None else answer.upper()
    return _written(
        await calendars.update(event_id, make, if_match=etag, occurrence=occurrence, answer=status)
    )


@calendar.tool("Delete an event", destructive=True)
@require_provisioning("calendar:write")
async def nc_calendar_delete_event(
    nc: Account, event_id: TextId, etag: str, occurrence: Occurrence = None
) -> results.EventDeleted:
    """Delete an event or series, or take one occurrence out of it; the answer says how to bring it back."""
    if occurrence is None:
        gone = await nc.client(CalendarClient).delete(event_id, if_match=etag)
        return results.EventDeleted(
            event_id=event_id,
            title=gone.title or None,
            etag=normalise(etag),
            undo=_IN_TRASH,
            told=results.notified(gone.notices),
        )
    left = await nc.client(CalendarClient).remove(event_id, if_match=etag, occurrence=occurrence)
    return results.EventDeleted(
        event_id=event_id,
        title=left.at.component.text("SUMMARY")[: results.MAX_TEXT] or None,
        occurrence=results.occurrence(left),
        start=ical_time.shown(left.at.start),
        etag=left.stored.etag,
        undo=_ONE_BACK,
        told=results.notified(left.notices),
    )


@calendar.tool("Find free time", read_only=True)
@require_provisioning("calendar:read")
async def nc_calendar_find_free_time(
    nc: Account,
    start: str,
    end: Annotated[str, Field(description="A date is included.")],
    *,
    minutes: Annotated[int, Field(ge=5, le=1440)] = 60,
    day_from: str = "09:00",
    day_to: str = "17:00",
    weekends: bool = False,
    calendar: str | None = None,
    timezone: Zone = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> results.FreeTime:
    """Find times of at least so many minutes in which the person has no event, within certain hours of the day."""
    hours = free_time.Hours.of(day_from, day_to, weekends=weekends)
    found = await _during(nc, start, end, timezone, calendar)
    zone, mine = found.zone, found.mine
    low, high = _range(start, end, zone)
    busy = [
        (ical_time.instant(event.at.start, zone), ical_time.instant(event.at.end, zone))
        for event in found.events
        if free_time.takes_time(event.at.component, mine)
    ]
    slots = free_time.slots(low, high, busy, hours=hours, zone=zone, shortest=timedelta(minutes=minutes))
    return results.FreeTime(
        timezone=zones.name_of(zone) or str(zone),
        free=[
            results.FreeSlot(start=ical_time.shown(begin), end=ical_time.shown(stop))
            for begin, stop in slots[:limit]
        ],
        note=_note(found),
    )


async def _during(nc: Account, start: str, end: str, timezone: str | None, calendar: str | None) -> Agenda:
    """List the events between two times given as text, in the applicable time zone."""
    return await nc.client(CalendarClient).during(
        lambda zone: _range(start, end, zone),
        locate=lambda ask: event_time.reader(ask, start, timezone),
        calendar=calendar,
    )


async def _given(
    nc: Account, event: Event, name: str, text: str | None, timezone: str | None, *, rrule: str | None = None
) -> Moment | None:
    """Parse a time for an existing event: in the event's time zone, unless `timezone` is given."""
    if text is None:
        return None
    before = event.at.start if name == "start" else event.at.end
    recurs = (
        name == "start" and event.at.id is None and (event.series.recurs if rrule is None else rrule != "")
    )
    return await event_time.changed(nc.zone, name, text, timezone, before=before, recurs=recurs)


def _range(start: str, end: str, zone: tzinfo) -> tuple[datetime, datetime]:
    low = ical_time.instant(ical_time.given("start", start, zone), zone)
    last = _last(ical_time.given("end", end, zone))
    high = ical_time.instant(last if last is not None else low, zone)
    if high <= low:
        raise InvalidInput("'end' is before 'start': send a later one.")
    if high - low > _LONGEST_RANGE:
        raise InvalidInput("That is more than five years: ask for less at once.")
    # In UTC, because Python compares times of one zone by local time, and one hour occurs twice in autumn.
    return low.astimezone(UTC), high.astimezone(UTC)


def _last(moment: Moment | None) -> Moment | None:
    """Convert an inclusive last day to the exclusive end."""
    return moment if moment is None or isinstance(moment, datetime) else moment + DAY


def _position(event: Event, zone: tzinfo) -> Position:
    begin = ical_time.instant(event.at.start, zone)
    name = f"{event.stored.id} {results.occurrence(event) or ''}"
    return Position.of(int(begin.timestamp()), name)


def _matches(event: Event, query: str | None) -> bool:
    if not query:
        return True
    one = event.at.component
    text = " ".join(one.text(name) for name in ("SUMMARY", "LOCATION", "DESCRIPTION"))
    there = folded(text)
    return all(word in there for word in folded(query).split())


def _note(found: Agenda) -> str | None:
    parts = (
        f"{found.unreadable} calendar objects could not be read and are missing here."
        if found.unreadable
        else "",
        f"{found.cut} series recur so often that not all of their occurrences are here." if found.cut else "",
    )
    return " ".join(filter(None, parts)) or None


def _title(text: str) -> str:
    title = " ".join(text.split())
    if not title:
        raise InvalidInput("'title' is empty: an event needs one.")
    return title


def _written(event: Event) -> results.EventWritten:
    one = event.at.component
    return results.EventWritten(
        **results.times(event).model_dump(),
        event_id=event.stored.id,
        etag=event.stored.etag,
        title=one.text("SUMMARY")[: results.MAX_TEXT],
        occurrence=results.occurrence(event),
        told=results.notified(event.notices),
        status=results.status(event),
    )
