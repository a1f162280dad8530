"""Changes the given fields of tasks; a completed recurring task moves to its next occurrence."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import event_edit, ical_time, recurrence
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable, escape
from nextcloud_mcp_server.formats.ical_time import Moment
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.formats.rule import Rule
from nextcloud_mcp_server.formats.zones import Zones

TASK: Final = "VTODO"
#: How far ahead the next occurrence of a task is looked for.
_AHEAD: Final = timedelta(days=20 * 366)
_ALL: Final = 100


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """Changes of a task; None keeps a value, "" removes it. `parent` is a UID."""

    title: str | None = None
    description: str | None = None
    start: Moment | str | None = None
    due: Moment | str | None = None
    priority: int | None = None
    percent: int | None = None
    completed: bool | None = None
    parent: str | None = None
    categories: list[str] | None = None
    rule: str | None = None


def new_task(uid: str, changes: TaskChanges, *, now: datetime) -> Component:
    """Create a task with these fields.

    Raises:
      InvalidInput: They contradict each other.
    """
    whole, task = event_edit.new_object(TASK, uid, now)
    task.set("STATUS", "NEEDS-ACTION")
    apply(whole, task, changes, now=now)
    return whole


def apply(whole: Component, task: Component, changes: TaskChanges, *, now: datetime) -> None:
    """Set the given fields.

    Raises:
      InvalidInput: They contradict each other or the task.
    """
    for name, text in (("SUMMARY", changes.title), ("DESCRIPTION", changes.description)):
        if text is not None:
            task.set_text(name, text)
    _set_times(whole, task, changes)
    if changes.priority is not None:
        _set_number(task, "PRIORITY", changes.priority)
    if changes.categories is not None:
        event_edit.set_categories(task, changes.categories)
    if changes.parent is not None:
        _set_parent(task, changes.parent)
    if changes.rule is not None:
        _set_rule(whole, task, changes.rule)
    _set_progress(whole, task, changes, now)
    event_edit.stamp(task, now)
    event_edit.count_up(task)


def parent_of(task: Component) -> str:
    """Return the UID of the task's parent."""
    return next((line.value.strip() for line in task.every("RELATED-TO") if _is_parent(line)), "")


def _is_parent(line: Line) -> bool:
    return line.parameter("RELTYPE").upper() in ("", "PARENT")


def _set_parent(task: Component, parent: str) -> None:
    task.change("RELATED-TO", lambda line: None if _is_parent(line) else line)
    if parent:
        task.add(Line.of("RELATED-TO;RELTYPE=PARENT", escape(parent)))


def _set_times(whole: Component, task: Component, changes: TaskChanges) -> None:
    for name, value in (("DTSTART", changes.start), ("DUE", changes.due)):
        if value is None:
            continue
        if isinstance(value, str):
            task.remove(name)
        else:
            ical_time.describe_zone(whole, ical_time.put(task, name, value, Zones(whole)))
        if name == "DUE":
            task.remove("DURATION")
    if changes.start is None and changes.due is None:
        return
    series = Series(whole, TASK)
    times = {
        name: ical_time.of(line, series.zones)
        for name in ("DTSTART", "DUE")
        if (line := task.first(name)) is not None
    }
    if len(times) > 1 and not recurrence.is_alike(times["DTSTART"], times["DUE"]):
        # Both must be dates, or both times (RFC 5545 §3.8.2.3): the field that was not given is converted.
        given, other = ("DUE", "DTSTART") if changes.due is not None else ("DTSTART", "DUE")
        times[other] = ical_time.put(task, other, ical_time.like(times[other], times[given]), series.zones)
    if len(times) > 1 and recurrence.is_alike(*times.values()) and times["DUE"] < times["DTSTART"]:
        raise errors.InvalidInput("'due' is before the task starts: send a later one, or change 'start' too.")


def _set_rule(whole: Component, task: Component, rule: str) -> None:
    if not rule:
        task.remove("RRULE")
        return
    try:
        start, _ = Series(whole, TASK).times(task)
    except Unreadable:
        raise errors.InvalidInput("A task that recurs needs a 'due' date: send it too.") from None
    task.set("RRULE", event_edit.checked_rule(rule, start))


def _set_progress(whole: Component, task: Component, changes: TaskChanges, now: datetime) -> None:
    done = changes.completed
    if done is None and changes.percent is not None:
        done = changes.percent == _ALL
        if not done and task.text("STATUS").upper() != "COMPLETED":
            _set_number(task, "PERCENT-COMPLETE", changes.percent)
            task.set("STATUS", "IN-PROCESS" if changes.percent else "NEEDS-ACTION")
            return
    if done is None:
        return
    if done and not _goes_on(whole, task):
        task.set("PERCENT-COMPLETE", str(_ALL))
        task.set("COMPLETED", f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}")
        task.set("STATUS", "COMPLETED")
        return
    task.remove("COMPLETED")
    percent = 0 if done else changes.percent or 0
    _set_number(task, "PERCENT-COMPLETE", percent)
    task.set("STATUS", "IN-PROCESS" if percent else "NEEDS-ACTION")


def _goes_on(whole: Component, task: Component) -> bool:
    """Move a recurring task to its next occurrence; return False after the last, and without recurrence."""
    rules = list(task.every("RRULE"))
    if not rules:
        return False
    series = Series(whole, TASK)
    try:
        start, end = series.times(task)
        rule = Rule(rules[0].value, start)
        clock = ical_time.on_clock(start)
        removed = series.removed()
        following = (
            each for each in rule.between(clock, clock + _AHEAD) if each > clock and each not in removed
        )
        after = next(following, None)
    except (Unreadable, OverflowError) as wrong:
        raise errors.InvalidInput(
            f"This task recurs in a way that is not understood ({wrong}): complete it in Nextcloud."
        ) from None
    if after is None:
        return False
    begin = series.restored(after)
    due = recurrence.after(begin, recurrence.length(start, end), end)
    for name, moment in (("DTSTART", begin), ("DUE", begin if task.first("DTSTART") is None else due)):
        if task.first(name) is not None:
            ical_time.put(task, name, moment, series.zones)
    counted = rule.without_one()
    if counted is not None:
        task.set("RRULE", counted)
    return True


def _set_number(task: Component, name: str, number: int) -> None:
    if number:
        task.set(name, str(number))
    else:
        task.remove(name)
