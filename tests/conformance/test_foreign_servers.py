"""The client and the bridge before servers that were not written here, over stdio, Streamable HTTP and HTTP+SSE."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.bridge.configuration import Paths, load
from nextcloud_mcp_server.bridge.connection import connect
from tests.conformance.foreign_servers import SERVERS, TRANSPORTS, Foreign, Transport, configured
from tests.integration.bridge_app import BridgeApp, open_bridge

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=[(name, one) for name in SERVERS for one in TRANSPORTS], ids="-".join)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Start a server, and write its configuration."""
    name: str
    transport: Transport
    name, transport = request.param
    with configured(name, transport, tmp_path_factory.mktemp(f"{name}-{transport}")) as file:
        yield name, file


@pytest.fixture
def name(place: tuple[str, Path]) -> str:
    return place[0]


@pytest.fixture
def settings(place: tuple[str, Path]) -> Path:
    return place[1]


@pytest.fixture
def foreign(name: str) -> Foreign:
    return SERVERS[name]


def client(settings: Path, *words: str) -> tuple[int, Any]:
    """Run a command of `client`; the answer is its exit code and its JSON."""
    outcome = CliRunner().invoke(cli.app, ["client", "--config", str(settings), *words, "--json"])
    assert outcome.stdout, outcome.stderr
    return outcome.exit_code, json.loads(outcome.stdout)


def test_the_client_finds_and_calls_what_the_server_has(settings: Path, name: str, foreign: Foreign) -> None:
    tool, arguments, text = foreign.call
    failing, wrong, reason = foreign.failing
    uri, part = foreign.resource
    prompt, given, words = foreign.prompt
    values = [f"{key}={value}" for key, value in given.items()]

    state = client(settings, "list")[1]
    tools = client(settings, "tools")[1]
    called = client(settings, "call", name, tool, "--arguments", json.dumps(arguments))
    failed = client(settings, "call", name, failing, "--arguments", json.dumps(wrong))
    read = client(settings, "read", name, uri)
    fetched = client(settings, "prompt", name, prompt, *values)
    found = client(settings, "doctor")

    assert [(one["id"], one["state"]) for one in state] == [(name, "Connected")]
    assert tool in [one["name"] for one in tools]
    assert (called[0], called[1]["content"][0]["text"]) == (0, text)
    assert failed[0] == 3
    assert reason in json.dumps(failed[1])
    assert part in read[1][0]["text"]
    assert words in fetched[1]["messages"][0]["content"]["text"]
    assert [one["verdict"] for one in found[1] if one["verdict"] == "fail"] == []


async def test_the_client_hears_of_progress(
    settings: Path, name: str, foreign: Foreign, tmp_path: Path
) -> None:
    tool, arguments, steps = foreign.slow
    server = load(Paths(tmp_path, tmp_path, (settings,)), {}).server(name)
    assert server is not None
    heard: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        heard.append(progress)

    with anyio.fail_after(120):
        async with connect(server) as connection:
            await connection.ping()
            result = await connection.call_tool(tool, dict(arguments), progress=note)

    assert not result.is_error
    assert heard == list(range(1, steps + 1))


async def before(bridge: BridgeApp, foreign: Foreign) -> None:
    """Let a chat client use everything of a server behind the bridge."""
    chat = bridge.chat
    tool, arguments, text = foreign.call
    failing, wrong, reason = foreign.failing
    slow, patience, steps = foreign.slow
    form, content, filled = foreign.form
    uri, part = foreign.resource
    prompt, given, words = foreign.prompt
    chat.replies = {"elicitation/create": {"action": "accept", "content": dict(content)}}

    tools = (await chat.request("tools/list", {}))["result"]["tools"]
    called = await chat.call(tool, dict(arguments))
    failed = await chat.call(failing, dict(wrong))
    meta = {"progressToken": "p"}
    await chat.request("tools/call", {"name": slow, "arguments": dict(patience), "_meta": meta})
    asked = await chat.call(form)
    read = await chat.request("resources/read", {"uri": uri})
    fetched = await chat.request("prompts/get", {"name": prompt, "arguments": dict(given)})

    assert tool in [one["name"] for one in tools]
    assert called["result"]["content"][0]["text"] == text
    assert reason in json.dumps(failed)
    told = [one["params"] for one in chat.notices if one["method"] == "notifications/progress"]
    assert [(one["progressToken"], one["progress"]) for one in told] == [
        ("p", step) for step in range(1, steps + 1)
    ]
    assert filled in json.dumps(asked["result"])
    assert [one["method"] for one in chat.asked] == ["elicitation/create"]
    assert part in read["result"]["contents"][0]["text"]
    assert words in fetched["result"]["messages"][0]["content"]["text"]


async def test_a_chat_client_uses_the_server_through_the_bridge(
    settings: Path, foreign: Foreign, tmp_path: Path
) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
    async with open_bridge(
        tmp_path / "data", "--config", str(settings), capabilities=capabilities, version="2025-11-25"
    ) as bridge:
        await before(bridge, foreign)


async def test_a_chat_client_of_the_new_protocol_uses_the_server_through_the_bridge(
    settings: Path, foreign: Foreign, tmp_path: Path
) -> None:
    tool, arguments, text = foreign.call
    async with open_bridge(tmp_path / "data", "--config", str(settings), modern=True) as bridge:
        found = await bridge.chat.request("server/discover", {})
        called = await bridge.chat.call(tool, dict(arguments))

    assert "2026-07-28" in found["result"]["supportedVersions"]
    assert called["result"]["content"][0]["text"] == text
    assert called["result"]["resultType"] == "complete"
