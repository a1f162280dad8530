"""Lines of the log about HTTP requests. The rest is in tests/integration/test_log_lines.py."""

import logging
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.web.http_log import HttpLog

Log = pytest.LogCaptureFixture


async def answer(request: Request) -> Response:
    status = int(request.query_params.get("status", 200))
    if status == 500:
        raise ValueError("a fault")
    return PlainTextResponse(logs.request_id.get(), status)


app = HttpLog(Starlette(routes=[Route("/{path:path}", answer)]), mcp_path="/mcp")


@pytest.fixture(autouse=True)
def at_debug(caplog: Log) -> None:
    caplog.set_level(logging.DEBUG, "nextcloud_mcp_server")


async def get(path: str, caplog: Log, *, method: str = "GET") -> list[dict[str, Any]]:
    """Request a path, and return the lines that were logged."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://server.test") as client:
        await client.request(method, path)
    return [record.__dict__ for record in caplog.records]


async def test_a_page_is_one_line_with_its_path_and_status_and_without_its_query(caplog: Log) -> None:
    (line,) = await get("/oauth/callback/nextcloud?code=s3cret&state=s3cret", caplog)

    assert (line["method"], line["path"], line["status"]) == ("GET", "/oauth/callback/nextcloud", 200)
    assert line["levelname"] == "INFO"
    assert isinstance(line["ms"], int)
    assert "s3cret" not in str(line)


@pytest.mark.parametrize(
    ("path", "levels"),
    [
        ("/mcp", []),
        ("/mcp/", []),
        ("/mcp?status=401", ["INFO"]),
        ("/mcp?status=503", ["INFO"]),
        ("/healthz", ["DEBUG"]),
        ("/readyz", ["DEBUG"]),
        ("/readyz?status=503", ["INFO"]),
        ("/static/a.css", ["DEBUG"]),
        ("/oauth/waiting", ["DEBUG"]),
        ("/account", ["INFO"]),
        ("/account?status=500", ["INFO"]),
    ],
)
async def test_what_mcp_logs_itself_has_no_line_and_what_repeats_is_for_debugging(
    caplog: Log, path: str, levels: list[str]
) -> None:
    assert [line["levelname"] for line in await get(path, caplog)] == levels


async def test_a_path_of_a_stranger_is_cut(caplog: Log) -> None:
    (line,) = await get("/" + "x" * 5_000, caplog)

    assert len(line["path"]) == 100


async def test_a_method_of_a_stranger_is_cut(caplog: Log) -> None:
    """HTTP lets a client make up methods: each request without a token could log 60 KB."""
    (line,) = await get("/", caplog, method="A-" * 30_000)

    assert line["method"] == "A-" * 10


async def test_the_lines_of_a_request_share_its_id() -> None:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://server.test") as client:
        ids = [(await client.get("/account")).text for _ in range(2)]

    assert all(ids)
    assert len(set(ids)) == 2
    assert logs.request_id.get() == ""


def test_what_is_no_http_request_passes(caplog: Log) -> None:
    async def greet(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    wrapped = HttpLog(Starlette(routes=[WebSocketRoute("/ws", greet)]), mcp_path="/mcp")
    with TestClient(wrapped).websocket_connect("/ws") as socket:
        assert socket.receive_text() == "hello"
    assert not [record for record in caplog.records if record.name.endswith("http_log")]
