"""Calendars that others share, made to keep the server busy or to fill its memory."""

import time
from datetime import UTC, datetime
from itertools import count

from nextcloud_mcp_server.apps.calendar.agenda import MOST_EVENTS, agenda
from nextcloud_mcp_server.formats.recurrence import MOST_OCCURRENCES
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import ReadObject

LOW, HIGH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def stored(number: int, event: str, zone: str = "") -> ReadObject:
    text = f"BEGIN:VCALENDAR\n{zone}BEGIN:VEVENT\nUID:{number}\n{event}\nEND:VEVENT\nEND:VCALENDAR\n"
    return ReadObject(Stored(f"shared/{number}.ics", "e", text))


def test_thousands_of_series_do_not_fill_the_memory() -> None:
    hourly = [stored(number, "DTSTART:20200101T100000Z\nRRULE:FREQ=HOURLY") for number in range(60)]

    found = agenda(hourly, LOW, HIGH, UTC)

    assert MOST_EVENTS <= len(found.events) < MOST_EVENTS + MOST_OCCURRENCES + 60 * 10
    assert (found.cut, found.unreadable) == (60, 0)
    assert {event.stored.id for event in found.events} == {one.stored.id for one in hourly}


def test_what_takes_too_long_is_left_and_counted() -> None:
    seconds = count(step=3)
    events = [stored(number, "DTSTART:20260601T100000Z") for number in range(10)]

    found = agenda(events, LOW, HIGH, UTC, clock=lambda: float(next(seconds)))

    assert (len(found.events), found.unreadable) == (6, 4)


def test_a_zone_made_to_be_slow_is_not_run() -> None:
    days = ",".join(f"{week}MO" for week in range(1, 5))
    months = ",".join(map(str, range(1, 13)))
    change = (
        "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\n"
        f"RRULE:FREQ=YEARLY;BYDAY={days};BYMONTH={months}\nEND:STANDARD\n"
    )
    many = change.replace(f"BYDAY={days};BYMONTH={months}", "BYDAY=1SU;BYMONTH=3") * 60
    early = change.replace(f"BYDAY={days};BYMONTH={months}", "BYDAY=1SU;BYMONTH=3").replace("1970", "0001")
    event = "DTSTART;TZID=Slow:20200101T100000\nRRULE:FREQ=HOURLY"
    begun = time.process_time()

    for changes in (change * 60, many, early):
        zone = f"BEGIN:VTIMEZONE\nTZID:Slow\n{changes}END:VTIMEZONE\n"
        found = agenda([stored(1, event, zone)], LOW, HIGH, UTC)
        # A zone that no one can tell is none: its times float.
        assert {event.at.start.tzinfo for event in found.events if isinstance(event.at.start, datetime)} == {
            None
        }

    assert time.process_time() - begun < 30
