"""The objects of one kind in all calendars of a user; those of calendars that have not changed come from memory.

A calendar has a state, its `getctag`, which changes with every object in it (`CalDavBackend::addChanges`). What was
fetched is kept with the state that was known before it was asked for, so it is never older than that; and it is
used only in a call in which Nextcloud has just listed the calendar with the same state.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from nextcloud_mcp_server.nextcloud import ical, parallel
from nextcloud_mcp_server.nextcloud.caldav import CalDav, Stored
from nextcloud_mcp_server.nextcloud.calendar_errors import DECK
from nextcloud_mcp_server.nextcloud.content_cache import MAX_PERSON_BYTES, CachedContent
from nextcloud_mcp_server.nextcloud.recurrence import Series
from nextcloud_mcp_server.nextcloud.user_cache import UserCache

#: What a text takes in memory together with its lines as they were read, times its own size (measured: 9.6).
_READ: Final = 10
_OBJECT_BYTES: Final = 500

ObjectKind = Literal["VEVENT", "VTODO"]


class ReadObject:
    """A calendar object, which is read when it is first asked for, and then kept as it is: no one changes it."""

    __slots__ = ("_series", "stored")

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self._series: Series | None = None

    def series(self, kind: ObjectKind) -> Series:
        """Read it; it is always asked for the same kind.

        Raises:
            Unreadable: It cannot be read.
        """
        if self._series is None:
            self._series = Series(ical.read(self.stored.text), kind)
        return self._series


Range = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class KeptCalendar:
    """The objects that a calendar had in a state: all of a kind, or those that take place in a range."""

    state: str
    within: Range | None
    objects: Sequence[ReadObject]
    size: int

    @classmethod
    def of(
        cls, state: str, within: Range | None, stored: Iterable[Stored], before: "KeptCalendar | None" = None
    ) -> "KeptCalendar":
        """Put objects together; those that were there `before`, and are the same, have been read."""
        known = {} if before is None else {one.stored.id: one for one in before.objects}
        objects = [
            known[one.id] if one.id in known and known[one.id].stored == one else ReadObject(one)
            for one in stored
        ]
        size = sum(sys.getsizeof(one.stored.text) * _READ + _OBJECT_BYTES for one in objects)
        return cls(state, within, objects, size)

    def covers(self, within: Range | None) -> bool:
        """Tell whether all that takes place in a range is among them."""
        if self.within is None or within is None:
            return self.within is None
        return self.within[0] <= within[0] and within[1] <= self.within[1]


@dataclass(frozen=True, slots=True)
class KeptCalendars:
    """The calendars of one user whose objects are kept."""

    by_id: Mapping[str, KeptCalendar]
    size: int

    @classmethod
    def of(cls, calendars: Mapping[str, KeptCalendar]) -> "KeptCalendars":
        """Put calendars together, the small ones first, as long as there is room."""
        by_id: dict[str, KeptCalendar] = {}
        size = 0
        for name, one in sorted(calendars.items(), key=lambda each: each[1].size):
            if size + one.size > MAX_PERSON_BYTES:
                break
            by_id[name], size = one, size + one.size
        return cls(by_id, size)


class Listed(NamedTuple):
    """The calendars that hold a kind of object; `boards` counts those of Deck, which are left out."""

    names: list[str]
    boards: int


Use = Callable[[str, Sequence[ReadObject]], Awaitable[None]]


class CalendarObjects:
    """Fetches the objects of one kind."""

    def __init__(
        self, dav: CalDav, kind: ObjectKind, *, cache: UserCache, shelf: CachedContent[KeptCalendars] | None
    ) -> None:
        self._dav = dav
        self._kind: ObjectKind = kind
        self._cache = cache
        self._shelf = shelf

    async def hand(self, use: Use, *, calendar: str | None, within: Range | None = None) -> Listed:
        """Hand on the objects of one calendar, with one request, or of all, as `_in_all`.

        Raises:
            NotFound: No such calendar.
        """
        if calendar is None:
            return await self._in_all(use, within=within)
        await use(calendar, [ReadObject(one) for one in await self._fetch(calendar, within)])
        return Listed([calendar], 0)

    async def _in_all(self, use: Use, *, within: Range | None) -> Listed:
        """Hand on the objects of every calendar, each as soon as it is there; `within` a range, or all.

        One request lists the calendars with their states, and each that has changed is asked for. Those that are
        not kept are asked for while they are listed, but only a few, the largest, where Nextcloud has not just
        accepted the credential.
        """
        kept = None if self._shelf is None else self._shelf.take()
        before: Mapping[str, KeptCalendar] = {} if kept is None else kept.by_id
        known = self._cache.states(self._kind)
        states: dict[str, str] = {}
        boards: list[str] = []
        found: dict[str, KeptCalendar] = {}

        async def listing() -> list[str]:
            listed = [each for each in await self._dav.calendars() if self._kind in each.kinds]
            boards.extend(each.id for each in listed if each.app == DECK)
            states.update((each.id, each.state) for each in listed if each.app != DECK)
            return list(states)

        async def one(name: str) -> None:
            state = states.get(name)
            calendar = before.get(name)
            if calendar is None or not state or calendar.state != state or not calendar.covers(within):
                stored = await self._fetch(name, within)
                label = known.get(name, "") if state is None else state
                calendar = KeptCalendar.of(label, within, stored, calendar)
            found[name] = calendar
            await use(name, calendar.objects)

        names = await parallel.of_each(listing, self._early(known, before, within), one)
        self._cache.saw(self._kind, states)
        if self._shelf is not None:
            # What has no state cannot be asked whether it has changed, such as a calendar that is subscribed to.
            still = {
                name: found[name] for name in names if states[name] and found[name].state == states[name]
            }
            self._shelf.keep(KeptCalendars.of(still))
        return Listed(names, len(boards))

    def _early(
        self, names: Iterable[str], before: Mapping[str, KeptCalendar], within: Range | None
    ) -> list[str]:
        """Choose what to ask for beside the list: as many as there is room for, those that took longest."""
        nothing = KeptCalendar("", None, (), 0)
        missing = [name for name in names if name not in before or not before[name].covers(within)]
        missing.sort(key=lambda name: before.get(name, nothing).size, reverse=True)
        return missing[: self._dav.room]

    async def _fetch(self, name: str, within: Range | None) -> list[Stored]:
        low, high = within or (None, None)
        return await self._dav.objects(name, self._kind, low=low, high=high, wide=True)
