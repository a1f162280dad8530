"""Reads and changes the events of one user's calendars."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.calendar import scheduling
from nextcloud_mcp_server.apps.calendar.agenda import EVENT, Agenda, Event, Span, agenda
from nextcloud_mcp_server.apps.calendar.scheduling import NotifiedGuest, notice
from nextcloud_mcp_server.formats import event_edit, ical, ical_time
from nextcloud_mcp_server.formats.event_edit import Changes
from nextcloud_mcp_server.formats.ical import Component, Unreadable
from nextcloud_mcp_server.formats.recurrence import Occurrence, Series
from nextcloud_mcp_server.nextcloud import parallel
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.caldav import Calendar, Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import CalendarObjectsClient, ReadObject
from nextcloud_mcp_server.tools.event_time import Ask

#: How far an occurrence may have been moved from its original time and still be found by its id.
_FOUND_WITHIN: Final = timedelta(days=2)
_NO_OCCURRENCE: Final = (
    "The event has no such occurrence: take 'occurrence', unchanged, from nc_calendar_list_events."
)
_BROKEN: Final = "This calendar object cannot be read ({wrong}), so it was left alone: open it in Nextcloud."

_T = TypeVar("_T")


class Deleted(NamedTuple):
    """The title of a deleted event, and the users whom Nextcloud notifies of the deletion."""

    title: str
    notices: tuple[NotifiedGuest, ...] = ()


class CalendarClient(CalendarObjectsClient):
    """Reads and writes one user's events."""

    kind = EVENT

    async def calendars(self) -> list[Calendar]:
        """Fetch all calendars and task lists."""
        return await self._dav.calendars()

    async def addresses(self) -> list[str]:
        """Fetch the addresses by which the user is invited."""
        return await self._dav.addresses()

    async def between(
        self, low: datetime, high: datetime, *, zone: tzinfo, calendar: str | None = None
    ) -> Agenda:
        """List the events of a range, in one calendar or all; see `during`.

        All-day events begin at midnight in `zone`, the reader's time zone.
        """

        async def here(_: Ask) -> tzinfo:
            return zone

        return await self.during(lambda _: (low, high), locate=here, calendar=calendar, invitations=False)

    async def during(
        self,
        span: Callable[[tzinfo], Span],
        *,
        locate: Callable[[Ask], Awaitable[tzinfo]],
        calendar: str | None = None,
        invitations: bool = True,
    ) -> Agenda:
        """List the events of the range that `span` returns for the time zone that `locate` finds.

        Requests: one for the list of calendars; one for each that may hold events and has changed, or was not
        requested for this range before; one for the time zone, where `locate` needs it; one for the user's addresses.
        Deck's calendars are left out unless one is named.

        Raises:
          NotFound: No such calendar.
        """
        # Nextcloud uses its own time zone for all-day events and floating times, and the reader's is not known yet.
        first, last = span(UTC)
        within = _shifted(first, -_FOUND_WITHIN), _shifted(last, _FOUND_WITHIN)
        place: list[tzinfo] = []
        known = anyio.Event()
        names, mine = list[str](), list[str]()
        found: dict[str, Agenda] = {}

        async def find() -> None:
            place.append(await locate(self.zone))
            known.set()

        async def introduce() -> None:
            if invitations:
                mine.extend(await self._cache.fact("addresses", self.addresses))

        async def use(name: str, objects: Sequence[ReadObject]) -> None:
            await known.wait()
            read = partial(agenda, objects, *span(place[0]), place[0])
            found[name] = await aside(read, uid=self._http.uid)

        async def everything() -> None:
            names.extend((await self.hand(use, calendar=calendar, within=within)).names)

        await parallel.together(everything, find, introduce)
        listed = [found[name] for name in names]
        return Agenda(
            list(chain.from_iterable(each.events for each in listed)),
            sum(each.unreadable for each in listed),
            sum(each.cut for each in listed),
            place[0],
            frozenset(each.lower().rstrip("/") for each in mine),
        )

    async def get(self, event_id: str, occurrence: str | None = None) -> Event:
        """Fetch one event, or one occurrence of it.

        Raises:
          NotFound: No such event, or no such occurrence.
          ServerFault: The event is malformed.
        """
        stored = await self._dav.get(event_id)

        def read(whole: Component) -> Event:
            event = _event(stored, Series(whole, EVENT), occurrence)
            # Read now, so that a malformed object raises here.
            event.series.changed()
            event.series.removed()
            event.series.listed(event.at.component)
            return event

        return await self._read(stored, read)

    async def create(self, calendar: str, changes: Changes, *, reminder: int | None) -> Event:
        """Create an event: one request; one more to invite users, or where Nextcloud changes the text.

        Raises:
          NotFound: No such calendar.
          Forbidden: It is read-only.
        """
        organizer = (
            scheduling.organizer(changes.attendees, await self._dav.addresses()) if changes.attendees else ""
        )
        whole = event_edit.new_event(
            str(uuid4()), changes, now=datetime.now(UTC), organizer=organizer, reminder=reminder
        )
        stored = await self._dav.create(calendar, whole.written)
        notices = await self._delivery_results("", whole.written, stored)
        return _event(stored, Series(whole, EVENT), None)._replace(notices=notices)

    async def update(
        self,
        event_id: str,
        make: Callable[[Event], Awaitable[Changes]],
        *,
        if_match: str,
        occurrence: str | None = None,
        answer: str | None = None,
    ) -> Event:
        """Change an event or one occurrence, and answer its invitation; two or three requests.

        `make` returns the changes for the current event.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
          Forbidden: The calendar is read-only.
        """
        stored = await self._dav.current(event_id, if_match)
        event = await self._read(stored, lambda whole: _event(stored, Series(whole, EVENT), occurrence))
        changes = await make(event)
        addresses = await self._dav.addresses() if answer is not None or changes.attendees else []
        organizer = scheduling.organizer(changes.attendees, addresses, event.at.component)
        now = datetime.now(UTC)

        def edit(whole: Component) -> Event:
            series = Series(whole, EVENT)
            at = None if occurrence is None else _event(stored, series, occurrence).at
            if changes.any and at is None:
                event_edit.change_all(whole, series, changes, now=now, organizer=organizer)
            elif changes.any and at is not None:
                event_edit.change_one(whole, series, at, changes, now=now, organizer=organizer)
            if answer is not None:
                series = Series(whole, EVENT)
                asked = (
                    list(whole.components(EVENT)) if at is None else [event_edit.single(whole, series, at)]
                )
                event_edit.answer(asked, addresses, answer, now=now)
            return _event(stored, Series(whole, EVENT), occurrence)

        return await self._write(stored, edit)

    async def restore(self, event_id: str, *, if_match: str) -> Event:
        """Restore an event from the trash.

        Raises:
          NotFound: It is not in the trash.
        """
        stored = await self._dav.restore(event_id, EVENT, if_match=if_match)
        event = await self._read(stored, lambda whole: _event(stored, Series(whole, EVENT), None))
        notices = scheduling.invited([event.at.component])
        return event._replace(
            notices=tuple(notice(each, "not told that it takes place again") for each in notices)
        )

    async def delete(self, event_id: str, *, if_match: str) -> Deleted:
        """Move an event and all its occurrences to the trash; two requests, three where users are invited.

        Raises:
          EtagMismatch: It was changed since it was read; it still exists.
          Forbidden: The calendar is read-only.
        """
        stored = await self._dav.current(event_id, if_match)
        one = await self._aside(partial(_first, stored), stored.text)
        notices = await self._cancelled(one)
        await self._dav.delete(stored)
        return Deleted(one.text("SUMMARY"), notices)

    async def remove(self, event_id: str, *, if_match: str, occurrence: str) -> Event:
        """Remove one occurrence from an event; two requests.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was removed.
          Forbidden: The calendar is read-only.
        """
        stored = await self._dav.current(event_id, if_match)
        now = datetime.now(UTC)

        def edit(whole: Component) -> Event:
            series = Series(whole, EVENT)
            at = _event(stored, series, occurrence).at
            event_edit.remove_one(whole, series, at, now=now)
            return Event(stored, series, at)

        return await self._write(stored, edit)

    async def _cancelled(self, one: Component) -> tuple[NotifiedGuest, ...]:
        """List the users whom Nextcloud notifies of a deletion: the attendees, or the organizer."""
        organizer = one.first("ORGANIZER")
        if organizer is None or not (people := scheduling.invited([one])):
            return ()
        mine = {each.lower() for each in await self._cache.fact("addresses", self.addresses)}
        if organizer.value.strip().lower() in mine:
            return tuple(notice(each, "told that it is cancelled, unless it is over") for each in people)
        if not any(f"mailto:{each.lower()}" in mine for each in people):
            return ()
        return (notice(scheduling.mail_of(organizer), "told that this person declines, unless it is over"),)

    async def _write(self, stored: Stored, edit: Callable[[Component], Event]) -> Event:
        def edited(whole: Component) -> tuple[Event, str]:
            return edit(whole), whole.written

        event, text = await self._read(stored, edited)
        written = await self._dav.replace(stored, text)
        notices = await self._delivery_results(stored.text, text, written)
        return event._replace(stored=written, notices=notices)

    async def _read(self, stored: Stored, read: Callable[[Component], _T]) -> _T:
        """Apply `read` to one object; raise ServerFault when it is malformed."""
        return await self._aside(partial(_read, stored, read), stored.text)

    async def _delivery_results(self, before: str, sent: str, stored: Stored) -> tuple[NotifiedGuest, ...]:
        listed = partial(scheduling.delivery_results, before, sent, stored)
        return await self._aside(listed, before, sent, stored.text)


def _event(stored: Stored, series: Series, occurrence: str | None) -> Event:
    """Return the event, or its occurrence, with the given id."""
    if occurrence is None:
        component = series.core or series.exceptions()[0]
        start, end = series.times(component)
        return Event(stored, series, Occurrence(component, start, end))
    if not series.recurs:
        raise errors.InvalidInput("It does not recur: leave 'occurrence' out.")
    start = series.start
    place = start.tzinfo if isinstance(start, datetime) and start.tzinfo is not None else UTC
    named = series.named(ical_time.given("occurrence", occurrence, place))
    key = series.key(named)
    if (changed := series.changed().get(key)) is not None:
        return Event(stored, series, Occurrence(changed, *series.times(changed), named))
    middle = ical_time.instant(named, place)
    around = series.between(
        _shifted(middle, -_FOUND_WITHIN), _shifted(middle, _FOUND_WITHIN), place, even_removed=True
    )
    for one in around:
        if one.id is not None and series.key(one.id) == key:
            return Event(stored, series, one)
    raise errors.NotFound(_NO_OCCURRENCE)


def _first(stored: Stored) -> Component:
    """Return the first event of an object; an empty one where it is malformed."""
    try:
        return next(ical.read(stored.text).components(EVENT))
    except (Unreadable, StopIteration):
        return Component.empty(EVENT)


def _read(stored: Stored, read: Callable[[Component], _T]) -> _T:
    try:
        return read(ical.read(stored.text))
    except (Unreadable, OverflowError) as wrong:
        raise errors.ServerFault(_BROKEN.format(wrong=wrong)) from None


def _shifted(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment.astimezone(UTC) + by
    except OverflowError:
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        return last if by > timedelta() else first
