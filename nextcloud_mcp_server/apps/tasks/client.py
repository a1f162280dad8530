"""The tasks of one user, which are calendar objects."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tasks import edit
from nextcloud_mcp_server.apps.tasks.edit import TASK, TaskChanges
from nextcloud_mcp_server.formats import ical
from nextcloud_mcp_server.formats.ical import Component, Unreadable
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.nextcloud import parallel
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.caldav import Calendar, Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import CalendarObjectsClient, ReadObject

_NO_LIST: Final = (
    "No calendar of the person's own takes tasks. They make a list in Nextcloud's Tasks app; "
    "nc_tasks_list_tasks then finds it."
)
_BROKEN: Final = "This task cannot be read ({wrong}), so it was left alone: open it in Nextcloud."


class Task(NamedTuple):
    """A task with its calendar object. `parent` is the id of its parent task."""

    stored: Stored
    series: Series
    component: Component
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class TaskLists:
    """All tasks of some lists; `unreadable` counts malformed objects.

    `zone` is the user's time zone, where requested. `boards` counts the lists of Deck's cards that were left out.
    """

    tasks: list[Task]
    unreadable: int
    zone: tzinfo = UTC
    boards: int = 0


class TasksClient(CalendarObjectsClient):
    """Reads and writes one user's tasks."""

    kind = TASK

    async def tasks(self, calendar: str | None = None, *, locate: bool = False) -> TaskLists:
        """Fetch all tasks of a list, or of all lists.

        One request for the names of the lists, one for each that has changed, and one for the user's time zone, if
        `locate` is set. Deck's lists are left out unless one is named.

        Raises:
          NotFound: No such list.
        """
        found: dict[str, TaskLists] = {}
        place: list[tzinfo] = []
        boards = 0

        async def use(name: str, objects: Sequence[ReadObject]) -> None:
            found[name] = await aside(partial(_read_all, objects), uid=self._http.uid)

        async def everything() -> None:
            nonlocal boards
            listed = await self.hand(use, calendar=calendar)
            boards = listed.boards
            for gone in found.keys() - set(listed.names):
                del found[gone]

        async def find_zone() -> None:
            if locate:
                place.append(await self.zone())

        await parallel.together(everything, find_zone)
        return TaskLists(
            _with_parents([task for each in found.values() for task in each.tasks]),
            sum(each.unreadable for each in found.values()),
            place[0] if place else UTC,
            boards,
        )

    async def get(self, task_id: str) -> Task:
        """Fetch one task.

        Raises:
          NotFound: No such task.
          ServerFault: It is malformed.
        """
        return await self._read(await self._dav.get(task_id))

    async def uid_of(self, task_id: str) -> str:
        """Fetch the UID of a task, by which subtasks refer to it."""
        return (await self.get(task_id)).component.text("UID")

    async def create(self, calendar: str | None, changes: TaskChanges) -> Task:
        """Create a task, in the user's first list unless one is named; one or two requests.

        Raises:
          NotFound: No such list, or there is no list.
          Forbidden: It is read-only.
        """
        if calendar is None:
            own = [each for each in await self._lists() if each.writable]
            if not own:
                raise errors.NotFound(_NO_LIST)
            calendar = min(own, key=lambda each: bool(each.owner)).id
        whole = edit.new_task(str(uuid4()), changes, now=datetime.now(UTC))
        return await self._read(await self._dav.create(calendar, whole.written))

    async def update(
        self, task_id: str, make: Callable[[Task], Awaitable[TaskChanges]], *, if_match: str
    ) -> Task:
        """Change a task; two requests. `make` returns the changes for the current task.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
          Forbidden: The list is read-only.
        """
        task = await self._read(await self._dav.current(task_id, if_match))
        changes = await make(task)
        now = datetime.now(UTC)

        def changed() -> str:
            whole = ical.read(task.stored.text)
            edit.apply(whole, _component(Series(whole, TASK)), changes, now=now)
            return whole.written

        text = await self._aside(changed, task.stored.text)
        return await self._read(await self._dav.replace(task.stored, text))

    async def delete(self, task_id: str, *, if_match: str) -> str:
        """Move a task to the trash and return its title; two requests.

        Raises:
          EtagMismatch: It was changed since it was read; it still exists.
          Forbidden: The list is read-only.
        """
        stored = await self._dav.current(task_id, if_match)
        await self._dav.delete(stored)
        return await self._aside(partial(_title, stored), stored.text)

    async def restore(self, task_id: str, *, if_match: str) -> Task:
        """Restore a task from the trash.

        Raises:
          NotFound: It is not in the trash.
        """
        return await self._read(await self._dav.restore(task_id, TASK, if_match=if_match))

    async def _read(self, stored: Stored) -> Task:
        return await self._aside(partial(_read, stored), stored.text)

    async def _lists(self) -> list[Calendar]:
        return [each for each in await self._dav.calendars() if TASK in each.kinds and not each.app]


def _read(stored: Stored) -> Task:
    try:
        series = Series(ical.read(stored.text), TASK)
    except Unreadable as wrong:
        raise errors.ServerFault(_BROKEN.format(wrong=wrong)) from None
    return Task(stored, series, _component(series))


def _title(stored: Stored) -> str:
    try:
        return next(ical.read(stored.text).components(TASK)).text("SUMMARY")
    except (Unreadable, StopIteration):
        return ""


def _component(series: Series) -> Component:
    return series.core or series.exceptions()[0]


def _read_all(objects: Sequence[ReadObject]) -> TaskLists:
    tasks: list[Task] = []
    unreadable = 0
    for one in objects:
        try:
            series = one.series(TASK)
            component = _component(series)
            # Times are parsed now, so that a malformed task does not hide the others.
            for name in ("DTSTART", "DUE", "COMPLETED"):
                series.time(component, name)
            tasks.append(Task(one.stored, series, component))
        except Unreadable:
            unreadable += 1
    return TaskLists(tasks, unreadable)


def _with_parents(tasks: list[Task]) -> list[Task]:
    """Set the parent id of each task, which the objects give as a UID."""
    ids = {task.component.text("UID"): task.stored.id for task in tasks}
    return [task._replace(parent=ids.get(edit.parent_of(task.component))) for task in tasks]
