"""What a client names is what is stored: write, read back, the same moment."""

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

import icalendar
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tasks import edit
from nextcloud_mcp_server.apps.tasks.edit import TaskChanges
from nextcloud_mcp_server.formats import event_edit, ical, ical_time, zones
from nextcloud_mcp_server.formats.event_edit import Changes
from nextcloud_mcp_server.formats.recurrence import Occurrence, Series
from nextcloud_mcp_server.formats.windows_zones import table
from tests.unit.formats.test_zones import OUTLOOK

NOW = datetime(2026, 11, 27, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
#: Those of the machine itself are no zones of the database.
NAMES = sorted(available_timezones() - {"localtime", "posixrules", "Factory"}) + sorted(table())
OFFSETS = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
COMMON_OFFSETS = st.integers(-56, 56).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))


@cache
def changes_of(name: str, year: int) -> list[datetime]:
    """Find the moments, in UTC, at which the clocks of a zone change in a year."""
    zone, found = zones.named(name), list[datetime]()
    low = datetime(year, 1, 1, tzinfo=UTC)
    while low.year == year:
        high = low + timedelta(days=7)
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            first, last = low, high
            while last - first > timedelta(seconds=1):
                middle = (first + (last - first) / 2).replace(microsecond=0)
                same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
                first, last = (middle, last) if same else (first, middle)
            found.append(last)
        low = high
    return found


@st.composite
def places(draw: st.DrawFn) -> tuple[str, datetime]:
    """Draw a zone and a moment: half of them within three hours of a change of its clocks, if it has any."""
    name = draw(st.sampled_from(NAMES))
    year = draw(st.integers(1971, 2090))
    changes = changes_of(name, year)
    if changes and draw(st.booleans()):
        return name, draw(st.sampled_from(changes)) + timedelta(minutes=draw(st.integers(-180, 180)))
    seconds = draw(st.integers(0, 365 * 86_400))
    return name, datetime(year, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def components(text: str, *names: str) -> list[Any]:
    """Take an object apart with another implementation."""
    return cast("Any", icalendar.Calendar).from_ical(text).walk(*names)


def stored(text: str, name: str) -> datetime:
    """Read a time of the one component with another implementation."""
    value = components(text)[-1].decoded(name)
    assert isinstance(value, datetime)
    # As UTC: Python holds no time of an hour that is shown twice equal to one in another zone (PEP 495).
    return value if value.tzinfo is None else value.astimezone(UTC)


def event(start: ical_time.Moment, end: ical_time.Moment | None = None) -> str:
    changes = Changes(title="x", start=start, end=end)
    return event_edit.new_event("1", changes, now=NOW, organizer="", reminder=None).written


@settings(max_examples=40, deadline=None)
@given(places(), st.one_of(OFFSETS, COMMON_OFFSETS))
def test_a_moment_given_with_any_offset_is_the_moment_of_the_event_in_any_zone(
    place: tuple[str, datetime], offset: tzinfo
) -> None:
    name, moment = place
    given_text = moment.astimezone(offset).isoformat()

    text = event(ical_time.given("start", given_text, zones.named(name)))

    assert stored(text, "DTSTART") == moment
    assert stored(text, "DTEND") == moment + timedelta(hours=1)
    series = Series(ical.read(text), "VEVENT")
    times = series.times(next(ical.read(text).components("VEVENT")))
    assert [ical_time.instant(each, UTC).astimezone(UTC) for each in times] == [
        moment,
        moment + timedelta(hours=1),
    ]


@settings(max_examples=25, deadline=None)
@given(places(), COMMON_OFFSETS)
def test_a_moment_given_with_any_offset_is_when_a_task_is_due(
    place: tuple[str, datetime], offset: tzinfo
) -> None:
    name, moment = place
    due = ical_time.given("due", moment.astimezone(offset).isoformat(), zones.named(name))

    text = edit.new_task("1", TaskChanges(title="x", due=due), now=NOW).written

    assert stored(text, "DUE") == moment


@settings(max_examples=25, deadline=None)
@given(places(), st.sampled_from(["as it is", "later"]))
def test_a_time_by_the_clock_of_a_zone_is_that_of_the_specification(
    place: tuple[str, datetime], second: str
) -> None:
    """RFC 5545 §3.3.5: of an hour that is shown twice the first; one that is skipped by the offset before it."""
    name, moment = place
    zone = zones.named(name)
    clock = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    if second == "later":
        # Into the hour that is skipped, where there is one.
        clock += timedelta(hours=1)

    text = event(ical_time.given("start", clock.isoformat(), zone))

    # What `fold=0` means (PEP 495) is the same rule.
    assert stored(text, "DTSTART") == clock.replace(tzinfo=zone).astimezone(UTC)


@settings(max_examples=20, deadline=None)
@example(("America/Inuvik", datetime(1979, 4, 29, 10, tzinfo=UTC)))
@given(places())
def test_the_description_of_the_zone_says_the_same_moment(place: tuple[str, datetime]) -> None:
    name, moment = place
    text = event(ical_time.given("start", moment.isoformat(), zones.named(name)))

    described = components(text, "VTIMEZONE")

    start = components(text, "VEVENT")[0]["DTSTART"]
    assert bool(described) == ("TZID" in start.params and start.params["TZID"] != "UTC")
    for one in described:
        there = start.dt.replace(tzinfo=one.to_tz(lookup_tzid=False))
        assert there.astimezone(UTC) == moment


def outlook(tzid: str = "W. Europe Standard Time", lines: str = "") -> str:
    return (
        f"BEGIN:VCALENDAR\n{OUTLOOK if lines != 'bare' else ''}BEGIN:VEVENT\nUID:1\n"
        f"DTSTART;TZID={tzid}:20261005T090000\nDTEND;TZID={tzid}:20261005T100000\nRRULE:FREQ=WEEKLY;COUNT=8\n"
        "END:VEVENT\nEND:VCALENDAR\n"
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.integers(0, 40 * 24 * 60), COMMON_OFFSETS, st.sampled_from(["bare", ""]))
def test_one_occurrence_in_a_zone_of_outlook_moves_to_the_moment_that_is_named(
    number: int, minutes: int, offset: tzinfo, bare: str
) -> None:
    whole = ical.read(outlook(lines=bare))
    series = Series(whole, "VEVENT")
    year = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    at: Occurrence = series.between(*year, UTC)[number]
    moment = datetime(2026, 10, 5, tzinfo=UTC) + timedelta(minutes=minutes)
    assert isinstance(at.start, datetime)
    start = ical_time.given("start", moment.astimezone(offset).isoformat(), at.start.tzinfo)

    event_edit.change_one(whole, series, at, Changes(start=start), now=NOW, organizer="")

    after = Series(ical.read(whole.written), "VEVENT")
    moved = [each for each in after.between(*year, UTC) if each.id == at.id]
    assert [ical_time.instant(each.start, UTC).astimezone(UTC) for each in moved] == [moment]
    other = [one for one in components(whole.written, "VEVENT") if "RECURRENCE-ID" in one]
    assert [one.decoded("DTSTART").astimezone(UTC) for one in other] == [moment]
    assert len(after.between(*year, UTC)) == 8
    assert whole.written.count("BEGIN:VTIMEZONE") == (not bare)


@pytest.mark.parametrize("bare", ["", "bare"])
def test_a_series_in_a_zone_of_outlook_moves_with_its_exceptions(bare: str) -> None:
    whole = ical.read(outlook(lines=bare))
    series = Series(whole, "VEVENT")
    zone = series.start.tzinfo if isinstance(series.start, datetime) else None
    removed = series.between(datetime(2026, 10, 12, tzinfo=UTC), datetime(2026, 10, 13, tzinfo=UTC), UTC)[0]
    event_edit.remove_one(whole, series, removed, now=NOW)

    start = ical_time.given("start", "2026-10-05T03:00:00-04:00", zone)
    event_edit.change_all(whole, Series(whole, "VEVENT"), Changes(start=start), now=NOW, organizer="")

    after = Series(ical.read(whole.written), "VEVENT")
    found = after.between(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), UTC)
    assert [ical_time.shown(each.start) for each in found] == [
        "2026-10-05T09:00:00+02:00",
        "2026-10-19T09:00:00+02:00",
        "2026-10-26T09:00:00+01:00",
    ]


def test_an_all_day_event_becomes_timed_at_the_moment_that_is_named() -> None:
    whole = ical.read(event(date(2026, 12, 8)))
    start = ical_time.given("start", "2026-12-08T14:00:00-05:00", BERLIN)

    event_edit.change_all(whole, Series(whole, "VEVENT"), Changes(start=start), now=NOW, organizer="")

    assert stored(whole.written, "DTSTART") == datetime(2026, 12, 8, 19, tzinfo=UTC)
    assert stored(whole.written, "DTEND") == datetime(2026, 12, 8, 20, tzinfo=UTC)


def test_an_event_that_floated_keeps_its_length_when_it_gets_a_zone() -> None:
    whole = ical.read(event(datetime(2026, 12, 8, 10), datetime(2026, 12, 8, 13)))  # noqa: DTZ001 - it floats
    start = ical_time.given("start", "2026-12-08T14:00:00-05:00", BERLIN)

    event_edit.change_all(whole, Series(whole, "VEVENT"), Changes(start=start), now=NOW, organizer="")

    assert stored(whole.written, "DTEND") == datetime(2026, 12, 8, 22, tzinfo=UTC)


def test_an_event_in_the_hour_that_is_shown_twice_ends_after_it_begins() -> None:
    start, end = (
        ical_time.given("start", text, BERLIN)
        for text in ("2026-10-25T02:45:00+02:00", "2026-10-25T02:15:00+01:00")
    )

    text = event(start, end)

    assert "DTSTART;TZID=Europe/Berlin:20261025T024500" in text
    assert "DTEND:20261025T011500Z" in text


def test_a_time_floats_only_without_a_zone_and_without_an_offset() -> None:
    assert "DTSTART:20261208T140000\r\n" in event(ical_time.given("start", "2026-12-08T14:00", None))
    with pytest.raises(errors.InvalidInput, match="floating"):
        ical_time.given("start", "2026-12-08T14:00Z", None)


def test_a_name_of_a_zone_with_a_colon_is_quoted() -> None:
    tzid = "(UTC+01:00) Amsterdam, Berlin"
    whole = ical.read(outlook(f'"{tzid}"').replace("TZID:W. Europe Standard Time", f"TZID:{tzid}"))
    series = Series(whole, "VEVENT")
    assert isinstance(series.start, datetime)
    timed = ical_time.line("RDATE", series.start.replace(hour=11))

    assert timed.raw == f'RDATE;TZID="{tzid}":20261005T110000\r\n'
    assert ical_time.of(timed, series.zones) == datetime(2026, 10, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-11-27T15:00:00z", " 2026-11-27T15:00Z ", "2026-11-27 16:00+01:00"])
def test_the_spellings_of_a_time_that_specifications_allow_are_read(text: str) -> None:
    assert ical_time.given("start", text, UTC) == datetime(2026, 11, 27, 15, tzinfo=UTC)
