"""The calendars of one person: what takes place when, and changes to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from time import thread_time
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

import anyio
from anyio import to_thread

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import event_edit, ical, moments, zones
from nextcloud_mcp_server.nextcloud.caldav import CalDav, Calendar, Stored
from nextcloud_mcp_server.nextcloud.capabilities import CapabilitiesClient
from nextcloud_mcp_server.nextcloud.etag import normalise
from nextcloud_mcp_server.nextcloud.event_edit import Changes
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.ical import Component, Unreadable
from nextcloud_mcp_server.nextcloud.recurrence import MOST_OCCURRENCES, Occurrence, Series
from nextcloud_mcp_server.nextcloud.refusal import changed_since

EVENT: Final = "VEVENT"
#: How far from where it was to be an occurrence may have been moved and still be found by its name.
_FOUND_WITHIN: Final = timedelta(days=2)
#: Once one calendar has given so many, each further series gives only a few: somebody may have shared thousands.
MOST_EVENTS: Final = 50_000
_FEW: Final = 10
#: How long the objects of one calendar are worked on. What is shared may be made to take very long.
_MOST_SECONDS: Final = 20.0
_NO_OCCURRENCE: Final = (
    "The event has no such occurrence: take 'occurrence', unchanged, from nc_calendar_list_events."
)
_BROKEN: Final = "This calendar object cannot be read ({wrong}), so it was left alone: open it in Nextcloud."

_T = TypeVar("_T")


class Event(NamedTuple):
    """Something that takes place: which object says so, and when."""

    stored: Stored
    series: Series
    at: Occurrence


@dataclass(frozen=True, slots=True)
class Agenda:
    """What takes place in a range.

    `unreadable` counts objects that cannot be understood, or not in time, `cut` those that recur too often to be
    listed whole.
    """

    events: list[Event]
    unreadable: int
    cut: int


def _clock() -> datetime:
    return datetime.now(UTC)


class CalendarClient:
    """Reads and writes one person's events."""

    def __init__(self, http: NextcloudHttp, *, clock: Callable[[], datetime] = _clock) -> None:
        self._http = http
        self._dav = CalDav(http)
        self._clock = clock

    async def calendars(self) -> list[Calendar]:
        """Fetch all calendars and task lists."""
        return await self._dav.calendars()

    async def zone(self) -> tzinfo:
        """Ask where the person is; UTC where Nextcloud does not know."""
        return zones.found((await CapabilitiesClient(self._http).get()).timezone) or UTC

    async def addresses(self) -> list[str]:
        """Fetch the addresses under which the person is invited."""
        return await self._dav.addresses()

    async def between(
        self, low: datetime, high: datetime, *, zone: tzinfo, calendar: str | None = None
    ) -> Agenda:
        """List what takes place in a range, in one calendar or all; a request each, and one for their names.

        `zone` is where the reader is: all-day events begin at its midnight.

        Raises:
            NotFound: No such calendar.
        """
        names = [] if calendar is None else [calendar]
        if calendar is None:
            names = [each.id for each in await self._dav.calendars() if EVENT in each.kinds]
        found: list[Agenda] = []

        async def fetch(name: str) -> None:
            # All-day events and floating times are at the server's place there, which may be a day off.
            stored = await self._dav.objects(name, EVENT, low=_earlier(low), high=_later(high))
            # In a thread, because a full calendar takes a while and others are to be served meanwhile.
            found.append(await to_thread.run_sync(partial(agenda, stored, low, high, zone)))

        await side_by_side(names, fetch)
        return Agenda(
            [event for each in found for event in each.events],
            sum(each.unreadable for each in found),
            sum(each.cut for each in found),
        )

    async def get(self, event_id: str, occurrence: str | None = None) -> Event:
        """Fetch one event, or one occurrence of it.

        Raises:
            NotFound: No such event, or no such occurrence.
            ServerFault: It cannot be read.
        """
        stored = await self._dav.get(event_id)

        def read(whole: Component) -> Event:
            event = _event(stored, Series(whole, EVENT), occurrence)
            # Read now, so that what cannot be is said here.
            event.series.changed()
            event.series.removed()
            event.series.listed(event.at.component)
            return event

        return _read(stored, read)

    async def create(self, calendar: str, changes: Changes, *, reminder: int | None) -> Event:
        """Make an event. One request; one more to invite somebody, and where Nextcloud changes the text.

        Raises:
            NotFound: No such calendar.
            Forbidden: It is read-only.
        """
        organizer = await self._organizer(changes)
        whole = event_edit.new_event(
            str(uuid4()), changes, now=self._clock(), organizer=organizer, reminder=reminder
        )
        stored = await self._dav.create(calendar, whole.written)
        return _event(stored, Series(whole, EVENT), None)

    async def update(
        self,
        event_id: str,
        make: Callable[[Event], Awaitable[Changes]],
        *,
        if_match: str,
        occurrence: str | None = None,
        answer: str | None = None,
    ) -> Event:
        """Change an event, or one occurrence of it, and answer its invitation; two requests or three.

        `make` says what to change, seeing what is there.

        Raises:
            EtagMismatch: It was changed since it was read; nothing was written.
            Forbidden: The calendar is read-only.
        """
        stored = await self._current(event_id, if_match)
        event = _read(stored, lambda whole: _event(stored, Series(whole, EVENT), occurrence))
        changes = await make(event)
        organizer = await self._organizer(changes)
        addresses = await self._dav.addresses() if answer is not None else []
        now = self._clock()

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

    async def delete(self, event_id: str, *, if_match: str) -> str:
        """Move an event to the trash, with all its occurrences; two requests. Answers its title.

        Raises:
            EtagMismatch: It was changed since it was read; it is still there.
            Forbidden: The calendar is read-only.
        """
        stored = await self._current(event_id, if_match)
        await self._dav.delete(event_id, if_match=if_match)
        try:
            return next(ical.read(stored.text).components(EVENT)).text("SUMMARY")
        except (Unreadable, StopIteration):
            return ""

    async def remove(self, event_id: str, *, if_match: str, occurrence: str) -> Event:
        """Take one occurrence out of an event; two requests.

        Raises:
            EtagMismatch: It was changed since it was read; it is still there.
            Forbidden: The calendar is read-only.
        """
        stored = await self._current(event_id, if_match)
        now = self._clock()

        def edit(whole: Component) -> Event:
            series = Series(whole, EVENT)
            at = _event(stored, series, occurrence).at
            event_edit.remove_one(whole, series, at, now=now)
            return Event(stored, series, at)

        return await self._write(stored, edit)

    async def _current(self, event_id: str, if_match: str) -> Stored:
        stored = await self._dav.get(event_id)
        if normalise(if_match) != stored.etag:
            raise errors.EtagMismatch(changed_since(stored.etag), current_etag=stored.etag)
        return stored

    async def _write(self, stored: Stored, edit: Callable[[Component], Event]) -> Event:
        def edited(whole: Component) -> tuple[Event, str]:
            return edit(whole), whole.written

        event, text = _read(stored, edited)
        return event._replace(stored=await self._dav.replace(stored, text))

    async def _organizer(self, changes: Changes) -> str:
        """Give the address that invitations come from; empty when nobody is invited, or there is none."""
        if not changes.attendees:
            return ""
        addresses = await self._dav.addresses()
        return next((each for each in addresses if each.lower().startswith("mailto:")), "")


def agenda(
    stored: list[Stored],
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
    for number, one in enumerate(stored):
        if clock() - begun > _MOST_SECONDS:
            return Agenda(events, unreadable + len(stored) - number, cut)
        most = MOST_OCCURRENCES if len(events) < MOST_EVENTS else _FEW
        try:
            series = Series(ical.read(one.text), EVENT)
            found = series.between(low, high, zone, most=most)
        except (Unreadable, OverflowError):
            # Also what would end after the last day that there is.
            unreadable += 1
            continue
        cut += len(found) > most
        events += [Event(one, series, at) for at in found[:most]]
    return Agenda(events, unreadable, cut)


async def side_by_side(names: list[str], call: Callable[[str], Awaitable[None]]) -> None:
    """Make a request for each name; when one fails the others end, and its error is raised."""
    failed: list[errors.NextcloudMcpError] = []

    async def one(name: str) -> None:
        try:
            await call(name)
        except errors.NextcloudMcpError as error:
            failed.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)
    if failed:
        raise failed[0]


def _event(stored: Stored, series: Series, occurrence: str | None) -> Event:
    """Find what an id and an occurrence mean."""
    if occurrence is None:
        component = series.core or series.exceptions()[0]
        start, end = series.times(component)
        return Event(stored, series, Occurrence(component, start, end))
    if not series.recurs:
        raise errors.InvalidInput("It does not recur: leave 'occurrence' out.")
    start = series.start
    place = start.tzinfo if isinstance(start, datetime) and start.tzinfo is not None else UTC
    named = series.named(moments.given("occurrence", occurrence, place))
    key = series.key(named)
    if (changed := series.changed().get(key)) is not None:
        return Event(stored, series, Occurrence(changed, *series.times(changed), named))
    middle = moments.instant(named, place)
    around = series.between(_earlier(middle), _later(middle), place, even_removed=True)
    for one in around:
        if one.id is not None and series.key(one.id) == key:
            return Event(stored, series, one)
    raise errors.NotFound(_NO_OCCURRENCE)


def _read(stored: Stored, read: Callable[[Component], _T]) -> _T:
    """Read one object that must be readable."""
    try:
        return read(ical.read(stored.text))
    except (Unreadable, OverflowError) as wrong:
        raise errors.ServerFault(_BROKEN.format(wrong=wrong)) from None


def _earlier(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) - _FOUND_WITHIN
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _later(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) + _FOUND_WITHIN
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
