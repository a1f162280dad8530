"""Servers over HTTP that answer with anything else than MCP, end, or forget: the chat client reads one sentence."""

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.integration.bridge_app import BridgeApp, open_bridge
from tests.integration.personal_app import PersonalApp, served
from tests.integration.stdio_app import LIST, shows_notes
from tests.integration.test_bridge import bridged

pytestmark = pytest.mark.process

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "x", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}


async def endless() -> AsyncIterator[bytes]:
    yield b'{"jsonrpc":"2.0","id":2,"result":{"x":"'
    while True:
        # Without this, a server whose client has gone would never hear of it.
        await anyio.sleep(0.001)
        yield b"x" * 1_000_000


async def cut_off() -> AsyncIterator[bytes]:
    yield b"event: message\n"
    raise RuntimeError("The connection ends in the middle of an event.")


def refusal(kind: str) -> Response | None:
    if kind == "html":
        return Response("<html>Welcome</html>", media_type="text/html")
    if kind == "sign-in":
        return Response(status_code=401, headers={"WWW-Authenticate": 'Bearer scope="x"'})
    return RedirectResponse("https://elsewhere.example/mcp", status_code=307) if kind == "redirect" else None


def faulty(kind: str) -> Starlette:
    """Serve MCP until the first tool call, or not at all."""

    async def answer(request: Request) -> Response:  # noqa: PLR0911 - a table of faults
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        if (refused := refusal(kind)) is not None:
            return refused
        if "id" not in message:
            return Response(status_code=202)
        if message["method"] == "initialize":
            version = "1999-01-01" if kind == "version" else "2025-11-25"
            result: dict[str, Any] = {**HELLO, "protocolVersion": version}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if message["method"] != "tools/call":
            error = {"code": -32601, "message": "No such method"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        if kind == "endless":
            return StreamingResponse(endless(), media_type="application/json")
        if kind == "cut-off":
            return StreamingResponse(cut_off(), media_type="text/event-stream")
        bodies = {"garbage": b"\xff\x00{", "other": b'[1, {"jsonrpc": "1.0"}]', "page": b"<html></html>"}
        return Response(bodies[kind], media_type="text/html" if kind == "page" else "application/json")

    return Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])


@asynccontextmanager
async def before(kind: str, folder: Path) -> AsyncGenerator[BridgeApp]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    async with (
        served(faulty(kind), listener),
        open_bridge(folder / "data", url, "--no-sign-in", opened=False) as bridge,
    ):
        yield bridge


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("html", "answered text/html, which is not MCP: check the path of its address"),
        ("sign-in", "asks for authorization"),
        ("redirect", "Redirect to https://elsewhere.example/mcp not followed"),
        ("version", "answered with version '1999-01-01' of MCP, which this bridge does not speak"),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, kind: str, sentence: str
) -> None:
    async with before(kind, tmp_path) as bridge:
        answer = await bridge.chat.request("initialize", INITIALIZE)

    assert answer["error"] == {"code": -32000, "message": ANY}
    assert answer["error"]["message"].startswith("The server “127-0-0-1” cannot be used: ")
    assert sentence in answer["error"]["message"]
    assert "Traceback" not in bridge.said


@pytest.mark.parametrize("kind", ["endless", "cut-off", "garbage", "other", "page"])
async def test_an_answer_that_is_none_costs_one_call(tmp_path: Path, kind: str) -> None:
    async with before(kind, tmp_path) as bridge:
        await bridge.chat.open({}, version="2025-11-25")
        answers = [await bridge.chat.call("any") for _ in range(2)]

    assert [list(answer["error"]) for answer in answers] == [["code", "message"]] * 2
    assert all("127-0-0-1" in answer["error"]["message"] for answer in answers)
    assert len(json.dumps(answers)) < 2_000
    assert "Traceback" not in bridge.said


async def connected(app: PersonalApp, bridge: BridgeApp) -> None:
    async with app.person() as alice, anyio.create_task_group() as group:
        group.start_soon(bridge.consent, alice)
        assert shows_notes(await bridge.chat.call(LIST))


async def test_a_server_that_is_not_there_is_tried_again_by_the_next_call(personal_app: PersonalApp) -> None:
    async with bridged(personal_app) as bridge:
        await connected(personal_app, bridge)
        await personal_app.stop()
        lost = await bridge.chat.call(LIST)
        await personal_app.start()
        found = await bridge.chat.call(LIST)

    assert "could not be reached" in lost["error"]["message"]
    assert shows_notes(found)


async def test_a_restarted_server_is_not_noticed(personal_app: PersonalApp) -> None:
    """Its sessions are gone; the call was not begun, so it is sent again in a new one."""
    async with bridged(personal_app) as bridge:
        await connected(personal_app, bridge)
        await personal_app.stop()
        await personal_app.start()
        found = await bridge.chat.call(LIST)

    assert shows_notes(found)
    assert len(bridge.links) == 1
