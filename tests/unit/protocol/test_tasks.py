"""Tasks over one database, in two processes; the work itself is a function of the test."""

import json
import logging
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.protocol import task_runner, work
from nextcloud_mcp_server.protocol import tasks as tasks_module
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.task_runner import TaskRunner
from nextcloud_mcp_server.protocol.tasks import LONGEST_ARGUMENTS, LOST, LOST_AGAIN, Tasks
from nextcloud_mcp_server.protocol.wire import TASKS_EXTENSION
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.task_records import (
    MOST_RESTARTS,
    MOST_RUNNING,
    NO_LONGER_PERMITTED,
    SIGN_IN_ENDED,
    TaskOwner,
)
from nextcloud_mcp_server.storage.tasks import TaskRepository
from nextcloud_mcp_server.telemetry import metrics
from tests.counted import Counted
from tests.sdk_request import request

DONE: dict[str, Any] = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
ALICE, BOB = Principal("issuer", "alice"), Principal("issuer", "bob")
CLAUDE = Caller(ALICE, "claude", "Claude")
#: Longer than any of these tests waits.
LONG_SECONDS = 600

Tool = Callable[[ServerRequestContext[Any, Any]], Awaitable[dict[str, Any]]]


@dataclass
class Clock:
    ahead: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return datetime(2026, 11, 30, 12, 0, tzinfo=UTC) + self.ahead


class Server:
    """One process, whose tool is a function of the test."""

    def __init__(self, tasks: Tasks, tool: Tool) -> None:
        self.tasks, self.tool = tasks, tool
        self.caller = CLAUDE
        self.permitted = True
        self.handlers = {binding.method: binding for binding in tasks.methods()}

    async def send(
        self, method: str, *, version: str = "2026-07-28", extension: bool = True, **params: object
    ) -> dict[str, Any]:
        """Send a request of the caller, through the middleware."""
        declared: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}} if extension else {}
        ctx = request(version=version, capabilities=declared, method=method, params=params)
        answer = await self.tasks.middleware(ctx, self._handle)
        assert isinstance(answer, dict)
        return answer

    async def _handle(self, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        if ctx.method == "tools/call":
            return await self.tool(ctx)
        binding = self.handlers[ctx.method]
        assert binding.protocol_versions is not None
        assert ctx.protocol_version in binding.protocol_versions
        return await binding.handler(ctx, binding.params_type.model_validate(ctx.params, by_name=False))

    async def call(self, name: str = "read", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - the parameters of `send`
        return await self.send("tools/call", name=name, arguments={"path": "Plan.pdf"}, **more)

    async def get(self, task: dict[str, Any]) -> dict[str, Any]:
        return await self.send("tasks/get", taskId=task["taskId"])

    async def until(self, task: dict[str, Any], status: str) -> dict[str, Any]:
        return await self.polled(task, lambda found: found["status"] == status)

    async def polled(self, task: dict[str, Any], holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        with anyio.fail_after(60):
            while True:
                found = await self.get(task)
                if holds(found):
                    return found
                await anyio.sleep(0.01)


async def instant(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
    work.begin("a-credential")
    return DONE


class Held:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun, self.go_on, self.stopped = anyio.Event(), anyio.Event(), anyio.Event()

    async def __call__(self, _: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        self.calls += 1
        work.begin("a-credential")
        self.begun.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.stopped.set()
            raise
        return DONE


@dataclass
class Cluster:
    """Processes that share a database."""

    database: Database
    path: Path
    clock: Clock
    group: Any
    unavailable: bool = False
    is_broken: bool = False
    #: Consent requests that have ended.
    ended: list[str] = field(default_factory=list[str])

    async def server(
        self,
        tool: Tool,
        *,
        grace_seconds: float = 0,
        renew_seconds: float = 0.01,
        scopes: Mapping[str, frozenset[str]] | None = None,
    ) -> Server:
        async def rows() -> TaskRepository:
            if self.unavailable:
                raise StorageError("The database is gone.")
            if self.is_broken:
                raise RuntimeError("Nobody expects this.")
            return self.database.tasks

        async def finished(ids: object) -> list[str]:
            return self.ended

        pending = Pending(finished)
        self.group.start_soon(pending.run)
        runner = TaskRunner(
            rows,
            pending,
            consent_seconds=LONG_SECONDS,
            grace_seconds=grace_seconds,
            renew_seconds=renew_seconds,
        )
        made: list[Server] = []
        tasks = Tasks(
            runner,
            lambda _: made[0].caller,
            tools={"read": True, "write": False},
            permits=lambda _, __: made[0].permitted,
            scopes=scopes,
        )
        made.append(Server(tasks, tool))
        self.group.start_soon(runner.run)
        with anyio.fail_after(60):
            while not runner.is_ready:
                await anyio.lowlevel.checkpoint()
        return made[0]

    async def renewed(self) -> None:
        """Wait until the lease of the one task lasts as long as a new one."""
        with anyio.fail_after(60):
            while True:
                with closing(sqlite3.connect(self.path)) as connection:
                    row = connection.execute("SELECT lease_until FROM tasks").fetchone()
                until = datetime.fromisoformat(row[0]).replace(tzinfo=UTC)
                if until >= self.clock() + task_runner.LEASE:
                    return
                await anyio.sleep(0.01)


@asynccontextmanager
async def open_cluster(folder: Path) -> AsyncGenerator[Cluster]:
    clock = Clock()
    keys = KeyRing.parse([SecretStr(new_key())])
    path = folder / "mcp.db"
    database = await Database.open(file_url(path), keys=keys, clock=clock)
    try:
        async with anyio.create_task_group() as group:
            yield Cluster(database, path, clock, group)
            group.cancel_scope.cancel()
    finally:
        await database.aclose()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[Cluster]:
    async with open_cluster(tmp_path) as made:
        yield made


async def refused(sent: Awaitable[object]) -> tuple[int, str]:
    with pytest.raises(MCPError) as raised:
        await sent
    return raised.value.error.code, raised.value.error.message


async def test_a_call_that_ends_soon_is_answered_itself(cluster: Cluster) -> None:
    server = await cluster.server(instant, grace_seconds=LONG_SECONDS)

    assert await server.call() == DONE


async def test_a_call_that_does_not_end_soon_is_a_task_and_goes_on(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)

    task = await server.call()
    working = await server.get(task)
    held.go_on.set()
    done = await server.until(task, "completed")

    assert (task["resultType"], working["status"]) == ("task", "working")
    assert len(task["taskId"]) == 32
    assert done["result"] == DONE


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read", {"extension": False}),
        ("short", {}),
        ("read", {"version": "2025-11-25"}),
        ("read", {"version": "2025-06-18"}),
        ("read", {"version": "2025-06-18", "task": {}}),
    ],
)
async def test_every_other_call_is_no_task(cluster: Cluster, tool: str, more: dict[str, Any]) -> None:
    seen: list[work.Work | None] = []

    async def remember(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        seen.append(work.current.get())
        await anyio.sleep(0.05)
        return DONE

    server = await cluster.server(remember)

    assert await server.call(tool, **more) == DONE
    assert seen == [None]


async def test_before_the_work_begins_a_call_is_no_task(cluster: Cluster) -> None:
    """A question for consent, and the wait for it, belong to the request ("Task Creation")."""
    asked = {"resultType": "input_required", "requestState": "{}"}

    async def ask(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        await anyio.sleep(0.05)
        return asked

    server = await cluster.server(ask)

    assert await server.call() == asked


async def test_a_call_whose_permission_ended_while_it_worked_is_stopped_and_no_task(cluster: Cluster) -> None:
    """The database has no permission of the caller any more."""
    held = Held()
    server = await cluster.server(held, scopes={"read": frozenset({"files:read"})})

    assert await server.call() == {
        "content": [{"type": "text", "text": NO_LONGER_PERMITTED}],
        "isError": True,
        "resultType": "complete",
    }
    with anyio.fail_after(60):
        await held.stopped.wait()
    code, message = await refused(server.call(version="2025-11-25", task={}))

    assert (code, message) == (-32602, NO_LONGER_PERMITTED)
    assert server.tasks.runner.count(ALICE) == 0


async def test_a_refusal_before_the_work_begins_is_the_result_of_a_task_of_2025_11_25(
    cluster: Cluster,
) -> None:
    """A client that is not connected learns from it how to connect."""
    refusal: dict[str, Any] = {"content": [{"type": "text", "text": "Not connected"}], "isError": True}

    async def refuse(_: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        return refusal

    server = await cluster.server(refuse, scopes={"read": frozenset({"files:read"})})

    task = (await server.call(version="2025-11-25", task={}))["task"]
    fetched = await server.send("tasks/result", version="2025-11-25", taskId=task["taskId"])

    assert fetched["content"] == refusal["content"]


async def test_an_error_of_a_short_call_is_raised_itself(cluster: Cluster) -> None:
    async def fail(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        raise MCPError(-32602, "Not so")

    server = await cluster.server(fail)

    assert await refused(server.call()) == (-32602, "Not so")


async def test_an_error_of_a_task_is_its_outcome_without_what_is_inside(cluster: Cluster) -> None:
    go_on = anyio.Event()

    async def fail(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        raise RuntimeError("the password is secret")

    server = await cluster.server(fail)
    task = await server.call()
    go_on.set()

    failed = await server.until(task, "failed")

    assert failed["error"] == {"code": -32603, "message": "Internal error"}


async def test_no_other_caller_sees_a_task_or_can_touch_it(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    task = await server.call()
    unknown = await refused(server.get({"taskId": "0" * 32}))

    for caller in (Caller(BOB, "claude", "Claude"), Caller(ALICE, "codex", "Codex")):
        server.caller = caller
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            sent = server.send(method, taskId=task["taskId"], inputResponses={})
            assert await refused(sent) == unknown
        assert (
            await refused(server.send("tasks/result", version="2025-11-25", taskId=task["taskId"])) == unknown
        )

    server.caller = CLAUDE
    assert unknown == (-32602, "Task not found")
    assert (await server.get(task))["status"] == "working"


async def test_a_token_that_does_not_cover_the_tool_reads_no_result(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    task = await server.call()
    held.go_on.set()
    await server.until(task, "completed")

    server.permitted = False

    assert await refused(server.get(task)) == (-32602, "Task not found")


async def test_a_client_that_does_not_declare_the_extension_is_told_so(cluster: Cluster) -> None:
    server = await cluster.server(instant)

    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        sent = server.send(method, extension=False, taskId="0" * 32, inputResponses={})
        assert (await refused(sent))[0] == -32021


async def test_a_cancellation_at_another_replica_stops_the_work(cluster: Cluster) -> None:
    held = Held()
    server, other = await cluster.server(held), await cluster.server(instant)
    task = await server.call()

    assert await other.send("tasks/cancel", taskId=task["taskId"]) == {}
    with anyio.fail_after(60):
        await held.stopped.wait()
    held.go_on.set()

    assert (await other.get(task))["status"] == "cancelled"
    assert (await server.get(task))["status"] == "cancelled"


async def test_the_progress_of_a_task_is_its_message(cluster: Cluster) -> None:
    held = Held()
    sent: list[bool] = []

    async def report(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        sent.append(work.report("Read 0 of 3 parts"))
        work.begin("a-credential")
        await held.go_on.wait()
        sent.append(work.report("Read 1 of 3 parts"))
        await anyio.Event().wait()
        return DONE

    server = await cluster.server(report)
    task = await server.call()
    held.go_on.set()

    await server.polled(task, lambda found: found.get("statusMessage") == "Read 1 of 3 parts")
    # The request has its answer, so nothing more is sent for it.
    assert sent == [False, True]


async def test_a_name_that_is_no_unicode_in_the_progress_leaves_this_and_other_tasks_as_they_are(
    cluster: Cluster,
) -> None:
    """Half of a surrogate pair stands in for a byte of a file name that is no UTF-8; it cannot be sealed."""
    begun = list[str]()
    go_on = anyio.Event()

    async def report(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        name = "x\udcff.txt" if not begun else "Plan.pdf"
        begun.append(name)
        work.begin("a-credential")
        await go_on.wait()
        work.report(f"Read {name}")
        server.tasks.runner.wake()
        await ended.wait()
        return DONE

    ended = anyio.Event()
    server = await cluster.server(report, renew_seconds=LONG_SECONDS)
    broken, other = await server.call(), await server.call()
    go_on.set()

    await server.polled(other, lambda found: found.get("statusMessage") == "Read Plan.pdf")
    said = (await server.get(broken))["statusMessage"]
    ended.set()

    assert said == "Read x?.txt"
    assert (await server.until(broken, "completed"))["result"] == DONE


async def test_a_result_that_cannot_be_written_fails_its_task(cluster: Cluster) -> None:
    go_on = anyio.Event()

    async def odd(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        return {**DONE, "structuredContent": {"path": object()}}

    server = await cluster.server(odd)
    task = await server.call()
    go_on.set()

    failed = await server.until(task, "failed")

    assert failed["error"] == {"code": -32603, "message": "Internal error"}


async def test_a_reading_of_a_dead_process_starts_again_at_another(cluster: Cluster) -> None:
    held, again = Held(), Held()
    dead, other = await cluster.server(held, renew_seconds=LONG_SECONDS), await cluster.server(again)
    task = await dead.call()
    early = await other.get(task)
    cluster.clock.ahead = task_runner.LEASE

    found = await other.get(task)
    with anyio.fail_after(60):
        await again.begun.wait()
    again.go_on.set()
    done = await other.until(task, "completed")
    held.go_on.set()

    assert (early["status"], found["status"], again.calls) == ("working", "working", 1)
    assert done["result"] == DONE


async def test_a_reading_whose_processes_die_again_and_again_fails_in_words(cluster: Cluster) -> None:
    """It may be what they die of; each poll of its client would end another one."""
    held = Held()
    servers = [await cluster.server(held, renew_seconds=LONG_SECONDS) for _ in range(MOST_RESTARTS + 2)]
    task = await servers[0].call()
    found = list[dict[str, Any]]()
    for server in servers[1:]:
        cluster.clock.ahead += task_runner.LEASE
        found.append(await server.get(task))
    with anyio.fail_after(60):
        while True:
            if held.calls > MOST_RESTARTS:
                break
            await anyio.sleep(0.01)

    assert [each["status"] for each in found] == ["working"] * MOST_RESTARTS + ["failed"]
    assert found[-1]["error"] == {"code": -32603, "message": LOST_AGAIN}
    assert held.calls == 1 + MOST_RESTARTS


async def test_lost_readings_start_again_only_as_far_as_a_user_may_have_running_tasks(
    cluster: Cluster,
) -> None:
    again = Held()
    dead, other = await cluster.server(Held(), renew_seconds=LONG_SECONDS), await cluster.server(again)
    lost = [await dead.call() for _ in range(MOST_RUNNING)]
    cluster.clock.ahead = task_runner.LEASE
    own = [await other.call() for _ in range(MOST_RUNNING)]

    waiting = [(await other.get(each))["status"] for each in lost]
    meanwhile = again.calls
    again.go_on.set()
    for each in own:
        await other.until(each, "completed")
    done = [(await other.until(each, "completed"))["result"] for each in lost]

    assert (waiting, meanwhile) == (["working"] * MOST_RUNNING, MOST_RUNNING)
    assert done == [DONE] * MOST_RUNNING


async def test_a_change_of_a_dead_process_has_failed_and_is_never_made_again(cluster: Cluster) -> None:
    held, again = Held(), Held()
    dead, other = await cluster.server(held, renew_seconds=LONG_SECONDS), await cluster.server(again)
    task = await dead.call("write")
    cluster.clock.ahead = task_runner.LEASE

    failed = await other.get(task)

    assert (failed["status"], failed["statusMessage"]) == ("failed", LOST)
    assert failed["error"] == {"code": -32603, "message": LOST}
    assert again.calls == 0


async def test_a_reading_with_long_arguments_is_not_kept_to_start_again(cluster: Cluster) -> None:
    """A user could otherwise fill the database with what no tool even reads."""
    again = Held()
    dead, other = await cluster.server(Held(), renew_seconds=LONG_SECONDS), await cluster.server(again)
    arguments = {"path": "Plan.pdf", "more": "x" * LONGEST_ARGUMENTS}
    task = await dead.send("tools/call", name="read", arguments=arguments)
    cluster.clock.ahead = task_runner.LEASE

    failed = await other.get(task)

    assert (failed["status"], failed["statusMessage"], again.calls) == ("failed", LOST, 0)
    with closing(sqlite3.connect(cluster.path)) as connection:
        (stored,) = connection.execute("SELECT length(request) FROM tasks").fetchone()
    assert stored < LONGEST_ARGUMENTS


async def test_no_other_caller_takes_a_lost_task_over(cluster: Cluster) -> None:
    again = Held()
    dead, other = await cluster.server(Held(), renew_seconds=LONG_SECONDS), await cluster.server(again)
    task = await dead.call()
    cluster.clock.ahead = task_runner.LEASE

    other.permitted = False
    narrow = await refused(other.get(task))
    other.permitted, other.caller = True, Caller(ALICE, "codex", "Codex")

    assert await refused(other.get(task)) == narrow == (-32602, "Task not found")
    assert again.calls == 0


async def test_a_process_that_stops_leaves_its_tasks_at_once(cluster: Cluster) -> None:
    held, again = Held(), Held()
    first, other = await cluster.server(held), await cluster.server(again)
    task = await first.call()

    await first.tasks.runner.stop()
    await other.get(task)
    with anyio.fail_after(60):
        await again.begun.wait()

    assert held.stopped.is_set()


async def test_a_call_that_is_cut_off_by_a_stop_says_so(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held, grace_seconds=LONG_SECONDS)
    answers: list[tuple[int, str]] = []

    async def call() -> None:
        answers.append(await refused(server.call()))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await held.begun.wait()
        await server.tasks.runner.stop()

    ((code, message),) = answers
    assert code == -32603
    assert message.startswith("The server is restarting")


async def test_a_running_task_keeps_its_lease(cluster: Cluster) -> None:
    held, again = Held(), Held()
    server, other = await cluster.server(held), await cluster.server(again)
    task = await server.call()
    for _ in range(3):
        cluster.clock.ahead += task_runner.LEASE / 2
        await cluster.renewed()
        await other.get(task)

    assert again.calls == 0


async def test_more_tasks_than_are_allowed_are_refused_and_do_nothing(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    tasks = [await server.call() for _ in range(MOST_RUNNING)]

    refusal = await server.call()
    server.caller = Caller(BOB, "claude", "Claude")
    of_bob = await server.call()

    assert refusal["isError"]
    assert {task["resultType"] for task in [*tasks, of_bob]} == {"task"}
    assert held.calls == MOST_RUNNING + 1


async def test_a_call_beyond_the_limit_of_all_processes_is_answered_itself(cluster: Cluster) -> None:
    held, short = Held(), Held()
    server, other = await cluster.server(held), await cluster.server(short)
    for _ in range(MOST_RUNNING):
        await server.call()
    answers: list[dict[str, Any]] = []

    async def call() -> None:
        answers.append(await other.call())

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await short.begun.wait()
        short.go_on.set()

    assert answers == [DONE]


async def test_while_nothing_can_be_stored_a_call_is_answered_itself(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    cluster.unavailable = True
    answers: list[dict[str, Any]] = []

    async def call() -> None:
        answers.append(await server.call())

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await held.begun.wait()
        held.go_on.set()

    assert answers == [DONE]


async def test_a_result_is_stored_when_the_database_is_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "RETRY_SECONDS", 0.01)
    held = Held()
    server = await cluster.server(held)
    task = await server.call()
    cluster.unavailable = True
    held.go_on.set()
    await anyio.sleep(0.05)

    cluster.unavailable = False

    assert (await server.until(task, "completed"))["result"] == DONE


async def test_who_leaves_a_call_that_is_no_task_yet_ends_it(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held, grace_seconds=LONG_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(server.call)
        await held.begun.wait()
        group.cancel_scope.cancel()

    with anyio.fail_after(60):
        await held.stopped.wait()


async def test_a_result_that_is_too_large_to_be_stored_fails_the_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "MOST_BYTES", 10)
    held = Held()
    server = await cluster.server(held)
    task = await server.call()
    held.go_on.set()

    failed = await server.until(task, "failed")

    assert failed["error"]["message"].startswith("The result is larger than is stored")


async def test_a_question_is_answered_once_and_its_key_is_never_used_again(cluster: Cluster) -> None:
    go_on, seen = anyio.Event(), list[Any]()

    async def ask(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        seen.append((ctx.params or {}).get("inputResponses"))
        if len(seen) == 3:
            return DONE
        question = {"method": "elicitation/create", "params": {"number": len(seen)}}
        return {
            "resultType": "input_required",
            "requestState": "state",
            "inputRequests": {"provision": question},
        }

    server = await cluster.server(ask)
    task = await server.call()
    go_on.set()
    keys = list[str]()
    for number in (1, 2):
        while True:
            found = await server.until(task, "input_required")
            (key,) = found["inputRequests"]
            if key not in keys:
                break
        keys.append(key)
        assert found["inputRequests"][key]["params"] == {"number": number}
        await server.send(
            "tasks/update", taskId=task["taskId"], inputResponses={"other": {"action": "accept"}}
        )
        assert (await server.get(task))["status"] == "input_required"
        answer = {key: {"action": "decline", "content": {"not": "kept"}}}
        assert await server.send("tasks/update", taskId=task["taskId"], inputResponses=answer) == {}

    await server.until(task, "completed")

    assert len(set(keys)) == 2
    assert seen == [None, {"provision": {"action": "decline"}}, {"provision": {"action": "decline"}}]


async def test_an_answer_that_is_none_is_refused(cluster: Cluster) -> None:
    go_on = anyio.Event()

    async def ask(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        question: dict[str, Any] = {"method": "elicitation/create", "params": {}}
        return {"resultType": "input_required", "inputRequests": {"provision": question}}

    server = await cluster.server(ask)
    task = await server.call()
    go_on.set()
    (key,) = (await server.until(task, "input_required"))["inputRequests"]

    for answer in ({"action": "maybe"}, "yes", None):
        sent = server.send("tasks/update", taskId=task["taskId"], inputResponses={key: answer})
        assert (await refused(sent))[0] == -32602
    assert (await server.get(task))["status"] == "input_required"


async def test_a_client_of_2025_11_25_decides_itself(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "RESULT_SECONDS", 0.01)
    server = await cluster.server(instant, grace_seconds=LONG_SECONDS)

    task = (await server.call(version="2025-11-25", task={"ttl": 60_000}))["task"]
    fetched = await server.send("tasks/result", version="2025-11-25", taskId=task["taskId"])
    short = await refused(server.call("short", version="2025-11-25", task={}))
    late = await refused(server.send("tasks/cancel", version="2025-11-25", taskId=task["taskId"]))

    assert (task["status"], task["ttl"]) == ("working", 60_000)
    assert fetched["content"] == DONE["content"]
    assert short[0] == -32601
    assert late[0] == -32602


async def test_a_client_of_2025_11_25_is_refused_more_tasks_than_are_allowed(cluster: Cluster) -> None:
    server = await cluster.server(Held())
    for _ in range(MOST_RUNNING):
        await server.call(version="2025-11-25", task={})

    assert (await refused(server.call(version="2025-11-25", task={})))[0] == -32602


async def test_the_version_that_has_tasks_is_told_which_tools_take_them(cluster: Cluster) -> None:
    server = await cluster.server(instant)
    listed: dict[str, Any] = {"tools": [{"name": "read"}, {"name": "short"}]}
    begun: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}

    async def answer(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        return {"initialize": begun, "tools/list": listed}[ctx.method]

    async def sent(method: str, version: str) -> HandlerResult:
        return await server.tasks.middleware(request(version=version, method=method), answer)

    assert await sent("tools/list", "2025-11-25") == {
        "tools": [{"name": "read", "execution": {"taskSupport": "optional"}}, {"name": "short"}]
    }
    assert await sent("tools/list", "2025-06-18") == await sent("tools/list", "2026-07-28") == listed
    tasks: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert await sent("initialize", "2025-11-25") == {**begun, "capabilities": {"tools": {}, "tasks": tasks}}
    begun["protocolVersion"] = "2025-06-18"
    assert await sent("initialize", "2025-06-18") == begun


async def test_a_runner_that_has_ended_begins_no_call_and_is_stopped_twice(cluster: Cluster) -> None:
    server = await cluster.server(instant)
    await server.tasks.runner.stop()
    await server.tasks.runner.stop()

    with pytest.raises(RuntimeError, match="does not run"):
        server.tasks.runner.start(request(), server.tool)


async def test_a_stop_without_a_database_leaves_the_tasks_to_others_when_the_lease_ends(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    held, again = Held(), Held()
    first, other = await cluster.server(held), await cluster.server(again)
    task = await first.call()
    cluster.unavailable = True
    await first.tasks.runner.stop()
    cluster.unavailable = False

    early = await other.get(task)
    untouched = again.calls
    cluster.clock.ahead += task_runner.LEASE
    await other.get(task)
    with anyio.fail_after(60):
        await again.begun.wait()

    assert "are left to others when its lease ends" in caplog.text
    assert (early["status"], untouched) == ("working", 0)


async def test_an_end_that_cannot_be_stored_ends_no_other_task(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    server = await cluster.server(held, renew_seconds=LONG_SECONDS)
    await server.call()
    cluster.is_broken = True
    held.go_on.set()
    with anyio.fail_after(60):
        while True:
            if not server.tasks.runner.count(ALICE):
                break
            await anyio.sleep(0.01)
    cluster.is_broken, held.go_on = False, anyio.Event()
    other = await server.call()
    held.go_on.set()

    assert "the end of a task could not be stored" in caplog.text
    assert (await server.until(other, "completed"))["result"] == DONE


async def test_an_error_before_the_work_begins_answers_a_call_of_2025_11_25_itself(cluster: Cluster) -> None:
    async def fail(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        raise MCPError(-32602, "Not so")

    server = await cluster.server(fail)

    assert await refused(server.call(version="2025-11-25", task={})) == (-32602, "Not so")


async def test_a_call_of_2025_11_25_is_refused_beyond_the_limit_of_all_processes(cluster: Cluster) -> None:
    server, other = await cluster.server(Held()), await cluster.server(Held())
    for _ in range(MOST_RUNNING):
        await server.call()

    code, message = await refused(other.call(version="2025-11-25", task={}))

    assert (code, message) == (-32602, tasks_module.TOO_MANY)


async def test_a_cancellation_of_2025_11_25_is_answered_with_the_task(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    task = (await server.call(version="2025-11-25", task={}))["task"]

    answer = await server.send("tasks/cancel", version="2025-11-25", taskId=task["taskId"])
    with anyio.fail_after(60):
        await held.stopped.wait()

    assert (answer["taskId"], answer["status"]) == (task["taskId"], "cancelled")


@pytest.mark.parametrize("more", [{}, {"version": "2025-11-25", "task": {}}])
async def test_a_call_whose_sign_in_ends_before_it_is_a_task_becomes_none(
    cluster: Cluster, more: dict[str, Any]
) -> None:
    held = Held()
    begin_late = bool(more)

    async def tool(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        if begin_late:
            held.begun.set()
            await anyio.sleep_forever()
        return await held(ctx)

    server = await cluster.server(tool, grace_seconds=LONG_SECONDS)
    answers: list[tuple[int, str]] = []

    async def call() -> None:
        answers.append(await refused(server.call(**more)))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await held.begun.wait()
        await server.tasks.runner.end(lambda ctx: ctx.method == "tools/call")

    assert answers == [(-32603, SIGN_IN_ENDED)]
    assert server.tasks.runner.count(ALICE) == 0


async def test_a_call_whose_sign_in_ends_while_its_task_is_stored_is_stopped(cluster: Cluster) -> None:
    held = Held()
    server = await cluster.server(held)
    runner, rows = server.tasks.runner, server.tasks.runner.rows

    async def late() -> TaskRepository:
        runner.rows = rows
        await runner.end(lambda ctx: ctx.method == "tools/call")
        return await rows()

    runner.rows = late
    answer = await server.call()

    assert answer["content"] == [{"type": "text", "text": SIGN_IN_ENDED}]
    with anyio.fail_after(60):
        await held.stopped.wait()
    with closing(sqlite3.connect(cluster.path)) as connection:
        assert connection.execute("SELECT status FROM tasks").fetchall() == [("cancelled",)]


@pytest.mark.parametrize("unavailable", [False, True])
async def test_tasks_whose_request_is_meant_are_stopped_and_cancelled_and_no_others(
    cluster: Cluster, *, unavailable: bool
) -> None:
    """While nothing can be stored they are stopped all the same."""
    stopped, goes_on = Held(), Held()
    server, other = await cluster.server(stopped), await cluster.server(goes_on)
    task, its = await server.call(), await other.call()

    cluster.unavailable = unavailable
    await server.tasks.runner.end(lambda ctx: ctx.method == "tools/call")
    await other.tasks.runner.end(lambda ctx: ctx.method != "tools/call")
    with anyio.fail_after(60):
        await stopped.stopped.wait()
    cluster.unavailable = False

    assert (await server.get(task))["status"] == ("working" if unavailable else "cancelled")
    assert (await other.get(its))["status"] == "working"
    assert not goes_on.stopped.is_set()


async def test_a_question_that_cannot_be_stored_fails_the_task(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "RETRY_SECONDS", 0.01)
    go_on = anyio.Event()

    async def ask(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        question: dict[str, Any] = {"method": "elicitation/create", "params": {}}
        return {"resultType": "input_required", "inputRequests": {"provision": question}}

    server = await cluster.server(ask, renew_seconds=LONG_SECONDS)
    task = await server.call()
    cluster.unavailable = True
    go_on.set()
    await anyio.sleep(0.05)
    cluster.unavailable = False

    failed = await server.until(task, "failed")

    assert failed["error"] == {"code": -32603, "message": "Internal error"}


@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_consent_that_ends_on_its_page_lets_the_task_go_on(
    cluster: Cluster, *, is_asked: bool
) -> None:
    """The client answers nothing; it may not even be asked."""
    go_on, seen = anyio.Event(), list[Any]()
    asked: dict[str, Any] = {"resultType": "input_required", "requestState": '{"e": "consent", "r": 1}'}
    if is_asked:
        asked["inputRequests"] = {"provision": {"method": "elicitation/create", "params": {}}}

    async def ask(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        work.begin("a-credential")
        await go_on.wait()
        seen.append((ctx.params or {}).get("requestState"))
        return DONE if len(seen) > 1 else asked

    cluster.ended.append("consent")
    server = await cluster.server(ask)
    task = await server.call()
    go_on.set()

    done = await server.until(task, "completed")

    assert done["result"] == DONE
    assert seen == [None, asked["requestState"]]


class Ends:
    """What was logged and counted of the ends of tasks."""

    def __init__(self, counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
        self._counted = counted
        self._caplog = caplog

    @property
    def lines(self) -> list[dict[str, Any]]:
        names = ("tool", "status", "ms", "bytes", "person", "client_id")
        lines = [record for record in self._caplog.records if record.getMessage() == "task"]
        return [{name: vars(line)[name] for name in names if name in vars(line)} for line in lines]

    async def one(self) -> dict[str, Any]:
        """Wait for the only line, and return it without the time; it was counted as it says."""
        with anyio.fail_after(60):
            while not self.lines:  # noqa: ASYNC110 - the log gives no event
                await anyio.sleep(0.01)
        (line,) = self.lines
        counted = {name: value for name, value in self._counted.sums.items() if name[0] == metrics.TASKS.name}
        assert counted == {(metrics.TASKS.name, line["tool"], line["status"]): 1}
        assert line.pop("ms") >= 0
        return line


@pytest.fixture
def ends(caplog: pytest.LogCaptureFixture) -> Iterator[Ends]:
    caplog.set_level(logging.INFO, "nextcloud_mcp_server")
    with metrics.exported(counted := Counted()):
        yield Ends(counted, caplog)


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (DONE, "ok"),
        ({**DONE, "isError": True}, "tool error"),
        (MCPError(-32602, "No such file."), "error"),
        (RuntimeError("the password is secret"), "failed"),
    ],
)
async def test_the_end_of_a_task_is_logged_and_counted_without_content_or_a_name(
    cluster: Cluster, ends: Ends, result: dict[str, Any] | Exception, status: str
) -> None:
    held = Held()

    async def tool(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        await held(ctx)
        if isinstance(result, Exception):
            raise result
        return result

    server = await cluster.server(tool)
    task = await server.call()
    assert ends.lines == []
    held.go_on.set()
    line = await ends.one()

    ended = await server.get(task)
    outcome = ended["result"] if "result" in ended else ended["error"]
    size = len(json.dumps(outcome, separators=(",", ":")))
    assert line == {"tool": "read", "status": status, "bytes": size}


async def test_a_task_that_is_cancelled_or_left_by_its_process_is_told_as_such(
    cluster: Cluster, ends: Ends
) -> None:
    cancelled = await cluster.server(Held())
    await cancelled.send("tasks/cancel", taskId=(await cancelled.call())["taskId"])
    line = await ends.one()
    left = await cluster.server(Held())
    await left.call()
    await left.tasks.runner.stop()

    assert line == {"tool": "read", "status": "stopped", "bytes": 0}
    assert [each["status"] for each in ends.lines] == ["stopped", "left"]


async def test_a_task_whose_result_nobody_may_read_any_more_was_stopped(cluster: Cluster, ends: Ends) -> None:
    held = Held()
    server = await cluster.server(held, renew_seconds=LONG_SECONDS)
    task = await server.call()
    await cluster.database.tasks.cancel(TaskOwner(ALICE, CLAUDE.client_id), task["taskId"])
    held.go_on.set()

    assert (await ends.one())["status"] == "stopped"


async def test_a_change_whose_process_is_gone_was_lost(cluster: Cluster, ends: Ends) -> None:
    first, other = await cluster.server(Held(), renew_seconds=LONG_SECONDS), await cluster.server(instant)
    task = await first.call("write")
    cluster.clock.ahead = task_runner.LEASE

    await other.until(task, "failed")

    assert await ends.one() == {"tool": "write", "status": "lost", "bytes": 0}
