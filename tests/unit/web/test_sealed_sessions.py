import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import GET_STREAM_KEY
from starlette.types import Receive, Scope, Send

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.ended_sessions import EndedSessionRepository
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.caller import BearerUser
from nextcloud_mcp_server.web.exchanges import Exchanges
from nextcloud_mcp_server.web.sealed_sessions import ONLY_HERE, SealedSessions
from nextcloud_mcp_server.web.session_ids import LIFETIME, SessionIds
from nextcloud_mcp_server.web.session_limiter import SessionLimiter
from nextcloud_mcp_server.web.stopping import StopState

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"elicitation": {}, "experimental": {"tested": {}}},
    "clientInfo": {"name": "claude-code", "version": "2"},
}
ISSUER = "https://id.test"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def who(ctx: Context[Any, Any]) -> str:
    """Say what the server knows of the client, which it learned from `initialize` alone."""
    session = ctx.session
    params = session.client_params
    assert params is not None
    return json.dumps([params.client_info.name, session.protocol_version, params.capabilities.experimental])


@dataclass
class Replica:
    """One process; `user` is None in single-user mode."""

    sessions: SealedSessions
    only_here: bool = False
    limiter: SessionLimiter | None = None

    @asynccontextmanager
    async def http(self, user: str | None = "alice/claude") -> AsyncGenerator[httpx2.AsyncClient]:
        exchanges = Exchanges(self.sessions.handle_request, StopState())

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if user is not None:
                person, _, client = user.partition("/")
                bearer = Bearer(Principal(ISSUER, person), client, None, 0, {})
                scope = {**scope, "user": BearerUser(bearer)}
            if self.only_here:
                scope[ONLY_HERE] = True
            await (self.limiter or exchanges)(scope, receive, send)

        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="https://mcp.test", headers=ACCEPT) as it:
            yield it

    async def begin(self, user: str | None = "alice/claude", **changes: object) -> str:
        async with self.http(user) as http:
            answer = await http.post("/mcp", json=message("initialize", INITIALIZE | changes))
        return answer.headers["mcp-session-id"]

    async def call(self, session_id: str, user: str | None = "alice/claude") -> tuple[int, Any]:
        async with self.http(user) as http:
            call = message("tools/call", {"name": "who", "arguments": {}})
            answer = await http.post("/mcp", json=call, headers={"mcp-session-id": session_id})
        if answer.status_code != 200:
            return answer.status_code, answer.json()["error"]["message"]
        data = next(line for line in answer.text.splitlines() if line.startswith("data: {"))
        return 200, json.loads(json.loads(data[6:])["result"]["content"][0]["text"])

    async def end(self, session_id: str, user: str | None = "alice/claude") -> int:
        async with self.http(user) as http:
            return (await http.delete("/mcp", headers={"mcp-session-id": session_id})).status_code


def message(method: str, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}


@dataclass
class Replicas:
    """Processes with the same keys and database."""

    database: Database
    clock: Clock
    has_keys: bool = True
    #: What the database says instead of an answer.
    fails: str = ""

    @asynccontextmanager
    async def one(self, **options: Any) -> AsyncGenerator[Replica]:  # noqa: ANN401 - of the sessions
        mcp = MCPServer[Any]("test")
        mcp.add_tool(who)
        ids = SessionIds(lambda: [b"k" * 32], clock=self.clock)

        async def ended() -> EndedSessionRepository:
            if self.fails:
                raise StorageError(self.fails)
            return self.database.ended_sessions

        sessions = SealedSessions(
            mcp._lowlevel_server,  # pyright: ignore[reportPrivateUsage] - as `mcp_server.Server` does
            ids=lambda: ids if self.has_keys else None,
            ended=ended,
            **options,
        )
        async with sessions.run():
            yield Replica(sessions)


@pytest.fixture
async def replicas(tmp_path: Path) -> AsyncGenerator[Replicas]:
    clock = Clock()
    database = await Database.open(file_url(tmp_path / "mcp.db"), keys=KeyRing([b"s" * 32]), clock=clock)
    yield Replicas(database, clock)
    await database.aclose()


async def test_a_session_goes_on_at_another_replica_as_the_client_began_it(replicas: Replicas) -> None:
    async with replicas.one() as one, replicas.one() as other:
        session_id = await one.begin()

        answers = [await each.call(session_id) for each in (one, other, one)]

    assert answers == [(200, ["claude-code", "2025-06-18", {"tested": {}}])] * 3


async def test_a_session_goes_on_after_a_restart_with_all_requests_that_come_at_once(
    replicas: Replicas,
) -> None:
    async with replicas.one() as before:
        session_id = await before.begin()
    answers: list[tuple[int, Any]] = []

    async with replicas.one() as after, anyio.create_task_group() as group:

        async def call() -> None:
            answers.append(await after.call(session_id))

        for _ in range(5):
            group.start_soon(call)

    assert [status for status, _ in answers] == [200] * 5


async def test_a_single_user_server_takes_up_sessions_too_and_before_it_has_keys_none(
    replicas: Replicas,
) -> None:
    async with replicas.one() as one, replicas.one() as other:
        replicas.has_keys = False
        plain = await one.begin(None)
        early = await one.call(plain, None), await other.call(plain, None)
        replicas.has_keys = True
        sealed = await one.begin(None)

        late = await other.call(sealed, None)

        assert [status for status, _ in early] == [200, 404]
        assert late[0] == 200
        # One that was open before there were keys stays open.
        assert (await one.call(plain, None))[0] == 200


@pytest.mark.parametrize("user", ["bob/claude", "alice/chatgpt", None])
async def test_a_session_of_another_user_or_client_is_none(replicas: Replicas, user: str | None) -> None:
    async with replicas.one() as one, replicas.one() as other:
        session_id = await one.begin()

        answers = [await each.call(session_id, user) for each in (one, other)]
        ends = [await each.end(session_id, user) for each in (one, other)]

        assert answers == [(404, "Session not found")] * 2
        assert ends == [404, 404]
        assert (await one.call(session_id))[0] == 200


async def test_a_made_up_session_is_none(replicas: Replicas) -> None:
    async with replicas.one() as one:
        session_id = await one.begin()

        assert await one.call(session_id[:-2]) == (404, "Session not found")
        assert await one.end(session_id[:-2]) == 404


async def test_a_session_that_its_client_ended_comes_back_nowhere(replicas: Replicas) -> None:
    async with replicas.one(look_seconds=0) as one, replicas.one(look_seconds=0) as other:
        session_id = await one.begin()
        await other.call(session_id)

        ended = await one.end(session_id)

        assert ended == 200
        assert [await each.call(session_id) for each in (one, other)] == [(404, "Session not found")] * 2
        assert await other.end(session_id) == 404


async def test_a_session_can_be_ended_at_a_replica_that_never_saw_it(replicas: Replicas) -> None:
    async with replicas.one(look_seconds=0) as one, replicas.one() as other:
        session_id = await one.begin()

        ended = await other.end(session_id)

        assert ended == 200
        assert await one.call(session_id) == (404, "Session not found")


async def test_a_session_that_was_begun_before_its_user_lost_the_account_comes_back_nowhere(
    replicas: Replicas,
) -> None:
    async with replicas.one() as one, replicas.one() as other:
        session_id, clock = await one.begin(), replicas.clock
        clock.now += timedelta(seconds=1)
        await replicas.database.ended_sessions.end_all(
            Principal(ISSUER, "alice"), expires_at=clock.now + LIFETIME
        )
        clock.now += timedelta(seconds=1)
        later = await one.begin()

        assert (await other.call(session_id))[0] == 404
        assert (await other.call(later))[0] == 200


async def test_a_session_that_is_closed_for_others_is_opened_by_its_next_request(replicas: Replicas) -> None:
    async with replicas.one() as one:
        session_id = await one.begin()
        one.only_here = True
        closed = [await one.end(session_id), await one.end(session_id)]
        is_open = session_id in one.sessions._server_instances  # pyright: ignore[reportPrivateUsage]
        one.only_here = False

        assert closed == [200, 200]
        assert not is_open
        assert (await one.call(session_id))[0] == 200


async def test_an_old_session_is_not_opened_again_and_one_that_is_open_goes_on(replicas: Replicas) -> None:
    async with replicas.one() as one, replicas.one() as other:
        session_id = await one.begin()
        replicas.clock.now += LIFETIME

        assert (await one.call(session_id))[0] == 200
        assert (await other.call(session_id))[0] == 404


async def test_a_client_whose_capabilities_are_too_long_to_seal_has_a_session_of_one_process(
    replicas: Replicas,
) -> None:
    async with replicas.one() as one, replicas.one() as other:
        session_id = await one.begin(capabilities={"experimental": {"x": {"y": "z" * 4_000}}})

        assert (await one.call(session_id))[0] == 200
        assert (await other.call(session_id))[0] == 404


async def test_without_a_database_open_sessions_go_on_and_others_are_told_to_wait(replicas: Replicas) -> None:
    async with replicas.one(look_seconds=0) as one, replicas.one() as other:
        session_id = await one.begin()
        replicas.fails = "The database is away."

        answers = await one.call(session_id), await other.call(session_id)
        ended = await one.end(session_id)
        replicas.fails = ""

        assert answers[0][0] == 200
        assert answers[1] == (503, "The database is away.")
        # The client is not told that it ended, so it may be opened again.
        assert ended == 503
        assert (await one.call(session_id))[0] == 200


async def test_a_process_that_is_full_opens_no_session_again(replicas: Replicas) -> None:
    async with replicas.one() as one, replicas.one(max_sessions=1) as full:
        session_id = await one.begin()
        await full.begin("bob/claude")

        assert await full.call(session_id) == (503, "Too many open sessions")
        # No other request waits for it.
        assert await full.call(session_id) == (503, "Too many open sessions")


async def test_a_request_that_comes_while_a_session_ends_does_not_open_it_again(replicas: Replicas) -> None:
    async with replicas.one() as one:
        session_id = await one.begin()
        answers: list[int] = []
        slow, go = anyio.Event(), anyio.Event()
        ended = one.sessions._ended  # pyright: ignore[reportPrivateUsage]

        async def late() -> EndedSessionRepository:
            if not slow.is_set():
                slow.set()
                await go.wait()
            return await ended()

        one.sessions._ended = late  # pyright: ignore[reportPrivateUsage]
        async with anyio.create_task_group() as group:
            group.start_soon(one.end, session_id)
            await slow.wait()
            answers.append((await one.call(session_id))[0])
            go.set()

        assert answers == [404]


@pytest.mark.parametrize("fails", ["", "The database is away."])
async def test_a_session_that_ends_after_the_look_of_a_request_that_opens_it_does_not_stay_open(
    replicas: Replicas, fails: str
) -> None:
    """The end finds nothing to close here; the request had its answer before it."""
    slow, go = anyio.Event(), anyio.Event()

    class Late(EndedSessionRepository):
        async def is_ended(self, session_id: str, principal: Principal, *, begun_at: datetime) -> bool:
            answer = await super().is_ended(session_id, principal, begun_at=begun_at)
            if not slow.is_set():
                slow.set()
                await go.wait()
            return answer

    async with replicas.one() as one, replicas.one() as other:
        session_id = await one.begin()
        answers: list[tuple[int, Any]] = []
        done: list[int] = []
        ended = other.sessions._ended  # pyright: ignore[reportPrivateUsage]

        async def late() -> EndedSessionRepository:
            return Late((await ended())._transactions)  # pyright: ignore[reportPrivateUsage]

        async def call() -> None:
            answers.append(await other.call(session_id))

        other.sessions._ended = late  # pyright: ignore[reportPrivateUsage]
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await slow.wait()
            done.append(await other.end(session_id))
            replicas.fails = fails
            go.set()
        is_open = session_id in other.sessions._server_instances  # pyright: ignore[reportPrivateUsage]

    assert done == [200]
    assert answers == [(503, fails) if fails else (404, "Session not found")]
    assert not is_open


@pytest.mark.parametrize("whole", [False, True])
async def test_the_stream_of_a_session_that_ended_elsewhere_is_closed(
    replicas: Replicas,
    whole: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Its client may send no request here any more; the stream would tell of changes for days."""
    async with replicas.one(stream_seconds=0.01) as one, replicas.one() as other:
        ended, of_bob = await one.begin(), await one.begin("bob/claude")
        instances = one.sessions._server_instances  # pyright: ignore[reportPrivateUsage]
        streams = instances[ended]._request_streams  # pyright: ignore[reportPrivateUsage]
        statuses: list[int] = []

        async def stream() -> None:
            async with one.http() as http:
                statuses.append((await http.get("/mcp", headers={"mcp-session-id": ended})).status_code)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(stream)
                while True:
                    if GET_STREAM_KEY in streams:
                        break
                    await anyio.sleep(0.01)
                replicas.fails = "The database is away."
                await anyio.sleep(0.05)
                replicas.fails = ""
                if whole:
                    replicas.clock.now += timedelta(seconds=1)
                    repository = replicas.database.ended_sessions
                    await repository.end_all(
                        Principal(ISSUER, "alice"), expires_at=replicas.clock.now + LIFETIME
                    )
                else:
                    await other.end(ended)
        left = list(instances)

    assert statuses == [200]
    assert left == [of_bob]


async def test_a_session_that_a_refused_request_takes_up_counts_among_those_of_its_client(
    replicas: Replicas,
) -> None:
    """The request is wrong, so its answer does not name the session; it is open nevertheless."""
    async with replicas.one() as before:
        session_ids = [await before.begin() for _ in range(4)]

    async with replicas.one() as after:
        after.limiter = SessionLimiter(
            Exchanges(after.sessions.handle_request, StopState()), most_of_client=2
        )
        statuses: list[int] = []
        for session_id in session_ids:
            async with after.http() as http:
                headers = {"mcp-session-id": session_id, "Accept": "text/plain"}
                answer = await http.post("/mcp", json=message("ping", {}), headers=headers)
            statuses.append(answer.status_code)
        are_open = list(after.sessions._server_instances)  # pyright: ignore[reportPrivateUsage]

    assert statuses == [406] * 4
    assert are_open == session_ids[2:]


async def test_the_late_end_of_a_session_leaves_the_one_open_that_was_opened_again(
    replicas: Replicas,
) -> None:
    """The work of a closed session may end after its next request; until then both have the same id."""
    async with replicas.one() as one:
        sessions, session_id = one.sessions, await one.begin()
        closed = sessions._server_instances[session_id]  # pyright: ignore[reportPrivateUsage]
        one.only_here = True
        await one.end(session_id)
        one.only_here = False
        await one.call(session_id)

        await sessions._discard_session(session_id, closed)  # pyright: ignore[reportPrivateUsage]

        assert session_id in sessions._server_instances  # pyright: ignore[reportPrivateUsage]
