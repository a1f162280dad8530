import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from anyio import lowlevel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.jwt_check import LEEWAY_SECONDS
from nextcloud_mcp_server.auth.token_scopes import asked
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable, TokenRefused
from nextcloud_mcp_server.nextcloud import pace
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web import bearer
from nextcloud_mcp_server.web.bearer import BearerLayer
from nextcloud_mcp_server.web.fair_queue import FairQueue
from nextcloud_mcp_server.web.json_bounds import MAX_ELEMENTS
from nextcloud_mcp_server.web.metadata import Resource
from nextcloud_mcp_server.web.request_limiter import LARGE_BODY, RequestLimiter, RequestRates
from nextcloud_mcp_server.web.stream_expiry import OpenStreams

RESOURCE = Resource("https://mcp.test/mcp", ("https://id.test",), ("x/notes:read", "x/notes:write"))
METADATA = 'resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"'
NEEDS = {
    "read": frozenset({"notes:read"}),
    "write": frozenset({"notes:write"}),
    "both": frozenset({"notes:write", "notes:read"}),
}
ALICE = {"Authorization": "Bearer alice"}


@dataclass
class App:
    """What the layer lets through, and how it answers."""

    seen: list[tuple[Request, bytes]] = field(default_factory=list[tuple[Request, bytes]])
    asked: list[str] = field(default_factory=list[str])
    scopes: frozenset[str] | None = frozenset({"notes:read"})
    failure: Exception | None = None
    seconds_left: float = 600.0
    #: If there is one, no request is answered before.
    leave: anyio.Event | None = None

    @property
    def people(self) -> list[str]:
        return [request.user.bearer.principal.subject for request, _ in self.seen]

    def clock(self) -> datetime:
        return datetime.fromtimestamp(1000 + LEEWAY_SECONDS - self.seconds_left, UTC)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.seen.append((request, await request.body()))
        if self.leave is not None:
            await self.leave.wait()
        await Response("through")(scope, receive, send)

    async def verify(self, token: str) -> Bearer:
        self.asked.append(token)
        if self.failure is not None:
            raise self.failure
        if token not in ("alice", "carol"):
            raise TokenRefused("The token's signature does not fit.")
        return Bearer(Principal("https://id.test", token), "claude", self.scopes, 1000, {})

    def layer(self, *, max_body_bytes: int = 10_000, limiter: RequestLimiter | None = None) -> BearerLayer:
        return BearerLayer(
            self,
            resource=RESOURCE,
            verify=self.verify,
            needs=lambda name: NEEDS.get(name, frozenset()),
            clock=self.clock,
            words=partial(asked, prefix="x/"),
            max_body_bytes=max_body_bytes,
            limiter=limiter,
        )

    def client(self, layer: BearerLayer | None = None) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(layer or self.layer())
        return httpx2.AsyncClient(transport=transport, base_url="https://mcp.test")


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    async with app.client() as client:
        yield client


def call(name: object, method: str = "tools/call") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": name, "arguments": {}}}


@pytest.mark.parametrize(
    "path", ["/", "/mcpx", "/oauth/provision", "/.well-known/oauth-protected-resource/mcp"]
)
async def test_other_paths_are_let_through_as_they_are(app: App, http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.post(path, content=b"{")

    assert answer.text == "through"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert app.asked == []


@pytest.mark.parametrize("token", ["al ice", "älice", 'alice"', "alice,", "<alice>", "a" * 16_385])
async def test_a_text_that_is_no_token_is_refused_without_a_request(
    app: App, http: httpx2.AsyncClient, token: str
) -> None:
    answer = await http.get("/mcp", headers=[(b"Authorization", f"Bearer {token}".encode("latin-1"))])

    assert answer.status_code == 401
    assert app.asked == []


async def test_long_work_of_other_users_gives_way_to_a_request_that_is_handled(app: App) -> None:
    app.leave, during = anyio.Event(), dict[str, bool]()

    def gives_way(user: str) -> bool:
        with pace.work_of(Principal("https://id.test", user)):
            return pace.others_began()

    async with app.client() as http, anyio.create_task_group() as group:

        async def ask() -> None:
            await http.post("/mcp", json=call("read"), headers=ALICE)

        group.start_soon(ask)
        while not app.seen:
            await lowlevel.checkpoint()
        during |= {user: gives_way(user) for user in ("alice", "carol")}
        app.leave.set()

    assert during == {"alice": False, "carol": True}
    assert not gives_way("carol")


async def test_what_is_no_http_is_let_through(app: App) -> None:
    async def nothing() -> Message:
        raise NotImplementedError

    async def ignore(_: Message) -> None: ...

    passed: list[Scope] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        passed.append(scope)

    layer = BearerLayer(
        inner, resource=RESOURCE, verify=app.verify, needs=lambda _: frozenset(), clock=app.clock
    )
    await layer({"type": "lifespan"}, nothing, ignore)

    assert passed == [{"type": "lifespan"}]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/server"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": ""}, {"Authorization": "Basic YTpi"}])
async def test_a_client_without_a_token_is_told_where_to_get_one_and_no_error(
    app: App, http: httpx2.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    answer = await http.get(path, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Bearer scope="x/notes:read x/notes:write", {METADATA}'
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert (app.seen, app.asked) == ([], [])


@pytest.mark.parametrize(
    "value",
    ["Bearer", "Bearer ", "Bearer a b", "Bearer ü", 'Bearer "x"', "bearer " + "a" * 20_000, "Bearer bob"],
)
async def test_a_wrong_token_is_refused_in_the_same_words(http: httpx2.AsyncClient, value: str) -> None:
    answer = await http.post("/mcp", headers=[(b"Authorization", value.encode())], json=call("read"))

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == (
        'Bearer error="invalid_token", error_description="The access token is not valid here, or not any more.", '
        f'scope="x/notes:read x/notes:write", {METADATA}'
    )
    assert answer.json()["error"] == "invalid_token"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", [("Authorization", "Bearer alice"), ("Authorization", "Bearer alice")]),
        ("/mcp?access_token=alice", [("Authorization", "Bearer alice")]),
        ("/mcp?access_token=alice", []),
        ("/mcp?a=b&access%5Ftoken=", []),
    ],
)
async def test_two_tokens_and_tokens_in_the_address_are_refused(
    app: App, http: httpx2.AsyncClient, path: str, headers: list[tuple[str, str]]
) -> None:
    answer = await http.get(path, headers=headers)

    assert answer.status_code == 400
    assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]
    assert (app.seen, app.asked) == ([], [])


@pytest.mark.parametrize("failure", [IssuerUnavailable("down"), ConfigurationError("wrong")])
async def test_an_issuer_that_is_down_is_no_fault_of_the_token(
    app: App, http: httpx2.AsyncClient, failure: Exception
) -> None:
    app.failure = failure

    answer = await http.get("/mcp", headers=ALICE)

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "10"
    assert "WWW-Authenticate" not in answer.headers


async def test_of_many_requests_whose_token_cannot_be_checked_the_log_names_one(
    app: App, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    app.failure = IssuerUnavailable("PostgreSQL cannot be used.")

    for _ in range(3):
        await http.get("/mcp", headers=ALICE)

    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["tokens cannot be checked now: PostgreSQL cannot be used."]


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_a_token_opens_the_way_and_the_body_arrives_whole(
    app: App, http: httpx2.AsyncClient, method: str
) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}' if method == "POST" else b""

    answer = await http.request(method, "/mcp", headers={"Authorization": "bEARER  alice"}, content=body)

    request, received = app.seen[0]
    assert answer.text == "through"
    assert answer.headers["Access-Control-Expose-Headers"].split(", ") == [
        "WWW-Authenticate",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
    ]
    assert request.user.bearer.principal.subject == "alice"
    assert request.auth.scopes == ["notes:read"]
    assert received == body


async def test_a_browser_is_answered_before_it_has_a_token(app: App, http: httpx2.AsyncClient) -> None:
    answer = await http.options("/mcp", headers={"Origin": "https://inspector.test"})

    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE, OPTIONS"
    assert app.asked == []


async def test_a_call_beyond_the_token_names_all_it_needs(app: App, http: httpx2.AsyncClient) -> None:
    answer = await http.post("/mcp", headers=ALICE, json=call("both"))

    assert answer.status_code == 403
    assert answer.headers["WWW-Authenticate"] == (
        'Bearer error="insufficient_scope", error_description="The access token does not allow this call: sign '
        'in again, and allow what scope names.", '
        f'scope="x/notes:read x/notes:write", {METADATA}'
    )
    assert app.seen == []


@pytest.mark.parametrize(
    ("version", "scopes"),
    [
        ("2026-07-28", "x/notes:write"),
        ("2025-11-25", "x/notes:read x/notes:write"),
        (None, "x/notes:read x/notes:write"),
    ],
)
async def test_a_client_that_would_give_up_what_it_has_is_told_that_as_well(
    http: httpx2.AsyncClient, version: str | None, scopes: str
) -> None:
    headers = ALICE if version is None else ALICE | {"MCP-Protocol-Version": version}

    answer = await http.post("/mcp", headers=headers, json=call("write"))

    assert answer.status_code == 403
    assert f'scope="{scopes}"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("message", [[call("read"), call("both")], [call("both")]])
async def test_calls_in_a_batch_are_looked_at_too(http: httpx2.AsyncClient, message: object) -> None:
    assert (await http.post("/mcp", headers=ALICE, json=message)).status_code == 403


@pytest.mark.parametrize(
    "message",
    [
        call("read"),
        call("unknown"),
        call(7),
        call("both", "prompts/get"),
        {"method": "tools/call", "params": ["both"]},
        {"method": "tools/call"},
        [],
        [7],
        "both",
        None,
    ],
)
async def test_what_needs_no_more_than_the_token_allows_is_let_through(
    http: httpx2.AsyncClient, message: object
) -> None:
    answer = await http.post("/mcp", headers=ALICE, content=json.dumps(message))

    assert answer.text == "through"


async def test_a_token_that_limits_nothing_allows_every_call(app: App, http: httpx2.AsyncClient) -> None:
    app.scopes = None

    assert (await http.post("/mcp", headers=ALICE, json=call("both"))).text == "through"


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":NaN}', b'{"a":1,"a":2}', b'"\\ud800"', b"[" * 70 + b"]" * 70]
)
async def test_json_that_can_be_misread_is_refused(app: App, http: httpx2.AsyncClient, body: bytes) -> None:
    answer = await http.post("/mcp", headers=ALICE, content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32700
    assert app.seen == []


async def test_a_body_over_the_cap_is_refused_in_pieces_too(app: App, http: httpx2.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    answer = await http.post("/mcp", headers=ALICE, content=pieces())

    assert answer.status_code == 413
    assert app.seen == []


async def test_a_body_of_too_many_elements_is_refused_though_it_is_small(app: App) -> None:
    body = f"[{'0,' * MAX_ELEMENTS}0]"

    async with app.client(app.layer(max_body_bytes=2 * len(body))) as http:
        answer = await http.post("/mcp", headers=ALICE, content=body)

    assert answer.status_code == 400
    assert "more than 20,000 elements" in answer.json()["error"]["message"]
    assert app.seen == []


@pytest.mark.parametrize("body", [" " * 131_072 + "[]", f"[{'0,' * 1_000}0]"])
async def test_a_large_body_counts_as_more_requests_than_one(app: App, body: str) -> None:
    twice = RequestRates(per_minute=2, burst=4, wait_seconds=0, refusal_seconds=0)
    layer = app.layer(max_body_bytes=200_000, limiter=RequestLimiter(twice))

    async with app.client(layer) as http:
        answers = [await http.post("/mcp", headers=ALICE, content=body) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert int(answers[1].headers["Retry-After"]) >= 1


async def send_at_once(
    app: App, limiter: RequestLimiter, *people: str, method: str = "POST"
) -> tuple[list[str], list[int]]:
    """Send requests before one is answered; return whose have begun then, and the answers to the others."""
    begun: list[str] = []
    answered: list[int] = []
    statuses: list[int] = []
    message = call("read") if method == "POST" else None

    async def send(person: str) -> None:
        answer = await http.request(
            method, "/mcp", headers={"Authorization": f"Bearer {person}"}, json=message
        )
        statuses.append(answer.status_code)

    app.leave = anyio.Event()
    async with app.client(app.layer(limiter=limiter)) as http, anyio.create_task_group() as group:
        for person in people:
            group.start_soon(send, person)
            await anyio.wait_all_tasks_blocked()
        begun += app.people
        answered += statuses
        app.leave.set()
    return begun, answered


async def test_calls_beyond_those_at_work_wait_and_further_ones_are_refused(app: App) -> None:
    limiter = RequestLimiter(RequestRates(calls=2, refusal_seconds=0))

    begun, refused = await send_at_once(app, limiter, "alice", "alice", "alice", "carol")

    assert (begun, refused) == (["alice", "carol"], [429])
    assert app.people == ["alice", "carol", "alice"]


async def test_streams_beyond_the_limit_are_refused_while_the_others_are_open(app: App) -> None:
    limiter = RequestLimiter(RequestRates(streams=2, refusal_seconds=0))

    begun, refused = await send_at_once(app, limiter, "alice", "alice", "carol", method="GET")

    assert (begun, refused) == (["alice", "carol"], [429])


async def test_a_call_of_another_person_begins_before_the_last_of_many_of_one(app: App) -> None:
    limiter = RequestLimiter(queue=FairQueue(most_fresh=1, fresh_seconds=60))

    begun, refused = await send_at_once(app, limiter, "alice", "alice", "alice", "carol")

    assert (begun, refused) == (["alice"], [])
    assert app.people == ["alice", "alice", "carol", "alice"]


async def test_while_one_large_body_of_a_client_comes_the_rest_of_the_next_is_not_read(app: App) -> None:
    layer = app.layer(max_body_bytes=4 * LARGE_BODY)
    reads = {"first": 0, "second": 0}
    while_the_first_comes: dict[str, int] = {}
    leave = anyio.Event()

    def large(name: str) -> Receive:
        async def receive() -> Message:
            reads[name] += 1
            if reads[name] == 1:
                return {"type": "http.request", "body": b" " * (LARGE_BODY + 1), "more_body": True}
            await leave.wait()
            return {"type": "http.disconnect"}

        return receive

    async def send(_: Message) -> None:
        raise NotImplementedError

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer alice")],
    }
    with anyio.fail_after(60):
        async with anyio.create_task_group() as both:
            for name in reads:
                both.start_soon(layer, scope, large(name), send)
            await anyio.wait_all_tasks_blocked()
            while_the_first_comes.update(reads)
            leave.set()

    assert while_the_first_comes == {"first": 2, "second": 1}
    assert reads == {"first": 2, "second": 2}


async def test_a_client_that_leaves_while_it_sends_is_forgotten(app: App) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_: Message) -> None:
        raise NotImplementedError

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer alice")],
    }
    await app.layer()(scope, receive, send)

    assert app.seen == []


async def test_the_application_still_learns_that_its_client_leaves(app: App) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"[]", "more_body": False},
        {"type": "http.disconnect"},
    ]
    learned: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_: Message) -> None:
        raise NotImplementedError

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        learned.extend([await receive(), await receive()])

    layer = BearerLayer(
        inner, resource=RESOURCE, verify=app.verify, needs=lambda _: frozenset(), clock=app.clock
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer alice")],
    }
    await layer(scope, receive, send)

    assert [message["type"] for message in learned] == ["http.request", "http.disconnect"]


async def sent_late(app: App, layer: BearerLayer, body: bytes) -> int:
    """Send a request whose token ends before its last piece comes; return the status of the answer."""
    statuses: list[int] = []
    pieces = [body[:1], body[1:]]
    app.failure = None

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.disconnect"}
        app.failure = TokenRefused("It was revoked.")
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"authorization", b"Bearer alice")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}
    await layer(scope, receive, send)
    return statuses[0]


async def test_a_call_whose_body_came_late_needs_a_token_that_is_still_valid(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps(call("read")).encode()
    monkeypatch.setattr(bearer, "VERIFIED_SECONDS", -1)
    refused = await sent_late(app, app.layer(), body)
    monkeypatch.setattr(bearer, "VERIFIED_SECONDS", 600)
    soon = await sent_late(app, app.layer(), body)

    assert (refused, soon) == (401, 200)
    assert app.people == ["alice"]


async def test_a_stream_needs_a_token_that_is_still_valid_when_it_is_opened(app: App) -> None:
    streams = OpenStreams()
    layer = BearerLayer(
        app,
        resource=RESOURCE,
        verify=app.verify,
        needs=lambda _: frozenset(),
        clock=app.clock,
        streams=streams,
    )

    assert await sent_late(app, layer, json.dumps(LISTEN).encode()) == 401
    assert (app.seen, streams.tokens()) == ([], [])


LISTEN: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}


@pytest.mark.parametrize(
    ("method", "message"), [("GET", None), ("POST", LISTEN), ("POST", [{"jsonrpc": "2.0"}, 1, LISTEN])]
)
async def test_a_stream_ends_when_its_token_does(app: App, method: str, message: object) -> None:
    app.seconds_left = 0.05

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    layer = BearerLayer(
        stream, resource=RESOURCE, verify=app.verify, needs=lambda _: frozenset(), clock=app.clock
    )
    transport = httpx2.ASGITransport(layer)
    with anyio.fail_after(60):
        async with httpx2.AsyncClient(transport=transport, base_url="https://mcp.test") as client:
            answer = await client.request(method, "/mcp", headers=ALICE, json=message)

    assert answer.text == "begun"


async def test_a_stream_that_ends_by_itself_is_left_as_it_is(app: App, http: httpx2.AsyncClient) -> None:
    assert (await http.get("/mcp", headers=ALICE)).text == "through"


async def test_a_call_that_began_in_time_goes_on_after_the_end_of_its_token(
    app: App, http: httpx2.AsyncClient
) -> None:
    app.seconds_left = -1

    answer = await http.post("/mcp", headers=ALICE, json=call("read"))

    assert answer.text == "through"
