"""What a chat client and its user see of a consent, where a server asks in an unusual way or options change it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from nextcloud_mcp_server.settings.environment import child_environment
from tests.integration.personal_app import PersonalApp
from tests.integration.stdio_app import LIST, ROOT
from tests.integration.test_bridge_other_server import PAGE, before

pytestmark = pytest.mark.process


async def test_a_link_that_comes_again_as_text_means_that_it_is_not_done_yet(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake") as bridge:
        answer = await bridge.chat.call("text")

    assert answer["result"]["content"][0]["text"] == "Done"
    assert bridge.links == [PAGE]


async def test_a_call_that_is_held_begins_anew_before_a_client_would_give_it_up(tmp_path: Path) -> None:
    """The SDK's client makes ten rounds at most, and servers hold a call no longer."""
    async with before(tmp_path, "modern", modern=True) as bridge:
        answer = await bridge.chat.call("held")

    assert answer["result"]["structuredContent"] == {"rounds": [6, 1]}
    assert bridge.links == [PAGE]


async def test_with_yes_a_page_is_opened_without_a_question(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {}}
    async with before(tmp_path, "handshake", arguments=("--yes",), capabilities=capabilities) as bridge:
        answer = await bridge.chat.call("page")

    assert answer["result"]["structuredContent"]["answer"] == "finished"
    assert bridge.chat.asked == []
    assert bridge.links == [PAGE]


async def test_with_ask_no_page_is_opened_for_a_chat_client_that_cannot_be_asked(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake", arguments=("--ask",)) as bridge:
        answer = await bridge.chat.call("page")

    assert answer["result"]["isError"] is True
    assert f"\n\n{PAGE}\n\n" in answer["result"]["content"][0]["text"]
    assert bridge.links == []


@pytest.mark.skipif(sys.platform != "linux", reason="only there a desktop can be hidden from the command")
@pytest.mark.parametrize("dialect", ["auto", "2025-11-25"])
async def test_a_call_at_the_command_line_waits_for_the_consent_and_is_repeated(
    personal_app: PersonalApp, tmp_path: Path, dialect: str
) -> None:
    await personal_app.stop()
    await personal_app.start(elicitation_dialect=dialect)
    file, log = tmp_path / "settings.toml", tmp_path / "log"
    headers = json.dumps(f"Bearer {personal_app.secret}")
    await anyio.Path(file).write_text(
        f'[mcp_servers.nc]\ntype = "http"\nurl = "{personal_app.url}/mcp"\n'
        f"headers = {{ Authorization = {headers} }}\n",
        encoding="utf-8",
    )
    words = ["client", "--config", str(file), "call", "nc", LIST, "--yes", "--json"]
    command = [sys.executable, "-m", "nextcloud_mcp_server", *words]
    # Without a desktop nothing is opened; the link is printed all the same.
    env = child_environment({"PYTHONPATH": str(ROOT), "BROWSER": "", "DISPLAY": ""})
    with log.open("wb") as stderr, anyio.fail_after(120):
        async with (
            personal_app.person() as alice,
            await anyio.open_process(command, stderr=stderr, env=env, cwd=tmp_path) as process,
        ):
            while not (found := re.search(r"^  (https?://\S+)$", log.read_text(), re.MULTILINE)):  # noqa: ASYNC110 - another process gives no event
                await anyio.sleep(0.05)
            await alice.allow(found[1])
            assert process.stdout is not None
            printed = b"".join([part async for part in process.stdout])
            await process.wait()

    assert process.returncode == 0, log.read_text()
    assert "Shopping list" in json.dumps(json.loads(printed)["structuredContent"])
