"""Lines of the log about MCP requests. The rest is in tests/integration/test_log_lines.py."""

import logging
from contextlib import suppress
from typing import Any

import anyio
import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.principal import Caller, personal
from nextcloud_mcp_server.protocol.mcp_log import McpLog
from nextcloud_mcp_server.storage.records import Principal
from tests.sdk_request import request

ALICE = Caller(Principal("https://id.example.org", "alice"), "client-1", "Claude")
NAMES = {"nc_notes_get_note", "tidy_note"}

Log = pytest.LogCaptureFixture
Context = ServerRequestContext[Any, Any]


@pytest.fixture(autouse=True)
def at_info(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "nextcloud_mcp_server")


async def handle(
    method: str, params: dict[str, Any], answer: object, caller: Caller = ALICE, request_id: int | None = 7
) -> HandlerResult:
    """Let a request pass the log to a handler that returns or raises `answer`."""

    async def handler(_: Context) -> HandlerResult:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    ctx = request(method=method, params=params, request_id=request_id)
    return await McpLog(lambda _: caller, known=NAMES).middleware(ctx, handler)


def fields(caplog: Log) -> dict[str, Any]:
    (record,) = caplog.records
    names = ("method", "tool", "prompt", "person", "client_id", "client", "status", "ms")
    return {name: record.__dict__[name] for name in names if name in record.__dict__}


async def test_a_call_is_one_line_with_who_what_and_how_it_ended(caplog: Log) -> None:
    await handle("tools/call", {"name": "nc_notes_get_note", "arguments": {"note_id": 4711}}, {"content": []})

    line = fields(caplog)
    assert isinstance(line.pop("ms"), int)
    assert line == {
        "method": "tools/call",
        "tool": "nc_notes_get_note",
        "person": "alice",
        "client_id": "client-1",
        "client": "Claude",
        "status": "ok",
    }


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"content": []}, "ok"),
        ({"content": [], "isError": False}, "ok"),
        ({"content": [], "isError": True}, "tool error"),
        ({"resultType": "input_required"}, "asked"),
        (MCPError(-32042, "Please consent"), "asked"),
        (MCPError(-32000, "Please consent"), "asked"),
        (MCPError(-32602, "No such tool"), "error -32602"),
        (ValueError("a fault"), "failed"),
        (None, "ok"),
    ],
)
async def test_a_line_says_how_the_request_ended(caplog: Log, answer: object, status: str) -> None:
    with suppress(MCPError, ValueError):
        await handle("tools/call", {"name": "nc_notes_get_note"}, answer)

    assert fields(caplog)["status"] == status


async def test_a_tracked_consent_that_took_too_long_is_no_question(caplog: Log) -> None:
    """The draft of SEP-1036 has one code for both."""
    with suppress(MCPError):
        await handle("elicitation/track", {"elicitationId": "e"}, MCPError(-32000, "Elicitation timed out"))

    assert fields(caplog)["status"] == "timed out"


async def test_a_request_that_the_client_cancels_is_said_to_be_cancelled(caplog: Log) -> None:
    async def handler(_: Context) -> HandlerResult:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        await McpLog(lambda _: ALICE, known=NAMES).middleware(request(), handler)

    assert fields(caplog)["status"] == "cancelled"


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
async def test_no_argument_and_no_made_up_name_is_logged(caplog: Log, method: str) -> None:
    params = {"name": "s3cret", "uri": "nextcloud://files/s3cret", "arguments": {"text": "s3cret"}}

    await handle(method, params, {"content": [{"text": "s3cret"}]})

    assert "s3cret" not in str(caplog.records[0].__dict__)


async def test_a_prompt_is_named(caplog: Log) -> None:
    await handle("prompts/get", {"name": "tidy_note"}, {"messages": []})

    assert fields(caplog)["prompt"] == "tidy_note"


async def test_the_one_user_of_a_single_user_server_is_not_named(caplog: Log) -> None:
    caller = Caller(personal("https://cloud.example.org"), "local", "Claude Code")

    await handle("tools/list", {}, {"tools": []}, caller)

    line = fields(caplog)
    assert (line["client"], "person" in line, "client_id" in line) == ("Claude Code", False, False)


async def test_a_notification_has_no_line(caplog: Log) -> None:
    await handle("notifications/initialized", {}, None, request_id=None)

    assert not caplog.records


async def test_nothing_is_asked_for_a_line_that_is_not_written(caplog: Log) -> None:
    caplog.set_level(logging.WARNING, "nextcloud_mcp_server")

    def never(_: Context) -> Caller:
        raise NotImplementedError

    async def handler(_: Context) -> HandlerResult:
        return CallToolResult(content=[])

    await McpLog(never, known=NAMES).middleware(request(), handler)

    assert not caplog.records


async def test_every_line_of_a_request_has_its_id_and_the_next_request_has_another() -> None:
    seen: list[str] = []

    async def handler(_: Context) -> HandlerResult:
        seen.append(logs.current_request_id())
        assert logs.current_request_id() == seen[-1]
        return CallToolResult(content=[])

    log = McpLog(lambda _: ALICE, known=NAMES)
    for _ in range(2):
        await log.middleware(request(), handler)

    assert len(set(seen)) == 2
    assert logs.request_id.get() == ""
