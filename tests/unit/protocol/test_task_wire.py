import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.protocol import task_wire
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.task_records import LIFETIME, Task, TaskOwner, TaskStatus

CREATED = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def task(status: TaskStatus, *, outcome: dict[str, Any] | None = None, message: str | None = None) -> Task:
    return Task(
        id="a-task",
        owner=TaskOwner(Principal("issuer", "alice"), "claude"),
        status=status,
        created_at=CREATED,
        updated_at=CREATED + MINUTE,
        expires_at=CREATED + LIFETIME,
        is_lost=False,
        tool="read",
        message=message,
        outcome=None if outcome is None else json.dumps(outcome),
    )


def test_a_new_task_has_the_fields_of_the_specification() -> None:
    """The example of "Task Creation" has these, without `task` around them."""
    assert task_wire.created(task(TaskStatus.WORKING, message="Read 1 of 3 parts")) == {
        "resultType": "task",
        "taskId": "a-task",
        "status": "working",
        "statusMessage": "Read 1 of 3 parts",
        "createdAt": "2026-11-30T12:00:00Z",
        "lastUpdatedAt": "2026-11-30T12:01:00Z",
        "ttlMs": 86_400_000,
        "pollIntervalMs": 2_000,
    }


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (TaskStatus.COMPLETED, "result"),
        (TaskStatus.FAILED, "error"),
        (TaskStatus.INPUT_REQUIRED, "inputRequests"),
        (TaskStatus.WORKING, None),
        (TaskStatus.CANCELLED, None),
    ],
)
def test_a_task_has_what_belongs_to_its_status(status: TaskStatus, name: str | None) -> None:
    found = task_wire.detailed(task(status, outcome={"content": []}))

    assert found["status"] == status
    assert {key: found[key] for key in ("result", "error", "inputRequests") if key in found} == (
        {name: {"content": []}} if name else {}
    )


def test_a_task_of_2025_11_25_has_the_names_of_that_version() -> None:
    found = task_wire.of_core(task(TaskStatus.WORKING))

    assert (found["ttl"], found["pollInterval"]) == (86_400_000, 2_000)
    assert not {"ttlMs", "pollIntervalMs", "resultType"} & found.keys()


def test_a_tool_error_fails_a_task_of_2025_11_25_and_completes_one_of_the_extension() -> None:
    refused = task(TaskStatus.COMPLETED, outcome={"content": [], "isError": True})

    assert task_wire.of_core(refused)["status"] == "failed"
    assert task_wire.detailed(refused)["status"] == "completed"
    assert task_wire.of_core(task(TaskStatus.COMPLETED, outcome={"content": []}))["status"] == "completed"


def test_a_result_of_2025_11_25_names_its_task_and_keeps_its_metadata() -> None:
    done = task(TaskStatus.COMPLETED, outcome={"content": [], "_meta": {"own": 1}})

    assert task_wire.result_of_core(done) == {
        "content": [],
        "_meta": {"own": 1, "io.modelcontextprotocol/related-task": {"taskId": "a-task"}},
    }


@pytest.mark.parametrize(
    ("status", "outcome", "code", "data"),
    [
        (TaskStatus.FAILED, {"code": -32042, "message": "Open it", "data": {"x": 1}}, -32042, {"x": 1}),
        (TaskStatus.FAILED, {"code": -32603, "message": "Internal error"}, -32603, None),
        (TaskStatus.CANCELLED, None, -32603, None),
    ],
)  # fmt: skip
def test_the_error_of_a_call_is_that_of_its_result(
    status: TaskStatus, outcome: dict[str, Any] | None, code: int, data: object
) -> None:
    with pytest.raises(MCPError) as raised:
        task_wire.result_of_core(task(status, outcome=outcome))

    assert (raised.value.error.code, raised.value.error.data) == (code, data)


@pytest.mark.parametrize(
    ("requested", "lifetime"),
    [
        (120_000, timedelta(minutes=2)),
        (0, MINUTE),
        (-1e300, MINUTE),
        (1e300, LIFETIME),
        (float("nan"), LIFETIME),
        (None, LIFETIME),
        ("soon", LIFETIME),
    ],
)
def test_a_lifetime_is_what_was_asked_for_within_bounds(requested: object, lifetime: timedelta) -> None:
    assert task_wire.lifetime(requested, longest=LIFETIME, shortest=MINUTE) == lifetime


def test_of_an_error_only_one_for_clients_is_stored() -> None:
    told = task_wire.outcome_of(None, MCPError(-32042, "Open it", {"url": "here"}))
    inner = task_wire.outcome_of(None, RuntimeError("the password is secret"))

    assert told[0] is inner[0] is TaskStatus.FAILED
    assert json.loads(told[1]) == {"code": -32042, "message": "Open it", "data": {"url": "here"}}
    assert json.loads(inner[1]) == {"code": -32603, "message": "Internal error"}
