from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tasks.tools import tasks
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from tests.dav_fakes import account_in, call_in

TASK = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTODO\r\nUID:{0}\r\nSUMMARY:{0}\r\n{1}X-KEEP:me\r\nEND:VTODO\r\n"
    "END:VCALENDAR\r\n"
)


class PersonalApp:
    """A sandbox where alice has a list of tasks, and her tools."""

    def __init__(self, *kinds: str) -> None:
        self.sandbox = Sandbox()
        self.calendars = self.sandbox.add_user("alice").calendars
        if kinds:
            self.calendars["todo"] = StoredCalendar("To do", kinds=kinds)
        self.account: Account = account_in(self.sandbox)

    def store(self, name: str, lines: str = "") -> str:
        self.calendars["todo"].put(f"{name}.ics", TASK.format(name, lines), 0)
        return f"todo/{name}.ics"

    def text(self, task_id: str) -> str:
        return self.calendars["todo"].objects[task_id.partition("/")[2]].data

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each tool's own result
        return await call_in(tasks, self.account, f"nc_tasks_{tool}", **arguments)

    async def titles(self, **arguments: object) -> list[str]:
        return [each.title for each in (await self.call("list_tasks", **arguments)).tasks]

    async def change(self, task_id: str, **fields: object) -> Any:  # noqa: ANN401 - see above
        etag = (await self.call("list_tasks", task_id=task_id)).tasks[0].etag
        return await self.call("update_task", task_id=task_id, etag=etag, **fields)


@pytest.fixture
async def personal_app() -> PersonalApp:
    return PersonalApp("VTODO")


async def test_open_tasks_are_listed_first_due_first(personal_app: PersonalApp) -> None:
    personal_app.store("undated", "PRIORITY:9\r\n")
    personal_app.store("urgent", "PRIORITY:1\r\nPERCENT-COMPLETE:x\r\n")
    personal_app.store("late", "DUE;VALUE=DATE:20261201\r\nCATEGORIES:a,b\r\nDESCRIPTION:Buy it\r\n")
    personal_app.store(
        "early", "DUE;TZID=Europe/Berlin:20261130T100000\r\nDTSTART;TZID=Europe/Berlin:20261129T100000\r\n"
    )
    personal_app.store("done", "STATUS:COMPLETED\r\nCOMPLETED:20261101T100000Z\r\n")
    personal_app.store("broken", "DUE:soon\r\n")
    personal_app.calendars["todo"].put("worse.ics", "BEGIN:VTODO\r\n", 0)

    first = await personal_app.call("list_tasks", limit=3)
    rest = await personal_app.titles(cursor=first.cursor, limit=3)

    assert [each.title for each in first.tasks] == ["early", "late", "urgent"]
    assert (rest, first.total, first.note) == (
        ["undated"],
        4,
        "2 tasks could not be read and are missing here.",
    )
    assert (first.tasks[0].due, first.tasks[0].timezone) == ("2026-11-30T10:00:00+01:00", "Europe/Berlin")
    assert (first.tasks[1].due, first.tasks[1].categories) == ("2026-12-01", ["a", "b"])
    assert await personal_app.titles(status="done") == ["done"]
    assert await personal_app.titles(query="buy LATE", status="all") == ["late"]
    assert await personal_app.titles(due_before="2026-11-30") == ["early"]
    assert await personal_app.titles(due_before="2026-12-01", calendar="todo") == ["early", "late"]
    assert await personal_app.titles(due_before="2026-11-30T09:00Z") == []


async def test_a_due_date_is_that_day_and_not_a_midnight(personal_app: PersonalApp) -> None:
    """U58."""
    made = await personal_app.call(
        "create_task", title=" Buy\nmilk ", due="2026-08-08", priority=1, categories=["home"]
    )

    text = personal_app.text(made.task_id)
    assert "DUE;VALUE=DATE:20260808\r\n" in text
    assert (made.title, made.status, made.due) == ("Buy milk", "needs-action", "2026-08-08")
    timed = await personal_app.change(made.task_id, due="2026-08-08T10:00", timezone="Europe/Berlin")
    moved = await personal_app.change(made.task_id, due="2026-08-09T11:00")
    assert (timed.due, moved.due) == ("2026-08-08T10:00:00+02:00", "2026-08-09T11:00:00+02:00")
    assert "BEGIN:VTIMEZONE" in personal_app.text(made.task_id)
    assert (await personal_app.change(made.task_id, due="", priority=0)).due is None
    assert "PRIORITY" not in personal_app.text(made.task_id)


async def test_parts_name_the_task_they_are_a_part_of(personal_app: PersonalApp) -> None:
    whole = personal_app.store("whole")
    part = await personal_app.call("create_task", title="part", parent=whole, due="2026-12-01T10:00")

    (row,) = (await personal_app.call("list_tasks", query="part")).tasks
    assert row.parent == whole
    assert "RELATED-TO;RELTYPE=PARENT:whole\r\n" in personal_app.text(part.task_id)
    personal_app.store("child", "RELATED-TO;RELTYPE=CHILD:whole\r\n")
    assert (await personal_app.call("list_tasks", query="child")).tasks[0].parent is None
    await personal_app.change(part.task_id, parent="")
    assert "RELATED-TO" not in personal_app.text(part.task_id)
    with pytest.raises(errors.InvalidInput, match="part of itself"):
        await personal_app.change(part.task_id, parent=part.task_id)


async def test_completing_and_opening_again_change_nothing_else(personal_app: PersonalApp) -> None:
    task_id = personal_app.store(
        "task", "DUE;VALUE=DATE:20261201\r\nBEGIN:VALARM\r\nACTION:AUDIO\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n"
    )

    done = await personal_app.change(task_id, completed=True)
    text = personal_app.text(task_id)
    again = await personal_app.change(task_id, percent=40)
    opened = await personal_app.change(task_id, completed=False)

    assert (done.status, done.note, again.status, opened.status) == (
        "completed",
        None,
        "in-process",
        "needs-action",
    )
    for part in (
        "STATUS:COMPLETED",
        "PERCENT-COMPLETE:100",
        "COMPLETED:20",
        "X-KEEP:me",
        "TRIGGER:-PT5M",
        "DUE;VALUE=DATE:20261201",
    ):
        assert part in text
    assert "COMPLETED" not in personal_app.text(task_id).replace("PERCENT-COMPLETE", "")
    assert (await personal_app.change(task_id, percent=100)).status == "completed"
    assert (await personal_app.change(task_id, percent=0)).status == "needs-action"
    assert (await personal_app.change(task_id, percent=0)).status == "needs-action"


async def test_a_task_that_recurs_goes_on_when_it_is_done(personal_app: PersonalApp) -> None:
    task_id = personal_app.store(
        "weekly",
        "DTSTART;TZID=Europe/Berlin:20261019T090000\r\nDUE;TZID=Europe/Berlin:20261019T100000\r\nRRULE:FREQ=WEEKLY;COUNT=3\r\n"
        "EXDATE;TZID=Europe/Berlin:20261026T090000\r\n",
    )

    first = await personal_app.change(task_id, completed=True)
    second = await personal_app.change(task_id, percent=100)
    last = await personal_app.change(task_id, completed=True)

    assert (first.due, first.status, "It recurs" in first.note) == (
        "2026-11-02T10:00:00+01:00",
        "needs-action",
        True,
    )
    assert (second.status, last.status) == ("needs-action", "completed")
    personal_app.store("daily", "DUE;VALUE=DATE:20261201\r\n")
    daily = await personal_app.change("todo/daily.ics", rrule="FREQ=DAILY")
    assert (
        await personal_app.call("update_task", task_id=daily.task_id, etag=daily.etag, completed=True)
    ).due == "2026-12-02"
    assert "RRULE" not in personal_app.text((await personal_app.change("todo/daily.ics", rrule="")).task_id)
    odd = personal_app.store("odd", "DUE;VALUE=DATE:20261201\r\nRRULE:FREQ=SECONDLY\r\n")
    with pytest.raises(errors.InvalidInput, match="complete it in Nextcloud"):
        await personal_app.change(odd, completed=True)
    with pytest.raises(errors.InvalidInput, match="needs a 'due' date"):
        await personal_app.call("create_task", title="x", rrule="FREQ=DAILY")


async def test_start_and_due_are_both_dates_or_both_times(personal_app: PersonalApp) -> None:
    task_id = personal_app.store(
        "task", "DTSTART;VALUE=DATE:20261130\r\nDUE;VALUE=DATE:20261201\r\nDURATION:P1D\r\n"
    )

    timed = await personal_app.change(task_id, due="2026-12-01T10:00", timezone="UTC")
    text = personal_app.text(task_id)
    day = await personal_app.change(task_id, start="2026-11-29")

    assert (timed.due, day.due) == ("2026-12-01T10:00:00+00:00", "2026-12-01")
    assert "DTSTART:20261130T100000Z" in text
    assert "DURATION" not in text
    with pytest.raises(errors.InvalidInput, match="before the task starts"):
        await personal_app.change(task_id, due="2026-11-01")


async def test_long_descriptions_are_told_whole_on_demand(personal_app: PersonalApp) -> None:
    task_id = personal_app.store("task", f"DESCRIPTION:{'x' * 500}\r\n")

    (short,) = (await personal_app.call("list_tasks")).tasks
    (whole,) = (await personal_app.call("list_tasks", task_id=task_id)).tasks

    assert (len(short.description), len(whole.description)) == (301, 500)


async def test_a_page_holds_no_more_than_an_answer_may(personal_app: PersonalApp) -> None:
    for number in range(120):
        personal_app.store(f"{number}-{'t' * 300}", f"DESCRIPTION:{'x' * 400}\r\n")

    page = await personal_app.call("list_tasks", limit=200)

    assert len(page.tasks) < page.total == 120
    assert page.cursor is not None


async def test_a_task_goes_to_the_trash(personal_app: PersonalApp) -> None:
    task_id = personal_app.store("task")
    row = (await personal_app.call("list_tasks", task_id=task_id)).tasks[0]

    gone = await personal_app.call("delete_task", task_id=task_id, etag=row.etag)

    assert (gone.title, "trash" in gone.undo) == ("task", True)
    assert list(personal_app.calendars["todo"].trash) == ["task-deleted.ics"]
    personal_app.calendars["todo"].put("bad.ics", "BEGIN:VCALENDAR\nEND:VCALENDAR\n", 0)
    etag = personal_app.calendars["todo"].objects["bad.ics"].etag
    with pytest.raises(errors.ServerFault, match="cannot be read"):
        await personal_app.call("list_tasks", task_id="todo/bad.ics")
    assert (await personal_app.call("delete_task", task_id="todo/bad.ics", etag=etag)).title is None


async def test_nothing_is_written_over_what_changed_meanwhile(personal_app: PersonalApp) -> None:
    task_id = personal_app.store("task")

    for tool, more in (("update_task", {"title": "x"}), ("delete_task", {})):
        with pytest.raises(errors.EtagMismatch):
            await personal_app.call(tool, task_id=task_id, etag="old", **more)

    assert personal_app.text(task_id) == TASK.format("task", "")


async def test_what_cannot_be_is_refused_with_a_sentence(personal_app: PersonalApp) -> None:
    for tool, arguments, match in (
        ("create_task", {"title": " "}, "'title' is empty"),
        ("create_task", {"title": "x", "due": "soon"}, "must be a date"),
        ("update_task", {"task_id": "todo/a.ics", "etag": "e"}, "Nothing to change"),
    ):
        with pytest.raises(errors.InvalidInput, match=match):
            await personal_app.call(tool, **arguments)
    with pytest.raises(errors.NotFound, match="Tasks app"):
        await PersonalApp().call("create_task", title="x")
    with pytest.raises(errors.NotFound):
        await personal_app.call("list_tasks", task_id="../bob/a.ics")


async def test_only_changed_occurrences_of_a_task_may_be_known(personal_app: PersonalApp) -> None:
    personal_app.store("odd", "RECURRENCE-ID:20261028T181000Z\r\nDUE:20261028T190000Z\r\n")

    assert await personal_app.titles() == ["odd"]
