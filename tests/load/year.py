"""Measures listing a year of recurring events, after Nextcloud has answered."""

import time
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from nextcloud_mcp_server.apps.calendar.agenda import agenda
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import ReadObject

SERIES: Final = 200
TURNS: Final = 5
_RULES: Final = (
    "FREQ=WEEKLY;BYDAY=MO",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,TH",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYMONTHDAY=15",
    "FREQ=YEARLY",
    "FREQ=DAILY;COUNT=30",
    "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;UNTIL=20260630T220000Z",
    "FREQ=WEEKLY;BYDAY=WE",
)


def milliseconds() -> tuple[float, int]:
    """List 2026 in Berlin with 200 series; return median processor time and number of occurrences."""
    stored = [_event(number) for number in range(SERIES)]
    zone = ZoneInfo("Europe/Berlin")
    low, high = datetime(2026, 1, 1, tzinfo=zone), datetime(2027, 1, 1, tzinfo=zone)
    turns: list[float] = []
    count = 0
    for _ in range(TURNS):
        began = time.process_time()
        objects = [ReadObject(one) for one in stored]
        found = agenda(objects, low.astimezone(UTC), high.astimezone(UTC), zone)
        turns.append((time.process_time() - began) * 1000)
        count = len(found.events)
        if found.unreadable or found.cut:
            raise AssertionError(f"{found.unreadable} events were not read, {found.cut} were cut")
    return sorted(turns)[TURNS // 2], count


def _event(number: int) -> Stored:
    """Return a series of last year as Nextcloud's Calendar app writes it, every third with an EXDATE."""
    start = f"2025{number % 12 + 1:02}{number % 28 + 1:02}T{8 + number % 10:02}0000"
    left_out = "EXDATE;TZID=Europe/Berlin:20260112T080000\r\n" if number % 3 == 0 else ""
    text = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//IDN nextcloud.com//Calendar app 5//EN\r\n"
        f"{ZONE}BEGIN:VEVENT\r\nUID:series-{number}\r\nDTSTAMP:20250101T000000Z\r\n"
        f"DTSTART;TZID=Europe/Berlin:{start}\r\nDURATION:PT45M\r\nRRULE:{_RULES[number % len(_RULES)]}\r\n"
        f"{left_out}SUMMARY:Series {number}\r\nLOCATION:Room {number % 7}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    return Stored(f"personal/series-{number}.ics", f"etag-{number}", text)


ZONE: Final = (
    "BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\n"
    "BEGIN:DAYLIGHT\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200\r\nTZNAME:CEST\r\nDTSTART:19700329T020000\r\n"
    "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r\nEND:DAYLIGHT\r\n"
    "BEGIN:STANDARD\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nTZNAME:CET\r\nDTSTART:19701025T030000\r\n"
    "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
)
