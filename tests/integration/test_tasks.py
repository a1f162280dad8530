"""Long calls as tasks, as a client sees them: the extension of 2026-07-28, and 2025-11-25."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient, WireClient
from nextcloud_mcp_server.protocol.wire import TASKS_EXTENSION
from nextcloud_mcp_server.sandbox.files import FileTree
from nextcloud_mcp_server.server.composition import ServerParts
from tests.document_files import pdf
from tests.integration.personal_app import PersonalApp, until

ALICE: dict[str, Any] = {"nextcloud_username": "alice", "nextcloud_app_password": "alice"}
READ: dict[str, Any] = {"name": "nc_files_read_file", "arguments": {"path": "Plan.pdf"}}
TASKS: dict[str, object] = {"extensions": {TASKS_EXTENSION: {}}}
URL_MODE: dict[str, object] = {"elicitation": {"url": {}}}
#: Longer than any of these tests waits.
FOREVER_SECONDS = 600
#: So long that the call is a task before it ends.
A_WHILE = 0.2


@asynccontextmanager
async def wire_client(
    app: PersonalApp, kind: type[WireClient], **capabilities: object
) -> AsyncGenerator[WireClient]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {app.secret}"}, timeout=60) as http:
        client = kind(http, f"{app.url}/mcp", capabilities=capabilities)
        await client.open()
        yield client


async def started(app: PersonalApp, *, grace: float = 0, **settings: object) -> None:
    """Start the server again; by default a call is a task as soon as its work begins."""
    await app.stop()
    await app.start(**settings)
    parts(app).task_runner.grace_seconds = grace


def parts(app: PersonalApp) -> ServerParts[Any]:
    assert app.parts is not None
    return app.parts


def files(app: PersonalApp) -> FileTree:
    return app.sandbox.state.users["alice"].files


async def result(client: WireClient, method: str, **params: object) -> dict[str, Any]:
    answer = await client.request(method, params)
    assert "result" in answer, answer
    return answer["result"]


async def polled(
    client: WireClient, task_id: object, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Ask for a task until this holds."""
    with anyio.fail_after(60):
        while True:
            task = await result(client, "tasks/get", taskId=task_id)
            if holds(task):
                return task
            await anyio.sleep(0.02)


async def ended(client: WireClient, task_id: object, status: str = "completed") -> dict[str, Any]:
    """Ask for a task until it does not work any more; return it in this status."""
    task = await polled(client, task_id, lambda task: task["status"] not in ("working", "input_required"))
    assert task["status"] == status, task
    return task


async def test_a_long_call_is_a_task_whose_result_is_that_of_the_call(personal_app: PersonalApp) -> None:
    await started(personal_app, **ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one", "two"]))
    personal_app.sandbox.faults.slow(A_WHILE, area="dav", times=1)

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        capabilities = (await client.open())["capabilities"]
        task = await result(client, "tools/call", **READ)
        done = await ended(client, task["taskId"])
    async with wire_client(personal_app, StatelessClient) as plain:
        itself = await result(plain, "tools/call", **READ)

    assert capabilities["extensions"][TASKS_EXTENSION] == {}
    assert task["resultType"] == "task"
    assert task["status"] == "working"
    assert (task["ttlMs"], task["pollIntervalMs"]) == (86_400_000, 2_000)
    assert task["_meta"] == itself["_meta"]
    assert done["resultType"] == "complete"
    assert done["result"] == itself
    assert "one" in done["result"]["structuredContent"]["content"]


async def test_a_short_call_is_answered_itself_and_stores_nothing(personal_app: PersonalApp) -> None:
    await started(personal_app, grace=60, **ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        answer = await result(client, "tools/call", **READ)

    assert answer["resultType"] == "complete"
    assert "one" in answer["structuredContent"]["content"]


@pytest.mark.parametrize("kind", [HandshakeClient, StatelessClient])
async def test_a_client_without_tasks_sees_no_difference(
    personal_app: PersonalApp, kind: type[WireClient]
) -> None:
    files(personal_app).put("/Plan.pdf", pdf(["one"]))
    seen = list[list[dict[str, Any]]]()
    for tasks in (True, False):
        await started(personal_app, tasks=tasks, output_schemas=True, **ALICE)
        async with wire_client(personal_app, kind) as client:
            asked = await client.request("tools/call", READ), await client.request("tools/list", {})
            refused = await client.request("tasks/list", {})
        seen.append([*asked, refused])

    on, off = seen
    if kind is HandshakeClient:
        # The version has no other place for this ("Tool-Level Negotiation").
        said = [tool.pop("execution", None) for tool in on[1]["result"]["tools"]]
        assert {"taskSupport": "optional"} in said
    assert on == off
    assert on[2]["error"]["code"] == -32601


async def test_only_a_client_that_declares_the_extension_may_ask_for_tasks(personal_app: PersonalApp) -> None:
    await started(personal_app, **ALICE)

    async with wire_client(personal_app, StatelessClient) as client:
        refused = [
            (await client.request(method, {"taskId": "0" * 32, "inputResponses": {}}))["error"]
            for method in ("tasks/get", "tasks/update", "tasks/cancel")
        ]

    assert [error["code"] for error in refused] == [-32021] * 3
    assert refused[0]["data"] == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}


async def test_without_tasks_the_extension_is_neither_advertised_nor_there(personal_app: PersonalApp) -> None:
    await started(personal_app, tasks=False, **ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        capabilities = (await client.open())["capabilities"]
        answer = await result(client, "tools/call", **READ)
        refused = await client.request("tasks/get", {"taskId": "0" * 32})
    async with wire_client(personal_app, HandshakeClient) as old:
        of_handshake = (await old.open())["capabilities"]
        ignored = await result(old, "tools/call", **READ, task={})

    assert TASKS_EXTENSION not in capabilities["extensions"]
    assert "tasks" not in of_handshake
    assert answer["resultType"] == "complete"
    assert "content" in ignored
    assert refused["error"]["code"] == -32601


async def test_a_cancelled_task_stops_in_the_middle_and_says_how_far_it_came(
    personal_app: PersonalApp,
) -> None:
    await started(personal_app, **ALICE)
    parts(personal_app).task_runner.renew_seconds = 0.02
    tree, faults = files(personal_app), personal_app.sandbox.faults
    for name in ("a.txt", "b.txt", "c.txt"):
        tree.put(f"/{name}", b"1")
    # A look at the folder and the first move; the second move waits.
    faults.slow(A_WHILE, area="dav", times=1)
    faults.slow(FOREVER_SECONDS, area="dav", after=2, times=1)
    move = {"source": ["a.txt", "b.txt", "c.txt"], "destination": "Documents"}

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        task = await result(client, "tools/call", name="nc_files_move_item", arguments=move)
        await polled(client, task["taskId"], lambda task: "statusMessage" in task)
        cancelled = await result(client, "tasks/cancel", taskId=task["taskId"])
        await until(lambda: not parts(personal_app).task_runner.holds(task["taskId"]))
        again = await result(client, "tasks/cancel", taskId=task["taskId"])
        found = await result(client, "tasks/get", taskId=task["taskId"])

    assert cancelled == again == {"resultType": "complete", "_meta": task["_meta"]}
    assert (found["status"], found["statusMessage"]) == ("cancelled", "Moved 1 of 3")
    assert "result" not in found
    assert [tree.find(f"/{name}") is None for name in ("a.txt", "b.txt", "c.txt")] == [True, False, False]


async def test_after_a_restart_a_reading_starts_again_and_a_change_has_failed(
    personal_app: PersonalApp,
) -> None:
    await started(personal_app, **ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))
    files(personal_app).put("/a.txt", b"1")
    copy = {"source": "a.txt", "destination": "b.txt"}

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        # Until one request has proved the app password, the others wait for it.
        await result(client, "tools/call", name="nc_files_list_folder", arguments={"path": ""})
        personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=2)
        reading = await result(client, "tools/call", **READ)
        changing = await result(client, "tools/call", name="nc_files_copy_item", arguments=copy)
        await until(lambda: not personal_app.sandbox.faults.active)
        await started(personal_app)
        done = await ended(client, reading["taskId"])
        failed = await ended(client, changing["taskId"], "failed")

    assert "one" in done["result"]["structuredContent"]["content"]
    assert failed["error"]["code"] == -32603
    assert "a part may be done" in failed["error"]["message"]
    assert failed["statusMessage"] == failed["error"]["message"]
    assert files(personal_app).find("/b.txt") is None


async def test_more_tasks_than_are_allowed_are_refused_in_words(personal_app: PersonalApp) -> None:
    await started(personal_app, **ALICE)
    files(personal_app).put("/a.txt", b"1")
    personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav")
    copy = {"name": "nc_files_copy_item", "arguments": {"source": "a.txt", "destination": "b.txt"}}

    async with wire_client(personal_app, StatelessClient, **TASKS) as client:
        tasks = [await result(client, "tools/call", **copy) for _ in range(5)]
        refused = await result(client, "tools/call", **copy)
        await result(client, "tasks/cancel", taskId=tasks[0]["taskId"])
        await until(lambda: not parts(personal_app).task_runner.holds(tasks[0]["taskId"]))
        another = await result(client, "tools/call", **copy)

    assert {task["resultType"] for task in [*tasks, another]} == {"task"}
    assert (refused["resultType"], refused["isError"]) == ("complete", True)
    assert refused["content"][0]["text"].startswith("5 tasks of this user are at work")
    assert refused["_meta"] == another["_meta"]


async def test_who_leaves_before_a_call_is_a_task_ends_it(personal_app: PersonalApp) -> None:
    await started(personal_app, grace=FOREVER_SECONDS, **ALICE)
    files(personal_app).put("/a.txt", b"1")
    personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)
    copy = {"name": "nc_files_copy_item", "arguments": {"source": "a.txt", "destination": "b.txt"}}

    async with (
        wire_client(personal_app, StatelessClient, **TASKS) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.request, "tools/call", copy)
        await until(lambda: not personal_app.sandbox.faults.active)
        group.cancel_scope.cancel()
    async with wire_client(personal_app, StatelessClient) as plain:
        answer = await result(plain, "tools/call", name="nc_files_list_folder", arguments={"path": ""})

    assert "a.txt" in str(answer)
    assert "b.txt" not in str(answer)


async def connected(app: PersonalApp, client: WireClient) -> None:
    """Connect alice, with the link that a client of this dialect opens."""
    async with app.person() as alice:
        asked = await result(client, "tools/call", **READ)
        await alice.allow(asked["inputRequests"]["provision"]["params"]["url"])
        answered = {
            "requestState": asked["requestState"],
            "inputResponses": {"provision": {"action": "accept"}},
        }
        await result(client, "tools/call", **READ, **answered)


async def lost_access(app: PersonalApp, client: WireClient) -> dict[str, Any]:
    """Start a reading whose app password is deleted in the middle; return the task when it asks for another."""
    app.sandbox.faults.slow(A_WHILE, area="dav", times=1)
    task = await result(client, "tools/call", **READ)
    app.sandbox.state.app_passwords.clear()
    return await polled(client, task["taskId"], lambda task: task["status"] == "input_required")


async def test_a_task_that_loses_its_access_asks_and_goes_on_when_the_page_is_done(
    personal_app: PersonalApp,
) -> None:
    await started(personal_app)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, StatelessClient, **TASKS, **URL_MODE) as client:
        await connected(personal_app, client)
        task = await lost_access(personal_app, client)
        (key,) = task["inputRequests"]
        question = task["inputRequests"][key]
        async with personal_app.person() as alice:
            await alice.allow(question["params"]["url"])
        done = await ended(client, task["taskId"])

    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
    assert "one" in done["result"]["structuredContent"]["content"]


async def test_a_task_whose_question_is_declined_ends_in_words(personal_app: PersonalApp) -> None:
    await started(personal_app)
    parts(personal_app).task_runner.renew_seconds = 0.02
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, StatelessClient, **TASKS, **URL_MODE) as client:
        await connected(personal_app, client)
        task = await lost_access(personal_app, client)
        (key,) = task["inputRequests"]
        ignored = {"inputResponses": {"never-asked": {"action": "decline"}}, "taskId": task["taskId"]}
        first = await result(client, "tasks/update", **ignored)
        still = await result(client, "tasks/get", taskId=task["taskId"])
        malformed = await client.request(
            "tasks/update", {**ignored, "inputResponses": {key: {"action": "maybe"}}}
        )
        personal_app.pass_seconds(60)
        await result(
            client, "tasks/update", taskId=task["taskId"], inputResponses={key: {"action": "decline"}}
        )
        done = await ended(client, task["taskId"])

    assert first == {"resultType": "complete", "_meta": task["_meta"]}
    assert still["status"] == "input_required"
    assert malformed["error"]["code"] == -32602
    assert done["result"]["isError"]
    assert "the user declined" in done["result"]["content"][0]["text"]


async def test_a_disconnect_ends_the_tasks_and_deletes_their_results(personal_app: PersonalApp) -> None:
    await started(personal_app)
    parts(personal_app).task_runner.renew_seconds = 0.02
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, StatelessClient, **TASKS, **URL_MODE) as client:
        await connected(personal_app, client)
        personal_app.sandbox.faults.slow(A_WHILE, area="dav", times=1)
        ended_one = await result(client, "tools/call", **READ)
        await ended(client, ended_one["taskId"])
        personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)
        running = await result(client, "tools/call", **READ)
        await result(client, "tools/call", name="revoke_nextcloud_access", arguments={})
        await until(lambda: not parts(personal_app).task_runner.holds(running["taskId"]))
        answers = [
            await client.request("tasks/get", {"taskId": task_id})
            for task_id in (ended_one["taskId"], running["taskId"], "0" * 32)
        ]

    errors = [answer["error"] for answer in answers]
    assert errors == [{"code": -32602, "message": "Task not found"}] * 3


async def test_a_client_of_2025_11_25_asks_for_a_task_and_fetches_its_result(
    personal_app: PersonalApp,
) -> None:
    await started(personal_app, **ALICE)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, HandshakeClient) as client:
        capabilities = (await client.open())["capabilities"]
        task = (await result(client, "tools/call", **READ, task={"ttl": 120_000}))["task"]
        fetched = await result(client, "tasks/result", taskId=task["taskId"])
        found = await result(client, "tasks/get", taskId=task["taskId"])
        itself = await result(client, "tools/call", **READ)
        too_late = await client.request("tasks/cancel", {"taskId": task["taskId"]})
        not_long = await client.request(
            "tools/call", {"name": "nc_files_get_info", "arguments": {"path": "/"}, "task": {}}
        )

    assert capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 120_000, 2_000)
    related = {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
    assert fetched == {**itself, "_meta": {**itself.get("_meta", {}), **related}}
    assert (found["status"], found["ttl"]) == ("completed", 120_000)
    assert too_late["error"]["code"] == -32602
    assert not_long["error"]["code"] == -32601


async def test_a_task_of_2025_11_25_whose_tool_failed_has_failed(personal_app: PersonalApp) -> None:
    await started(personal_app, **ALICE)
    read = {**READ, "arguments": {"path": "nowhere.pdf"}}

    async with wire_client(personal_app, HandshakeClient) as client:
        task = (await result(client, "tools/call", **read, task={}))["task"]
        fetched = await result(client, "tasks/result", taskId=task["taskId"])
        found = await result(client, "tasks/get", taskId=task["taskId"])

    assert fetched["isError"]
    assert found["status"] == "failed"


async def test_a_task_of_2025_11_25_is_cancelled_before_the_answer(personal_app: PersonalApp) -> None:
    await started(personal_app, **ALICE)
    personal_app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)

    async with wire_client(personal_app, HandshakeClient) as client:
        task = (await result(client, "tools/call", **READ, task={}))["task"]
        cancelled = await result(client, "tasks/cancel", taskId=task["taskId"])
        fetched = await client.request("tasks/result", {"taskId": task["taskId"]})

    assert cancelled["status"] == "cancelled"
    assert fetched["error"]["message"] == "The task was cancelled."


async def test_a_missing_consent_is_asked_for_before_a_task_of_2025_11_25(personal_app: PersonalApp) -> None:
    await started(personal_app)
    files(personal_app).put("/Plan.pdf", pdf(["one"]))

    async with wire_client(personal_app, HandshakeClient, **URL_MODE) as client:
        asked = await client.request("tools/call", {**READ, "task": {}})
        async with personal_app.person() as alice:
            await alice.allow(asked["error"]["data"]["elicitations"][0]["url"])
        task = (await result(client, "tools/call", **READ, task={}))["task"]
        fetched = await result(client, "tasks/result", taskId=task["taskId"])

    assert asked["error"]["code"] == -32042
    assert "one" in fetched["structuredContent"]["content"]
