"""The wire forms of a task: 2025-11-25, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28.

| | extension (specification/draft/tasks.md of ext-tasks) | 2025-11-25 (basic/utilities/tasks) |
|---|---|---|
| created | `resultType: "task"` and the fields of `Task` ("Task Creation") | `{"task": …}` ("Creating Tasks") |
| duration and pause | `ttlMs`, `pollIntervalMs` ("Tasks") | `ttl`, `pollInterval` ("Task") |
| the end | `result` or `error` in `tasks/get` ("Task Polling") | `tasks/result` ("Result Retrieval") |
| a result with `isError` | `completed` ("Task Status") | `failed` ("Task Execution Errors") |
| a question | `inputRequests` in `tasks/get` ("Task Update Requests") | the error -32042 of `tasks/result` |
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from nextcloud_mcp_server.storage.task_records import Task, TaskStatus

#: How often a client is to ask for a task.
POLL_MS: Final = 2_000

_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
_INTERNAL: Final[dict[str, Any]] = {"code": INTERNAL_ERROR, "message": "Internal error"}
_CANCELLED: Final[dict[str, Any]] = {"code": INTERNAL_ERROR, "message": "The task was cancelled."}

#: What the outcome of a stored task is called in `tasks/get` of the extension.
_OUTCOME: Final = {
    TaskStatus.COMPLETED: "result",
    TaskStatus.FAILED: "error",
    TaskStatus.INPUT_REQUIRED: "inputRequests",
}


def created(task: Task) -> dict[str, Any]:
    """Return the answer to a call that has become a task of the extension."""
    return {"resultType": "task", **_fields(task, "ttlMs", "pollIntervalMs")}


def detailed(task: Task) -> dict[str, Any]:
    """Return a task of the extension with its result, error or input requests."""
    fields = _fields(task, "ttlMs", "pollIntervalMs")
    name = _OUTCOME.get(task.status)
    return fields if name is None else {**fields, name: read(task)}


def of_core(task: Task) -> dict[str, Any]:
    """Return a task of 2025-11-25."""
    fields = _fields(task, "ttl", "pollInterval")
    if task.status is TaskStatus.COMPLETED and read(task).get("isError"):
        fields["status"] = TaskStatus.FAILED.value
    return fields


def result_of_core(task: Task) -> dict[str, Any]:
    """Return the result of an ended task of 2025-11-25.

    Raises:
        MCPError: The call ended in this error, or the task was cancelled.
    """
    if task.status is TaskStatus.COMPLETED:
        result = read(task)
        related = {_RELATED_TASK: {"taskId": task.id}}
        return {**result, "_meta": {**(result.get("_meta") or {}), **related}}
    error = read(task) if task.status is TaskStatus.FAILED else _CANCELLED
    raise MCPError(error["code"], error["message"], error.get("data"))


def lifetime(requested: object, *, longest: timedelta, shortest: timedelta) -> timedelta:
    """Return how long a task is stored whose client requested so many milliseconds, if it requested any."""
    if not isinstance(requested, int | float) or not requested < longest.total_seconds() * 1000:
        return longest
    return timedelta(milliseconds=max(requested, shortest.total_seconds() * 1000))


def outcome_of(result: Mapping[str, Any] | None, error: BaseException | None) -> tuple[TaskStatus, str]:
    """Return the status of an ended call, and its outcome in the form that is stored."""
    if error is None and result is not None:
        return TaskStatus.COMPLETED, written(result)
    fault = _INTERNAL
    if isinstance(error, MCPError):
        fault = error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
    return TaskStatus.FAILED, written(fault)


def failed(sentence: str) -> str:
    """Return the outcome of a task that this server ended."""
    return written({**_INTERNAL, "message": sentence})


def written(outcome: Mapping[str, Any]) -> str:
    """Write an outcome in the form that is stored."""
    return json.dumps(outcome, separators=(",", ":"))


def read(task: Task) -> dict[str, Any]:
    """Read the outcome of a stored task."""
    outcome: dict[str, Any] = json.loads(task.outcome or "{}")
    return outcome


def arguments_of(task: Task) -> dict[str, Any]:
    """Read the arguments of the call of a stored task."""
    arguments: dict[str, Any] = json.loads(task.arguments or "{}")
    return arguments


def answers_of(stored: str) -> dict[str, Any]:
    """Read the answers of a client as this server stored them."""
    answers: dict[str, Any] = json.loads(stored)
    return answers


def _fields(task: Task, lifetime_name: str, poll_name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status.value,
        "createdAt": _written_time(task.created_at),
        "lastUpdatedAt": _written_time(task.updated_at),
        lifetime_name: round((task.expires_at - task.created_at).total_seconds() * 1000),
        poll_name: POLL_MS,
    }
    return fields if task.message is None else {**fields, "statusMessage": task.message}


def _written_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
