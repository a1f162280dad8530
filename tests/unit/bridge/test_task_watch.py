"""The wait for a task, at a server in a process of its own that does what the arguments of a call say."""

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client.session import ClientRequestContext

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.bridge.task_client import Detached, TaskClient
from nextcloud_mcp_server.bridge.tasks import Form, Task
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AnswerUnreadable,
    ElicitationFailed,
    TaskFailed,
)

pytestmark = [pytest.mark.anyio, pytest.mark.process]

PROGRAM = Path(__file__).parents[2] / "task_server.py"
FORMS = pytest.mark.parametrize("form", ["core", "extension"])
ASK: dict[str, Any] = {
    "mode": "form",
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {}},
}
MODEL: dict[str, Any] = {"messages": [], "maxTokens": 5}


class Play:
    """A client of the task server, and what happened."""

    def __init__(self, log: Path, *, waits: bool = True, seconds: float | None = 60) -> None:
        self.log = log
        self.states: list[Task] = []
        self.questions: list[str] = []
        self.connection: Connection
        self.tasks = TaskClient(self._report, waits=waits, seconds=seconds)

    async def _report(self, task: Task, seconds: float) -> None:
        assert seconds >= 0
        self.states.append(task)

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        del context
        self.questions.append(params.message)
        return types.ElicitResult(action="accept", content={"color": "red"})

    async def call(self, **script: object) -> types.CallToolResult:
        if self.tasks.form is Form.CORE:
            return await self.tasks.call("run", script, None)
        return await self.connection.call_tool("run", script)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the requests of a method."""
        lines = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [one["params"] for one in lines if one.get("method") == method]

    async def until(self, method: str) -> None:
        with anyio.fail_after(60):
            while not self.sent(method):  # noqa: ASYNC110 - another process gives no event
                await anyio.sleep(0.02)


@asynccontextmanager
async def playing(
    folder: Path, form: str, *, waits: bool = True, seconds: float | None = 60
) -> AsyncGenerator[Play]:
    await anyio.Path(folder).mkdir(exist_ok=True)
    play = Play(folder / "log", waits=waits, seconds=seconds)
    server = Server(id="test", command=sys.executable, args=(str(PROGRAM), form, str(play.log)))
    handlers = Handlers(elicitation=play.elicit, extensions=[play.tasks.extension])
    async with connect(server, handlers) as play.connection:
        play.tasks.use(play.connection)
        yield play


@FORMS
async def test_a_task_is_polled_until_its_result_is_there(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        found = await play.call(
            states=["working", {"status": "working", "statusMessage": "Half"}, "completed"]
        )

    assert found.content == [types.TextContent(type="text", text="All done.")]
    assert [(state.status, state.message) for state in play.states] == [
        ("working", ""),
        ("working", ""),
        ("working", "Half"),
        ("completed", ""),
    ]
    assert len(play.sent("tasks/get")) == 3
    assert len(play.sent("tasks/result")) == (1 if form == "core" else 0)
    assert not play.sent("tasks/cancel")


@FORMS
async def test_each_poll_is_a_line_in_the_log(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="nextcloud_mcp_server.bridge.task_watch"):
        async with playing(tmp_path, form) as play:
            await play.call(states=["working", "completed"])

    lines = [one.getMessage() for one in caplog.records if one.name.endswith("task_watch")]
    assert lines == [
        "task task-1: working, last updated 2026-11-30T10:30:00Z",
        "task task-1: completed, last updated 2026-11-30T10:30:00Z",
    ]


@FORMS
async def test_a_task_that_is_over_at_once_is_fetched(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        found = await play.call(made={"status": "completed"})

    assert not found.is_error
    # What stands in place of an answer has no result in it.
    assert not play.sent("tasks/cancel")


@FORMS
async def test_the_interval_of_the_server_is_kept(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        started_at = anyio.current_time()
        await play.call(states=["working", "working", "completed"], interval=150)
        took = anyio.current_time() - started_at

    assert took >= 0.45
    assert len(play.sent("tasks/get")) == 3


@FORMS
@pytest.mark.parametrize("interval", [0, -5, None, "soon"])
async def test_without_an_interval_polls_keep_a_distance(tmp_path: Path, form: str, interval: object) -> None:
    async with playing(tmp_path, form, seconds=1) as play:
        with pytest.raises(AnswerLate):
            await play.call(states=["working"], interval=interval)

    assert len(play.sent("tasks/get")) <= 3


@FORMS
async def test_a_notification_makes_the_next_poll_come_at_once(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        found = await play.call(states=["working"], interval=10**9, hint_ms=200)

    assert not found.is_error
    assert len(play.sent("tasks/get")) == 1


@FORMS
async def test_a_failed_task_says_why(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        with pytest.raises(TaskFailed, match=r"^MCP task error: out of memory$"):
            await play.call(states=[{"status": "failed", "statusMessage": "out of memory"}], result={})
        with pytest.raises(TaskFailed, match=r"^MCP task error: task failed$"):
            await play.call(states=["failed"], result={})


@FORMS
async def test_the_error_of_the_call_is_the_error_of_its_task(tmp_path: Path, form: str) -> None:
    error: dict[str, Any] = {"code": -32042, "message": "Consent first", "data": {"elicitations": []}}
    async with playing(tmp_path, form) as play:
        with pytest.raises(MCPError) as caught:
            await play.call(states=["failed"], error=error)

    assert (caught.value.code, caught.value.error.data) == (-32042, {"elicitations": []})


async def test_a_tool_that_failed_has_a_result_all_the_same(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "No such city."}], "isError": True}
    async with playing(tmp_path, "core") as play:
        failed = await play.call(states=["failed"], result=result)
    async with playing(tmp_path, "extension") as play:
        completed = await play.call(result=result)

    assert failed == completed
    assert failed.is_error


@FORMS
async def test_a_task_that_the_server_cancels_is_an_error(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        with pytest.raises(TaskFailed, match=r"^MCP task error: task was cancelled by server\.$"):
            await play.call(states=["cancelled"])
        with pytest.raises(TaskFailed, match=r"cancelled by server: too dear$"):
            await play.call(states=[{"status": "cancelled", "statusMessage": "too dear"}])


@FORMS
async def test_a_task_that_is_gone_is_an_error(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        with pytest.raises(TaskFailed, match=r"no such task .*: Failed to retrieve task: Task has expired"):
            await play.call(gone=True)

    assert not play.sent("tasks/cancel")


@FORMS
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ({"states": [{"status": "sleeping"}]}, "the status sleeping, which tasks do not have"),
        ({"states": [{"taskId": "task-9"}]}, "the server answered about task-9"),
        ({"states": [{"taskId": 7}]}, "without a usable id"),
        ({"made": {"status": "x" * 1_000_000}}, "which tasks do not have"),
    ],
    ids=["status", "id", "number", "long"],
)
async def test_what_the_protocol_does_not_have_ends_the_wait_and_the_task(
    tmp_path: Path, form: str, script: dict[str, Any], sentence: str
) -> None:
    async with playing(tmp_path, form) as play:
        with pytest.raises(AnswerUnreadable, match=sentence) as caught:
            await play.call(**script)

    assert len(str(caught.value)) < 400
    assert len(play.sent("tasks/cancel")) == (0 if "made" in script else 1)


async def test_the_result_of_another_task_is_refused(tmp_path: Path) -> None:
    async with playing(tmp_path, "core") as play:
        with pytest.raises(AnswerUnreadable, match="with that of task-9"):
            await play.call(related="task-9")
    for result in ({"resultType": "task", "taskId": "task-9"}, {"resultType": "input_required"}, {}, "x"):
        async with playing(tmp_path, "extension") as play:
            with pytest.raises(AnswerUnreadable):
                await play.call(result_is=result)


@FORMS
async def test_a_result_that_is_none_of_a_call_is_refused(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        with pytest.raises(AnswerUnreadable, match="none of a call"):
            await play.call(result={"content": "text"})


@FORMS
async def test_a_message_of_a_megabyte_does_no_harm(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play:
        await play.call(states=[{"status": "working", "statusMessage": "x" * 1_000_000}, "completed"])

    assert max(len(state.message) for state in play.states) < 520


@FORMS
async def test_a_task_without_an_end_is_cancelled_when_the_time_is_over(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form, seconds=0.5) as play:
        with pytest.raises(AnswerLate, match=r"task=task-1: it did not end within 0\.5 s, and was cancelled"):
            await play.call(states=["working"])

    assert play.sent("tasks/cancel")[0]["taskId"] == "task-1"


@FORMS
async def test_a_task_is_cancelled_with_the_wait_for_it(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form) as play, anyio.create_task_group() as group:

        async def call() -> None:
            await play.call(states=["working"])

        group.start_soon(call)
        await play.until("tasks/get")
        group.cancel_scope.cancel()
    assert len(play.sent("tasks/cancel")) == 1


@FORMS
async def test_what_a_task_asks_is_answered_once(tmp_path: Path, form: str) -> None:
    states = ["input_required", "working", "completed"]
    async with playing(tmp_path, form) as play:
        found = await play.call(states=states, ask=ASK)

    assert play.questions == ["Which?"]
    assert found.structured_content == {"k1": {"action": "accept", "content": {"color": "red"}}}
    # 2025-11-25 asks while the result is waited for; the newer form asks in its state.
    assert len(play.sent("tasks/result")) == (1 if form == "core" else 0)
    assert len(play.sent("tasks/update")) == (0 if form == "core" else 1)


async def test_a_question_that_stays_is_not_asked_again(tmp_path: Path) -> None:
    async with playing(tmp_path, "extension", seconds=2) as play:
        with pytest.raises(AnswerLate):
            await play.call(states=["input_required"], ask=ASK)

    assert play.questions == ["Which?"]
    assert len(play.sent("tasks/update")) == 1
    assert len(play.sent("tasks/get")) > 3


async def test_a_question_that_nobody_answers_ends_the_task(tmp_path: Path) -> None:
    async with playing(tmp_path, "extension") as play:
        with pytest.raises(ElicitationFailed, match="asks for sampling/createMessage"):
            await play.call(states=["input_required"], ask=MODEL, asks="sampling/createMessage")
        with pytest.raises(AnswerUnreadable, match="asks for what the protocol does not have"):
            await play.call(states=["input_required"], ask=ASK, asks="x/unknown")

    assert len(play.sent("tasks/cancel")) == 2


async def test_questions_without_an_end_are_ended(tmp_path: Path) -> None:
    states = [
        {
            "status": "input_required",
            "inputRequests": {f"{n}-{m}": {"method": "roots/list"} for m in range(60)},
        }
        for n in range(2)
    ]
    async with playing(tmp_path, "extension") as play:
        with pytest.raises(TaskFailed, match="asks again and again"):
            await play.call(states=states)


@FORMS
async def test_a_call_need_not_wait_for_its_task(tmp_path: Path, form: str) -> None:
    async with playing(tmp_path, form, waits=False) as play:
        with pytest.raises(Detached) as caught:
            await play.call(states=["working", "completed"])
        found = await play.tasks.get(caught.value.task.id)
        result = await play.tasks.wait(found, cancels=False)

    assert found.status == "working"
    assert result["content"][0]["text"] == "All done."


async def test_tasks_of_the_older_form_are_listed_and_cancelled(tmp_path: Path) -> None:
    async with playing(tmp_path, "core", waits=False) as play:
        for _ in range(3):
            with pytest.raises(Detached):
                await play.tasks.call("run", {"states": ["working"]}, ttl_seconds=1.5)
        listed = await play.tasks.list()
        cancelled = await play.tasks.cancel("task-2")
        with pytest.raises(TaskFailed, match="Task has expired"):
            await play.tasks.get("task-9")

    assert [task.id for task in listed] == ["task-1", "task-2", "task-3"]
    assert cancelled is not None
    assert cancelled.status == "cancelled"
    assert {call["task"]["ttl"] for call in play.sent("tools/call")} == {1500}


async def test_only_the_tasks_that_are_handled_are_declared(tmp_path: Path) -> None:
    async with playing(tmp_path / "a", "core") as core, playing(tmp_path / "b", "extension") as extension:
        pass

    assert "tasks" not in core.sent("initialize")[0]["capabilities"]
    meta = extension.sent("server/discover")[0]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"]["extensions"] == {
        "io.modelcontextprotocol/tasks": {}
    }
