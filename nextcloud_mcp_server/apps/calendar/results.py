"""Results of the calendar tools.

An event is read on demand from its calendar object, which changes keep as it is; so results are separate.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from nextcloud_mcp_server.apps.calendar import scheduling
from nextcloud_mcp_server.apps.calendar.agenda import Event
from nextcloud_mcp_server.apps.calendar.scheduling import NotifiedGuest
from nextcloud_mcp_server.formats import ical, ical_time
from nextcloud_mcp_server.formats.ical import Component, Line
from nextcloud_mcp_server.formats.ical_time import DAY, Moment
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.nextcloud import calendar_errors
from nextcloud_mcp_server.nextcloud.caldav import Calendar
from nextcloud_mcp_server.tools import event_time
from nextcloud_mcp_server.tools.result import LongText, Result

#: The maximum length of a description that is returned completely.
MAX_TEXT: Final = 20_000
_MAX_ROW_TEXT: Final = 200
_LISTED: Final = 50


class CalendarRow(Result):
    """A calendar or task list; `owner` is another user who shares it, `app` the app that fills it."""

    calendar: str
    name: str
    description: str | None = None
    holds: list[str]
    read_only: bool | None = None
    owner: str | None = None
    app: str | None = None


class CalendarList(Result):
    """The calendars of a person."""

    calendars: list[CalendarRow]
    note: str | None = None


class Times(Result):
    """When something is: `start` to `end`, or all day from `start` to `last_day`, which belongs to it."""

    start: str
    end: str | None = None
    last_day: str | None = None
    timezone: str | None = None
    end_timezone: str | None = None


class EventRow(Times):
    """An event in a list, or one occurrence of one that recurs."""

    event_id: str
    title: str
    occurrence: str | None = None
    location: str | None = None
    status: str | None = None
    awaits_answer: bool | None = None
    app: str | None = None
    etag: str | None = None


class EventList(Result):
    """A page of what takes place, in order; `note` says what is missing."""

    events: list[EventRow]
    total: int
    cursor: str | None = None
    note: str | None = None


class Invited(Result):
    """A user who is invited, with their answer; `undelivered` says why the invitation did not reach them."""

    email: str
    name: str | None = None
    answer: str
    undelivered: str | None = None


class EventDetails(Times):
    """All about an event."""

    event_id: str
    etag: str | None = None
    title: str
    occurrence: str | None = None
    rrule: str | None = None
    more_dates: list[str] | None = None
    changed_occurrences: list[str] | None = None
    deleted_occurrences: list[str] | None = None
    location: str | None = None
    description: LongText | None = None
    truncated: bool | None = None
    url: str | None = None
    status: str | None = None
    free: bool | None = None
    categories: list[str] | None = None
    organizer: str | None = None
    attendees: list[Invited] | None = None
    reminders: list[str] | None = None


class EventWritten(Times):
    """What was stored, without `etag` where it could not be looked at afterwards; `told` says who heard of it."""

    event_id: str
    etag: str | None = None
    title: str
    occurrence: str | None = None
    told: list[NotifiedGuest] | None = None
    status: str | None = None


class EventDeleted(Result):
    """What happened, and how to undo it; of one occurrence also when it began."""

    event_id: str
    title: str | None = None
    occurrence: str | None = None
    start: str | None = None
    etag: str | None = None
    undo: str
    told: list[NotifiedGuest] | None = None


class FreeSlot(Result):
    """A time without events."""

    start: str
    end: str


class FreeTime(Result):
    """Times without events, in the zone that is named."""

    timezone: str
    free: list[FreeSlot]
    note: str | None = None


def calendar_row(calendar: Calendar) -> CalendarRow:
    """Return the row of a calendar."""
    kinds = (("VEVENT", "events"), ("VTODO", "tasks"), ("VJOURNAL", "journals"))
    return CalendarRow(
        calendar=calendar.id,
        name=calendar.name,
        description=calendar.description or None,
        holds=[word for kind, word in kinds if kind in calendar.kinds],
        read_only=None if calendar.writable else True,
        owner=calendar.owner or None,
        app=calendar.app or None,
    )


def times(event: Event) -> Times:
    """Return the times of an event."""
    _, start, end, _ = event.at
    if not isinstance(start, datetime):
        return Times(start=ical_time.shown(start), last_day=ical_time.shown(max(start, end - DAY)))
    place, other = _place(event, "DTSTART", start), _place(event, "DTEND", end)
    return Times(
        start=ical_time.shown(start),
        end=ical_time.shown(end),
        timezone=place or event_time.FLOATING,
        end_timezone=None if other in (None, place) else other,
    )


def _place(event: Event, name: str, moment: Moment) -> str | None:
    return event_time.place(event.at.component.first(name), moment)


def row(event: Event, mine: frozenset[str]) -> EventRow:
    """Return the list row of an event."""
    one = event.at.component
    return EventRow(
        **times(event).model_dump(),
        event_id=event.stored.id,
        title=_short(one.text("SUMMARY")),
        occurrence=occurrence(event),
        location=_short(one.text("LOCATION")) or None,
        status=_status(one),
        awaits_answer=True if awaits(one, mine) else None,
        app=calendar_errors.app_of(event.stored.calendar) or None,
        etag=event.stored.etag,
    )


def occurrence(event: Event) -> str | None:
    """Return the occurrence id of an event of a series, else None."""
    return None if event.at.id is None else ical_time.shown(event.at.id)


def details(event: Event) -> EventDetails:
    """Return all details of an event."""
    one, series = event.at.component, event.series
    description = one.text("DESCRIPTION")
    rules = [line.value for line in one.every("RRULE")]
    whole = event.at.id is None
    dates, gone = series.listed(one), series.cancelled()
    return EventDetails(
        **times(event).model_dump(),
        event_id=event.stored.id,
        etag=event.stored.etag,
        title=one.text("SUMMARY")[:MAX_TEXT],
        occurrence=occurrence(event),
        rrule="; ".join(rules) or None,
        more_dates=[ical_time.shown(each) for each in dates[:_LISTED]] or None,
        changed_occurrences=_names(series, series.changed().keys() - gone) if whole else None,
        deleted_occurrences=_names(series, gone) if whole else None,
        location=one.text("LOCATION")[:MAX_TEXT] or None,
        description=description[:MAX_TEXT] or None,
        truncated=True if len(description) > MAX_TEXT else None,
        url=one.text("URL") or None,
        status=status(event),
        free=True if is_free(one) else None,
        categories=[name for line in one.every("CATEGORIES") for name in ical.texts(line)][:_LISTED] or None,
        organizer=scheduling.mail_of(line) if (line := one.first("ORGANIZER")) is not None else None,
        attendees=[_invited(line) for line in list(one.every("ATTENDEE"))[:_LISTED]] or None,
        reminders=[alarm.text("TRIGGER") for alarm in one.components("VALARM")][:_LISTED] or None,
    )


def is_free(one: Component) -> bool:
    """Tell whether an event does not block time, like a birthday."""
    return one.text("TRANSP").upper() == "TRANSPARENT"


def awaits(one: Component, mine: frozenset[str]) -> bool:
    """Tell whether an invitation has no answer from the user yet."""
    return bool(mine) and answer_of(one, mine) in ("", "NEEDS-ACTION")


def answer_of(one: Component, mine: frozenset[str]) -> str | None:
    """Return the user's answer to an invitation; None when the user is not invited."""
    return next(
        (line.parameter("PARTSTAT").upper() for line in one.every("ATTENDEE") if address(line) in mine), None
    )


def address(line: Line) -> str:
    """Return the address of an attendee, normalised for comparison."""
    return line.value.strip().lower().rstrip("/")


def _names(series: Series, keys: set[datetime]) -> list[str] | None:
    return [ical_time.shown(series.restored(key)) for key in sorted(keys)[:_LISTED]] or None


def status(event: Event) -> str | None:
    """Return the status of an event; None when it takes place, `deleted` for a removed occurrence."""
    _, series, at, _ = event
    if at.id is not None and series.key(at.id) in series.removed():
        return "deleted"
    return _status(at.component)


def _status(one: Component) -> str | None:
    said = one.text("STATUS").strip().lower()
    return said[:_LISTED] if said not in ("", "confirmed") else None


def _invited(line: Line) -> Invited:
    answer = line.parameter("PARTSTAT").lower() or "needs-action"
    return Invited(
        email=scheduling.mail_of(line),
        name=line.parameter("CN") or None,
        answer=answer,
        undelivered=scheduling.undelivered(line),
    )


def notified(notices: Sequence[NotifiedGuest]) -> list[NotifiedGuest] | None:
    """List the users who were notified of a change, and those who were not."""
    return list(notices[:_LISTED]) or None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_ROW_TEXT else f"{text[:_MAX_ROW_TEXT]}…"
