"""Times of calendar objects: dates that belong to no zone, moments in a zone, times that float."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import timestamp
from nextcloud_mcp_server.nextcloud.described_zone import DescribedZone
from nextcloud_mcp_server.nextcloud.ical import Component, Line, Unreadable
from nextcloud_mcp_server.nextcloud.zones import Zones, describe

#: A date, a moment with its zone, or (a datetime without one) a time that floats: it is the same on every clock.
Moment = date | datetime

DAY: Final = timedelta(days=1)
_VALUE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_DURATION = re.compile(
    r"([+-]?)P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?"
)
#: The years in which a given time may be: so far from both ends of time that a day, a zone's offset or the
#: changes of its clocks in the years around are still within.
_FIRST_YEAR: Final = 100
_LAST_YEAR: Final = 9_900
#: Seconds of a clock, the last of which a leap second takes.
_LAST_SECOND: Final = 59


def parse(value: str, zone: tzinfo | None) -> Moment:
    """Read one value such as `20261127` or `20261127T100000Z`.

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
    """Read a line that holds one time."""
    tzid = line.parameter("TZID")
    return parse(line.value, zones.get(tzid) if tzid else None)


def every(line: Line, zones: Zones) -> list[tuple[Moment, Moment | timedelta | None]]:
    """Read a line that holds several times; of a period the end or the length too."""
    tzid = line.parameter("TZID")
    zone = zones.get(tzid) if tzid else None
    found: list[tuple[Moment, Moment | timedelta | None]] = []
    for value in filter(None, line.value.split(",")):
        start, slash, end = value.partition("/")
        until = None if not slash else duration(end) if "P" in end else parse(end, zone)
        found.append((parse(start, zone), until))
    return found


def duration(value: str) -> timedelta:
    """Read a length of time such as `PT1H30M` or `-P1D`.

    Raises:
        Unreadable: It is none.
    """
    found = _DURATION.fullmatch(value.strip().upper())
    if found is None:
        raise Unreadable("a duration is none")
    sign, *numbers = found.groups()
    weeks, days, hours, minutes, seconds = (int(number or 0) for number in numbers)
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -length if sign == "-" else length


def written(moment: Moment) -> str:
    """Write a value on the clock of its zone, which belongs into the head of the line."""
    if not isinstance(moment, datetime):
        return f"{moment:%Y%m%d}".rjust(8, "0")
    value = f"{moment:%Y%m%dT%H%M%S}".rjust(15, "0")
    return f"{value}Z" if moment.tzinfo is UTC else value


def line(name: str, moment: Moment) -> Line:
    """Write a line with one time: the same moment, in its own zone where a line can say that."""
    moment = storable(moment)
    return Line.of(f"{name}{_parameters(moment)}", written(moment))


def put(component: Component, name: str, moment: Moment, zones: Zones) -> Moment:
    """Write a time into a component and answer it as written; `zones` are those of its object.

    A line in the same zone keeps its head: the name that the zone has there, and other parameters.
    """
    moment = storable(moment)
    old = component.first(name)
    before = None if old is None else of(old, zones)
    same = isinstance(before, datetime) and isinstance(moment, datetime) and before.tzinfo == moment.tzinfo
    head = old.head if same and old is not None else f"{name}{_parameters(moment)}"
    component.set(head, written(moment))
    return moment


def describe_zone(whole: Component, moment: Moment) -> None:
    """See that the zone of a time is described in the object (RFC 5545 §3.6.5)."""
    if not isinstance(moment, datetime) or not isinstance(moment.tzinfo, ZoneInfo):
        return
    zone = moment.tzinfo
    lines = [one for each in whole.items if isinstance(each, Component) for one in each.items]
    if all(isinstance(one, Component) or one.parameter("TZID") != zone.key for one in lines):
        # It is named otherwise here, as Windows does, or only its offset in UTC was written.
        return
    if all(each.text("TZID") != zone.key for each in whole.components("VTIMEZONE")):
        first = next(index for index, each in enumerate(whole.items) if isinstance(each, Component))
        whole.items.insert(first, describe(zone, moment.year))


def storable(moment: Moment) -> Moment:
    """Give the same moment as a line can hold it: by the clock of a zone with a name, or in UTC.

    A line has no offset: of an hour that a zone's clocks show twice it can only say the first (RFC 5545 §3.3.5).
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
    """Write what belongs into the head of a line beside the name."""
    if not isinstance(moment, datetime):
        return ";VALUE=DATE"
    if not isinstance(moment.tzinfo, ZoneInfo | DescribedZone):
        return ""
    key = moment.tzinfo.key
    return f';TZID="{key}"' if any(each in key for each in ",;:") else f";TZID={key}"


def like(moment: Moment, model: Moment) -> Moment:
    """Say a time as another one is said: as a date, in its zone, or floating."""
    if not isinstance(model, datetime):
        return moment.date() if isinstance(moment, datetime) else moment
    if not isinstance(moment, datetime):
        return datetime.combine(moment, model.time(), model.tzinfo)
    if moment.tzinfo is None or model.tzinfo is None:
        return moment.replace(tzinfo=model.tzinfo)
    return moment.astimezone(model.tzinfo)


def on_clock(moment: Moment) -> datetime:
    """Give what a clock at its place shows."""
    if isinstance(moment, datetime):
        return moment.replace(tzinfo=None)
    return datetime.combine(moment, time())


def instant(moment: Moment, zone: tzinfo) -> datetime:
    """Give the moment itself; a date begins, and a floating time is, by this zone's clock."""
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment
    return on_clock(moment).replace(tzinfo=zone)


def plus(moment: Moment, length: timedelta) -> Moment:
    """Go on by what the clock shows: a day later it is the same time, whatever the zone does that night."""
    return moment + length


def later(moment: Moment, passes: timedelta, model: Moment) -> Moment:
    """Go on by the time that really passes, in the zone of another time; one that floats goes on by the clock."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return moment + passes
    zone = model.tzinfo if isinstance(model, datetime) else None
    return storable((moment.astimezone(UTC) + passes).astimezone(zone or moment.tzinfo))


def shown(moment: Moment) -> str:
    """Write a time for a reader, in ISO 8601."""
    return moment.isoformat()


def given(name: str, text: str, zone: tzinfo | None) -> Moment:
    """Take a date or time that a client gave; without an offset it is by this zone's clock, or floats if that is None.

    Raises:
        InvalidInput: It is neither, or has an offset and is to float.
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
    """Give the offset that a client gave with a time; None when there is none."""
    try:
        return timestamp.read(text).tzinfo
    except ValueError:
        return None
