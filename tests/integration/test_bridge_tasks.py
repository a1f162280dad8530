"""Tasks through the bridge, before servers that share no code with the SDK."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.bridge_app import BridgeApp, open_bridge
from tests.integration.stdio_app import ROOT

pytestmark = pytest.mark.process

FORMS = pytest.mark.parametrize("form", ["core", "extension"])
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
FORM: dict[str, Any] = {
    "mode": "form",
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {}},
}
PAGE: dict[str, Any] = {
    "mode": "url",
    "message": "Allow it",
    "url": "https://consent.example.org/task",
    "elicitationId": "e-1",
}
DONE = [{"type": "text", "text": "All done."}]


@asynccontextmanager
async def before(
    folder: Path,
    *forms: str,
    **options: Any,  # noqa: ANN401 - passed on
) -> AsyncGenerator[BridgeApp]:
    """Start a bridge before a server of each form; each is named by its form."""
    program = str(ROOT / "tests" / "task_server.py")
    file = folder / "mcp.toml"
    file.write_text(
        "\n".join(
            f"[server.{form}]\ncommand = {json.dumps(sys.executable)}\n"
            f"args = {json.dumps([program, form, str(folder / form)])}\n"
            for form in forms
        ),
        encoding="utf-8",
    )
    async with open_bridge(folder / "data", "--config", str(file), **options) as bridge:
        yield bridge


def requests(folder: Path, form: str, method: str) -> list[dict[str, Any]]:
    """Return the parameters of the requests of a method that a server got."""
    lines = (folder / form).read_text(encoding="utf-8").splitlines()
    return [
        one["params"] for one in map(json.loads, lines) if one.get("method") == method and "params" in one
    ]


async def task_of(
    bridge: BridgeApp, tool: str = "run", *, more: dict[str, Any] | None = None, **script: object
) -> dict[str, Any]:
    return await bridge.chat.request("tools/call", {"name": tool, "arguments": script, **(more or {})})


async def until(folder: Path, form: str, method: str) -> None:
    """Wait until a server got a request of a method."""
    with anyio.fail_after(60):
        while not requests(folder, form, method):  # noqa: ASYNC110 - another process gives no event
            await anyio.sleep(0.02)


@FORMS
async def test_a_chat_client_without_tasks_sees_one_slow_call(tmp_path: Path, form: str) -> None:
    states = ["working", {"status": "working", "statusMessage": "Half of it"}, "completed"]
    async with before(tmp_path, form) as bridge:
        listed = await bridge.chat.request("tools/list", {})
        answer = await task_of(bridge, "must", states=states, more={"_meta": {"progressToken": "t"}})

    assert answer["result"]["content"] == DONE
    assert "_meta" not in answer["result"]
    assert len(requests(tmp_path, form, "tasks/get")) == 3
    # To a client that knows the word without having tasks, the tool would be of no use.
    support = {tool["name"]: tool["execution"]["taskSupport"] for tool in listed["result"]["tools"]}
    assert support["must"] == ("optional" if form == "core" else "required")
    steps = [one["params"] for one in bridge.chat.notices if one["method"] == "notifications/progress"]
    assert steps[0]["message"] == f"“{form}” runs the call as a task."


async def test_a_tool_that_was_never_listed_is_called_as_a_task_if_it_must(tmp_path: Path) -> None:
    async with before(tmp_path, "core") as bridge:
        answer = await task_of(bridge, "must")
        unknown = await bridge.chat.request("tools/call", {"name": "run", "arguments": {"error": None}})

    assert answer["result"]["content"] == DONE
    assert [("task" in call) for call in requests(tmp_path, "core", "tools/call")] == [False, True, False]
    assert unknown["result"]["content"][0]["text"].startswith("At once")


async def test_a_modern_chat_client_without_tasks_gets_one_where_the_server_needs_it(tmp_path: Path) -> None:
    async with before(tmp_path, "extension", modern=True) as bridge:
        at_once = await task_of(bridge, "run")
        slow = await task_of(bridge, "must")

    assert at_once["result"]["content"][0]["text"].startswith("At once")
    assert slow["result"]["content"] == DONE
    assert slow["result"]["resultType"] == "complete"


@FORMS
async def test_the_chat_client_cancels_the_task_with_its_call(tmp_path: Path, form: str) -> None:
    async with before(tmp_path, form) as bridge:
        await bridge.chat.request("tools/list", {})
        call = await bridge.chat.send("tools/call", {"name": "must", "arguments": {"states": ["working"]}})
        await until(tmp_path, form, "tasks/get")
        await bridge.chat.write(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
        )
        await until(tmp_path, form, "tasks/cancel")

    assert [one["taskId"] for one in requests(tmp_path, form, "tasks/cancel")] == ["task-1"]


@FORMS
async def test_what_a_task_asks_goes_to_the_chat_client(tmp_path: Path, form: str) -> None:
    script: dict[str, Any] = {"states": ["input_required", "working", "completed"], "ask": FORM}
    async with before(tmp_path, form, capabilities={"elicitation": {}}) as bridge:
        bridge.chat.replies["elicitation/create"] = {"action": "accept", "content": {"a": 1}}
        await bridge.chat.request("tools/list", {})
        answer = await task_of(bridge, "must", **script)

    assert answer["result"]["structuredContent"]["k1"] == {"action": "accept", "content": {"a": 1}}
    assert len(bridge.chat.asked) == 1


@FORMS
async def test_a_page_for_a_task_is_shown_by_the_bridge(tmp_path: Path, form: str) -> None:
    script: dict[str, Any] = {"states": ["input_required", "completed"], "ask": PAGE}
    async with before(tmp_path, form) as bridge:
        await bridge.chat.request("tools/list", {})
        answer = await task_of(bridge, "must", **script)

    assert answer["result"]["structuredContent"]["k1"] == {"action": "accept"}
    assert bridge.links == [PAGE["url"]]


@pytest.mark.parametrize("form", ["extension"])
async def test_a_page_that_nobody_can_open_ends_the_task(tmp_path: Path, form: str) -> None:
    script: dict[str, Any] = {"states": ["input_required", "completed"], "ask": PAGE}
    async with before(tmp_path, form, show="--no-browser") as bridge:
        answer = await task_of(bridge, "must", **script)

    assert answer["result"]["isError"] is True
    assert PAGE["url"] in answer["result"]["content"][0]["text"]
    assert len(requests(tmp_path, form, "tasks/cancel")) == 1


@FORMS
async def test_the_end_of_a_task_without_a_result_is_a_sentence(tmp_path: Path, form: str) -> None:
    async with before(tmp_path, form) as bridge:
        await bridge.chat.request("tools/list", {})
        failed = await task_of(
            bridge, "must", states=["failed"], error={"code": -32603, "message": "No luck"}
        )
        expired = await task_of(bridge, "must", gone=True)
        other = await task_of(bridge, "must", states=[{"taskId": "task-1"}])

    assert failed["error"] == {"code": -32603, "message": "No luck"}
    assert expired["result"]["isError"] is True
    assert "Task has expired" in expired["result"]["content"][0]["text"]
    assert "answered about task-1" in other["result"]["content"][0]["text"]


async def test_a_chat_client_with_tasks_watches_them_by_itself(tmp_path: Path) -> None:
    async with before(tmp_path, "core", version="2025-11-25") as bridge:
        made = await task_of(bridge, more={"task": {"ttl": 5000}}, states=["working"], hint_ms=200)
        task = made["result"]["task"]
        state = await bridge.chat.request("tasks/get", {"taskId": task["taskId"]})
        notice = await bridge.chat.notice("notifications/tasks/status")
        result = await bridge.chat.request("tasks/result", {"taskId": task["taskId"]})
        listed = await bridge.chat.request("tasks/list", {})

    assert requests(tmp_path, "core", "tools/call")[0]["task"] == {"ttl": 5000}
    assert (task["taskId"], state["result"]["status"]) == ("task-1", "working")
    assert (notice["params"]["taskId"], notice["params"]["status"]) == ("task-1", "completed")
    assert result["result"]["content"] == DONE
    assert [one["taskId"] for one in listed["result"]["tasks"]] == ["task-1"]


async def test_a_modern_chat_client_with_tasks_watches_them_by_itself(tmp_path: Path) -> None:
    async with before(tmp_path, "extension", modern=True, capabilities=TASKS) as bridge:
        found = await bridge.chat.request("server/discover", {})
        made = await task_of(bridge, states=["input_required", "completed"], ask=FORM)
        task_id = made["result"]["taskId"]
        asked = await bridge.chat.request("tasks/get", {"taskId": task_id})
        told = await bridge.chat.request(
            "tasks/update", {"taskId": task_id, "inputResponses": {"k1": {"action": "decline"}}}
        )
        with anyio.fail_after(60):
            while True:
                state = await bridge.chat.request("tasks/get", {"taskId": task_id})
                if state["result"]["status"] == "completed":
                    break

    assert found["result"]["capabilities"]["extensions"] == TASKS["extensions"]
    assert made["result"]["resultType"] == "task"
    assert asked["result"]["inputRequests"]["k1"]["method"] == "elicitation/create"
    assert told["result"]["resultType"] == "complete"
    assert state["result"]["result"]["structuredContent"] == {"k1": {"action": "decline"}}


async def test_tasks_of_several_servers_have_ids_of_their_own(tmp_path: Path) -> None:
    async with before(tmp_path, "extension", "core", version="2025-11-25") as bridge:
        found = await bridge.chat.request("tools/list", {})
        ask: dict[str, Any] = {"states": ["input_required", "completed"], "ask": FORM}
        made = await task_of(bridge, "core__run", more={"task": {}}, **ask)
        task_id = made["result"]["task"]["taskId"]
        state = await bridge.chat.request("tasks/get", {"taskId": task_id})
        bridge.chat.replies["elicitation/create"] = {"action": "decline"}
        result = await bridge.chat.request("tasks/result", {"taskId": task_id})
        other = await task_of(bridge, "extension__must", more={"task": {}})
        unknown = await bridge.chat.request("tasks/get", {"taskId": "task-1"})
        listed = await bridge.chat.request("tasks/list", {})

    assert {tool["name"] for tool in found["result"]["tools"]} >= {"core__must", "extension__must"}
    assert task_id == state["result"]["taskId"] == "core__task-1"
    related = "io.modelcontextprotocol/related-task"
    assert result["result"]["_meta"][related] == {"taskId": task_id}
    # The server asked, and its bridge has no form to show: this chat client declared none.
    assert result["result"]["structuredContent"] == {"k1": {"action": "decline"}}
    assert other["result"]["content"] == DONE
    assert unknown["error"]["code"] == -32602
    assert [one["taskId"] for one in listed["result"]["tasks"]] == [task_id]


async def test_notifications_about_tasks_of_several_modern_servers_are_told_apart(tmp_path: Path) -> None:
    async with before(tmp_path, "extension", "core", modern=True, capabilities=TASKS) as bridge:
        made = await task_of(bridge, "extension__run", states=["working"], hint_ms=1500)
        task_id = made["result"]["taskId"]
        listen = await bridge.chat.send("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        notice = await bridge.chat.notice("notifications/tasks")
        await bridge.chat.write(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": listen}}
        )

    assert task_id == notice["params"]["taskId"] == "extension__task-1"
    assert notice["params"]["result"]["content"] == DONE
    asked = requests(tmp_path, "extension", "subscriptions/listen")
    assert [one["notifications"] for one in asked] == [{"taskIds": ["task-1"]}]


async def test_the_bridge_ends_while_it_waits_for_a_task(tmp_path: Path) -> None:
    async with before(tmp_path, "core") as bridge:
        await bridge.chat.request("tools/list", {})
        await bridge.chat.send("tools/call", {"name": "must", "arguments": {"states": ["working"]}})
        await until(tmp_path, "core", "tasks/get")
        # The end of the block closes the input, and fails if the bridge does not end.
