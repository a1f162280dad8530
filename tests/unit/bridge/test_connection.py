import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AnswerUnreadable,
    AuthorizationFailed,
    BridgeError,
    ProtocolVersionRefused,
    TransportFailed,
)

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
SERVER = Server(id="test", transport="http", url=URL, headers={"X-Key": "k"})

Answer = Callable[[httpx2.Request, dict[str, Any]], httpx2.Response | None]


class Remote(httpx2.AsyncBaseTransport):
    """A server of 2025-11-25 over Streamable HTTP, at the network; `answer` may answer in its place."""

    def __init__(self, answer: Answer = lambda _, __: None, *, version: str = "2025-11-25") -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.sessions = 0
        self._answer = answer
        self._version = version

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body: dict[str, Any] = json.loads(await request.aread() or b"{}")
        method = body.get("method", "")
        self.requests.append((request.method, method, dict(request.headers)))
        found = self._answer(request, body)
        if found is not None:
            return found
        if request.method != "POST":
            return httpx2.Response(405)
        if method == "initialize":
            self.sessions += 1
            result: dict[str, Any] = {
                "protocolVersion": self._version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            }
            return self.json(body, result, {"mcp-session-id": f"s{self.sessions}"})
        if "id" not in body:
            return httpx2.Response(202)
        if method == "server/discover":
            return self.error(body, -32601, "Method not found")
        results: dict[str, dict[str, Any]] = {
            "tools/call": {"content": [{"type": "text", "text": "Done."}]},
            "tools/list": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]},
        }
        return self.json(body, results.get(method, {}))

    @staticmethod
    def json(
        body: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        return httpx2.Response(
            200, json={"jsonrpc": "2.0", "id": body["id"], "result": result}, headers=headers
        )

    @staticmethod
    def error(body: dict[str, Any], code: int, message: str) -> httpx2.Response:
        error = {"code": code, "message": message}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "error": error})

    def headers(self, method: str) -> list[dict[str, str]]:
        return [headers for _, name, headers in self.requests if name == method]


def for_calls(response: Callable[[dict[str, Any]], httpx2.Response | None]) -> Answer:
    """Answer calls of tools only."""
    return lambda _, body: response(body) if body.get("method") == "tools/call" else None


async def called(connection: Connection) -> str:
    block = (await connection.call_tool("x")).content[0]
    assert block.type == "text"
    return block.text


async def test_each_request_has_the_negotiated_version_the_session_and_the_configured_headers() -> None:
    remote = Remote()

    async with connect(SERVER, transport=remote) as connection:
        await called(connection)

    assert connection.server.id == "test"
    (initialize,), (call,) = remote.headers("initialize"), remote.headers("tools/call")
    assert "mcp-session-id" not in initialize
    assert (call["mcp-protocol-version"], call["mcp-session-id"], call["x-key"]) == ("2025-11-25", "s1", "k")
    assert call["content-type"] == "application/json"
    assert call["accept"] == "application/json, text/event-stream"
    assert remote.headers("notifications/initialized")[0]["mcp-protocol-version"] == "2025-11-25"
    assert [
        (verb, headers.get("mcp-session-id")) for verb, _, headers in remote.requests if verb == "DELETE"
    ] == [("DELETE", "s1")]


async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_repeated() -> None:
    forgotten = {"s1"}

    def forget(request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response | None:
        known = request.headers.get("mcp-session-id") not in forgotten
        return None if known or body.get("method") != "tools/call" else httpx2.Response(404, text="Gone")

    remote = Remote(forget)

    async with connect(SERVER, transport=remote) as connection:
        text = await called(connection)

    assert text == "Done."
    assert [headers["mcp-session-id"] for headers in remote.headers("tools/call")] == ["s1", "s2"]


async def test_a_session_that_is_always_forgotten_is_not_begun_for_ever() -> None:
    remote = Remote(for_calls(lambda _: httpx2.Response(404)))

    async with connect(SERVER, transport=remote) as connection:
        with pytest.raises(MCPError):
            await called(connection)

    assert remote.sessions == 2


async def test_an_answer_may_come_as_a_stream_with_notices_before_it() -> None:
    def stream(body: dict[str, Any]) -> httpx2.Response:
        progress = {"progressToken": body["params"]["_meta"]["progressToken"], "progress": 1}
        events = [
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress},
            {
                "jsonrpc": "2.0",
                "id": body["id"],
                "result": {"content": [{"type": "text", "text": "Streamed."}]},
            },
        ]
        text = ": a comment\n\nevent: ping\ndata: [PING]\n\n" + "".join(
            f"event: message\ndata: {json.dumps(event)}\n\n" for event in events
        )
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)

    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        seen.append(progress)

    async with connect(SERVER, transport=Remote(for_calls(stream))) as connection:
        result = await connection.call_tool("x", progress=note)

    assert result.content[0].model_dump()["text"] == "Streamed."
    assert seen == [1]


async def test_a_stream_that_breaks_is_resumed_after_its_last_event() -> None:
    waiting: dict[str, Any] = {}

    def broken(request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response | None:
        kind = {"content-type": "text/event-stream"}
        if body.get("method") == "tools/call":
            waiting.update(body)
            return httpx2.Response(200, headers=kind, text="id: e7\nretry: 1\ndata:\n\n")
        if request.method == "GET" and request.headers.get("last-event-id") == "e7":
            result = {"content": [{"type": "text", "text": "Resumed."}]}
            message = json.dumps({"jsonrpc": "2.0", "id": waiting["id"], "result": result})
            return httpx2.Response(200, headers=kind, text=f"id: e8\ndata: {message}\n\n")
        return None

    with anyio.fail_after(60):
        async with connect(SERVER, transport=Remote(broken)) as connection:
            assert await called(connection) == "Resumed."


async def test_an_error_of_the_network_costs_one_call_and_not_the_connection() -> None:
    faults = iter([True])

    def fail(_: dict[str, Any]) -> httpx2.Response | None:
        if next(faults, False):
            raise httpx2.ConnectError("Connection refused")
        return None

    async with connect(SERVER, transport=Remote(for_calls(fail))) as connection:
        with pytest.raises(TransportFailed, match="could not be reached \\(Connection refused\\)"):
            await called(connection)
        assert await called(connection) == "Done."


async def test_a_certificate_that_is_not_trusted_is_named_with_the_variable_for_another_authority() -> None:
    def fail(_: dict[str, Any]) -> httpx2.Response | None:
        raise httpx2.ConnectError(
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: expired (_ssl.c:1)"
        )

    async with connect(SERVER, transport=Remote(for_calls(fail))) as connection:
        with pytest.raises(
            TransportFailed, match=r'the certificate of the server "test" is not trusted here .*SSL_CERT_FILE'
        ):
            await called(connection)


async def endless() -> AsyncIterator[bytes]:
    """A body without an end."""
    while True:
        yield b" " * 65_536
        await anyio.lowlevel.checkpoint()


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("response", "kind", "sentence"),
    [
        (
            lambda: httpx2.Response(200, html="<html>Sign in</html>"),
            AnswerUnreadable,
            'the server "test" answered text/html, which is not MCP: check the path of its address.',
        ),
        (
            lambda: httpx2.Response(200, content=b"x"),
            AnswerUnreadable,
            'the server "test" answered text without a type',
        ),
        (
            lambda: httpx2.Response(200, headers=JSON, text="{{"),
            AnswerUnreadable,
            'the server "test" sent no JSON-RPC.',
        ),
        (
            lambda: httpx2.Response(200, headers=JSON, text="[]"),
            AnswerUnreadable,
            'the server "test" sent no JSON-RPC.',
        ),
        (
            lambda: httpx2.Response(200, headers=JSON, text="[" * 100_000),
            AnswerUnreadable,
            'the server "test" sent no JSON-RPC.',
        ),
        (
            lambda: httpx2.Response(200, headers=JSON, content=endless()),
            AnswerUnreadable,
            'the server "test" sent an answer of more than 1000000 bytes.',
        ),
        (
            lambda: httpx2.Response(200, headers=JSON | {"content-encoding": "gzip"}, content=endless()),
            AnswerUnreadable,
            'the server "test" compressed its answer, which was not asked for.',
        ),
        (
            lambda: httpx2.Response(500, headers=JSON, content=endless()),
            MCPError,
            "Server returned an error response",
        ),
        (
            lambda: httpx2.Response(503, text="down"),
            TransportFailed,
            'the server "test" answered with HTTP status 503.',
        ),
        (
            lambda: httpx2.Response(503, json={"error": "temporarily_unavailable"}),
            TransportFailed,
            'the server "test" answered with HTTP status 503. Try again in a minute.',
        ),
        (
            lambda: httpx2.Response(403, json={"error": "access_denied"}),
            TransportFailed,
            'the server "test" answered with HTTP status 403.',
        ),
        (
            lambda: httpx2.Response(503, headers=JSON, content=endless()),
            MCPError,
            "Server returned an error response",
        ),
        (
            lambda: httpx2.Response(
                403, json={"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Not you."}}
            ),
            MCPError,
            "Not you.",
        ),
        (
            lambda: httpx2.Response(307, headers={"location": "https://evil.example/mcp?q=1"}),
            MCPError,
            "Redirect to https://evil.example/mcp not followed",
        ),
        (
            lambda: httpx2.Response(302, headers={"location": "http://mcp.example.com/mcp"}),
            MCPError,
            "Redirect to http://mcp.example.com/mcp not followed",
        ),
        (lambda: httpx2.Response(202), MCPError, "server answered a request with 202 Accepted"),
        (
            lambda: httpx2.Response(401, headers={"www-authenticate": 'Bearer scope="a"\x1b'}),
            AuthorizationFailed,
            'MCP auth error: the server "test" asks for authorization (Bearer scope="a"\\x1b)',
        ),
    ],
)
async def test_what_is_no_mcp_is_one_sentence_and_goes_to_no_other_host(
    response: Callable[[], httpx2.Response], kind: type[Exception], sentence: str
) -> None:
    hosts: set[str] = set()

    def answer(request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response | None:
        hosts.add(request.url.host)
        return response() if body.get("method") == "tools/call" else None

    async with connect(SERVER, transport=Remote(answer), max_bytes=1_000_000) as connection:
        with pytest.raises(kind) as caught, anyio.fail_after(60):
            await called(connection)

    said = str(caught.value).removeprefix("MCP transport error: ")
    assert said.startswith(sentence)
    assert hosts == {"mcp.example.com"}


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (lambda: httpx2.Response(200, html="<html></html>"), AnswerUnreadable),
        (lambda: httpx2.Response(500, text="x"), TransportFailed),
        (lambda: httpx2.Response(302, headers={"location": "https://evil.example/"}), BridgeError),
        (lambda: httpx2.Response(401), BridgeError),
    ],
)
async def test_a_connection_that_cannot_be_opened_is_one_sentence(
    transport: str, response: Callable[[], httpx2.Response], kind: type[Exception]
) -> None:
    server = SERVER.model_copy(update={"transport": transport})

    with pytest.raises((kind, MCPError)) as caught, anyio.fail_after(60):
        async with connect(server, transport=httpx2.MockTransport(lambda _: response())):
            raise NotImplementedError

    assert str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_unreachable_server_is_named() -> None:
    def refuse(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectTimeout("")

    for transport in ("http", "sse"):
        server = SERVER.model_copy(update={"transport": transport})
        with pytest.raises(TransportFailed, match='the server "test" did not answer in time'):
            async with connect(server, transport=httpx2.MockTransport(refuse)):
                raise NotImplementedError


async def test_an_unknown_version_is_refused_by_name_over_http() -> None:
    with pytest.raises(ProtocolVersionRefused, match="got 2029-09-09"):
        async with connect(SERVER, transport=Remote(version="2029-09-09")):
            raise NotImplementedError


async def test_a_server_of_later_versions_alone_is_refused_by_their_names() -> None:
    def later(_: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        error = {
            "code": -32022,
            "message": "No",
            "data": {"supported": ["2030-01-01"], "requested": "2026-07-28"},
        }
        return httpx2.Response(400, json={"jsonrpc": "2.0", "id": body.get("id"), "error": error})

    with pytest.raises(ProtocolVersionRefused, match="got 2030-01-01"):
        async with connect(SERVER, transport=Remote(later)):
            raise NotImplementedError


async def test_a_result_that_the_protocol_does_not_have_is_refused() -> None:
    answer = for_calls(lambda body: Remote.json(body, {"content": "text"}))

    async with connect(SERVER, transport=Remote(answer)) as connection:
        with pytest.raises(
            AnswerUnreadable, match="answered tools/call with what the protocol does not have"
        ):
            await called(connection)


async def test_an_event_stream_that_names_another_host_is_not_used() -> None:
    hosts: set[str] = set()

    def stream(request: httpx2.Request) -> httpx2.Response:
        hosts.add(request.url.host)
        text = "event: endpoint\ndata: https://evil.example/messages\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)

    server = SERVER.model_copy(update={"transport": "sse", "timeout_seconds": 0.3})
    with pytest.raises((AnswerLate, TransportFailed)):
        async with connect(server, transport=httpx2.MockTransport(stream)):
            raise NotImplementedError

    assert hosts == {"mcp.example.com"}


async def test_a_hundred_failed_calls_leave_nothing_behind() -> None:
    async with connect(SERVER, transport=Remote(for_calls(lambda _: httpx2.Response(503)))) as connection:
        for _ in range(100):
            with pytest.raises(TransportFailed):
                await called(connection)
        link = connection._link  # pyright: ignore[reportPrivateUsage]
        assert link is not None
        assert link.http is not None
        # The one of `server/discover`, if at all.
        assert len(link.http.faults) <= 1


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, "does not fit the schema of its tool"),
        ({"properties": {"a": {"type": 5}}}, "has a schema of results that is not valid"),
    ],
)
async def test_a_hostile_schema_of_results_is_one_sentence_at_once(
    schema: dict[str, Any], words: str
) -> None:
    def answer(_request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response | None:
        tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"} | schema}
        results: dict[str | None, dict[str, Any]] = {
            "tools/call": {"content": [], "structuredContent": {"a": "a" * 34 + "!"}},
            "tools/list": {"tools": [tool]},
        }
        method = body.get("method")
        return Remote.json(body, results[method]) if method in results else None

    with anyio.fail_after(10):
        async with connect(SERVER, transport=Remote(answer)) as connection:
            with pytest.raises(AnswerUnreadable, match=words):
                await connection.call_tool("x")
