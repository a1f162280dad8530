"""Expands recurring events and tasks (RFC 5545 §3.8.5), in their own time zone.

Rules are evaluated in the local time of that zone, not in UTC, so that a weekly meeting keeps its hour when daylight
saving time begins or ends.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Final, NamedTuple

from nextcloud_mcp_server.formats import ical_time
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable
from nextcloud_mcp_server.formats.ical_time import DAY, Moment
from nextcloud_mcp_server.formats.rule import Rule
from nextcloud_mcp_server.formats.zones import Zones

#: The maximum number of occurrences that one series may add to one result.
MOST_OCCURRENCES: Final = 2_000
#: The maximum duration of an occurrence for which it is still found by its end.
_LONGEST: Final = timedelta(days=36_500)


class Occurrence(NamedTuple):
    """One occurrence; `end` is exclusive: the first moment, or day, after it.

    `component` has its properties. `id` is its RECURRENCE-ID, the original start, for occurrences of a series.
    """

    component: Component
    start: Moment
    end: Moment
    id: Moment | None = None


class Series:
    """All events, or tasks, of one calendar object."""

    def __init__(self, whole: Component, kind: str) -> None:
        self.zones = Zones(whole)
        self.kind = kind
        found = list(whole.components(kind))
        cores = [each for each in found if each.first("RECURRENCE-ID") is None]
        self.core = max(cores, key=_sequence) if cores else None
        self._changed = [each for each in found if each.first("RECURRENCE-ID") is not None]
        if not found:
            raise Unreadable(f"it holds no {kind}")

    @cached_property
    def start(self) -> Moment:
        """The start of the first occurrence."""
        return self.times(self.core or self._changed[0])[0]

    @property
    def recurs(self) -> bool:
        """Tell whether there is, or was, more than one occurrence."""
        core = self.core
        return core is None or any(core.first(name) is not None for name in ("RRULE", "RDATE"))

    def time(self, component: Component, name: str) -> Moment | None:
        """Return one time of a component, or None.

        Raises:
          Unreadable: It is invalid.
        """
        line = component.first(name)
        return None if line is None else ical_time.of(line, self.zones)

    def times(self, component: Component) -> tuple[Moment, Moment]:
        """Return the start of a component, and its exclusive end.

        Raises:
          Unreadable: The start is missing or a time is invalid.
        """
        line = component.first("DTSTART") or (component.first("DUE") if self.kind == "VTODO" else None)
        if line is None:
            raise Unreadable("it does not say when it begins")
        start = ical_time.of(line, self.zones)
        end = self._end(component, start)
        return start, max(start, end)

    def _end(self, component: Component, start: Moment) -> Moment:
        line = component.first("DUE" if self.kind == "VTODO" else "DTEND")
        if line is not None:
            end = ical_time.of(line, self.zones)
            return end if is_alike(end, start) else ical_time.like(end, start)
        line = component.first("DURATION")
        if line is not None:
            length = ical_time.duration(line.value)
            return start + (length if isinstance(start, datetime) else timedelta(days=length.days))
        return start if isinstance(start, datetime) else start + DAY

    def changed(self) -> dict[datetime, Component]:
        """Return the changed occurrences by their original start, in local time of the series."""
        return {self.key(ical_time.of(line, self.zones)): one for one, line in self._exceptions()}

    def exceptions(self) -> list[Component]:
        """Return the components of single occurrences."""
        return self._changed

    def _exceptions(self) -> Iterator[tuple[Component, Line]]:
        for one in self._changed:
            if (line := one.first("RECURRENCE-ID")) is not None:
                yield one, line

    def key(self, moment: Moment) -> datetime:
        """Return the key of an occurrence, from a time of any type or zone: local time of the series."""
        return ical_time.on_clock(self.named(moment))

    def named(self, moment: Moment) -> Moment:
        """Return the RECURRENCE-ID of an occurrence in the type and zone of the series."""
        return ical_time.like(moment, self.start)

    def removed(self) -> set[datetime]:
        """Return the occurrences that were removed (EXDATE)."""
        lines: Iterable[Line] = () if self.core is None else self.core.every("EXDATE")
        return {self.key(one) for line in lines for one, _ in ical_time.every(line, self.zones)}

    def cancelled(self) -> set[datetime]:
        """Return the occurrences that do not take place: removed or cancelled ones."""
        return self.removed() | {key for key, one in self.changed().items() if is_cancelled(one)}

    def listed(self, component: Component) -> list[Moment]:
        """Return the additional dates of a component (RDATE)."""
        return [one for line in component.every("RDATE") for one, _ in ical_time.every(line, self.zones)]

    def between(
        self,
        low: datetime,
        high: datetime,
        zone: tzinfo,
        *,
        even_removed: bool = False,
        most: int = MOST_OCCURRENCES,
    ) -> list[Occurrence]:
        """List the occurrences in a range; at most the first `most` and one more.

        `zone` is the reader's time zone, for dates and floating times.

        Raises:
          Unreadable: A value is invalid.
        """
        changed = self.changed()
        removed = set[datetime]() if even_removed else self.removed()
        found: list[Occurrence] = []
        for key, one in self._regular(low, high, zone):
            if key not in removed and key not in changed:
                found.append(one)
                if len(found) > most:
                    break
        for key, component in changed.items():
            one = Occurrence(component, *self.times(component), self.restored(key))
            gone = key in removed or is_cancelled(component)
            if not gone and takes_place(one, low, high, zone):
                found.append(one)
        return found

    def restored(self, key: datetime) -> Moment:
        """Convert a key in local time back to a time of the series."""
        start = self.start
        return key.replace(tzinfo=start.tzinfo) if isinstance(start, datetime) else key.date()

    def _regular(self, low: datetime, high: datetime, zone: tzinfo) -> Iterator[tuple[datetime, Occurrence]]:
        """Yield the occurrences of the rules in the range, ignoring exceptions."""
        core = self.core
        if core is None:
            return
        start, end = self.times(core)
        if not self.recurs:
            if takes_place(one := Occurrence(core, start, end), low, high, zone):
                yield ical_time.on_clock(start), one
            return
        long = length(start, end)
        place = start.tzinfo if isinstance(start, datetime) and start.tzinfo is not None else zone
        first, last = (each.astimezone(place).replace(tzinfo=None) for each in (low, high))
        later = self._from_then_on()
        for clock, until in self._clocks(core, start, first - min(long, _LONGEST) - DAY, last + DAY):
            begin = self.restored(clock)
            if later or until is not None:
                one = self._varied(core, begin, clock, until, later)
                if one.component is not core and is_cancelled(one.component):
                    continue
            else:
                one = Occurrence(core, begin, after(begin, long, end), begin)
                # Well inside the range no zone matters; the exact check would take as long as everything else.
                if first + DAY < clock < last - DAY:
                    yield clock, one
                    continue
            if takes_place(one, low, high, zone):
                yield clock, one

    def _varied(
        self,
        core: Component,
        begin: Moment,
        clock: datetime,
        until: Moment | timedelta | None,
        later: list[tuple[datetime, Component]],
    ) -> Occurrence:
        """Return an occurrence with a duration of its own, or one after a change of this and future ones."""
        index = bisect_right(later, clock, key=_first)
        key, component = later[index - 1] if index else (clock, core)
        start, end = self.times(component)
        long = length(start, end)
        if until is not None:
            long = until if isinstance(until, timedelta) else length(begin, ical_time.like(until, begin))
        moved = begin if component is core else begin + (ical_time.on_clock(start) - key)
        return Occurrence(component, moved, after(moved, long, end), begin)

    def _from_then_on(self) -> list[tuple[datetime, Component]]:
        """Return the changes with RANGE=THISANDFUTURE (RFC 5545 §3.2.13)."""
        found = [
            (self.key(ical_time.of(line, self.zones)), one)
            for one, line in self._exceptions()
            if line.parameter("RANGE").upper() == "THISANDFUTURE"
        ]
        return sorted(found, key=_first)

    def _clocks(
        self, core: Component, start: Moment, low: datetime, high: datetime
    ) -> Iterator[tuple[datetime, Moment | timedelta | None]]:
        """Yield the local times, each once: the start, those of the rules, the listed ones."""
        clock = ical_time.on_clock(start)
        rules = [Rule(line.value, start) for line in core.every("RRULE")]
        seen = {clock}
        # A series that ended before it began never takes place, in Nextcloud either.
        if not rules or any(rule.until is None or rule.until >= clock for rule in rules):
            yield clock, None
        for line in core.every("RDATE"):
            for one, until in ical_time.every(line, self.zones):
                if (key := self.key(one)) not in seen:
                    seen.add(key)
                    yield key, until
        for rule in rules:
            for key in rule.between(low, high):
                if key not in seen:
                    seen.add(key)
                    yield key, None


def is_cancelled(component: Component) -> bool:
    """Tell whether the status of a component is CANCELLED."""
    return component.text("STATUS").strip().upper() == "CANCELLED"


def takes_place(one: Occurrence, low: datetime, high: datetime, zone: tzinfo) -> bool:
    """Tell whether an occurrence overlaps a range."""
    start, end = ical_time.instant(one.start, zone), ical_time.instant(one.end, zone)
    return start < high and (end > low or start == end == low)


def is_alike(one: Moment, other: Moment) -> bool:
    """Tell whether two times are comparable: both dates, both times with a zone, or both floating."""
    if isinstance(one, datetime) and isinstance(other, datetime):
        return (one.tzinfo is None) == (other.tzinfo is None)
    return not isinstance(one, datetime) and not isinstance(other, datetime)


def _first(each: tuple[datetime, Component]) -> datetime:
    return each[0]


def _sequence(component: Component) -> int:
    text = component.text("SEQUENCE")
    return int(text) if text.isdecimal() and len(text) < len("1000000000") else 0


def length(start: Moment, end: Moment) -> timedelta:
    """Return the duration: in local time where both have one zone (Python's rule), else elapsed time."""
    if isinstance(start, datetime) and isinstance(end, datetime):
        return end - start
    return ical_time.on_clock(end) - ical_time.on_clock(start)


def after(begin: Moment, length: timedelta, model: Moment) -> Moment:
    """Return the end of an occurrence, in the zone of the series' end."""
    if isinstance(begin, datetime) and isinstance(model, datetime) and begin.tzinfo is not model.tzinfo:
        if begin.tzinfo is not None and model.tzinfo is not None:
            return (begin.astimezone(UTC) + length).astimezone(model.tzinfo)
        return begin + length
    return begin + length
