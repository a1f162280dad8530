"""The objects of one kind in all calendars of a user; unchanged calendars come from the cache.

A calendar has a state, its `getctag`, which changes with every object in it (`CalDavBackend::addChanges`). Objects
are cached with the state that was known before they were requested, so they are never older than that state. They are
used only in a call in which Nextcloud has just listed the calendar with the same state.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import ClassVar, Literal, NamedTuple, Self, TypeVar

from nextcloud_mcp_server.formats import ical
from nextcloud_mcp_server.formats.content_line import Pieces
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.nextcloud import parallel, user_zone
from nextcloud_mcp_server.nextcloud.app_client import AppClient, Connection
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.caldav import CalDav, Stored
from nextcloud_mcp_server.nextcloud.calendar_errors import DECK
from nextcloud_mcp_server.nextcloud.content_cache import MAX_PERSON_BYTES, CachedContent
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes

ObjectKind = Literal["VEVENT", "VTODO"]
_T = TypeVar("_T")


class ReadObject:
    """A calendar object, parsed on first use and then kept; it is never modified."""

    __slots__ = ("_series", "stored")

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self._series: Series | None = None

    def series(self, kind: ObjectKind) -> Series:
        """Parse the object; all calls for one object use the same kind.

        Raises:
          Unreadable: It is malformed.
        """
        if self._series is None:
            self._series = Series(ical.read(self.stored.text), kind)
        return self._series


def _size(text: str) -> int:
    return ical.memory(Pieces.of(text))


Range = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class KeptCalendar:
    """The objects that a calendar had in a state: all of a kind, or those in a time range."""

    state: str
    within: Range | None
    objects: Sequence[ReadObject]
    size: int

    @classmethod
    def of(
        cls, state: str, within: Range | None, stored: Iterable[Stored], before: "KeptCalendar | None" = None
    ) -> "KeptCalendar":
        """Build from stored objects; reuses the parsed objects of `before` that have not changed."""
        known = {} if before is None else {one.stored.id: one for one in before.objects}
        objects = [
            known[one.id] if one.id in known and known[one.id].stored == one else ReadObject(one)
            for one in stored
        ]
        size = sum(_size(one.stored.text) for one in objects)
        return cls(state, within, objects, size)

    def covers(self, within: Range | None) -> bool:
        """Tell whether the cached objects include all those of a range."""
        if self.within is None or within is None:
            return self.within is None
        return self.within[0] <= within[0] and within[1] <= self.within[1]


@dataclass(frozen=True, slots=True)
class KeptCalendars:
    """The calendars of one user whose objects are cached."""

    by_id: Mapping[str, KeptCalendar]
    size: int

    @classmethod
    def of(cls, calendars: Mapping[str, KeptCalendar]) -> "KeptCalendars":
        """Collect calendars, the smallest first, until the memory limit is reached."""
        by_id: dict[str, KeptCalendar] = {}
        size = 0
        for name, one in sorted(calendars.items(), key=lambda each: each[1].size):
            if size + one.size > MAX_PERSON_BYTES:
                break
            by_id[name], size = one, size + one.size
        return cls(by_id, size)


class Listed(NamedTuple):
    """The calendars that contain a kind of object; `boards` counts those of Deck, which are left out."""

    names: list[str]
    boards: int


Use = Callable[[str, Sequence[ReadObject]], Awaitable[None]]


class CalendarObjectsClient(AppClient):
    """The base of the clients of events and of tasks, which are the calendar objects of one `kind`."""

    kind: ClassVar[ObjectKind]

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.http)
        self._dav = CalDav(connection.http, connection.wide)
        self._cache = connection.cache
        self._cached_content: CachedContent[KeptCalendars] | None = connection.content(self.kind)

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client."""
        return cls(connection)

    async def _aside(self, work: Callable[[], _T], *texts: str) -> _T:
        """Work on the texts of objects, on long ones in a thread."""
        return await aside(work, uid=self._http.uid, size=sum(Pieces.of(text).work for text in texts))

    async def zone(self) -> tzinfo:
        """Return the user's time zone, which is cached."""
        return await self._cache.fact("zone", partial(user_zone.of, self._http))

    async def hand(self, use: Use, *, calendar: str | None, within: Range | None = None) -> Listed:
        """Pass the objects of one calendar (one request) or of all (see `_in_all`) to `use`.

        An object beyond the memory of a user's calls is passed without its text, so it is counted as unreadable.

        Raises:
          NotFound: No such calendar.
        """
        with HeldBytes(self._http.uid) as held:
            if calendar is None:
                return await self._in_all(use, held, within=within)
            await use(calendar, [ReadObject(one) for one in await self._fetch(calendar, within, held)])
        return Listed([calendar], 0)

    async def _in_all(self, use: Use, held: HeldBytes, *, within: Range | None) -> Listed:
        """Pass the objects of every calendar to `use`, each as soon as it arrives; `within` a range, or all.

        One request lists the calendars with their states; each that has changed is fetched. Those that are not cached
        are fetched in parallel with the list. These are only a few, the largest ones, where Nextcloud has not just
        accepted the credential.
        """
        kept = None if self._cached_content is None else self._cached_content.take()
        before: Mapping[str, KeptCalendar] = {} if kept is None else kept.by_id
        known = self._cache.states(self.kind)
        states: dict[str, str] = {}
        boards: list[str] = []
        found: dict[str, KeptCalendar] = {}

        async def listing() -> list[str]:
            listed = [each for each in await self._dav.calendars() if self.kind in each.kinds]
            boards.extend(each.id for each in listed if each.app == DECK)
            states.update((each.id, each.state) for each in listed if each.app != DECK)
            return list(states)

        async def one(name: str) -> None:
            state = states.get(name)
            calendar = before.get(name)
            if calendar is None or not state or calendar.state != state or not calendar.covers(within):
                stored = await self._fetch(name, within, held)
                label = known.get(name, "") if state is None else state
                if not all(each.text for each in stored):
                    # A later call may have room for all of it.
                    label = ""
                calendar = KeptCalendar.of(label, within, stored, calendar)
            found[name] = calendar
            await use(name, calendar.objects)

        names = await parallel.of_each(listing, self._early(known, before, within), one)
        self._cache.saw(self.kind, states)
        if self._cached_content is not None:
            # A calendar without a state, such as a subscription, cannot be checked for changes.
            still = {
                name: found[name] for name in names if states[name] and found[name].state == states[name]
            }
            self._cached_content.keep(KeptCalendars.of(still))
        return Listed(names, len(boards))

    def _early(
        self, names: Iterable[str], before: Mapping[str, KeptCalendar], within: Range | None
    ) -> list[str]:
        """Choose the calendars to fetch in parallel with the list: the slowest, within the limit."""
        nothing = KeptCalendar("", None, (), 0)
        missing = [name for name in names if name not in before or not before[name].covers(within)]
        missing.sort(key=lambda name: before.get(name, nothing).size, reverse=True)
        return missing[: self._dav.room]

    async def _fetch(self, name: str, within: Range | None, held: HeldBytes) -> list[Stored]:
        low, high = within or (None, None)

        def fits(text: str) -> bool:
            return held.take(_size(text))

        return await self._dav.objects(name, self.kind, low=low, high=high, wide=True, fits=fits)
