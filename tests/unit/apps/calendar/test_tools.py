import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.apps.calendar.tools import calendar
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.parallel import side_by_side
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from tests.dav_fakes import account_in, account_over, call_in, multistatus, network

PACKAGE = Path(__file__).parents[4] / "nextcloud_mcp_server"

FLIGHT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\nX-WR-CALNAME:kept\r\nBEGIN:VEVENT\r\nUID:not-the-file-name\r\n"
    "DTSTAMP:20260101T000000Z\r\nDTSTART;TZID=America/New_York:20261102T200000\r\n"
    "DTEND;TZID=Europe/London;X-ODD=1:20261103T080000\r\nSUMMARY;LANGUAGE=en:NY to London\r\nX-SEAT:12A\r\n"
    "ATTENDEE;CN=Alice;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:Alice@example.test\r\n"
    "ATTENDEE;CN=Bob;PARTSTAT=ACCEPTED:mailto:bob@example.test\r\nORGANIZER:mailto:bob@example.test\r\n"
    "BEGIN:VALARM\r\nACTION:AUDIO\r\nTRIGGER:-PT2H\r\nX-SOUND:loud\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
SERIES = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:series\r\nDTSTART;TZID=America/New_York:20261021T141000\r\n"
    "DTEND;TZID=America/New_York:20261021T150000\r\nRRULE:FREQ=WEEKLY;BYDAY=WE;COUNT=5\r\nSUMMARY:Weekly\r\n"
    "LOCATION:Room 1\r\nX-KEEP:me\r\nBEGIN:VALARM\r\nACTION:AUDIO\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
FIRST, SECOND, THIRD = (
    f"2026-{day}T14:10:00{offset}"
    for day, offset in (("10-21", "-04:00"), ("10-28", "-04:00"), ("11-04", "-05:00"))
)


class PersonalApp:
    """A sandbox with one calendar of alice's, and her tools."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        for uid in ("alice", "bob"):
            self.sandbox.add_user(uid).email = f"{uid}@example.test"
        self.calendars = self.sandbox.state.users["alice"].calendars
        self.account: Account = account_in(self.sandbox)

    def store(self, name: str, text: str) -> str:
        self.calendars["personal"].put(name, text, 0)
        return f"personal/{name}"

    def text(self, event_id: str) -> str:
        where, _, name = event_id.partition("/")
        return self.calendars[where].objects[name].data

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each tool's own result
        return await call_in(calendar, self.account, f"nc_calendar_{tool}", **arguments)

    async def starts(
        self, start: str = "2026-10-01", end: str = "2026-12-31", **arguments: object
    ) -> list[str]:
        return [
            each.start for each in (await self.call("list_events", start=start, end=end, **arguments)).events
        ]

    async def etag(self, event_id: str) -> str:
        return (await self.call("get_event", event_id=event_id)).etag


@pytest.fixture
async def personal_app() -> PersonalApp:
    return PersonalApp()


def test_nothing_that_is_costly_is_imported_before_it_is_needed() -> None:
    costly = re.compile(r"^(?:import|from) (?:dateutil|icalendar|recurring_ical_events)\b", re.MULTILINE)

    assert [path.name for path in PACKAGE.rglob("*.py") if costly.search(path.read_text("utf-8"))] == []


async def test_calendars_say_whose_they_are_and_what_may_be_done(personal_app: PersonalApp) -> None:
    personal_app.sandbox.state.users["bob"].calendars["team"] = StoredCalendar(
        "Team", shared_with={"alice": True}
    )
    personal_app.calendars["tasks"] = StoredCalendar("Tasks", kinds=("VTODO",))

    rows = (await personal_app.call("list_calendars")).calendars

    assert [(row.calendar, row.name, row.read_only, row.owner, row.holds) for row in rows] == [
        ("personal", "Personal", None, None, ["events"]),
        ("contact_birthdays", "Contact birthdays", True, None, ["events"]),
        ("tasks", "Tasks", None, None, ["tasks"]),
        ("team_shared_by_bob", "Team (bob)", True, "bob", ["events"]),
    ]


async def test_a_list_goes_on_with_its_cursor_and_says_what_it_could_not_read(
    personal_app: PersonalApp,
) -> None:
    personal_app.store("a.ics", SERIES)
    personal_app.store("broken.ics", SERIES.replace("20261021T141000", "soon"))
    endless = personal_app.store(
        "endless.ics", SERIES.replace("DTEND;TZID=America/New_York:20261021T150000", "DURATION:P999999W")
    )
    personal_app.store(
        "often.ics", SERIES.replace("WEEKLY;BYDAY=WE;COUNT=5", "HOURLY").replace("Weekly", "Often")
    )
    asked = {"start": "2026-10-01", "end": "2027-12-31", "query": "week ROOM"}

    first = await personal_app.call("list_events", **asked, limit=2)
    second = await personal_app.call("list_events", **asked, limit=10, cursor=first.cursor)

    assert [each.occurrence for each in first.events] == [FIRST, SECOND]
    assert [each.title for each in second.events] == ["Weekly"] * 3
    assert (first.total, second.cursor) == (5, None)
    assert "2 calendar objects could not be read" in first.note
    assert "1 series recur so often" in first.note
    with pytest.raises(errors.ServerFault, match="cannot be read"):
        await personal_app.call("get_event", event_id=endless)
    with pytest.raises(errors.InvalidInput, match="cursor"):
        await personal_app.call("list_events", **{**asked, "query": "other"}, cursor=first.cursor)


async def test_all_day_events_are_told_with_their_last_day_in_any_zone(personal_app: PersonalApp) -> None:
    """B91."""
    day = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20261127\n{}END:VEVENT\nEND:VCALENDAR\n"
    personal_app.store("one.ics", day.format("").replace("UID:1", "UID:0"))
    personal_app.store("same.ics", day.format("DTEND;VALUE=DATE:20261128\n"))

    for zone in ("Pacific/Pago_Pago", "Pacific/Kiritimati", "UTC"):
        rows = (
            await personal_app.call("list_events", start="2026-11-27", end="2026-11-27", timezone=zone)
        ).events
        assert [(row.start, row.last_day, row.end) for row in rows] == [
            ("2026-11-27", "2026-11-27", None)
        ] * 2
        assert await personal_app.starts("2026-11-26", "2026-11-26", timezone=zone) == []
        assert await personal_app.starts("2026-11-28", "2026-11-28", timezone=zone) == []


async def test_a_series_that_is_made_here_keeps_its_hour_and_its_last_day(personal_app: PersonalApp) -> None:
    """B92. U56. U61."""
    made = await personal_app.call(
        "create_event",
        title=" Jour\nfixe ",
        start="2026-10-28T14:10",
        end="2026-10-28T15:00",
        timezone="America/New_York",
        rrule="RRULE:FREQ=WEEKLY;UNTIL=2026-11-11",
        categories=["a, b", " c "],
        reminder_minutes=10,
        location="Room; 2",
    )

    text = personal_app.text(made.event_id)
    assert await personal_app.starts() == [
        "2026-10-28T14:10:00-04:00",
        "2026-11-04T14:10:00-05:00",
        "2026-11-11T14:10:00-05:00",
    ]
    for part in (
        "BEGIN:VTIMEZONE",
        "UNTIL=20261112T045959Z",
        "CATEGORIES:a\\, b,c\r\n",
        "TRIGGER:-PT10M",
        "Room\\; 2",
    ):
        assert part in text
    assert made.title == "Jour fixe"


async def test_an_all_day_event_lasts_through_its_last_day(personal_app: PersonalApp) -> None:
    made = await personal_app.call(
        "create_event",
        title="Fair",
        start="2026-12-01",
        end="2026-12-03",
        rrule="FREQ=YEARLY;UNTIL=2027-12-31",
    )
    short = await personal_app.call("create_event", title="Day", start="2026-12-01")

    assert (made.start, made.last_day, short.last_day) == ("2026-12-01", "2026-12-03", "2026-12-01")
    assert "DTEND;VALUE=DATE:20261204" in personal_app.text(made.event_id)
    assert "UNTIL=20271231\r\n" in personal_app.text(made.event_id)


async def test_inviting_names_the_person_as_organizer(personal_app: PersonalApp) -> None:
    made = await personal_app.call(
        "create_event", title="Lunch", start="2026-12-01T12:00Z", attendees=["Bob@Example.test"]
    )
    details = await personal_app.call("get_event", event_id=made.event_id)

    assert [(each.email, each.answer) for each in details.attendees] == [("bob@example.test", "needs-action")]
    assert details.organizer == "alice@example.test"
    changed = await personal_app.call(
        "update_event",
        event_id=made.event_id,
        etag=made.etag,
        attendees=["ana@example.org", "bob@example.test"],
    )
    text = personal_app.text(made.event_id)
    assert text.count("ATTENDEE") == 2
    await personal_app.call(
        "update_event", event_id=made.event_id, etag=changed.etag, attendees=[], title="Alone"
    )
    assert "ATTENDEE" not in personal_app.text(made.event_id)
    personal_app.sandbox.state.users["alice"].email = ""
    with pytest.raises(
        errors.InvalidInput, match=r"nothing was written: .* set one in their Nextcloud settings"
    ):
        await personal_app.call("create_event", title="x", start="2026-12-01", attendees=["bob@example.test"])


async def test_a_new_title_changes_nothing_else(personal_app: PersonalApp) -> None:
    """B95. U59."""
    event_id = personal_app.store("flight.ics", FLIGHT)

    after = await personal_app.call(
        "update_event", event_id=event_id, etag=await personal_app.etag(event_id), title="To London"
    )

    lines = [line for line in FLIGHT.splitlines() if not line.startswith(("SUMMARY", "DTSTAMP", "END:"))]
    text = personal_app.text(event_id)
    assert all(f"{line}\r\n" in text for line in lines)
    assert "SUMMARY;LANGUAGE=en:To London\r\n" in text
    assert (after.timezone, after.end_timezone, after.end) == (
        "America/New_York",
        "Europe/London",
        "2026-11-03T08:00:00+00:00",
    )


async def test_a_flight_that_is_moved_keeps_both_zones_and_its_length(personal_app: PersonalApp) -> None:
    """B17."""
    event_id = personal_app.store("flight.ics", FLIGHT)

    later = await personal_app.call(
        "update_event", event_id=event_id, etag=await personal_app.etag(event_id), start="2026-11-03T20:00"
    )
    longer = await personal_app.call(
        "update_event", event_id=event_id, etag=later.etag, end="2026-11-04T09:00"
    )

    assert (later.start, later.end) == ("2026-11-03T20:00:00-05:00", "2026-11-04T08:00:00+00:00")
    assert longer.end == "2026-11-04T09:00:00+00:00"
    assert "DTEND;TZID=Europe/London;X-ODD=1:20261104T090000" in personal_app.text(event_id)


async def test_one_occurrence_is_changed_alone(personal_app: PersonalApp) -> None:
    """B94."""
    event_id = personal_app.store("series.ics", SERIES)
    before = await personal_app.starts()

    moved = await personal_app.call(
        "update_event",
        event_id=event_id,
        etag=await personal_app.etag(event_id),
        occurrence=SECOND,
        start="2026-10-29T09:00",
        title="Moved",
    )
    again = await personal_app.call(
        "update_event", event_id=event_id, etag=moved.etag, occurrence=SECOND, location="", categories=["x"]
    )

    assert await personal_app.starts() == [before[0], "2026-10-29T09:00:00-04:00", *before[2:]]
    text = personal_app.text(event_id)
    assert "RECURRENCE-ID;TZID=America/New_York:20261028T141000\r\n" in text
    assert (
        text.count("RRULE:FREQ=WEEKLY"),
        text.count("X-KEEP:me"),
        text.count("TRIGGER"),
        text.count("Room 1"),
    ) == (1, 2, 2, 1)
    assert (again.occurrence, again.title) == (SECOND, "Moved")
    whole = await personal_app.call("get_event", event_id=event_id)
    assert whole.changed_occurrences == [SECOND]


async def test_a_series_that_moves_takes_its_exceptions_along(personal_app: PersonalApp) -> None:
    event_id = personal_app.store("series.ics", SERIES)
    renamed = await personal_app.call(
        "update_event",
        event_id=event_id,
        etag=await personal_app.etag(event_id),
        occurrence=SECOND,
        title="Renamed",
    )
    moved = await personal_app.call(
        "update_event", event_id=event_id, etag=renamed.etag, occurrence=FIRST, start="2026-10-20T08:00"
    )
    without = await personal_app.call("delete_event", event_id=event_id, etag=moved.etag, occurrence=THIRD)

    after = await personal_app.call(
        "update_event", event_id=event_id, etag=without.etag, start="2026-10-21T16:00", end="2026-10-21T16:30"
    )

    assert await personal_app.starts() == [
        "2026-10-20T08:00:00-04:00",
        "2026-10-28T16:00:00-04:00",
        "2026-11-11T16:00:00-05:00",
        "2026-11-18T16:00:00-05:00",
    ]
    for fields, match in (
        ({"start": "2026-10-22T16:00"}, "new 'rrule' too"),
        ({"start": "2026-10-21", "rrule": "FREQ=WEEKLY"}, "create a new series"),
        ({"rrule": "FREQ=DAILY", "occurrence": "2026-10-28T16:00"}, "without 'occurrence'"),
    ):
        with pytest.raises(errors.InvalidInput, match=match):
            await personal_app.call("update_event", event_id=event_id, etag=after.etag, **fields)


async def test_an_occurrence_that_was_deleted_can_take_place_again(personal_app: PersonalApp) -> None:
    event_id = personal_app.store(
        "series.ics",
        SERIES.replace("SUMMARY", "EXDATE;TZID=America/New_York:20261028T141000,20261118T141000\r\nSUMMARY"),
    )

    gone = await personal_app.call(
        "delete_event", event_id=event_id, etag=await personal_app.etag(event_id), occurrence=THIRD
    )
    listed = await personal_app.starts()
    details = await personal_app.call("get_event", event_id=event_id)
    back = await personal_app.call(
        "update_event", event_id=event_id, etag=gone.etag, occurrence=THIRD, title="Again"
    )
    await personal_app.call(
        "update_event", event_id=event_id, etag=back.etag, occurrence=SECOND, title="Again"
    )

    assert THIRD not in listed
    assert details.deleted_occurrences == [SECOND, THIRD, "2026-11-18T14:10:00-05:00"]
    assert "takes place again" in gone.undo or "take place again" in gone.undo
    assert {SECOND, THIRD} <= set(await personal_app.starts())


async def test_a_whole_series_ends_or_goes_to_the_trash(personal_app: PersonalApp) -> None:
    event_id = personal_app.store("series.ics", SERIES)
    first = await personal_app.call(
        "update_event",
        event_id=event_id,
        etag=await personal_app.etag(event_id),
        occurrence=SECOND,
        title="x",
    )

    once = await personal_app.call("update_event", event_id=event_id, etag=first.etag, rrule="")
    listed = await personal_app.starts()
    with pytest.raises(errors.InvalidInput, match="does not recur"):
        await personal_app.call("delete_event", event_id=event_id, etag=once.etag, occurrence=FIRST)
    gone = await personal_app.call("delete_event", event_id=event_id, etag=once.etag)

    assert listed == [FIRST]
    assert (gone.title, "trash" in gone.undo) == ("Weekly", True)
    assert list(personal_app.calendars["personal"].trash) == ["series-deleted.ics"]
    broken = personal_app.store("broken.ics", "BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    raw = await personal_app.account.client(CalendarClient).delete(
        broken, if_match=personal_app.calendars["personal"].objects["broken.ics"].etag
    )
    assert raw.title == ""


async def test_an_invitation_is_answered_for_all_or_for_one(personal_app: PersonalApp) -> None:
    event_id = personal_app.store(
        "flight.ics", FLIGHT.replace("X-SEAT", "RRULE:FREQ=DAILY;COUNT=3\r\nX-SEAT")
    )
    listed = (await personal_app.call("list_events", start="2026-11-01", end="2026-11-30")).events

    no = await personal_app.call(
        "update_event",
        event_id=event_id,
        etag=listed[0].etag,
        occurrence=listed[1].occurrence,
        answer="declined",
    )
    await personal_app.call(
        "update_event", event_id=event_id, etag=no.etag, answer="tentative", occurrence=listed[0].occurrence
    )
    etag = await personal_app.etag(event_id)
    await personal_app.call("update_event", event_id=event_id, etag=etag, answer="accepted")

    assert [each.awaits_answer for each in listed] == [True] * 3
    text = personal_app.text(event_id)
    assert text.count("CN=Alice;PARTSTAT=ACCEPTED:mailto:Alice@example.test\r\n") == 3
    assert text.count("CN=Bob;PARTSTAT=ACCEPTED:mailto:bob@example.test") == 3
    other = personal_app.store("other.ics", SERIES)
    with pytest.raises(errors.InvalidInput, match="not among the invited"):
        await personal_app.call(
            "update_event", event_id=other, etag=await personal_app.etag(other), answer="accepted"
        )


async def test_free_time_is_what_no_event_takes(personal_app: PersonalApp) -> None:
    base = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:{0}\nDTSTART:{1}\nDTEND:{2}\n{3}END:VEVENT\nEND:VCALENDAR\n"
    for number, (start, end, more) in enumerate(
        [
            ("20261130T090000Z", "20261130T100000Z", ""),
            ("20261130T093000Z", "20261130T113000Z", ""),
            ("20261130T120000Z", "20261130T130000Z", "TRANSP:TRANSPARENT\n"),
            ("20261130T130000Z", "20261130T140000Z", "STATUS:CANCELLED\n"),
            (
                "20261130T140000Z",
                "20261130T150000Z",
                "ATTENDEE;PARTSTAT=DECLINED:mailto:alice@example.test\n",
            ),
            ("20261130T151500Z", "20261130T164500Z", ""),
        ]
    ):
        personal_app.store(f"{number}.ics", base.format(number, start, end, more))
    asked = {"start": "2026-11-28", "end": "2026-11-30", "timezone": "Europe/Berlin", "minutes": 60}

    free = await personal_app.call("find_free_time", **asked)
    weekend = await personal_app.call(
        "find_free_time", **asked, weekends=True, day_to="24:00", day_from="23:00"
    )

    assert [(slot.start[11:16], slot.end[11:16]) for slot in free.free] == [
        ("09:00", "10:00"),
        ("12:30", "16:15"),
    ]
    assert [slot.start[:10] for slot in weekend.free] == ["2026-11-28", "2026-11-29", "2026-11-30"]
    assert (
        await personal_app.call("find_free_time", start="2026-11-30T08:00+01:00", end="2026-11-30T09:00Z")
    ).timezone == "UTC+01:00"
    for hours in ({"day_from": "soon"}, {"day_from": "18:00"}):
        with pytest.raises(errors.InvalidInput, match="day_"):
            await personal_app.call("find_free_time", **asked, **hours)


@pytest.mark.parametrize(
    ("tool", "arguments", "match"),
    [
        ("list_events", {"start": "tomorrow", "end": "2026-12-01"}, "must be a date such as"),
        ("list_events", {"start": "2026-12-02", "end": "2026-12-01T00:00"}, "before 'start'"),
        ("list_events", {"start": "2000-01-01", "end": "2026-12-01"}, "five years"),
        ("list_events", {"start": "0001-01-01T00:00+14:00", "end": "2026-12-01"}, "must be a date such as"),
        ("list_events", {"start": "2026-12-01", "end": "9999-12-31"}, "in a year from 100 to 9900"),
        ("list_events", {"start": "2026-12-01", "end": "2026-12-01", "timezone": "Mars"}, "Europe/Berlin"),
        ("create_event", {"title": "x", "start": "9999-12-31"}, "in a year from 100 to 9900"),
        ("create_event", {"title": " ", "start": "2026-12-01"}, "'title' is empty"),
        ("create_event", {"title": "x", "start": "2026-12-01", "end": "2026-12-01T10:00"}, "both be dates"),
        ("create_event", {"title": "x", "start": "2026-12-02", "end": "2026-12-01"}, "'end' is before"),
        ("create_event", {"title": "x", "start": "2026-12-01", "rrule": "FREQ=SECONDLY"}, "rrule"),
        (
            "create_event",
            {"title": "x", "start": "2026-12-01", "rrule": "FREQ=DAILY;COUNT=2;UNTIL=20270101"},
            "both",
        ),
        ("create_event", {"title": "x", "start": "2026-12-01", "attendees": ["bob"]}, "e-mail addresses"),
        ("create_event", {"title": "x", "start": "2026-12-01", "location": "bell\x07"}, "control"),
        ("update_event", {"event_id": "personal/a.ics", "etag": "e"}, "Nothing to change"),
    ],
)
async def test_what_cannot_be_is_refused_with_a_sentence(
    personal_app: PersonalApp, tool: str, arguments: dict[str, object], match: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=match):
        await personal_app.call(tool, **arguments)


@pytest.mark.parametrize(
    "event_id",
    ["personal", "../bob/a.ics", "personal/../x.ics", "a/b/c", "personal/missing.ics", "other/a.ics"],
)
async def test_foreign_and_unknown_ids_are_not_found(personal_app: PersonalApp, event_id: str) -> None:
    with pytest.raises(errors.NotFound):
        await personal_app.call("get_event", event_id=event_id)


async def test_an_id_that_is_none_and_a_rule_that_is_none_are_told_with_what_to_send(
    personal_app: PersonalApp,
) -> None:
    with pytest.raises(errors.NotFound, match="an event_id of nc_calendar_list_events"):
        await personal_app.call("get_event", event_id="standup")
    with pytest.raises(errors.NotFound, match="Find it with nc_calendar_list_events"):
        await personal_app.call("get_event", event_id="personal/nothing.ics")
    with pytest.raises(errors.InvalidInput, match="not made of parts like FREQ=WEEKLY"):
        await personal_app.call(
            "create_event", title="x", start="2026-12-01T10:00", timezone="UTC", rrule="every week"
        )


async def test_what_is_not_there_cannot_be_asked_for(personal_app: PersonalApp) -> None:
    event_id = personal_app.store("series.ics", SERIES)

    with pytest.raises(errors.NotFound, match="no such occurrence"):
        await personal_app.call("get_event", event_id=event_id, occurrence="2026-10-22T14:10:00-04:00")
    for name in ("nowhere", "a/b", "../bob"):
        with pytest.raises(errors.NotFound, match="no such calendar"):
            await personal_app.call("list_events", start="2026-12-01", end="2026-12-02", calendar=name)
        with pytest.raises(errors.NotFound, match="no such calendar"):
            await personal_app.call(
                "create_event", title="x", start="2026-12-01T10:00", timezone="UTC", calendar=name
            )
    with pytest.raises(errors.ServerFault, match="cannot be read"):
        await personal_app.call("get_event", event_id=personal_app.store("bad.ics", "hello"))
    alone = personal_app.store(
        "alone.ics",
        SERIES.replace("RRULE:FREQ=WEEKLY;BYDAY=WE;COUNT=5", "RECURRENCE-ID:20261021T181000Z").replace(
            "UID:series", "UID:2"
        ),
    )
    with pytest.raises(errors.InvalidInput, match="send 'occurrence' too"):
        await personal_app.call(
            "update_event", event_id=alone, etag=await personal_app.etag(alone), title="x"
        )
    with pytest.raises(errors.InvalidInput, match="Nothing else of this series"):
        await personal_app.call(
            "delete_event",
            event_id=alone,
            etag=await personal_app.etag(alone),
            occurrence="2026-10-21T18:10:00Z",
        )


async def test_nothing_is_written_over_what_changed_meanwhile(personal_app: PersonalApp) -> None:
    event_id = personal_app.store("series.ics", SERIES)

    for tool, more in (
        ("update_event", {"title": "x"}),
        ("delete_event", {}),
        ("delete_event", {"occurrence": FIRST}),
    ):
        with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
            await personal_app.call(tool, event_id=event_id, etag="old", **more)

    assert personal_app.text(event_id) == SERIES


async def test_a_calendar_that_is_shared_read_only_stays_as_it_is(personal_app: PersonalApp) -> None:
    team = StoredCalendar("Team", shared_with={"alice": True})
    team.put("a.ics", SERIES, 0)
    personal_app.sandbox.state.users["bob"].calendars["team"] = team
    event_id = "team_shared_by_bob/a.ics"
    etag = await personal_app.etag(event_id)

    with pytest.raises(errors.Forbidden, match="birthdays of the contacts: change the contact"):
        await personal_app.call("create_event", title="x", start="2026-12-01", calendar="contact_birthdays")
    with pytest.raises(errors.Forbidden, match="bob shares this calendar read-only"):
        await personal_app.call("create_event", title="x", start="2026-12-01", calendar="team_shared_by_bob")
    with pytest.raises(errors.Forbidden, match="bob shares this calendar read-only"):
        await personal_app.call("update_event", event_id=event_id, etag=etag, title="x")
    with pytest.raises(errors.Forbidden, match="bob shares this calendar read-only"):
        await personal_app.call("delete_event", event_id=event_id, etag=etag)


async def test_all_about_an_event_is_told(personal_app: PersonalApp) -> None:
    text = FLIGHT.replace(
        "X-SEAT",
        "RDATE:20261201T100000Z\r\nURL:https://example.org\r\nSTATUS:TENTATIVE\r\nTRANSP:TRANSPARENT\r\n"
        f"CATEGORIES:a\\, b,c\r\nDESCRIPTION:{'x' * 20_001}\r\nLOCATION:JFK\r\nX-SEAT",
    )
    details = await personal_app.call("get_event", event_id=personal_app.store("flight.ics", text))
    row = (
        await personal_app.call("list_events", start="2026-11-01", end="2026-11-30", calendar="personal")
    ).events[0]

    assert (details.url, details.status, details.free, details.categories) == (
        "https://example.org",
        "tentative",
        True,
        ["a, b", "c"],
    )
    assert (details.truncated, len(details.description), details.reminders) == (True, 20_000, ["-PT2H"])
    assert (details.more_dates, details.location) == (["2026-12-01T10:00:00+00:00"], "JFK")
    assert (row.status, row.location) == ("tentative", "JFK")


async def test_a_time_without_a_zone_is_where_the_person_is(personal_app: PersonalApp) -> None:
    floating = personal_app.store(
        "float.ics",
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:f\nDTSTART:20261201T100000\nDTEND:20261201T110000\nEND:VEVENT\nEND:VCALENDAR\n",
    )

    made = await personal_app.call("create_event", title="x" * 300, start="2026-12-01T10:00")
    moved = await personal_app.call(
        "update_event", event_id=floating, etag=await personal_app.etag(floating), start="2026-12-01T12:00"
    )

    assert (made.timezone, made.end) == ("UTC", "2026-12-01T11:00:00+00:00")
    assert (moved.start, moved.timezone) == ("2026-12-01T12:00:00+00:00", "UTC")
    assert (
        (await personal_app.call("list_events", start="2026-12-01", end="2026-12-01"))
        .events[0]
        .title.endswith("…")
    )


async def test_a_page_holds_no_more_than_an_answer_may(personal_app: PersonalApp) -> None:
    personal_app.store(
        "a.ics",
        SERIES.replace("Weekly", "W" * 250)
        .replace("Room 1", "R" * 250)
        .replace("WEEKLY;BYDAY=WE;COUNT=5", "DAILY;COUNT=100"),
    )

    page = await personal_app.call("list_events", start="2026-10-01", end="2027-12-31", limit=200)

    assert len(page.events) < page.total == 100
    assert page.cursor is not None
    assert len(json.dumps(page.model_dump(exclude_none=True))) < 40_000


async def test_a_full_storage_is_said_to_be_full() -> None:
    """B26."""
    account = account_over(network(httpx2.Response(507)))

    with pytest.raises(errors.StorageFull):
        await call_in(
            calendar, account, "nc_calendar_create_event", title="x", start="2026-12-01T10:00", timezone="UTC"
        )


async def test_an_etag_that_does_not_come_back_is_asked_for() -> None:
    """B17."""
    stored = httpx2.Response(200, headers={"ETag": '"new"'}, content=FLIGHT.encode())
    net = network(httpx2.Response(201), stored)

    made = await call_in(
        calendar,
        account_over(net),
        "nc_calendar_create_event",
        title="x",
        start="2026-12-01T10:00",
        timezone="UTC",
    )

    assert (made.etag, net.methods) == ("new", ["PUT", "GET"])


@pytest.mark.parametrize(
    ("core", "timezone"),
    [({"user": {"timezone": "Asia/Tokyo"}}, "Asia/Tokyo"), ({"user": []}, "UTC"), ({}, "UTC")],
)
async def test_where_the_person_is_comes_from_nextcloud(core: dict[str, object], timezone: str) -> None:
    data = {"version": {"string": "32.0.1"}, "capabilities": {"core": core}}
    capabilities = httpx2.Response(200, headers={"X-User-Id": "alice"}, json={"ocs": {"data": data}})
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.method)
        found = capabilities if request.method == "GET" else multistatus([])
        return httpx2.Response(
            found.status_code, headers=found.headers, stream=httpx2.ByteStream(found.content)
        )

    free = await call_in(
        calendar, account_over(answer), "nc_calendar_find_free_time", start="2026-12-01", end="2026-12-01"
    )

    assert (free.timezone, len(free.free)) == (timezone, 1)
    assert sorted(asked) == ["GET", "PROPFIND", "PROPFIND"]


async def test_one_calendar_that_fails_is_told_as_it_is() -> None:
    async def vanish(name: str) -> None:
        raise errors.NotFound(name)

    with pytest.raises(errors.NotFound, match=r"a|b"):
        await side_by_side(["a", "b"], vanish)


EVER_SINCE = SERIES.replace(
    "END:VCALENDAR",
    "BEGIN:VEVENT\r\nUID:series\r\nRECURRENCE-ID;RANGE=THISANDFUTURE;TZID=America/New_York:20261028T141000\r\n"
    "DTSTART;TZID=America/New_York:20261028T151000\r\nDTEND;TZID=America/New_York:20261028T160000\r\n"
    "SUMMARY:Weekly\r\nLOCATION:Room 2\r\nEND:VEVENT\r\nEND:VCALENDAR",
)


async def test_a_change_of_one_occurrence_leaves_what_holds_for_the_others_alone(
    personal_app: PersonalApp,
) -> None:
    event = personal_app.store("series.ics", EVER_SINCE)
    asked = {"event_id": event, "occurrence": THIRD}

    await personal_app.call("update_event", **asked, etag=await personal_app.etag(event), title="Special")

    rows = (await personal_app.call("list_events", start="2026-10-01", end="2026-12-31")).events
    assert [(row.title, row.location) for row in rows] == [
        ("Weekly", "Room 1"), ("Weekly", "Room 2"), ("Special", "Room 2"), ("Weekly", "Room 2"), ("Weekly", "Room 2"),
    ]  # fmt: skip
    assert rows[2].start == "2026-11-04T15:10:00-05:00"
    assert EVER_SINCE.partition("RECURRENCE-ID")[2].partition("END:VEVENT")[0] in personal_app.text(event)


@pytest.mark.parametrize("change", [("update_event", {"title": "Special"}), ("delete_event", {})])
async def test_the_occurrence_that_changed_all_that_follow_is_left_alone(
    personal_app: PersonalApp, change: tuple[str, dict[str, str]]
) -> None:
    """Taking it out would undo the change of all of them."""
    event = personal_app.store("series.ics", EVER_SINCE)
    tool, given = change

    with pytest.raises(errors.InvalidInput, match="holds for all that follow"):
        await personal_app.call(
            tool, event_id=event, occurrence=SECOND, etag=await personal_app.etag(event), **given
        )

    assert personal_app.text(event) == EVER_SINCE


async def test_a_series_until_the_end_of_time_never_ends(personal_app: PersonalApp) -> None:
    """UNTIL=99991231T235959Z is beyond the end of time in every zone east of Greenwich."""
    made = await personal_app.call(
        "create_event", title="x", start="2026-12-01T10:00", timezone="Europe/Berlin",
        rrule="FREQ=DAILY;UNTIL=99991231T235959Z",
    )  # fmt: skip

    assert "RRULE:FREQ=DAILY\r\n" in personal_app.text(made.event_id)
    assert len(await personal_app.starts("2999-01-01", "2999-01-03")) == 3


@pytest.mark.parametrize("line", ["RDATE:soon", "EXDATE:never", "RDATE;VALUE=PERIOD:20261021T141000/long"])
async def test_a_date_that_is_none_is_said_in_a_sentence(personal_app: PersonalApp, line: str) -> None:
    event = personal_app.store("odd.ics", SERIES.replace("LOCATION", f"{line}\r\nLOCATION"))

    with pytest.raises(errors.ServerFault, match="This calendar object cannot be read"):
        await personal_app.call("get_event", event_id=event)


async def test_a_series_that_moves_takes_along_what_holds_from_one_occurrence_on(
    personal_app: PersonalApp,
) -> None:
    event = personal_app.store("series.ics", EVER_SINCE)

    await personal_app.call(
        "update_event",
        event_id=event,
        etag=await personal_app.etag(event),
        start="2026-10-21T16:10:00",
        end="2026-10-21T17:00:00",
    )

    rows = (await personal_app.call("list_events", start="2026-10-01", end="2026-12-31")).events
    assert [(row.location, row.start[11:16]) for row in rows] == [
        ("Room 1", "16:10"), ("Room 2", "15:10"), ("Room 2", "15:10"), ("Room 2", "15:10"), ("Room 2", "15:10"),
    ]  # fmt: skip
