import json

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import DRAFT_EXTENSION, HandshakeClient, StatelessClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.protocol.wire import EXTENSION_ID

URL = "http://127.0.0.1:1/mcp"


async def test_a_stateless_request_says_in_headers_and_envelope_what_it_is() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {}})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = StatelessClient(http, URL, capabilities={"elicitation": {"url": {}}})
        await client.request("tools/call", {"name": "t", "_meta": {"progressToken": "p"}})

    headers = seen[0].headers
    meta = json.loads(seen[0].content)["params"]["_meta"]
    assert (headers["mcp-protocol-version"], headers["mcp-method"], headers["mcp-name"]) == (
        "2026-07-28",
        "tools/call",
        "t",
    )
    assert meta["progressToken"] == "p"
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {"url": {}}}


async def test_notices_before_an_answer_are_kept_and_handed_on() -> None:
    body = (
        ": keep-alive\n\n"
        'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
        'data: {"jsonrpc":"2.0","id":1,\ndata: "result":{"ok":true}}\n\n'
    )
    handed: list[object] = []

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text=body, headers={"content-type": "text/event-stream"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = HandshakeClient(http, URL, capabilities={})
        client.on_notice = handed.append
        result = await client.request("ping", {})

    assert result["result"] == {"ok": True}
    assert client.notices == handed == [{"jsonrpc": "2.0", "method": "notifications/progress"}]


async def test_an_answer_that_is_no_message_is_said_so() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(401, text="no")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = HandshakeClient(http, URL, capabilities={})
        with pytest.raises(NotAsPromised, match=r"no answer to ping \(status 401\)"):
            await client.request("ping", {})


def test_the_client_knows_the_extension_by_the_name_the_server_gives_it() -> None:
    assert DRAFT_EXTENSION == EXTENSION_ID
