"""Our client and bridge before the tasks of another implementation: the experimental ones of SDK 1.30."""

import json
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from nextcloud_mcp_server import cli
from tests.integration.bridge_app import BridgeApp, open_bridge

PROGRAM = str(Path(__file__).parent / "sdk_1_30" / "task_server.py")
WAYS = pytest.mark.parametrize("way", ["stdio", "http"])


@pytest.fixture
def settings(tmp_path: Path, way: str, python_1_30: Path) -> Iterator[Path]:
    """Write a configuration with the server over stdio, or over HTTP where it runs meanwhile."""
    file = tmp_path / "mcp.toml"
    command = [str(python_1_30), PROGRAM, way]
    rest = 'permissions = { allow = ["*"] }\n'
    if way == "stdio":
        file.write_text(
            f"[server.sdk]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n{rest}"
        )
        yield file
        return
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp/"
        file.write_text(f'[server.sdk]\ntype = "http"\nurl = "{url}"\n{rest}')
        try:
            yield file
        finally:
            process.kill()


def client(settings: Path, *words: str) -> Result:
    return CliRunner().invoke(cli.app, ["client", "--config", str(settings), *words])


@WAYS
def test_the_client_waits_for_tasks_of_sdk_1_30(settings: Path) -> None:
    done = client(settings, "call", "sdk", "count")
    optional = client(settings, "call", "sdk", "report", "--task")
    failed = client(settings, "call", "sdk", "break")
    asked = client(settings, "call", "sdk", "ask")
    endless = client(settings, "call", "sdk", "forever", "--timeout", "2")
    made = client(settings, "call", "sdk", "count", "--no-wait", "--json")

    assert (done.exit_code, done.stdout) == (0, "count is done.\n")
    # The tool says that it failed.
    assert (optional.exit_code, optional.stdout) == (3, "report is done.\n")
    assert (failed.exit_code, failed.stderr) == (3, "Error: MCP task error: out of memory\n")
    assert (asked.exit_code, asked.stdout) == (0, "cancel None\n")
    assert endless.exit_code == 6
    assert json.loads(made.stdout)["pollInterval"] == 500


@asynccontextmanager
async def bridged(settings: Path, **options: Any) -> AsyncGenerator[BridgeApp]:  # noqa: ANN401 - passed on
    folder = settings.parent / "data"
    async with open_bridge(folder, "--config", str(settings), **options) as bridge:
        yield bridge


async def call(bridge: BridgeApp, tool: str, **more: object) -> dict[str, Any]:
    answer = await bridge.chat.request("tools/call", {"name": tool, "arguments": {}, **more})
    return answer["result"]


@WAYS
async def test_the_bridge_waits_for_tasks_of_sdk_1_30(settings: Path) -> None:
    async with bridged(settings, capabilities={"elicitation": {}}) as bridge:
        bridge.chat.replies["elicitation/create"] = {"action": "accept", "content": {"color": "red"}}
        listed = await bridge.chat.request("tools/list", {})
        done = await call(bridge, "count", _meta={"progressToken": "t"})
        asked = await call(bridge, "ask")
        failed = await call(bridge, "break")
        optional = await call(bridge, "report")

    support = {tool["name"]: tool["execution"]["taskSupport"] for tool in listed["result"]["tools"]}
    assert (support["count"], support["now"]) == ("optional", "forbidden")
    assert done["content"][0]["text"] == "count is done."
    assert any(one["method"] == "notifications/progress" for one in bridge.chat.notices)
    assert asked["content"][0]["text"] == "accept {'color': 'red'}"
    assert failed["isError"] is True
    assert "out of memory" in failed["content"][0]["text"]
    assert optional["content"][0]["text"] == "report at once."


@WAYS
async def test_a_chat_client_watches_tasks_of_sdk_1_30_through_the_bridge(settings: Path) -> None:
    async with bridged(settings, version="2025-11-25", capabilities={"elicitation": {}}) as bridge:
        bridge.chat.replies["elicitation/create"] = {"action": "decline"}
        task = (await call(bridge, "ask", task={}))["task"]
        result = await bridge.chat.request("tasks/result", {"taskId": task["taskId"]})
        state = await bridge.chat.request("tasks/get", {"taskId": task["taskId"]})
        listed = await bridge.chat.request("tasks/list", {})
        endless = (await call(bridge, "forever", task={}))["task"]
        cancelled = await bridge.chat.request("tasks/cancel", {"taskId": endless["taskId"]})

    assert result["result"]["content"][0]["text"] == "decline None"
    assert state["result"]["status"] == "completed"
    assert [one["taskId"] for one in listed["result"]["tasks"]] == [task["taskId"]]
    assert cancelled["result"]["status"] == "cancelled"
    related = bridge.chat.asked[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"]
    assert related == {"taskId": task["taskId"]}
