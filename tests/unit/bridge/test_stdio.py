import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.bridge.stdio import parsed_line
from nextcloud_mcp_server.errors import AnswerLate, AnswerUnreadable, ProtocolVersionRefused, TransportFailed
from tests.unit.bridge.conftest import MakeServer

pytestmark = [pytest.mark.process, pytest.mark.anyio]


def python(code: str, *, timeout_seconds: float = 30) -> Server:
    """Make a server that is a line of Python."""
    return Server(id="test", command=sys.executable, args=("-c", code), timeout_seconds=timeout_seconds)


def children() -> set[int]:
    """Return the processes that this one has started and not waited for, dead or alive."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() - before == set()


async def text_of(connection: Connection, tool: str, **arguments: object) -> str:
    result = await connection.call_tool(tool, arguments)
    (block,) = result.content
    assert block.type == "text"
    return block.text


async def test_a_server_is_started_listed_called_and_ended(stdio_server: MakeServer) -> None:
    lines: list[str] = []

    async with connect(stdio_server(), Handlers(diagnostic=lines.append)) as connection:
        tools = [tool.name for tool in await connection.list_tools()]
        echoed = await text_of(connection, "echo", message="hello")
        await connection.ping()
        version = connection.protocol_version

    assert version == "2025-11-25"
    assert tools[:2] == ["echo", "fail"]
    assert echoed == "hello"
    assert lines == ["The test server starts."]


async def test_pages_of_a_list_are_followed_to_their_end(stdio_server: MakeServer) -> None:
    async with connect(stdio_server("pages=2")) as connection:
        assert len(await connection.list_tools()) == 12


async def test_a_server_sees_a_base_set_of_variables_and_its_own(
    stdio_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER_PROGRAM", "x")

    async with connect(stdio_server(env={"MINE": "1"})) as connection:
        names = set(json.loads(await text_of(connection, "environment")))

    assert {"MINE", "PATH", "HOME"} <= names
    assert "SECRET_OF_ANOTHER_PROGRAM" not in names


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_older_versions_are_spoken(stdio_server: MakeServer, version: str) -> None:
    async with connect(stdio_server(f"version={version}")) as connection:
        assert connection.protocol_version == version
        assert await text_of(connection, "echo", message="x") == "x"


@pytest.mark.parametrize("version", ["2024-11-05", "2031-01-01", "\x1b[31m"])
async def test_other_versions_are_refused_by_name(stdio_server: MakeServer, version: str) -> None:
    with pytest.raises(ProtocolVersionRefused) as caught:
        async with connect(stdio_server(f"version={version}")):
            raise NotImplementedError

    shown = version.replace("\x1b", "\\x1b")
    assert str(caught.value) == (
        "MCP protocol version mismatch: expected one of "
        f'["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"], got {shown}'
    )


async def test_an_error_of_the_server_keeps_its_code_and_its_data(stdio_server: MakeServer) -> None:
    async with connect(stdio_server()) as connection:
        with pytest.raises(MCPError) as caught:
            await connection.request("tools/call", {"name": "page"})

    assert caught.value.code == -32042
    assert caught.value.data["elicitations"][0]["elicitationId"] == "e1"


async def test_a_raw_result_is_returned_as_it_came(stdio_server: MakeServer) -> None:
    async with connect(stdio_server()) as connection:
        result = await connection.request("tools/call", {"name": "count", "arguments": {"number": None}})

    assert result == {"content": [{"type": "text", "text": '{"number": null}'}]}


async def test_progress_is_told(stdio_server: MakeServer) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with connect(stdio_server()) as connection:
        result = await connection.call_tool("slow", progress=note)

    assert steps == [(1, 2, "Working"), (2, 2, "Working")]
    assert not result.is_error


async def test_a_late_answer_ends_the_call_and_not_the_connection(stdio_server: MakeServer) -> None:
    async with connect(stdio_server()) as connection:
        with pytest.raises(AnswerLate) as caught:
            await connection.call_tool("silent", timeout_seconds=0.05)
        again = await text_of(connection, "echo", message="x")

    assert str(caught.value) == "MCP timeout: server=test, method=tools/call."
    assert again == "x"


async def test_a_server_that_ended_says_why_and_is_started_again_by_the_next_call(
    stdio_server: MakeServer,
) -> None:
    async with connect(stdio_server()) as connection:
        with pytest.raises(TransportFailed) as caught:
            await connection.call_tool("exit")
        again = await text_of(connection, "echo", message="x")

    assert str(caught.value) == (
        'MCP transport error: the server "test" ended with exit code 7: It is all over.'
    )
    assert again == "x"


async def test_an_exception_in_the_block_comes_out_as_it_is(stdio_server: MakeServer) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connect(stdio_server()):
            raise ZeroDivisionError


async def test_a_cancelled_connection_leaves_no_process(stdio_server: MakeServer) -> None:
    with anyio.move_on_after(60) as scope:
        async with connect(stdio_server()) as connection:
            scope.cancel()
            await connection.call_tool("silent")

    assert scope.cancelled_caught


async def test_a_process_that_ignores_its_end_is_killed_with_its_children() -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "print(child.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(1000)"
    )
    lines: list[str] = []

    with pytest.raises(AnswerLate):
        async with connect(python(code, timeout_seconds=5), Handlers(diagnostic=lines.append)):
            raise NotImplementedError

    with anyio.fail_after(60):
        # A process that was killed may not be gone yet.
        while (Path("/proc") / lines[0] / "exe").exists():  # noqa: ASYNC110 - nothing tells of its end
            await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("server", "kind", "sentence"),
    [
        (
            Server(id="test", command="no-such-program"),
            TransportFailed,
            'the server "test" cannot be started: no-such-program: No such file or directory.',
        ),
        (
            Server(id="test", command="sleep", cwd="/no/such/folder"),
            TransportFailed,
            'the server "test" cannot be started: /no/such/folder: No such file or directory.',
        ),
        (
            python("import sys; sys.exit('PASSWORD=hunter22 is wrong\\x1b[31m')"),
            TransportFailed,
            'the server "test" ended with exit code 1: PASSWORD=[hidden] is wrong\\x1b[31m.',
        ),
        (
            python("while True: print('no message')"),
            AnswerUnreadable,
            'what the server "test" prints is not MCP: its first 100 lines are no messages.',
        ),
        (
            python("import sys\nwhile True: sys.stdout.write('x' * 65536)"),
            AnswerUnreadable,
            'the server "test" sent a line of more than 1000000 bytes.',
        ),
        (
            python("print('{' * 100000, flush=True); input()"),
            TransportFailed,
            'the server "test" ended with exit code 0',
        ),
    ],
)
async def test_a_server_that_speaks_no_mcp_is_one_sentence(
    server: Server, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        async with connect(server, max_bytes=1_000_000):
            raise NotImplementedError

    assert str(caught.value).removeprefix("MCP transport error: ").startswith(sentence)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_a_silent_server_is_not_waited_for_longer_than_its_limit() -> None:
    with pytest.raises(AnswerLate, match="MCP timeout: server=test, method=initialize"):
        async with connect(Server(id="test", command="sleep", args=("1000",), timeout_seconds=0.2)):
            raise NotImplementedError


async def test_lines_that_are_no_messages_do_not_disturb_a_server_that_speaks(
    stdio_server: MakeServer,
) -> None:
    code = (
        "print('Welcome!\\n\\n{}', flush=True)\n"
        "import runpy, sys\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    server = stdio_server()

    async with connect(server.model_copy(update={"args": ("-c", code, *server.args)})) as connection:
        assert await text_of(connection, "echo", message="x") == "x"


ANSWERS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    about = {"name": "x", "version": "1"}
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": "cut", "inputSchema": {"type": "object"}}]}
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "cut \\ud83d"}]}
        if message["params"].get("arguments"):
            result = [1]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_text_that_was_cut_within_a_character_arrives() -> None:
    lines: list[str] = []

    async with connect(python(ANSWERS), Handlers(diagnostic=lines.append)) as connection:
        with anyio.fail_after(10):
            assert await text_of(connection, "cut") == "cut \N{REPLACEMENT CHARACTER}"

    assert lines == []


async def test_an_answer_that_is_no_message_ends_its_call() -> None:
    async with connect(python(ANSWERS)) as connection:
        with (
            anyio.fail_after(10),
            pytest.raises(AnswerUnreadable, match='the server "test" sent no JSON-RPC'),
        ):
            await connection.call_tool("cut", {"as": "list"})

        assert await text_of(connection, "cut")


@pytest.mark.parametrize(
    "line",
    [
        b"ready",
        b"{ready}",
        b'{"id": true, "result": {}}',
        b'{"level": "info"}',
        b'{"id": 1, "method": 5}',
        b'{"a":' * 100_000,
    ],
)
async def test_a_line_of_a_log_is_no_message(line: bytes) -> None:
    assert parsed_line(line) is None
