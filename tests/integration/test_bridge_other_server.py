"""The bridge between chat clients and a server of either era that was not written with the SDK."""

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

ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])
CLIENTS = pytest.mark.parametrize("modern", [False, True], ids=["handshake-client", "modern-client"])
META_OF_THE_ERA = "io.modelcontextprotocol/"
PAGE = "https://consent.example.org/page?x=1"


@asynccontextmanager
async def before(
    folder: Path,
    era: str,
    *more: str,
    servers: tuple[str, ...] = ("other",),
    arguments: tuple[str, ...] = (),
    **options: Any,  # noqa: ANN401 - passed on
) -> AsyncGenerator[BridgeApp]:
    """Start a bridge before servers of one era."""
    lines = [
        f"[server.{name}]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {json.dumps([str(ROOT / 'tests' / 'other_server.py'), era, name])}\n"
        "sampling_enabled = true\n"
        for name in servers
    ]
    file = folder / "mcp.toml"
    file.write_text("\n".join([*lines, *more]), encoding="utf-8")
    async with open_bridge(folder / "data", "--config", str(file), *arguments, **options) as bridge:
        yield bridge


def received(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the server got, without what an era adds."""
    params = answer["result"]["structuredContent"]["received"]
    meta = {
        key: value for key, value in params.pop("_meta", {}).items() if not key.startswith(META_OF_THE_ERA)
    }
    return params | ({"_meta": meta} if meta else {})


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


def still_there(pids: list[str]) -> list[str]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def test_the_handshake_is_the_servers_own(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake", opened=False) as bridge:
        result = await bridge.chat.open({}, version="2025-06-18")

    assert result["protocolVersion"] == "2025-06-18"
    assert result["serverInfo"] == {"name": "other", "version": "7", "x-future": {"kept": [1, 2.5, None]}}
    assert result["capabilities"]["x-future"] == {"deep": {"er": True}}
    assert result["x-more"] == "kept"


async def test_the_discovery_is_the_servers_own(tmp_path: Path) -> None:
    async with before(tmp_path, "modern", modern=True) as bridge:
        result = (await bridge.chat.request("server/discover", {}))["result"]

    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["x-future"] == {"kept": [1, 2.5, None]}


@ERAS
@CLIENTS
async def test_what_the_bridge_does_not_know_passes_as_it_is(
    tmp_path: Path, era: str, *, modern: bool
) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        listed = await bridge.chat.request("tools/list", {})
        sent = {
            "name": "echo",
            "arguments": {"n": 1.0, "b": None, "ü": ["\u2028"]},
            "x": {},
            "_meta": {"o/k": 1},
        }
        answer = await bridge.chat.request("tools/call", sent)
        unknown = await bridge.chat.request("x/unknown", {"f": [None]})

    assert listed["result"]["tools"][0]["_meta"] == {"example.org/any": {"a": 1}}
    assert answer["result"]["x-more"] == [None, 1.0]
    assert answer["result"]["content"][0]["annotations"] == {"x": 1}
    assert received(answer) == sent
    assert unknown["result"]["echo"]["f"] == [None]


@ERAS
@CLIENTS
async def test_errors_pass_as_they_are(tmp_path: Path, era: str, *, modern: bool) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        failed = await bridge.chat.call("fail")
        unknown = await bridge.chat.request("y/unknown", {})

    assert failed["error"] == {"code": -32000, "message": "Nothing works", "data": {"why": ["no", "reason"]}}
    assert unknown["error"] == {"code": -32601, "message": "No such method: y/unknown", "data": {"x": "kept"}}


@ERAS
@CLIENTS
async def test_progress_passes_as_it_is_and_before_the_result(
    tmp_path: Path, era: str, *, modern: bool
) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        answer = await bridge.chat.request("tools/call", {"name": "slow", "_meta": {"progressToken": "t"}})

    assert "result" in answer
    steps = [one["params"] for one in bridge.chat.notices]
    assert [(one["progressToken"], one["progress"], one["total"]) for one in steps] == [
        ("t", 1, 3),
        ("t", 2, 3),
        ("t", 3, 3),
    ]
    assert all("x" in one for one in steps)


@ERAS
@CLIENTS
async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path, era: str, *, modern: bool) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        meta = {"progressToken": "t"}
        call = await bridge.chat.send(
            "tools/call", {"name": "slow", "arguments": {"pause": 60}, "_meta": meta}
        )
        await bridge.chat.notice("notifications/progress")
        await bridge.chat.write(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
        )
        answer = await bridge.chat.call("cancelled")

    assert answer["result"]["structuredContent"] == {"cancelled": 1}


@ERAS
async def test_a_chat_client_is_asked_what_it_can_answer(tmp_path: Path, era: str) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    async with before(tmp_path, era, capabilities=capabilities, version="2025-11-25") as bridge:
        chat = bridge.chat
        chat.replies = {
            "elicitation/create": {"action": "accept", "content": {"color": "red"}},
            "sampling/createMessage": {"role": "assistant", "content": {}, "model": "m", "x": 1},
            "roots/list": {"roots": [{"uri": "file:///x"}]},
        }
        answers = [
            (await chat.call(name))["result"]["structuredContent"]["answer"]
            for name in ("form", "model", "roots")
        ]

    assert answers == list(chat.replies.values())
    assert [one["method"] for one in chat.asked] == list(chat.replies)
    assert chat.asked[0]["params"]["requestedSchema"]["x-more"] == 1


@ERAS
@CLIENTS
async def test_a_form_is_declined_for_a_chat_client_without_forms(
    tmp_path: Path, era: str, *, modern: bool
) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        answer = await bridge.chat.call("form")

    assert answer["result"]["structuredContent"]["answer"] == {"action": "decline"}
    assert "asked for input ('Which color?')" in bridge.said


@ERAS
@CLIENTS
async def test_consent_is_waited_for_in_place_of_the_chat_client(
    tmp_path: Path, era: str, *, modern: bool
) -> None:
    async with before(tmp_path, era, modern=modern) as bridge:
        answer = await bridge.chat.call("page", {"a": 1})

    assert "error" not in answer
    assert answer["result"].get("resultType", "complete") == "complete"
    assert bridge.links == [PAGE]


@ERAS
async def test_a_server_that_asks_in_the_middle_of_a_call_gets_its_answer(tmp_path: Path, era: str) -> None:
    async with before(tmp_path, era) as bridge:
        answer = await bridge.chat.call("url_request")

    assert answer["result"]["structuredContent"]["answer"] == {"action": "accept"}
    assert bridge.links == [PAGE]


async def test_a_chat_client_that_shows_pages_gets_the_error_itself(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
    async with before(tmp_path, "handshake", capabilities=capabilities, version="2025-11-25") as bridge:
        answer = await bridge.chat.call("page")
        done = await bridge.chat.notice("notifications/elicitation/complete")
        again = await bridge.chat.call("page")

    assert answer["error"]["code"] == -32042
    assert answer["error"]["data"]["elicitations"][0]["url"] == PAGE
    assert done["params"] == {"elicitationId": "e-1"}
    assert again["result"]["structuredContent"]["answer"] == "finished"
    assert bridge.links == []


async def test_a_chat_client_that_shows_pages_gets_the_input_request_itself(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
    async with before(tmp_path, "modern", capabilities=capabilities, modern=True) as bridge:
        answer = await bridge.chat.call("page")
        params = {"name": "page", "requestState": "state", "inputResponses": {"k": {"action": "accept"}}}
        again = await bridge.chat.request("tools/call", params)

    assert answer["result"]["resultType"] == "input_required"
    assert again["result"]["structuredContent"]["answer"] == {"action": "accept"}
    assert bridge.links == []


async def test_a_chat_client_of_the_handshake_era_shows_the_page_of_a_modern_server(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
    async with before(tmp_path, "modern", capabilities=capabilities, version="2025-11-25") as bridge:
        bridge.chat.replies = {"elicitation/create": {"action": "accept"}}
        answer = await bridge.chat.call("page")

    assert answer["result"]["structuredContent"]["answer"] == {"action": "accept"}
    assert bridge.chat.asked[0]["params"]["url"] == PAGE
    assert bridge.links == []


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_handshake_client_hears_of_changes(tmp_path: Path, era: str) -> None:
    async with before(tmp_path, era) as bridge:
        chat = bridge.chat
        await chat.request("resources/subscribe", {"uri": "mem://one"})
        with anyio.fail_after(30):
            while not [one for one in chat.notices if one["method"] == "notifications/resources/updated"]:
                await chat.call("touch")
        updated = await chat.notice("notifications/resources/updated")
        await chat.notice("notifications/tools/list_changed")

    assert updated["params"] == {"uri": "mem://one"}


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_modern_client_hears_of_changes(tmp_path: Path, era: str) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["mem://one"]}
    async with before(tmp_path, era, modern=True) as bridge:
        chat = bridge.chat
        await chat.request("server/discover", {})
        listen = await chat.send("subscriptions/listen", {"notifications": wanted})
        acknowledged = await chat.notice("notifications/subscriptions/acknowledged")
        with anyio.fail_after(30):
            while not [one for one in chat.notices if one["method"] == "notifications/resources/updated"]:
                await chat.call("touch")
        updated = await chat.notice("notifications/resources/updated")
        changed = await chat.notice("notifications/tools/list_changed")

    stamp = {"io.modelcontextprotocol/subscriptionId": listen}
    assert acknowledged["params"] == {"notifications": wanted, "_meta": stamp}
    assert updated["params"] == {"uri": "mem://one", "_meta": stamp}
    assert changed["params"] == {"_meta": stamp}


async def test_several_servers_are_told_apart_by_their_names(tmp_path: Path) -> None:
    broken = '[server.broken]\ncommand = "/does/not/exist"\n'
    async with before(tmp_path, "handshake", broken, servers=("a", "b"), opened=False) as bridge:
        chat = bridge.chat
        hello = await chat.open({})
        tools = (await chat.request("tools/list", {}))["result"]["tools"]
        called = await chat.call("b__echo", {"x": 1})
        resources = (await chat.request("resources/list", {}))["result"]["resources"]
        read = await chat.request("resources/read", {"uri": "@b:mem://one"})
        prompt = await chat.request("prompts/get", {"name": "a__greet", "arguments": {"who": "Bo"}})
        ref = {"type": "ref/resource", "uri": "@a:mem://{id}"}
        completed = await chat.request(
            "completion/complete", {"ref": ref, "argument": {"name": "id", "value": ""}}
        )
        nobody = await chat.call("c__echo")
        await chat.request("logging/setLevel", {"level": "info"})
        await chat.call("a__log")
        logged = await chat.notice("notifications/message")

    assert hello["serverInfo"]["name"] == "nextcloud-mcp-server-bridge"
    assert hello["instructions"] == "Instructions of a.\n\nInstructions of b."
    assert {tool["name"] for tool in tools} >= {"a__echo", "b__echo", "a__slow"}
    assert received(called) == {"name": "echo", "arguments": {"x": 1}}
    assert called["result"]["content"][1]["uri"] == "@b:mem://one"
    assert [one["uri"] for one in resources] == ["@a:mem://one", "@b:mem://one"]
    assert read["result"]["contents"] == [{"uri": "@b:mem://one", "text": "b: mem://one"}]
    assert prompt["result"]["messages"][0]["content"]["text"] == "Greet Bo"
    assert json.loads(completed["result"]["completion"]["values"][0])["uri"] == "mem://{id}"
    assert (
        nobody["error"]["message"] == "tools/call names none of the servers behind this bridge: a, b, broken."
    )
    assert logged["params"] == {"level": "info", "logger": "a/own", "data": {"level": "info"}}
    assert "“broken” cannot be used" in bridge.said


async def test_a_server_that_ends_in_a_call_is_started_again(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake") as bridge:
        lost = await bridge.chat.call("die")
        again = await bridge.chat.call("echo")

    assert lost["error"]["message"] == (
        'The server “other” went away during this call (MCP transport error: the server "other" ended with exit code '
        "3: It is over). It is connected again with the next call: check what was done, then call again."
    )
    assert "result" in again


async def test_a_call_that_waits_too_long_ends_with_the_link(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake", arguments=("--consent-seconds=1",)) as bridge:
        answer = await bridge.chat.call("page", {"never": True})

    text = answer["result"]["content"][0]["text"]
    assert answer["result"]["isError"]
    assert text.startswith("The user did not finish in the browser within 1 min, so nothing was done.")
    assert f"\n\n{PAGE}\n\n" in text


async def test_a_call_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake") as bridge:
        chat = bridge.chat
        params = {"name": "page", "arguments": {"never": True}, "_meta": {"progressToken": 1}}
        call = await chat.send("tools/call", params)
        waiting = await chat.notice("notifications/progress")
        await chat.write(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
        )
        answer = await chat.call("echo")

    assert "result" in answer
    assert waiting["params"]["message"].startswith(
        "Waiting for you in the browser, at consent.example.org. Cancel"
    )


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://a.example/$(id)",
        "https://u:p@a.example/",
        "x",
        "",
    ],
)
async def test_a_hostile_page_is_opened_nowhere(tmp_path: Path, url: str) -> None:
    async with before(tmp_path, "handshake") as bridge:
        answer = await bridge.chat.call("hostile", {"url": url})

    assert answer["result"]["content"][0]["text"] == (
        "The server “other” asked to open something that is not a web page. It was not opened, and nothing was done."
    )
    assert bridge.links == []


async def test_a_careful_chat_client_is_asked_before_a_page_is_opened(tmp_path: Path) -> None:
    capabilities: dict[str, Any] = {"elicitation": {}}
    async with before(tmp_path, "handshake", capabilities=capabilities) as bridge:
        bridge.chat.replies = {"elicitation/create": {"action": "decline"}}
        declined = await bridge.chat.call("page")
        bridge.chat.replies = {"elicitation/create": {"action": "accept", "content": {"open": True}}}
        allowed = await bridge.chat.call("page")

    assert declined["result"]["content"][0]["text"] == "The user declined, so nothing was done."
    assert allowed["result"]["structuredContent"]["answer"] == "finished"
    assert PAGE in bridge.chat.asked[0]["params"]["message"]
    assert bridge.links == [PAGE]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists the children of a process")
async def test_nothing_is_left_when_the_chat_client_goes(tmp_path: Path) -> None:
    async with before(tmp_path, "handshake", servers=("a", "b")) as bridge:
        await bridge.chat.request("tools/list", {})
        await bridge.chat.send("tools/call", {"name": "a__slow", "arguments": {"pause": 60}})
        pid = bridge.chat.process.pid
        children = children_of(pid)
        assert len(children) == 2
    assert still_there(children) == []
