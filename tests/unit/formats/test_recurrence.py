import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import icalendar
import pytest
import recurring_ical_events  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.formats import ical, ical_time
from nextcloud_mcp_server.formats.ical import Unreadable
from nextcloud_mcp_server.formats.recurrence import MOST_OCCURRENCES, Series
from nextcloud_mcp_server.formats.rule import Rule

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
YEAR = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def written(*events: str) -> str:
    bodies = "".join(
        f"BEGIN:VEVENT\nUID:1\nDTSTAMP:20260101T000000Z\n{each.strip()}\nEND:VEVENT\n" for each in events
    )
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{bodies}END:VCALENDAR\n"


def series(*events: str) -> Series:
    return Series(ical.read(written(*events)), "VEVENT")


def starts(*events: str, low: datetime = YEAR[0], high: datetime = YEAR[1], zone: tzinfo = UTC) -> list[str]:
    found = series(*events).between(low, high, zone)
    return sorted(ical_time.shown(each.start) for each in found)


WEEKLY = (
    "DTSTART;TZID=America/New_York:20261021T141000\nDTEND;TZID=America/New_York:20261021T150000\n"
    "RRULE:FREQ=WEEKLY;COUNT=4"
)


def test_a_weekly_meeting_stays_at_its_hour_when_the_clocks_change() -> None:
    """B92. U55."""
    assert starts(WEEKLY) == [
        "2026-10-21T14:10:00-04:00",
        "2026-10-28T14:10:00-04:00",
        "2026-11-04T14:10:00-05:00",
        "2026-11-11T14:10:00-05:00",
    ]


@pytest.mark.parametrize(
    "spelt", ["DATE:20261028", "DATE-TIME:20261028T181000Z", "DATE-TIME:20261028T141000"]
)
def test_an_exception_is_not_shown_beside_the_original_whatever_zone_names_it(spelt: str) -> None:
    """B94."""
    moved = f"RECURRENCE-ID;VALUE={spelt}\nDTSTART;TZID=Europe/Berlin:20261029T090000\nSUMMARY:Moved"

    found = starts(WEEKLY, moved)

    assert len(found) == 4
    assert "2026-10-29T09:00:00+01:00" in found
    assert "2026-10-28T14:10:00-04:00" not in found


def test_cancelled_and_deleted_occurrences_are_gone() -> None:
    cancelled = "RECURRENCE-ID:20261028T181000Z\nDTSTART:20261028T181000Z\nSTATUS:CANCELLED"

    assert starts(f"{WEEKLY}\nEXDATE:20261104T191000Z\nEXDATE;VALUE=DATE:20261111", cancelled) == [
        "2026-10-21T14:10:00-04:00"
    ]


@pytest.mark.parametrize("hours", [-11, -5, 0, 5, 14])
def test_an_all_day_event_is_on_its_day_in_every_zone(hours: int) -> None:
    """B91."""
    zone = ZoneInfo(f"Etc/GMT{-hours:+d}") if hours else UTC
    event = "DTSTART;VALUE=DATE:20261127"
    days = [datetime(2026, 11, day, tzinfo=zone) for day in (26, 27, 28, 29)]

    found = [starts(event, low=low, high=high, zone=zone) for low, high in pairwise(days)]

    assert found == [[], ["2026-11-27"], []]
    (only,) = series(event).between(days[0], days[3], zone)
    assert only.end == date(2026, 11, 28)


def test_a_floating_time_is_by_the_clock_of_the_reader() -> None:
    event = "DTSTART:20261127T230000\nDURATION:PT30M"
    low = datetime(2026, 11, 27, 22, tzinfo=NEW_YORK)

    assert starts(event, low=low, high=low + timedelta(hours=2), zone=NEW_YORK) == ["2026-11-27T23:00:00"]
    assert starts(event, low=low, high=low + timedelta(hours=2), zone=BERLIN) == []


def test_an_until_in_utc_or_as_a_date_holds_in_the_zone_of_the_event() -> None:
    """U56."""
    start = "DTSTART;TZID=America/New_York:20260616T210000\nRRULE:FREQ=WEEKLY;UNTIL="

    assert starts(f"{start}20260701T010000Z")[-1] == "2026-06-30T21:00:00-04:00"
    assert starts(f"{start}20260630")[-1] == "2026-06-30T21:00:00-04:00"


def test_dates_that_are_listed_count_once_and_may_have_a_length_of_their_own() -> None:
    event = (
        "DTSTART:20260105T100000Z\nDTEND:20260105T110000Z\nRDATE:20260105T100000Z,20260107T100000Z\n"
        "RDATE;VALUE=PERIOD:20260109T100000Z/PT3H,20260110T100000Z/20260110T120000Z"
    )

    found = series(event).between(*YEAR, UTC)

    assert [
        ical_time.shown(each.end)[8:16]
        for each in sorted(found, key=lambda each: ical_time.shown(each.start))
    ] == [
        "05T11:00",
        "07T11:00",
        "09T13:00",
        "10T12:00",
    ]


def test_a_change_from_then_on_holds_for_all_that_follow() -> None:
    later = (
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20260119T100000Z\nDTSTART:20260119T120000Z\nDTEND:20260119T140000Z"
    )

    found = series(
        "DTSTART:20260105T100000Z\nDTEND:20260105T110000Z\nRRULE:FREQ=WEEKLY;COUNT=4", later
    ).between(*YEAR, UTC)

    spans = sorted(f"{each.start:%d %H} {each.end:%H}" for each in found if isinstance(each.start, datetime))
    assert spans == ["05 10 11", "12 10 11", "19 12 14", "26 12 14"]


def test_a_flight_ends_in_another_zone() -> None:
    flight = (
        "DTSTART;TZID=America/New_York:20261102T200000\nDTEND;TZID=Europe/London:20261103T080000\n"
        "RRULE:FREQ=WEEKLY;COUNT=2"
    )

    found = series(flight).between(*YEAR, UTC)

    assert [ical_time.shown(each.end) for each in found] == [
        "2026-11-03T08:00:00+00:00",
        "2026-11-10T08:00:00+00:00",
    ]


def test_only_changed_occurrences_may_be_known() -> None:
    alone = "RECURRENCE-ID:20261028T181000Z\nDTSTART:20261028T190000Z"

    assert starts(alone) == ["2026-10-28T19:00:00+00:00"]


def test_an_end_before_the_start_or_of_another_type_does_no_harm() -> None:
    assert starts("DTSTART:20260105T100000Z\nDTEND:20260104T100000Z") == ["2026-01-05T10:00:00+00:00"]
    assert starts("DTSTART:20260105T100000Z\nDTEND;VALUE=DATE:20260106") == ["2026-01-05T10:00:00+00:00"]
    assert starts("DTSTART;VALUE=DATE:20260105\nDURATION:P2D", low=datetime(2026, 1, 6, 12, tzinfo=UTC)) == [
        "2026-01-05"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=6MO",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=31;COUNT=3",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=100000",
        "FREQ=HOURLY",
        "FREQ=HOURLY;BYMINUTE=0,15,30,45",
        "FREQ=DAILY;INTERVAL=999",
        "FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12;BYMINUTE=0,5,10,15,20,25,30,35,40,45,50,55",
    ],
)
def test_a_rule_that_never_ends_or_never_matches_is_bounded(rule: str) -> None:
    begun = time.process_time()

    found = series(f"DTSTART:19700101T100000Z\nRRULE:{rule}").between(*YEAR, UTC)

    assert len(found) <= MOST_OCCURRENCES + 1
    assert time.process_time() - begun < 30


@pytest.mark.parametrize(
    "event",
    [
        "SUMMARY:no start",
        "DTSTART:soon",
        "DTSTART:20261340T000000Z",
        "DTSTART:20260101T250000Z",
        "DTSTART:20260101T100000Z\nDURATION:long",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=SECONDLY",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=MINUTELY",
        "DTSTART:20260101T100000Z\nRRULE:hello",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;INTERVAL=0",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;INTERVAL=99999999999999999999",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;BYHOUR=99",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;BYNOTHING=1",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;UNTIL=never",
        "DTSTART;TZID=America/New_York:20260101T100000\nRRULE:FREQ=DAILY;UNTIL=00010101T000000Z",
        f"DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;BYMONTHDAY={','.join(['1'] * 600)}",
        "DTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;BYHOUR=1,2,3,4,5,6;BYMINUTE=1,2,3,4,5,6;BYSECOND=1,2,3,4,5,6,7,8,9",
    ],
)
def test_what_cannot_be_is_said_to_be_unreadable(event: str) -> None:
    with pytest.raises(Unreadable):
        series(event).between(*YEAR, UTC)


def test_a_series_that_ended_before_it_began_never_takes_place() -> None:
    assert starts("DTSTART:20260301T100000Z\nRRULE:FREQ=WEEKLY;UNTIL=20260228T100000Z") == []


def test_a_count_below_zero_means_without_end_and_a_leap_second_the_last() -> None:
    assert len(starts("DTSTART:20260101T235960Z\nRRULE:FREQ=MONTHLY;COUNT=-1")) == 12


RULES = st.sampled_from(
    [
        "FREQ=DAILY", "FREQ=DAILY;INTERVAL=3", "FREQ=DAILY;COUNT=40", "FREQ=DAILY;BYDAY=MO,FR", "FREQ=WEEKLY",
        "FREQ=WEEKLY;BYDAY=MO,WE,SU", "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TU;WKST=SU",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TU",
        "FREQ=WEEKLY;COUNT=7;BYDAY=TH", "FREQ=WEEKLY;BYDAY=TU;UNTIL=20270301T120000Z", "FREQ=MONTHLY",
        "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=31", "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
        "FREQ=YEARLY", "FREQ=YEARLY;INTERVAL=3", "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", "FREQ=YEARLY;BYWEEKNO=20",
        "FREQ=HOURLY;INTERVAL=36",
    ]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    rule=RULES,
    day=st.dates(date(2018, 1, 1), date(2027, 6, 1)),
    hour=st.integers(0, 23),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "UTC", None]),
    low=st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 - given a zone below
)
def test_the_occurrences_are_those_another_library_finds(
    rule: str, day: date, hour: int, zone: str | None, low: datetime
) -> None:
    begin, end = low.replace(tzinfo=UTC), low.replace(tzinfo=UTC) + timedelta(days=200)
    if zone is None:
        event = f"DTSTART;VALUE=DATE:{day:%Y%m%d}\nRRULE:{rule.replace('T120000Z', '')}"
    else:
        event = f"DTSTART;TZID={zone}:{day:%Y%m%d}T{hour:02}1500\nDURATION:PT45M\nRRULE:{rule}"
    if zone is None and "HOURLY" in rule:
        return

    ours = starts(event, low=begin, high=end)

    calendar = icalendar.Calendar.from_ical(written(event))
    theirs = recurring_ical_events.of(calendar).between(begin, end)  # pyright: ignore[reportUnknownMemberType]
    assert ours == sorted(each.decoded("DTSTART").isoformat() for each in theirs)


def test_a_year_of_weekly_events_takes_less_work_than_another_implementation_needs() -> None:
    """A ratio in one run: how many milliseconds it takes is measured by `make bench`."""
    texts = [
        written(
            f"DTSTART;TZID=Europe/Berlin:202601{day % 28 + 1:02}T100000\nDURATION:PT1H\n"
            "RRULE:FREQ=WEEKLY\nSUMMARY:Weekly"
        )
        for day in range(60)
    ]
    calendars = [icalendar.Calendar.from_ical(text) for text in texts]

    begun = time.process_time()
    found = sum(len(Series(ical.read(text), "VEVENT").between(*YEAR, UTC)) for text in texts)
    ours = time.process_time() - begun
    begun = time.process_time()
    theirs = sum(
        len(recurring_ical_events.of(calendar).between(*YEAR))  # pyright: ignore[reportUnknownMemberType]
        for calendar in calendars
    )
    other = time.process_time() - begun

    assert found == theirs > 3_000
    assert ours < other


def test_a_rule_is_written_as_it_was_meant() -> None:
    rule = Rule("BYDAY=MO;FREQ=WEEKLY;INTERVAL=2;COUNT=5", datetime(2026, 1, 5, 10, tzinfo=UTC))

    assert rule.without_one() == "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;COUNT=4"
    assert Rule("FREQ=DAILY", date(2026, 1, 5)).without_one() is None
