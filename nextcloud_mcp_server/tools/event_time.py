"""Times that a client gives for events and tasks, and by which zone's clock they are.

A moment that a client names is the moment that is stored. Without a zone it is stored by the clock of the
person's zone, which Nextcloud knows; it floats only where `timezone` says so.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from typing import Final

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud import ical_time, timestamp, zones
from nextcloud_mcp_server.nextcloud.ical import Line
from nextcloud_mcp_server.nextcloud.ical_time import Moment

#: The `timezone` of a time that is the same on every clock; results name it so too.
FLOATING: Final = "floating"
_LONGEST: Final = 64

Ask = Callable[[], Awaitable[tzinfo]]


async def clock(ask: Ask, name: str, text: str, timezone: str | None) -> tzinfo | None:
    """Find by which clock a time is: of the zone that is named, else the person's, which `ask` finds; None floats.

    Raises:
        InvalidInput: It is none, or there is no such zone.
    """
    if timezone is not None:
        return None if timezone.strip().lower() == FLOATING else zones.named(timezone)
    # A date has no zone, so no one needs to be asked for theirs.
    return await ask() if isinstance(ical_time.given(name, text, UTC), datetime) else UTC


async def changed(
    ask: Ask, name: str, text: str, timezone: str | None, *, before: Moment | None, recurs: bool
) -> Moment:
    """Take a new date or time for one that was `before`, by its clock unless another is named; raises as `first`."""
    had = before.tzinfo if isinstance(before, datetime) else None
    is_known = timezone is not None or had is not None
    zone = had if timezone is None and had is not None else await clock(ask, name, text, timezone)
    return first(name, text, zone, is_known=is_known) if recurs else ical_time.given(name, text, zone)


def first(name: str, text: str, zone: tzinfo | None, *, is_known: bool) -> Moment:
    """Take the first date or time of a series; `is_known` says that its zone is not only guessed.

    Raises:
        InvalidInput: It is none, or the series needs a zone that an offset does not tell.
    """
    moment = ical_time.given(name, text, zone)
    if zone is not None and isinstance(moment, datetime):
        _check_series(name, text, moment, zone, is_known=is_known)
    return moment


def _check_series(name: str, text: str, moment: datetime, zone: tzinfo, *, is_known: bool) -> None:
    """Refuse a first time that says how the clocks are, and not how they will change."""
    if moment.tzinfo is not zone:
        raise InvalidInput(
            f"'{name}' is in the hour that the clocks of {zones.name_of(zone)} show twice, and a series cannot begin "
            "in its second half: begin it earlier or later, or send 'timezone' UTC."
        )
    offset = timestamp.read(text).utcoffset()
    if is_known or not offset or offset == moment.utcoffset():
        return
    raise InvalidInput(
        f"'{name}' has an offset, but that does not say when the clocks change, which a series follows: send "
        f"'timezone' too, such as America/New_York. The person's own is {zones.name_of(zone)}."
    )


async def reader(ask: Ask, text: str, timezone: str | None) -> tzinfo:
    """Find by whose clock days are: of the zone that is named, the person's, or of an offset that is not theirs."""
    if timezone is not None:
        return zones.named(timezone)
    own, offset = await ask(), ical_time.offset(text)
    if offset is None:
        return own
    try:
        there = timestamp.read(text)
        return own if there.astimezone(own).utcoffset() == there.utcoffset() else offset
    except OverflowError:
        return offset


def place(line: Line | None, moment: Moment | None) -> str | None:
    """Name the zone of a time for a result; None for a date, and for one that floats unless its line has a name."""
    if not isinstance(moment, datetime):
        return None
    tzid = "" if line is None else line.parameter("TZID")
    if moment.tzinfo is None and tzid:
        return f"{FLOATING}, because the zone “{tzid[:_LONGEST]}” is not known"
    return zones.name_of(moment.tzinfo, tzid)
