import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nextcloud_mcp_server.web.exchanges import MESSAGE, METHODS, Exchanges
from nextcloud_mcp_server.web.stopping import StopState

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}
SESSION = {"Mcp-Session-Id": "one"}
NO_IDS: tuple[object, ...] = ({"a": 1}, None, 1.5, True, [])
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what came."""
    message = await receive()
    await Response(message["body"])(scope, receive, send)


async def unreached(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotImplementedError


def client(app: App) -> httpx2.AsyncClient:
    asgi = Exchanges(app, StopState())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi), base_url="http://mcp.test")


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        json.dumps([CALL, {**CALL, "id": 8}]),
        '"text"',
        "5",
        "null",
        "{}",
        json.dumps({"id": 1, "method": "ping"}),
        *(json.dumps({**CALL, "id": each}) for each in NO_IDS),
    ],
)
async def test_a_body_that_is_not_one_message_is_refused_in_a_sentence_without_id(body: str) -> None:
    """2025-11-25, basic/transports: the body of a refusal may be a JSON-RPC error that has no id."""
    async with client(unreached) as http:
        answer = await http.post("/mcp", content=body)

    error = answer.json()
    assert answer.status_code == 400
    assert (error["jsonrpc"], error["id"], error["error"]["code"]) == ("2.0", None, -32600)
    assert ("batch" in error["error"]["message"]) == body.startswith("[")
    assert not {"validation", "pydantic", "input_value"} & set(error["error"]["message"].lower().split())


@pytest.mark.parametrize(
    "fields",
    [{"id": "x" * 1_001}, {"params": {"_meta": {"progressToken": "x" * 1_001}}}],
    ids=["id", "progress token"],
)
async def test_what_comes_back_in_each_answer_is_not_megabytes_long(fields: dict[str, object]) -> None:
    async with client(unreached) as http:
        answer = await http.post("/mcp", json={**CALL, **fields})

    assert answer.status_code == 400
    assert answer.json()["id"] is None
    assert "longer than 1,000 characters" in answer.json()["error"]["message"]
    assert len(answer.content) < 1_000


MANY: list[object] = [{}] * 2_000
KEPT: list[tuple[str, dict[str, Any]]] = [
    ("initialize", {"clientInfo": {"name": "x" * 100_000, "version": "1"}}),
    ("subscriptions/listen", {"notifications": {}, "_meta": {"x": "x" * 100_000}}),
    ("subscriptions/listen", {"notifications": {}, "_meta": {"x": MANY}}),
    ("tools/call", {"name": "tool", "arguments": {}, "_meta": {"x": "x" * 100_000}}),
    ("tools/call", {"name": "tool", "arguments": {}, "task": {"x": MANY}}),
    ("ping", {"arguments": "x" * 100_000}),
]


@pytest.mark.parametrize(("method", "params"), KEPT)
async def test_what_a_session_a_stream_or_a_task_keeps_is_short(
    method: str, params: dict[str, object]
) -> None:
    """A client's name of 4 MB took 10 to 50 MB in each of 25 sessions, and 12 streams took 600 MB."""
    async with client(unreached) as http:
        answer = await http.post("/mcp", json={**CALL, "method": method, "params": params})

    assert answer.status_code == 400
    assert "Besides its arguments" in answer.json()["error"]["message"]


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
@pytest.mark.parametrize("text", ["x" * 3_000_000, ["x"] * 9_000], ids=["long", "many"])
async def test_arguments_may_be_long(method: str, text: object) -> None:
    params = {"name": "one", "arguments": {"text": text}}
    async with client(answered) as http:
        answer = await http.post("/mcp", json={**CALL, "method": method, "params": params})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("POST", json.dumps(CALL)),
        ("POST", json.dumps({**CALL, "id": "x" * 1_000})),
        *(
            ("POST", json.dumps({**CALL, "params": each}))
            for each in ({"_meta": 1}, {"_meta": {"progressToken": 5}})
        ),
        ("POST", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})),
        ("POST", json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}})),
        ("POST", '{"half'),
        ("DELETE", ""),
    ],
)
async def test_what_is_one_message_or_none_of_ours_passes_as_it_came(method: str, body: str) -> None:
    async with client(answered) as http:
        answer = await http.request(method, "/mcp", content=body, headers=SESSION)

    assert (answer.status_code, answer.text) == (200, body)


@pytest.mark.parametrize(("method", "status"), [("HEAD", 405), ("OPTIONS", 204)])
async def test_head_and_options_name_the_methods_there_are(method: str, status: int) -> None:
    async with client(unreached) as http:
        answer = await http.request(method, "/mcp")

    assert (answer.status_code, answer.headers["Allow"]) == (status, METHODS)


async def test_an_id_that_is_under_way_in_a_session_is_refused_and_its_first_request_is_answered() -> None:
    gate, begun = anyio.Event(), list[str]()
    answers, refused = list[httpx2.Response](), list[httpx2.Response]()
    first: tuple[dict[str, Any], dict[str, str]] = (CALL, SESSION)
    others: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({**CALL, "id": "8"}, SESSION),
        (CALL, {"Mcp-Session-Id": "other"}),
        (CALL, {}),
    ]

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await gate.wait()
        await answered(scope, receive, send)

    async def call(body: dict[str, Any], headers: dict[str, str]) -> None:
        answers.append(await http.post("/mcp", json=body, headers=headers))

    async with client(held) as http, anyio.create_task_group() as group:
        for body, headers in (first, *others):
            group.start_soon(call, body, headers)
            await anyio.wait_all_tasks_blocked()
        refused += [await http.post("/mcp", json={**CALL, "id": each}, headers=SESSION) for each in (7, "7")]
        gate.set()
    async with client(answered) as http:
        answers += [await http.post("/mcp", json=CALL, headers=SESSION) for _ in range(2)]

    assert len(begun) == 4, "the other requests begin while the first one is under way"
    assert [each.status_code for each in refused] == [400, 400]
    assert {each.json()["error"]["code"] for each in refused} == {-32600}
    assert all("id of its own" in each.json()["error"]["message"] for each in refused)
    assert [each.status_code for each in answers] == [200] * 6


async def test_a_message_that_a_layer_further_out_has_read_is_not_read_again() -> None:
    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        await Exchanges(answered, StopState())({**scope, MESSAGE: CALL}, receive, send)

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outer), base_url="http://mcp.test") as http:
        answer = await http.post("/mcp", content=b"not looked at")

    assert answer.text == "not looked at"


def scope() -> Scope:
    return {"type": "http", "method": "POST", "path": "/mcp", "headers": []}


async def ended(app: App, *, cut_off: bool = True, is_stopping: bool = True) -> list[Message]:
    """Run a request, and cut it off as the end of the server does; the answer is what was sent."""
    sent: list[Message] = []
    stop_state = StopState()
    stop_state.is_stopping = is_stopping
    waiting = anyio.Event()

    async def receive() -> Message:
        return {"type": "http.request", "body": json.dumps(CALL).encode(), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def running(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        if cut_off:
            waiting.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(Exchanges(running, stop_state), scope(), receive, send)
        if cut_off:
            await waiting.wait()
            group.cancel_scope.cancel()
    return sent


async def starts(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})


async def waits(scope: Scope, receive: Receive, send: Send) -> None:
    """Do nothing yet."""


@pytest.mark.parametrize("cut_off", [True, False])
async def test_a_request_without_an_answer_yet_is_told_that_it_can_be_sent_again(*, cut_off: bool) -> None:
    start, body = await ended(waits, cut_off=cut_off)

    error = json.loads(body["body"])
    assert start["status"] == 503
    assert (b"retry-after", b"5") in start["headers"]
    assert (error["id"], error["error"]["code"]) == (7, -32603)
    assert "Send it again in a few seconds" in error["error"]["message"]


@pytest.mark.parametrize("cut_off", [True, False])
async def test_a_stream_that_is_cut_off_ends_with_the_same_words(*, cut_off: bool) -> None:
    *_, last = await ended(starts, cut_off=cut_off)

    event = last["body"].decode()
    assert last["more_body"] is False
    assert event.startswith("event: message\r\ndata: ")
    assert event.endswith("\r\n\r\n")
    error = json.loads(event.partition("data: ")[2])
    assert (error["id"], error["error"]["code"]) == (7, -32603)


async def test_the_end_of_a_session_or_sign_in_is_not_called_a_restart() -> None:
    """A stream that ended because the user signed the client out said that the server restarts."""
    _, body = await ended(waits, is_stopping=False)
    *_, last = await ended(starts, is_stopping=False)

    for message in (body["body"].decode(), last["body"].decode()):
        assert "session or the sign-in of this request has ended" in message
        assert "restarting" not in message


async def test_what_was_answered_gets_no_second_answer() -> None:
    assert [each["type"] for each in await ended(answered)] == ["http.response.start", "http.response.body"]


async def test_a_client_that_disconnects_within_a_body_starts_nothing() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await Exchanges(unreached, StopState())(scope(), receive, send)

    assert sent == []


@pytest.mark.parametrize(
    ("method", "message", "streams"),
    [
        ("GET", None, 1),
        ("POST", {**CALL, "method": "subscriptions/listen"}, 1),
        ("POST", CALL, 0),
        ("DELETE", None, 0),
    ],
)
async def test_a_stop_knows_which_requests_are_streams_without_an_end(
    method: str, message: dict[str, Any] | None, streams: int
) -> None:
    stop_state, seen = StopState(), list[int]()

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(stop_state.streams)
        await Response()(scope, receive, send)

    transport = httpx2.ASGITransport(Exchanges(count, stop_state))
    async with httpx2.AsyncClient(transport=transport, base_url="http://mcp.test") as http:
        await http.request(method, "/mcp", json=message)

    assert (seen, stop_state.streams) == ([streams], 0)
