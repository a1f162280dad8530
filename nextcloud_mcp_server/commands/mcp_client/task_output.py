"""Prints tasks: for people, or with the fields that the server sent."""

import sys

from nextcloud_mcp_server.bridge.task_watch import Report
from nextcloud_mcp_server.bridge.tasks import Task
from nextcloud_mcp_server.commands.console import result, result_json, say
from nextcloud_mcp_server.logs import one_line

#: What a state holds besides the task itself.
_PARTS = frozenset({"_meta", "resultType", "result", "error", "inputRequests"})


def facts(task: Task) -> dict[str, object]:
    """Return the fields of a task that the server sent."""
    return {key: value for key, value in task.raw.items() if key not in _PARTS}


def print_task(task: Task, *, as_json: bool) -> None:
    """Print the state of a task."""
    if as_json:
        result_json(facts(task), indent=2)
        return
    lines = [("Task", one_line(task.id)), ("Status", task.status), ("Message", task.message)]
    lines += [("Created", task.created_at), ("Updated", task.updated_at)]
    for name, value in lines:
        if value:
            result(f"{name + ':':<9}{value}")


def task_reporter() -> Report:
    """Return what prints what a task is doing, when that changes, for a user who watches."""
    said = ""

    async def report(task: Task, seconds: float) -> None:
        nonlocal said
        words = f"{task.status} {task.message}".rstrip()
        if words != said and sys.stderr.isatty():
            say(f"  {seconds:.0f} s: {words}")
        said = words

    return report
