"""What the bridge sends before the handshake with the chat client is over: its answer, and nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.bridge_app import open_bridge
from tests.integration.stdio_app import CLIENT_INFO

pytestmark = [pytest.mark.process, pytest.mark.anyio]

#: It says that its tools changed, and asks for the folders, as soon as its own handshake is over.
EAGER = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {"name": "eager", "version": "1"}
        send(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info})
    elif message.get("method") == "notifications/initialized":
        for _ in range(2):
            send(method="notifications/tools/list_changed")
        send(id="r", method="roots/list")
    elif "method" in message and "id" in message:
        send(id=message["id"], result={"tools": []})
"""
INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {}},
    "clientInfo": CLIENT_INFO,
}


@pytest.fixture
def eager(tmp_path: Path) -> Path:
    file = tmp_path / "mcp.toml"
    entry = f"[server.eager]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', EAGER])}\n"
    file.write_text(entry, encoding="utf-8")
    return file


@pytest.mark.parametrize("says_so", [True, False])
async def test_changes_and_questions_wait_for_the_end_of_the_handshake(
    tmp_path: Path, eager: Path, *, says_so: bool
) -> None:
    async with open_bridge(tmp_path / "data", "--config", str(eager), opened=False) as bridge:
        chat = bridge.chat
        chat.replies["roots/list"] = {"roots": []}
        await chat.request("initialize", INITIALIZE)
        # A ping comes later than whatever was sent before it.
        await anyio.sleep(0.5)
        await chat.request("ping", {})
        before = (list(chat.notices), list(chat.asked))
        if says_so:
            await chat.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            await chat.request("tools/list", {})
        await chat.notice("notifications/tools/list_changed")
        with anyio.fail_after(30):
            while not chat.asked:
                await chat.read()

    assert before == ([], [])
    assert [one["method"] for one in chat.notices] == ["notifications/tools/list_changed"]
