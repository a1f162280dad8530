"""Times that a client gives for events and tasks, and the time zone they refer to.

A time with an offset is stored as that moment. A time without one is in the user's time zone, which Nextcloud knows.
It is floating only where `timezone` says so.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, tzinfo
from typing import Final

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import ical_time, timestamp, zones
from nextcloud_mcp_server.formats.ical import Line
from nextcloud_mcp_server.formats.ical_time import Moment

#: The `timezone` of a floating time, which is the same on every clock; results use it too.
FLOATING: Final = "floating"
_LONGEST: Final = 64

Ask = Callable[[], Awaitable[tzinfo]]


async def clock(ask: Ask, name: str, text: str, timezone: str | None) -> tzinfo | None:
    """Return the time zone of a time: `timezone` if given, else the user's from `ask`; None is floating.

    Raises:
      InvalidInput: The time is invalid, or there is no such time zone.
    """
    if timezone is not None:
        return None if timezone.strip().lower() == FLOATING else zones.named(timezone)
    # A date has no time zone, so the user's need not be fetched.
    return await ask() if isinstance(ical_time.given(name, text, UTC), datetime) else UTC


async def changed(
    ask: Ask, name: str, text: str, timezone: str | None, *, before: Moment | None, recurs: bool
) -> Moment:
    """Parse a new date or time that replaces `before`, in its zone unless another is given.

    Raises as `first`.
    """
    had = before.tzinfo if isinstance(before, datetime) else None
    is_known = timezone is not None or had is not None
    zone = had if timezone is None and had is not None else await clock(ask, name, text, timezone)
    return first(name, text, zone, is_known=is_known) if recurs else ical_time.given(name, text, zone)


def first(name: str, text: str, zone: tzinfo | None, *, is_known: bool) -> Moment:
    """Parse the first date or time of a series; `is_known` tells that its zone is not only assumed.

    Raises:
      InvalidInput: It is invalid, or the series needs a time zone and has only an offset.
    """
    moment = ical_time.given(name, text, zone)
    if zone is not None and isinstance(moment, datetime):
        _check_series(name, text, moment, zone, is_known=is_known)
    return moment


def _check_series(name: str, text: str, moment: datetime, zone: tzinfo, *, is_known: bool) -> None:
    """Refuse a first time with only an offset, which does not tell when daylight saving time changes."""
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
    """Return the time zone for whole days: `timezone`, the user's, or a deviating offset of the text."""
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
    """Return the name of a time's zone for a result; None for a date, and for most floating times.

    A floating time has a name only where its line has one.
    """
    if not isinstance(moment, datetime):
        return None
    tzid = "" if line is None else line.parameter("TZID")
    if moment.tzinfo is None and tzid:
        return f"{FLOATING}, because the zone “{tzid[:_LONGEST]}” is not known"
    return zones.name_of(moment.tzinfo, tzid)
