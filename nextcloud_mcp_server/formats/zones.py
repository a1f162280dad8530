"""Time zones of calendar objects: resolves a TZID, and writes a zone as VTIMEZONE."""

import calendar
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from math import prod
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats.described_zone import DescribedZone
from nextcloud_mcp_server.formats.ical import Component, Line
from nextcloud_mcp_server.formats.windows_zones import iana_name

#: How often a user-defined zone may change, counting recurring changes: its rules are evaluated here for each time
#: in it from its first year on. Outlook's begin in 1601.
_MOST_CHANGES: Final = 64
_MOST_RULES: Final = 4
#: Some programs write `BYMONTHDAY=8,9,10,11,12,13,14;BYDAY=SU` for the second Sunday.
_MOST_A_YEAR: Final = 8
_FIRST_YEAR: Final = "1600"
_RHYTHM: Final = "FREQ=YEARLY"
_LONGEST_ZONE: Final = 16_384
_UTC: Final = ("UTC", "Etc/UTC", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal")
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
#: Years in which a change must follow the same rule to be written as one.
_YEARS: Final = 4
#: How many years are written out where there is no rule.
_SPELT_OUT: Final = 10
#: Names that are cached: there are 600, and users make others up, in calendars and in calls.
_MOST_KNOWN: Final = 1_024


def named(name: str) -> tzinfo:
    """Return the zone of a name, in any case: `Europe/Berlin` or, of Windows, `W. Europe Standard Time`.

    Raises:
      InvalidInput: There is no such zone.
    """
    zone = found(name.strip()) or _otherwise(name)
    if zone is None:
        raise errors.InvalidInput(
            "'timezone' must be the name of a time zone such as Europe/Berlin, America/New_York or UTC."
        )
    return zone


def found(name: str) -> tzinfo | None:
    """Find a zone by its name, including other names of UTC; None without one."""
    zone = _known(name)
    return UTC if zone is not None and zone.key in _UTC else zone


def _otherwise(name: str) -> tzinfo | None:
    """Find a zone by its Windows name, or by its name in another letter case."""
    iana = iana_name(name) or _folded().get(name.strip().casefold())
    return None if iana is None else found(iana)


@cache
def _folded() -> dict[str, str]:
    """List the IANA names; no two differ in letter case alone (RFC 6557, and its theory.html)."""
    return {name.casefold(): name for name in available_timezones()}


@lru_cache(maxsize=_MOST_KNOWN)
def _known(name: str) -> ZoneInfo | None:
    # Zone names are relative paths on this computer: none may leave the folder, and none is long.
    if len(name) > 64 or not name or name.startswith(("/", ".")):  # noqa: PLR2004 - the longest has 32
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None


class Zones:
    """The zones that one calendar object names. An undefined zone is None: a floating time."""

    def __init__(self, whole: Component) -> None:
        self._described = {zone.text("TZID"): zone for zone in whole.components("VTIMEZONE")}
        self._found: dict[str, tzinfo | None] = {}

    def get(self, tzid: str) -> tzinfo | None:
        """Find a zone by its TZID."""
        if tzid not in self._found:
            self._found[tzid] = self._find(tzid)
        return self._found[tzid]

    def _find(self, tzid: str) -> tzinfo | None:
        described = self._described.get(tzid)
        location = "" if described is None else described.text("X-LIC-LOCATION")
        # Such as `/freeassociation.sourceforge.net/Europe/Berlin`.
        path = tzid.strip("/").split("/")
        for name in (tzid, location, "/".join(path[-3:]), "/".join(path[-2:])):
            if (zone := found(name)) is not None:
                return zone
        # A VTIMEZONE takes precedence over a Windows name: the programs that read the object follow it.
        own = None if described is None else _own(described, tzid)
        return own or _otherwise(tzid)


def _own(described: Component, tzid: str) -> tzinfo | None:
    """Parse a zone that only its VTIMEZONE defines, such as Outlook's."""
    written = described.written
    parts = list(described.components("STANDARD", "DAYLIGHT"))
    rules = [line.value.upper() for part in parts for line in part.every("RRULE")]
    if (
        len(written) > _LONGEST_ZONE
        or len(parts) > _MOST_CHANGES
        or any(_RHYTHM not in rule or "BYHOUR" in rule or "BYMINUTE" in rule for rule in rules)
        or any("BYSECOND" in rule or "BYSETPOS" in rule or _product(rule) > _MOST_A_YEAR for rule in rules)
        or len(rules) > _MOST_RULES
        or any(part.text("DTSTART") < _FIRST_YEAR for part in parts if part.first("RRULE") is not None)
    ):
        return None
    return DescribedZone.read(tzid, written)


def _product(rule: str) -> int:
    """Count how often a year a rule can match at most."""
    return prod(part.count(",") + 1 for part in rule.split(";"))


def name_of(zone: tzinfo | None, tzid: str = "") -> str | None:
    """Return the name of a zone for display; None for a floating time."""
    if zone is None:
        return None
    if zone is UTC:
        return "UTC"
    return zone.key if isinstance(zone, ZoneInfo | DescribedZone) else tzid or None


class _Change(NamedTuple):
    """A change of the UTC offset; `onset` is its local time, by the offset before (RFC 5545 §3.6.5)."""

    onset: datetime
    old: timedelta
    new: timedelta
    name: str
    is_daylight: bool


def describe(zone: ZoneInfo, year: int) -> Component:
    """Return a zone as VTIMEZONE, valid from the year before on.

    Changes that follow a rule are written as one; others (Morocco) year by year.
    """
    described = Component.empty("VTIMEZONE")
    described.add(Line.of("TZID", zone.key))
    years = [_changes(zone, each) for each in range(year - 1, year - 1 + _YEARS)]
    alike = bool(years[0]) and all(len(each) == len(years[0]) for each in years)
    rules = [_rule(list(each)) for each in zip(*years, strict=True)] if alike else []
    if rules and None not in rules:
        for change, rule in zip(years[0], rules, strict=True):
            described.add(_observance(change, rule))
        return described
    described.add(_observance(_change(zone, datetime(year - 1, 1, 1, tzinfo=UTC)), None))
    for each in range(year - 1, year + _SPELT_OUT):
        for change in _changes(zone, each):
            described.add(_observance(change, None))
    return described


@lru_cache(maxsize=256)
def _changes(zone: ZoneInfo, year: int) -> tuple[_Change, ...]:
    """List the changes of a zone in a year, to the second."""
    found: list[_Change] = []
    day = datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        after = day + timedelta(days=1)
        if _state(zone, day) != _state(zone, after):
            low, high = day, after
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if _state(zone, middle) == _state(zone, day) else (low, middle)
            found.append(_change(zone, high))
        day = after
    return tuple(found)


def _state(zone: ZoneInfo, moment: datetime) -> tuple[timedelta | None, str | None]:
    local = moment.astimezone(zone)
    return local.utcoffset(), local.tzname()


def _change(zone: ZoneInfo, moment: datetime) -> _Change:
    old = (moment - timedelta(seconds=1)).astimezone(zone).utcoffset() or timedelta()
    after = moment.astimezone(zone)
    return _Change(
        onset=moment.replace(tzinfo=None) + old,
        old=old,
        new=after.utcoffset() or timedelta(),
        name=after.tzname() or zone.key,
        is_daylight=bool(after.dst()),
    )


def _rule(changes: list[_Change]) -> str | None:
    """Find the rule that these changes of successive years follow; None when there is none."""
    if len({(change.old, change.new) for change in changes}) > 1:
        # The day recurs and the offsets do not: America/Inuvik left its zone on the day of a yearly change in 1979.
        return None
    onsets = [change.onset for change in changes]
    if len({(one.month, one.weekday(), one.time()) for one in onsets}) > 1:
        return None
    last = all(one.day + 7 > calendar.monthrange(one.year, one.month)[1] for one in onsets)
    weeks = {(one.day - 1) // 7 + 1 for one in onsets}
    if not last and len(weeks) > 1:
        return None
    week = -1 if last else weeks.pop()
    return f"FREQ=YEARLY;BYMONTH={onsets[0].month};BYDAY={week}{_DAYS[onsets[0].weekday()]}"


def _observance(change: _Change, rule: str | None) -> Component:
    made = Component.empty("DAYLIGHT" if change.is_daylight else "STANDARD")
    made.add(Line.of("DTSTART", f"{change.onset:%Y%m%dT%H%M%S}"))
    made.add(Line.of("TZOFFSETFROM", _offset(change.old)))
    made.add(Line.of("TZOFFSETTO", _offset(change.new)))
    made.add(Line.of("TZNAME", change.name))
    if rule is not None:
        made.add(Line.of("RRULE", rule))
    return made


def _offset(offset: timedelta) -> str:
    minutes, seconds = divmod(round(abs(offset).total_seconds()), 60)
    sign = "-" if offset < timedelta() else "+"
    # Before the zones of the railways each place had its own time, to the second (RFC 5545 §3.3.14).
    return f"{sign}{minutes // 60:02}{minutes % 60:02}{f'{seconds:02}' if seconds else ''}"
