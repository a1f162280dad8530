"""Tools for tasks."""

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from nextcloud_mcp_server.apps.tasks.client import Task, TaskLists, TasksClient
from nextcloud_mcp_server.apps.tasks.edit import TaskChanges
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import ical, ical_time
from nextcloud_mcp_server.formats.ical_time import Moment
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.calendar_errors import DECK, app_of
from nextcloud_mcp_server.nextcloud.etag import normalise
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools import event_time, pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.result import LongText, Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

tasks = Toolset("tasks")

_MAX_TEXT: Final = 20_000
_MAX_ROW_TEXT: Final = 300
_LISTED: Final = 20
#: The sort key of tasks without a date: after all others.
_NO_DATE: Final = 253_402_300_800
_TAKEN_OFF: Final = Empty("takes it off")
_DONE: Final = ("COMPLETED", "CANCELLED")

Zone = Annotated[str | None, Field(description="IANA name; default: the person's.")]
Priority = Annotated[int | None, Field(ge=0, le=9, description="1 high, 5 medium, 9 low, 0 none.")]


class _State(Result):
    """The fields that a row of a list and the result of a change share."""

    task_id: str
    etag: str | None = None
    title: str
    status: str
    due: str | None = None
    start: str | None = None
    timezone: str | None = None

    @classmethod
    def of(cls, task: Task, longest: int, **more: Any) -> Self:  # noqa: ANN401 - the other fields
        """Build from a task, whose title is cut to so many characters."""
        due, start = (task.series.time(task.component, name) for name in ("DUE", "DTSTART"))
        return cls(
            task_id=task.stored.id,
            etag=task.stored.etag,
            title=task.component.text("SUMMARY")[:longest],
            status=_status(task),
            due=None if due is None else ical_time.shown(due),
            start=None if start is None else ical_time.shown(start),
            timezone=_place(task, start if due is None else due),
            **more,
        )


class TaskRow(_State):
    """A task; `parent` is the task it is a part of, `app` the app that shows something of its own as a task."""

    completed: str | None = None
    percent: int | None = None
    priority: int | None = None
    rrule: str | None = None
    parent: str | None = None
    categories: list[str] | None = None
    description: LongText | None = None
    app: str | None = None


class TaskList(Result):
    """A page of tasks, first due first."""

    tasks: list[TaskRow]
    total: int
    cursor: str | None = None
    note: str | None = None


class TaskWritten(_State):
    """What was stored, without `etag` where it could not be looked at afterwards.

    `note` says what happened to a task that recurs.
    """

    note: str | None = None


class TaskDeleted(Result):
    """What happened, and how to undo it."""

    task_id: str
    title: str | None = None
    etag: str
    undo: str


@tasks.tool("List tasks", read_only=True)
@require_provisioning("tasks:read")
async def nc_tasks_list_tasks(
    nc: Account,
    *,
    status: Literal["open", "done", "all"] = "open",
    due_before: Annotated[str | None, Field(description="ISO 8601; a date is included.")] = None,
    calendar: Annotated[str | None, Field(description="One list, as task_id begins; default: all.")] = None,
    query: str | None = None,
    task_id: Annotated[TextId | None, Field(description="One task, with its whole description.")] = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> TaskList:
    """List tasks of the person's lists, first due first, with what changing them needs."""
    if task_id is not None:
        return TaskList(tasks=[_row(await nc.client(TasksClient).get(task_id), _MAX_TEXT)], total=1)
    after = pagination.unseal(cursor, "tasks", status, due_before, calendar, query)
    given = None if due_before is None else ical_time.offset(due_before)
    if due_before is not None:
        # An invalid time is refused before any request.
        ical_time.given("due_before", due_before, given or UTC)
    found = await nc.client(TasksClient).tasks(calendar, locate=due_before is not None and given is None)
    zone = given or found.zone
    limit_at = None if due_before is None else _end_of(ical_time.given("due_before", due_before, zone), zone)
    window = TopK[Task](lambda task: _position(task, zone), limit=limit, after=after)
    for task in found.tasks:
        due = _position(task, zone).number
        timely = limit_at is None or (due != _NO_DATE and due < limit_at)
        if timely and _is(task, status) and _matches(task, query):
            window.offer(task)
    page, more = window.page()
    rows = pagination.fit([_row(task, _MAX_ROW_TEXT) for task in page])
    more = more or len(rows) < len(page)
    last = _position(page[len(rows) - 1], zone) if more else None
    return TaskList(
        tasks=rows,
        total=window.total,
        cursor=last and pagination.seal(last, "tasks", status, due_before, calendar, query),
        note=_note(found, calendar),
    )


@tasks.tool("Create a task")
@require_provisioning("tasks:write")
async def nc_tasks_create_task(
    nc: Account,
    title: str,
    *,
    calendar: Annotated[
        str | None, Field(description="A list, as task_id begins; default: the first.")
    ] = None,
    due: Annotated[str | None, Field(description="ISO 8601 date or time.")] = None,
    start: str | None = None,
    timezone: Zone = None,
    description: str | None = None,
    priority: Priority = None,
    parent: Annotated[str | None, Field(description="task_id it is a part of.")] = None,
    categories: list[str] | None = None,
    rrule: Annotated[str | None, Field(description="Such as FREQ=WEEKLY;BYDAY=MO.")] = None,
) -> TaskWritten:
    """Create a task, or a part of another one; a due date without a time is that whole day."""
    changes = TaskChanges(
        title=_title(title),
        description=description,
        start=await _given(nc, "start", start or None, timezone, None, recurs=bool(rrule)),
        due=await _given(nc, "due", due or None, timezone, None, recurs=bool(rrule)),
        priority=priority,
        parent=await nc.client(TasksClient).uid_of(parent) if parent else None,
        categories=categories,
        rule=rrule or None,
    )
    if parent and calendar is None:
        calendar = parent.partition("/")[0]
    return _written(await nc.client(TasksClient).create(calendar, changes))


@tasks.tool("Change a task", destructive=True)
@require_provisioning("tasks:write")
async def nc_tasks_update_task(
    nc: Account,
    task_id: TextId,
    etag: str,
    *,
    title: str | None = None,
    completed: bool | None = None,
    percent: Annotated[int | None, Field(ge=0, le=100)] = None,
    due: Annotated[str | None, Field(description='"" = no date.'), _TAKEN_OFF] = None,
    start: Annotated[str | None, _TAKEN_OFF] = None,
    timezone: Annotated[str | None, Field(description="Default: the task's.")] = None,
    description: Annotated[str | None, _TAKEN_OFF] = None,
    priority: Priority = None,
    parent: Annotated[str | None, Field(description='task_id; "" = none.'), _TAKEN_OFF] = None,
    categories: list[str] | None = None,
    rrule: Annotated[str | None, Empty("ends the recurrence")] = None,
    restore: Annotated[bool, Field(description="From the trash.")] = False,
) -> TaskWritten:
    """Change the given fields of a task, complete or restore it; one that recurs moves on when it is completed."""
    fields = (title, completed, percent, due, start, description, priority, parent, categories, rrule)
    given = any(field is not None for field in fields)
    if restore:
        _refuse_more(given=given)
        return _written(await nc.client(TasksClient).restore(task_id, if_match=etag))
    if not given:
        raise InvalidInput("Nothing to change: send at least one field.")
    before: list[Task] = []

    async def make(task: Task) -> TaskChanges:
        before.append(task)
        if parent == task_id:
            raise InvalidInput("A task cannot be a part of itself: send another 'parent'.")
        times = {name: task.series.time(task.component, name) for name in ("DTSTART", "DUE")}
        recurs = task.series.recurs if rrule is None else rrule != ""
        return TaskChanges(
            title=None if title is None else _title(title),
            description=description,
            start=await _given(nc, "start", start, timezone, times["DTSTART"], recurs=recurs),
            due=await _given(nc, "due", due, timezone, times["DUE"], recurs=recurs),
            priority=priority,
            percent=percent,
            completed=completed,
            parent=await nc.client(TasksClient).uid_of(parent) if parent else parent,
            categories=categories,
            rule=rrule,
        )

    after = _written(await nc.client(TasksClient).update(task_id, make, if_match=etag))
    went_on = (completed or percent == 100) and after.status != "completed"  # noqa: PLR2004 - all of it
    return after.model_copy(update={"note": _went_on(before[0], after) if went_on else None})


@tasks.tool("Delete a task", destructive=True)
@require_provisioning("tasks:write")
async def nc_tasks_delete_task(nc: Account, task_id: TextId, etag: str) -> TaskDeleted:
    """Delete a task but not its parts; to say that it is done, change it. The answer says how to bring it back."""
    title = await nc.client(TasksClient).delete(task_id, if_match=etag)
    return TaskDeleted(
        task_id=task_id,
        title=title or None,
        etag=normalise(etag),
        undo="It is in the trash, for 30 days unless the administrator set another time: nc_tasks_update_task with "
        "this task_id and etag and restore=true brings it back.",
    )


async def _given(
    nc: Account, name: str, text: str | None, timezone: str | None, before: Moment | None, *, recurs: bool
) -> Moment | str | None:
    """Parse a time: in the given time zone, else in the task's, else in the user's."""
    if not text:
        return text
    return await event_time.changed(nc.zone, name, text, timezone, before=before, recurs=recurs)


def _went_on(before: Task, after: TaskWritten) -> str:
    done = before.series.time(before.component, "DUE") or before.series.start
    return f"It recurs: that of {ical_time.shown(done)} is done, and it stands at {after.due or after.start} now."


def _refuse_more(*, given: bool) -> None:
    if given:
        raise InvalidInput("'restore' goes alone: restore the task first, then change it with its new etag.")


def _note(found: TaskLists, calendar: str | None) -> str | None:
    parts: list[str] = []
    if found.unreadable:
        parts.append(f"{found.unreadable} tasks could not be read and are missing here.")
    if found.boards:
        parts.append(
            "The cards of Deck, which its boards show as tasks, are left out: nc_deck_get_board leads to them."
        )
    if calendar is not None and app_of(calendar) == DECK:
        parts.append("These are cards and stacks of Deck: change them with nc_deck_update_card.")
    return " ".join(parts) or None


def _end_of(moment: Moment, zone: tzinfo) -> int:
    end = moment if isinstance(moment, datetime) else moment + ical_time.DAY
    return int(ical_time.instant(end, zone).timestamp())


def _position(task: Task, zone: tzinfo) -> Position:
    due = task.series.time(task.component, "DUE")
    number = _NO_DATE if due is None else int(ical_time.instant(due, zone).timestamp())
    return Position.of(number, f"{_number(task, 'PRIORITY') or 10:02} {task.stored.id}")


def _is(task: Task, status: str) -> bool:
    done = task.component.text("STATUS").upper() in _DONE or task.component.first("COMPLETED") is not None
    return status == "all" or done == (status == "done")


def _matches(task: Task, query: str | None) -> bool:
    text = folded(f"{task.component.text('SUMMARY')} {task.component.text('DESCRIPTION')}")
    return all(word in text for word in folded(query or "").split())


def _row(task: Task, longest: int) -> TaskRow:
    one = task.component
    completed, description = task.series.time(one, "COMPLETED"), one.text("DESCRIPTION")
    return TaskRow.of(
        task,
        longest,
        completed=None if completed is None else ical_time.shown(completed),
        percent=_number(task, "PERCENT-COMPLETE") or None,
        priority=_number(task, "PRIORITY") or None,
        rrule=one.text("RRULE") or None,
        parent=task.parent,
        categories=[name for line in one.every("CATEGORIES") for name in ical.texts(line)][:_LISTED] or None,
        description=(f"{description[:longest]}…" if len(description) > longest else description) or None,
        app=app_of(task.stored.calendar) or None,
    )


def _place(task: Task, moment: Moment | None) -> str | None:
    """Return the name of the zone of a task's time; None for a date."""
    line = task.component.first("DUE") or task.component.first("DTSTART")
    place = event_time.place(line, moment)
    return place if place or not isinstance(moment, datetime) else event_time.FLOATING


def _status(task: Task) -> str:
    return task.component.text("STATUS").lower()[:_LISTED] or "needs-action"


def _number(task: Task, name: str) -> int:
    text = task.component.text(name)
    return int(text) if text.isdecimal() and len(text) <= len("100") else 0


def _title(text: str) -> str:
    title = " ".join(text.split())
    if not title:
        raise InvalidInput("'title' is empty: a task needs one.")
    return title


def _written(task: Task) -> TaskWritten:
    return TaskWritten.of(task, _MAX_TEXT)
