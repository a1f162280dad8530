"""By which clock a client's times are: of events and tasks in a sandbox whose user is in Berlin."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import icalendar
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from nextcloud_mcp_server.tools.event_time import reader
from tests.dav_fakes import account_in, call

FLOATING = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:f\r\nDTSTART{0}:20261201T100000\r\n"
    "DTEND{0}:20261201T120000\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\nEXDATE{0}:20261208T100000\r\nEND:VEVENT\r\n"
    "END:VCALENDAR\r\n"
)
ALL_DAY = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:d\r\nDTSTART;VALUE=DATE:20261201\r\n"
    "RRULE:FREQ=DAILY;COUNT=4\r\nSUMMARY:Fair\r\n{0}\r\nEND:VEVENT\r\n{1}END:VCALENDAR\r\n"
)


class Berlin:
    """A user in Berlin, with a calendar and a list of tasks."""

    def __init__(self, timezone: str = "Europe/Berlin") -> None:
        sandbox = Sandbox()
        alice = sandbox.add_user("alice")
        alice.timezone = timezone
        self.calendars = alice.calendars
        self.calendars["todo"] = StoredCalendar("To do", kinds=("VTODO",))
        self.account: Account = account_in(sandbox)

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each tool's own result
        return await call(self.account, f"nc_{tool}", **arguments)

    def store(self, text: str) -> str:
        self.calendars["personal"].put("a.ics", text, 0)
        return "personal/a.ics"

    def text(self, where: str) -> str:
        calendar, _, name = where.partition("/")
        return self.calendars[calendar].objects[name].data

    async def change(self, event_id: str, **fields: object) -> Any:  # noqa: ANN401 - see above
        etag = (await self.call("calendar_get_event", event_id=event_id)).etag
        return await self.call("calendar_update_event", event_id=event_id, etag=etag, **fields)

    async def starts(self) -> list[str]:
        found = await self.call("calendar_list_events", start="2026-11-01", end="2026-12-31")
        return [each.start for each in found.events]


@pytest.fixture
async def berlin() -> Berlin:
    return Berlin()


@pytest.mark.parametrize(
    ("start", "line", "moment"),
    [
        ("2026-12-08T14:00:00-05:00", "DTSTART;TZID=Europe/Berlin:20261208T200000", 19),
        ("2026-12-08T14:00:00+01:00", "DTSTART;TZID=Europe/Berlin:20261208T140000", 13),
        ("2026-12-08T14:00:00Z", "DTSTART;TZID=Europe/Berlin:20261208T150000", 14),
        ("2026-12-08T14:00:00", "DTSTART;TZID=Europe/Berlin:20261208T140000", 13),
    ],
)
async def test_an_event_is_stored_and_listed_at_the_moment_that_was_named(
    berlin: Berlin, start: str, line: str, moment: int
) -> None:
    made = await berlin.call("calendar_create_event", title="Call", start=start)

    assert line in berlin.text(made.event_id)
    assert datetime.fromisoformat(made.start) == datetime(2026, 12, 8, moment, tzinfo=UTC)
    assert made.timezone == "Europe/Berlin"
    assert await berlin.starts() == [made.start]


async def test_where_nextcloud_knows_no_zone_an_event_is_stored_in_utc() -> None:
    nowhere = Berlin("")

    made = await nowhere.call("calendar_create_event", title="Call", start="2026-12-08T14:00:00-05:00")

    assert "DTSTART:20261208T190000Z" in nowhere.text(made.event_id)
    assert (made.start, made.timezone) == ("2026-12-08T19:00:00+00:00", "UTC")


@pytest.mark.parametrize("day", ["2026-12-08", "20261208", "2026-W50-2"])
async def test_a_date_makes_an_event_all_day_in_each_form_of_iso_8601(berlin: Berlin, day: str) -> None:
    made = await berlin.call("calendar_create_event", title="Fair", start=day, end=day)

    assert "DTSTART;VALUE=DATE:20261208\r\n" in berlin.text(made.event_id)
    assert (made.start, made.timezone) == ("2026-12-08", None)


async def test_a_task_that_is_due_on_a_date_has_no_time_in_any_form(berlin: Berlin) -> None:
    made = await berlin.call("tasks_create_task", title="Pack", due="20261208")

    assert "DUE;VALUE=DATE:20261208\r\n" in berlin.text(made.task_id)


async def test_an_event_floats_only_where_that_is_asked_for(berlin: Berlin) -> None:
    made = await berlin.call(
        "calendar_create_event", title="Pill", start="2026-12-08T08:00", timezone="floating"
    )

    assert "DTSTART:20261208T080000\r\n" in berlin.text(made.event_id)
    assert (made.start, made.timezone) == ("2026-12-08T08:00:00", "floating")
    with pytest.raises(errors.InvalidInput, match="floating time has none"):
        await berlin.call(
            "calendar_create_event", title="Pill", start="2026-12-08T08:00Z", timezone="Floating"
        )


async def test_a_zone_may_be_named_as_windows_names_it(berlin: Berlin) -> None:
    made = await berlin.call(
        "calendar_create_event",
        title="Call",
        start="2026-12-08T14:00",
        timezone="Eastern Standard Time",
        rrule="FREQ=WEEKLY;UNTIL=2026-12-15T14:00:00-05:00",
    )

    assert (made.start, made.timezone) == ("2026-12-08T14:00:00-05:00", "America/New_York")
    assert "UNTIL=20261215T190000Z" in berlin.text(made.event_id)


async def test_a_series_asks_for_its_zone_where_an_offset_does_not_tell_it(berlin: Berlin) -> None:
    weekly = {"title": "Call", "rrule": "FREQ=WEEKLY;COUNT=3"}

    with pytest.raises(errors.InvalidInput, match=r"send 'timezone' too.*own is Europe/Berlin"):
        await berlin.call("calendar_create_event", start="2026-12-08T14:00:00-05:00", **weekly)
    with pytest.raises(errors.InvalidInput, match="show twice"):
        await berlin.call("calendar_create_event", start="2026-10-25T02:30:00+01:00", **weekly)
    with pytest.raises(errors.InvalidInput, match="its end is none"):
        await berlin.call(
            "calendar_create_event", title="x", start="2026-12-08", rrule="FREQ=DAILY;UNTIL=2026-99-01T10:00"
        )
    named = await berlin.call(
        "calendar_create_event",
        start="2026-12-08T14:00:00-05:00",
        timezone="America/New_York",
        **weekly,
    )
    for start in ("2026-12-08T14:00:00+01:00", "2026-12-08T13:00:00Z", "2026-12-08T14:00"):
        own = await berlin.call("calendar_create_event", start=start, **weekly)
        assert (own.start, own.timezone) == ("2026-12-08T14:00:00+01:00", "Europe/Berlin")
    assert (named.start, named.timezone) == ("2026-12-08T14:00:00-05:00", "America/New_York")


async def test_one_event_may_be_in_the_hour_that_is_shown_twice(berlin: Berlin) -> None:
    made = await berlin.call(
        "calendar_create_event", title="Call", start="2026-10-25T02:30:00+01:00", end="2026-10-25T03:30"
    )

    assert (made.start, made.end) == ("2026-10-25T01:30:00+00:00", "2026-10-25T03:30:00+01:00")


async def test_an_all_day_event_becomes_timed_at_the_moment_that_is_named(berlin: Berlin) -> None:
    day = await berlin.call("calendar_create_event", title="Day", start="2026-12-08")

    timed = await berlin.change(day.event_id, start="2026-12-08T14:00:00-05:00")

    assert (timed.start, timed.end) == ("2026-12-08T20:00:00+01:00", "2026-12-08T21:00:00+01:00")
    again = await berlin.call("calendar_create_event", title="Day", start="2026-12-08")
    with pytest.raises(errors.InvalidInput, match="'timezone' too"):
        await berlin.change(again.event_id, start="2026-12-08T14:00-05:00", rrule="FREQ=DAILY;COUNT=2")


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        ("", "floating"),
        (";TZID=W. Europe Standard Time", "Europe/Berlin"),
        (";TZID=Nowhere Time", "floating, because the zone “Nowhere Time” is not known"),
    ],
)
async def test_a_series_that_moves_to_a_moment_takes_its_exceptions_along(
    berlin: Berlin, parameter: str, told: str
) -> None:
    event_id = berlin.store(FLOATING.format(parameter))
    before = await berlin.call("calendar_get_event", event_id=event_id)

    moved = await berlin.change(event_id, start="2026-12-01T12:00:00+01:00")

    assert before.timezone == told
    assert (moved.start, moved.end) == ("2026-12-01T12:00:00+01:00", "2026-12-01T14:00:00+01:00")
    assert await berlin.starts() == ["2026-12-01T12:00:00+01:00", "2026-12-15T12:00:00+01:00"]


@pytest.mark.parametrize(
    "removed",
    [
        "EXDATE;TZID=Pacific/Auckland:20261203T000000",
        "EXDATE:20261203T000000Z",
        "EXDATE;VALUE=DATE:20261203",
        "EXDATE;TZID=New Zealand Standard Time:20261203T000000",
        "EXDATE;TZID=Pacific/Pago_Pago:20261203T233000",
    ],
)
async def test_a_day_that_is_taken_out_with_a_time_is_that_day_in_the_zone_of_that_time(
    berlin: Berlin, removed: str
) -> None:
    """N19."""
    event_id = berlin.store(ALL_DAY.format(removed, ""))

    found = await berlin.starts()
    details = await berlin.call("calendar_get_event", event_id=event_id)

    assert found == ["2026-12-01", "2026-12-02", "2026-12-04"]
    assert details.deleted_occurrences == ["2026-12-03"]


@pytest.mark.parametrize("range_", ["", ";RANGE=THISANDFUTURE"])
async def test_an_occurrence_that_was_cancelled_is_not_told_as_one_that_takes_place(
    berlin: Berlin, range_: str
) -> None:
    cancelled = (
        f"BEGIN:VEVENT\r\nUID:d\r\nRECURRENCE-ID;VALUE=DATE{range_}:20261203\r\nDTSTART;VALUE=DATE:20261203\r\n"
        "SUMMARY:Fair\r\nSTATUS:CANCELLED\r\nEND:VEVENT\r\n"
    )
    event_id = berlin.store(ALL_DAY.format("EXDATE;VALUE=DATE:20261202", cancelled))

    whole = await berlin.call("calendar_get_event", event_id=event_id)
    one, other, live = [
        await berlin.call("calendar_get_event", event_id=event_id, occurrence=f"2026-12-0{day}")
        for day in (3, 2, 1)
    ]

    assert await berlin.starts() == ["2026-12-01"] + ([] if range_ else ["2026-12-04"])
    assert (one.status, other.status, live.status) == ("cancelled", "deleted", None)
    assert (whole.deleted_occurrences, whole.changed_occurrences) == (["2026-12-02", "2026-12-03"], None)


async def test_deleting_one_occurrence_names_which_and_when(berlin: Berlin) -> None:
    event_id = berlin.store(FLOATING.format(";TZID=Europe/Berlin").replace("UID:f", "UID:f\r\nSUMMARY:Choir"))
    moved = await berlin.change(event_id, occurrence="2026-12-15T10:00", start="2026-12-16T18:00")

    gone = await berlin.call(
        "calendar_delete_event", event_id=event_id, etag=moved.etag, occurrence="2026-12-15T10:00"
    )

    assert (gone.title, gone.occurrence, gone.start) == (
        "Choir",
        "2026-12-15T10:00:00+01:00",
        "2026-12-16T18:00:00+01:00",
    )


async def test_free_time_is_by_the_clock_of_the_user_where_the_offset_is_their_own(berlin: Berlin) -> None:
    """The clocks change on 25 October: nine o'clock is nine o'clock before and after it."""
    asked = {"minutes": 480, "weekends": False}

    own = await berlin.call(
        "calendar_find_free_time", start="2026-10-23T00:00:00+02:00", end="2026-10-26", **asked
    )
    other = await berlin.call(
        "calendar_find_free_time", start="2026-10-23T00:00:00-05:00", end="2026-10-23", **asked
    )

    assert [slot.start for slot in own.free] == ["2026-10-23T09:00:00+02:00", "2026-10-26T09:00:00+01:00"]
    assert (own.timezone, other.timezone) == ("Europe/Berlin", "UTC-05:00")
    with pytest.raises(errors.InvalidInput, match="must be a date"):
        await berlin.call("calendar_find_free_time", start="9999-12-31T23:59-14:00", end="2026-10-26")


async def test_a_task_is_due_at_the_moment_that_was_named_and_says_in_which_zone(berlin: Berlin) -> None:
    made = await berlin.call(
        "tasks_create_task",
        title="Post",
        start="2026-12-04",
        due="2026-12-05T10:00:00-08:00",
        calendar="todo",
    )
    day = await berlin.call("tasks_create_task", title="Day", due="2026-12-06", calendar="todo")
    floats = await berlin.call(
        "tasks_create_task", title="Pill", due="2026-12-07T08:00", timezone="floating", calendar="todo"
    )

    stored = (
        cast("Any", icalendar.Calendar).from_ical(berlin.text(made.task_id)).walk("VTODO")[0].decoded("DUE")
    )
    assert stored.astimezone(UTC) == datetime(2026, 12, 5, 18, tzinfo=UTC)
    assert (made.due, made.timezone) == ("2026-12-05T19:00:00+01:00", "Europe/Berlin")
    assert (day.due, day.timezone) == ("2026-12-06", None)
    assert (floats.due, floats.timezone) == ("2026-12-07T08:00:00", "floating")
    rows = (await berlin.call("tasks_list_tasks")).tasks
    assert [(row.due, row.timezone) for row in rows] == [
        (each.due, each.timezone) for each in (made, day, floats)
    ]


async def test_completing_a_task_that_recurs_names_the_date_that_is_done(berlin: Berlin) -> None:
    made = await berlin.call(
        "tasks_create_task", title="Rent", due="2026-12-03", rrule="FREQ=MONTHLY", calendar="todo"
    )

    done = await berlin.call("tasks_update_task", task_id=made.task_id, etag=made.etag, completed=True)

    assert done.note == "It recurs: that of 2026-12-03 is done, and it stands at 2027-01-03 now."
    with pytest.raises(errors.InvalidInput, match="'timezone' too"):
        await berlin.call(
            "tasks_create_task", title="x", due="2026-12-03T10:00-05:00", rrule="FREQ=DAILY", calendar="todo"
        )


async def test_a_time_at_the_end_of_all_days_is_by_the_clock_of_its_own_offset() -> None:
    async def own() -> ZoneInfo:
        return ZoneInfo("America/New_York")

    zone = await reader(own, "0001-01-01T00:00:00+14:00", None)

    assert zone.utcoffset(None) == timedelta(hours=14)
