"""Times in calendar objects: dates without a time zone, times with one, and floating times."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.formats.described_zone import DescribedZone
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable
from nextcloud_mcp_server.formats.zones import Zones, describe

#: A date; a time with its time zone; or a floating time (a datetime without tzinfo), the same on every clock.
Moment = date | datetime

DAY: Final = timedelta(days=1)
_VALUE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_DURATION = re.compile(
    r"([+-]?)P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?"
)
#: The years that a given time may have: far enough from both ends of Python's range to add a day, a UTC offset or
#: the zone changes of the years around it.
_FIRST_YEAR: Final = 100
_LAST_YEAR: Final = 9_900
#: The last second of a minute, also used for a leap second.
_LAST_SECOND: Final = 59


def parse(value: str, zone: tzinfo | None) -> Moment:
    """Parse a value such as `20261127` or `20261127T100000Z`.

    Raises:
      Unreadable: There is no such date or time.
    """
    found = _VALUE.fullmatch(value.strip())
    if found is None:
        raise Unreadable("a time is none")
    year, month, day, *clock = found.groups()
    try:
        that_day = date(int(year), int(month), int(day))
        if clock[0] is None:
            return that_day
        hour, minute, second, utc = clock
        that_time = time(int(hour), int(minute), min(int(second), _LAST_SECOND))
    except ValueError:
        raise Unreadable("a time is none") from None
    return datetime.combine(that_day, that_time, UTC if utc else zone)


def of(line: Line, zones: Zones) -> Moment:
    """Parse a line with one time."""
    tzid = line.parameter("TZID")
    return parse(line.value, zones.get(tzid) if tzid else None)


def every(line: Line, zones: Zones) -> list[tuple[Moment, Moment | timedelta | None]]:
    """Parse a line with several times; for a period also return its end or duration."""
    tzid = line.parameter("TZID")
    zone = zones.get(tzid) if tzid else None
    found: list[tuple[Moment, Moment | timedelta | None]] = []
    for value in filter(None, line.value.split(",")):
        start, slash, end = value.partition("/")
        until = None if not slash else duration(end) if "P" in end else parse(end, zone)
        found.append((parse(start, zone), until))
    return found


def duration(value: str) -> timedelta:
    """Parse a duration such as `PT1H30M` or `-P1D`.

    Raises:
      Unreadable: It is invalid.
    """
    found = _DURATION.fullmatch(value.strip().upper())
    if found is None:
        raise Unreadable("a duration is none")
    sign, *numbers = found.groups()
    weeks, days, hours, minutes, seconds = (int(number or 0) for number in numbers)
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -length if sign == "-" else length


def written(moment: Moment) -> str:
    """Return a time as a value in its local time; the zone belongs in the head of the line."""
    if not isinstance(moment, datetime):
        return f"{moment:%Y%m%d}".rjust(8, "0")
    value = f"{moment:%Y%m%dT%H%M%S}".rjust(15, "0")
    return f"{value}Z" if moment.tzinfo is UTC else value


def line(name: str, moment: Moment) -> Line:
    """Build a line with one time, in its own time zone where that can be expressed."""
    moment = storable(moment)
    return Line.of(f"{name}{_parameters(moment)}", written(moment))


def put(component: Component, name: str, moment: Moment, zones: Zones) -> Moment:
    """Set a time in a component and return it as written; `zones` are those of the calendar object.

    A line in the same time zone keeps its head: the TZID used there, and other parameters.
    """
    moment = storable(moment)
    old = component.first(name)
    before = None if old is None else of(old, zones)
    same = isinstance(before, datetime) and isinstance(moment, datetime) and before.tzinfo == moment.tzinfo
    head = old.head if same and old is not None else f"{name}{_parameters(moment)}"
    component.set(head, written(moment))
    return moment


def describe_zone(whole: Component, moment: Moment) -> None:
    """Add a VTIMEZONE for the zone of a time unless the object has one (RFC 5545 §3.6.5)."""
    if not isinstance(moment, datetime) or not isinstance(moment.tzinfo, ZoneInfo):
        return
    zone = moment.tzinfo
    lines = [one for each in whole.items if isinstance(each, Component) for one in each.items]
    if all(isinstance(one, Component) or one.parameter("TZID") != zone.key for one in lines):
        # The object uses another name for the zone, as Windows does, or only a UTC offset was written.
        return
    if all(each.text("TZID") != zone.key for each in whole.components("VTIMEZONE")):
        first = next(index for index, each in enumerate(whole.items) if isinstance(each, Component))
        whole.items.insert(first, describe(zone, moment.year))


def storable(moment: Moment) -> Moment:
    """Return the same moment in a form that a line can hold: in a named time zone, or in UTC.

    A line has no offset: of a local time that occurs twice it can only express the first (RFC 5545 §3.3.5).
    """
    if not isinstance(moment, datetime) or moment.tzinfo is None or moment.tzinfo is UTC:
        return moment
    utc = moment.astimezone(UTC)
    if not isinstance(moment.tzinfo, ZoneInfo | DescribedZone):
        return utc
    there = utc.astimezone(moment.tzinfo)
    is_second = there.fold and there.utcoffset() != there.replace(fold=0).utcoffset()
    return utc if is_second else there.replace(fold=0)


def _parameters(moment: Moment) -> str:
    """Return the parameters of a line with this time."""
    if not isinstance(moment, datetime):
        return ";VALUE=DATE"
    if not isinstance(moment.tzinfo, ZoneInfo | DescribedZone):
        return ""
    key = moment.tzinfo.key
    return f';TZID="{key}"' if any(each in key for each in ",;:") else f";TZID={key}"


def like(moment: Moment, model: Moment) -> Moment:
    """Convert a time to the form of `model`: a date, a time in its zone, or floating."""
    if not isinstance(model, datetime):
        return moment.date() if isinstance(moment, datetime) else moment
    if not isinstance(moment, datetime):
        return datetime.combine(moment, model.time(), model.tzinfo)
    if moment.tzinfo is None or model.tzinfo is None:
        return moment.replace(tzinfo=model.tzinfo)
    return moment.astimezone(model.tzinfo)


def on_clock(moment: Moment) -> datetime:
    """Return the local time without its time zone."""
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=None)
    return datetime.combine(moment, time())


def instant(moment: Moment, zone: tzinfo) -> datetime:
    """Return the moment in time; `zone` is used for dates, at their midnight, and for floating times."""
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment
    return on_clock(moment).replace(tzinfo=zone)


def later(moment: Moment, passes: timedelta, model: Moment) -> Moment:
    """Add elapsed time, in the time zone of `model`; floating times are added in local time."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return moment + passes
    zone = model.tzinfo if isinstance(model, datetime) else None
    return storable((moment.astimezone(UTC) + passes).astimezone(zone or moment.tzinfo))


def shown(moment: Moment) -> str:
    """Return a time in ISO 8601 for display."""
    return moment.isoformat()


def given(name: str, text: str, zone: tzinfo | None) -> Moment:
    """Parse a date or time from a client; without an offset it is in `zone`, or floating if that is None.

    Raises:
      InvalidInput: It is invalid, or has an offset and `zone` is None.
    """
    found: Moment
    try:
        day = timestamp.day(text)
        found = _in(timestamp.read(text).replace(microsecond=0), zone) if day is None else day
    except (ValueError, OverflowError):
        raise errors.InvalidInput(
            f"'{name}' must be a date such as 2026-11-27 or a time such as 2026-11-27T15:00."
        ) from None
    if not _FIRST_YEAR <= found.year <= _LAST_YEAR:
        raise errors.InvalidInput(f"'{name}' must be in a year from {_FIRST_YEAR} to {_LAST_YEAR}.")
    if zone is None and isinstance(found, datetime) and found.tzinfo is not None:
        raise errors.InvalidInput(
            f"'{name}' has an offset, but a floating time has none: send it without, or another 'timezone'."
        )
    return storable(found)


def _in(moment: datetime, zone: tzinfo | None) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=zone)
    return moment if zone is None else moment.astimezone(zone)


def offset(text: str) -> tzinfo | None:
    """Return the offset of a time from a client; None when it has none."""
    try:
        return timestamp.read(text).tzinfo
    except ValueError:
        return None
