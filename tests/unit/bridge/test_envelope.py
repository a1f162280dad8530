from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.bridge.envelope import (
    TRACK_EXTENSION,
    Agreement,
    Envelope,
    Hello,
    Message,
    for_chat,
    hello_of,
    offered,
    without_envelope,
)

PREFIX = "io.modelcontextprotocol/"
HANDSHAKE = Hello("2025-06-18", {}, {"name": "c"})
MODERN = Hello("2026-07-28", {}, {"name": "c"})
OLD, NEW = Agreement("2025-11-25", {}), Agreement("2026-07-28", {})


def test_a_handshake_describes_the_chat_client() -> None:
    hello = hello_of(
        "initialize", {"protocolVersion": "2024-11-05", "capabilities": {"roots": {}}, "clientInfo": {}}
    )

    assert hello is not None
    assert hello == Hello("2024-11-05", {"roots": {}}, {})
    assert hello.can("roots")
    assert not hello.can("sampling")


def test_an_unknown_version_of_a_handshake_gets_the_newest_of_its_era() -> None:
    hello = hello_of("initialize", {"protocolVersion": "2030-01-01"})

    assert hello is not None
    assert hello.version == "2025-11-25"


def test_an_unknown_version_in_an_envelope_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(MCPError) as caught:
        hello_of("tools/list", {"_meta": {f"{PREFIX}protocolVersion": "2030-01-01"}})

    assert caught.value.code == -32022
    assert "2026-07-28" in caught.value.error.data["supported"]


def test_a_request_without_either_describes_nobody() -> None:
    assert hello_of("tools/list", {"_meta": {"progressToken": 1}}) is None


@pytest.mark.parametrize(
    ("capability", "urls", "forms"),
    [
        (None, False, False),
        ({}, False, True),
        ({"form": {}}, False, True),
        ({"url": {}}, True, False),
        ({"form": {}, "url": {}}, True, True),
    ],
)
def test_an_empty_elicitation_means_forms(capability: Any, urls: bool, forms: bool) -> None:  # noqa: ANN401, FBT001 - a table
    hello = Hello("2025-11-25", {} if capability is None else {"elicitation": capability}, {})

    assert (hello.shows_urls, hello.shows_forms) == (urls, forms)


def test_a_request_of_the_same_era_passes_as_it_is() -> None:
    params = {"name": "t", "_meta": {"progressToken": 1, "x": None}}

    written, options = Envelope(OLD, HANDSHAKE, {}).write("tools/call", params)

    assert written == params
    assert options == {"headers": {"mcp-protocol-version": "2025-11-25"}}
    assert Envelope(OLD, HANDSHAKE, {}).write("ping", None)[0] is None


def test_a_request_for_a_modern_server_gets_an_envelope_and_headers() -> None:
    envelope = Envelope(NEW, HANDSHAKE, {"roots": {}}, log_level="info")
    envelope.learn(
        {
            "tools": [
                {
                    "name": "t",
                    "inputSchema": {"properties": {"r": {"type": "string", "x-mcp-header": "Region"}}},
                }
            ]
        }
    )

    written, options = envelope.write(
        "tools/call", {"name": "t", "arguments": {"r": "eu"}, "_meta": {"a": 1}}
    )

    assert written is not None
    assert written["_meta"] == {
        f"{PREFIX}protocolVersion": "2026-07-28",
        f"{PREFIX}clientInfo": {"name": "c"},
        f"{PREFIX}clientCapabilities": {"roots": {}, "extensions": {f"{PREFIX}tasks": {}}},
        f"{PREFIX}logLevel": "info",
        "a": 1,
    }
    assert options.get("headers") == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "t",
        "Mcp-Param-Region": "eu",
    }


def test_an_envelope_is_taken_off_for_an_older_server() -> None:
    meta: Message = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientInfo": {}, "progressToken": 1}

    assert without_envelope({"a": 1, "_meta": meta}) == {"a": 1, "_meta": {"progressToken": 1}}
    assert without_envelope({"a": 1, "_meta": {f"{PREFIX}clientInfo": {}}}) == {"a": 1}
    assert without_envelope(None) is None


def test_a_modern_chat_client_gets_what_its_version_requires() -> None:
    listed: Message = {"tools": [], "ttlMs": 5}

    assert for_chat("tools/list", listed, MODERN, OLD) == {
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "private",
        "tools": [],
    }
    assert for_chat("tools/call", {"content": []}, MODERN, OLD) == {"resultType": "complete", "content": []}
    assert for_chat("tools/list", listed, HANDSHAKE, OLD) is listed
    assert for_chat("tools/list", listed, MODERN, NEW) is listed


def test_the_bridge_adds_pages_to_what_the_chat_client_offers() -> None:
    hello = Hello("2025-06-18", {"elicitation": {}, "sampling": {}, "x": 1}, {})

    assert offered(hello, acts=False) is hello.capabilities
    assert offered(hello, acts=True) == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "x": 1,
        "extensions": {TRACK_EXTENSION: {}},
    }


def test_parts_that_are_off_are_not_described() -> None:
    agreement = Agreement("2025-11-25", {"capabilities": {"tools": {}, "prompts": {}}, "x": 1})

    assert agreement.without({"prompts"}).described == {"capabilities": {"tools": {}}, "x": 1}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_request_about_a_task_names_it_in_a_header(method: str) -> None:
    _, options = Envelope(NEW, MODERN, MODERN.capabilities).write(method, {"taskId": "t-1"})

    assert options.get("headers") == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "mcp-name": "t-1",
    }


def test_tasks_are_declared_where_the_bridge_or_the_request_can_take_them() -> None:
    key = f"{PREFIX}clientCapabilities"
    tasks: Message = {"extensions": {f"{PREFIX}tasks": {}}}

    def declared(hello: Hello, given: Message, *, acts: bool) -> Message:
        written, _ = Envelope(NEW, hello, offered(hello, acts=acts)).write("tools/call", {"_meta": given})
        return (written or {})["_meta"][key].get("extensions", {})

    for acts in (False, True):
        assert f"{PREFIX}tasks" in declared(HANDSHAKE, {}, acts=acts)
        assert f"{PREFIX}tasks" not in declared(MODERN, {}, acts=acts)
        assert f"{PREFIX}tasks" in declared(MODERN, {key: tasks}, acts=acts)
