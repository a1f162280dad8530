from dataclasses import dataclass, field

import anyio
import httpx2
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.caller import BearerUser
from nextcloud_mcp_server.web.open_connections import OpenConnections
from nextcloud_mcp_server.web.sealed_sessions import ONLY_HERE
from nextcloud_mcp_server.web.session_limiter import SessionLimiter


@dataclass
class Transport:
    """Opens, serves and ends sessions, as the transport of MCP does; a token is `person/client`."""

    limits: dict[str, int] = field(default_factory=dict[str, int])
    open: list[str] = field(default_factory=list[str])
    made: int = 0
    hold: anyio.Event | None = None
    #: Sessions that were closed here alone, so that they can be taken up again.
    closed: list[str] = field(default_factory=list[str])
    limiter: SessionLimiter = field(init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        named = request.headers.get("mcp-session-id")
        if named in self.closed and request.method != "DELETE":
            self.closed.remove(named)
            self.open.append(named)
            response = Response("", headers={"mcp-session-id": named})
        else:
            response = Response("", 404 if named is not None and named not in self.open else 200)
        if named is None and request.headers.get("opens"):
            self.made += 1
            self.open.append(f"s{self.made}")
            response.headers["mcp-session-id"] = f"s{self.made}"
        elif request.method == "DELETE" and named in self.open:
            self.open.remove(named)
            if ONLY_HERE in scope:
                self.closed.append(named)
        elif request.method == "GET" and self.hold is not None:
            await self.hold.wait()
        await response(scope, receive, send)

    def http(self, token: str) -> httpx2.AsyncClient:
        limiter = SessionLimiter(self, **self.limits)
        self.limits, self.limiter = {}, getattr(self, "limiter", limiter)
        person, _, client = token.partition("/")
        user = BearerUser(Bearer(Principal("https://id.test", person), client, None, 0, {}))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self.limiter({**scope, "user": user}, receive, send)

        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://mcp.test")


async def opened(transport: Transport, token: str, times: int = 1) -> None:
    async with transport.http(token) as http:
        for _ in range(times):
            await http.post("/mcp", headers={"opens": "1"})


async def used(transport: Transport, token: str, session: str, method: str = "POST") -> int:
    async with transport.http(token) as http:
        return (await http.request(method, "/mcp", headers={"mcp-session-id": session})).status_code


async def test_the_session_that_was_used_the_longest_ago_ends_for_a_new_one() -> None:
    transport = Transport({"most_of_client": 2})
    await opened(transport, "alice/one", 2)
    await used(transport, "alice/one", "s1")

    await opened(transport, "alice/one")

    assert transport.open == ["s1", "s3"]


async def test_a_session_that_is_in_use_stays_for_as_long_as_another_one_can_end() -> None:
    transport = Transport({"most_of_client": 2}, hold=anyio.Event())
    one_in_use: list[str] = []
    await opened(transport, "alice/one", 2)
    async with anyio.create_task_group() as group:
        group.start_soon(used, transport, "alice/one", "s1", "GET")
        await anyio.wait_all_tasks_blocked()
        # Used later than the one in use, and idle.
        await used(transport, "alice/one", "s2")
        await opened(transport, "alice/one")
        one_in_use += transport.open
        group.start_soon(used, transport, "alice/one", "s3", "GET")
        await anyio.wait_all_tasks_blocked()
        await opened(transport, "alice/one")
        assert transport.hold is not None
        transport.hold.set()

    assert (one_in_use, transport.open) == (["s1", "s3"], ["s3", "s4"])


async def test_a_session_that_is_taken_up_again_counts_and_closes_another_one() -> None:
    transport = Transport({"most_of_client": 2}, closed=["elsewhere"])
    await opened(transport, "alice/one", 2)

    status = await used(transport, "alice/one", "elsewhere")

    assert status == 200
    assert (transport.open, transport.closed) == (["s2", "elsewhere"], ["s1"])


async def test_a_session_that_is_in_use_ends_for_good_if_all_are() -> None:
    """Its client would open its stream again at once, which would close another one."""
    transport = Transport({"most_of_client": 1}, hold=anyio.Event())
    await opened(transport, "alice/one")
    async with anyio.create_task_group() as group:
        group.start_soon(used, transport, "alice/one", "s1", "GET")
        await anyio.wait_all_tasks_blocked()
        await opened(transport, "alice/one")
        assert transport.hold is not None
        transport.hold.set()

    assert (transport.open, transport.closed) == (["s2"], [])


async def test_a_session_that_is_unknown_here_is_ended_and_not_counted() -> None:
    transport = Transport({"most_of_client": 1}, closed=["elsewhere"])
    await opened(transport, "alice/one")

    await used(transport, "alice/one", "elsewhere", "DELETE")

    assert transport.open == ["s1"]


async def test_clients_of_one_user_share_a_limit_and_other_users_keep_their_own() -> None:
    transport = Transport({"most_of_person": 3, "most_of_client": 2})
    await opened(transport, "bob/one", 2)
    await opened(transport, "alice/one", 2)

    await opened(transport, "alice/two", 2)

    assert transport.open == ["s1", "s2", "s4", "s5", "s6"]


async def test_there_is_always_room_for_another_person() -> None:
    transport = Transport({"most_of_all": 3})
    for person in ("a", "b", "c", "d"):
        await opened(transport, f"{person}/one")

    assert transport.open == ["s2", "s3", "s4"]


async def test_sessions_that_ended_are_not_counted() -> None:
    transport = Transport({"most_of_client": 2})
    await opened(transport, "alice/one", 2)
    await used(transport, "alice/one", "s1", "DELETE")
    transport.open.remove("s2")
    gone = await used(transport, "alice/one", "s2")

    await opened(transport, "alice/one", 2)

    assert gone == 404
    assert transport.open == ["s3", "s4"]


async def test_for_a_session_that_ended_none_that_lives_is_ended() -> None:
    transport = Transport({"most_of_client": 2})
    await opened(transport, "alice/one", 2)
    await used(transport, "alice/one", "s2", "DELETE")

    await opened(transport, "alice/one")

    assert transport.open == ["s1", "s3"]


async def test_naming_the_session_of_others_does_not_keep_it_alive() -> None:
    transport = Transport({"most_of_client": 2})
    await opened(transport, "alice/one", 2)
    await used(transport, "bob/one", "s1")

    await opened(transport, "alice/one")

    assert transport.open == ["s2", "s3"]


async def test_a_post_that_opens_none_and_a_request_without_a_user_pass() -> None:
    transport = Transport()
    async with transport.http("alice/one") as http:
        plain = await http.post("/mcp")
    bare = httpx2.ASGITransport(SessionLimiter(transport))
    async with httpx2.AsyncClient(transport=bare, base_url="https://mcp.test") as http:
        open_to_all = await http.get("/account")

    assert (plain.status_code, open_to_all.status_code) == (200, 200)


async def test_the_sessions_of_one_person_end_and_those_of_others_stay() -> None:
    transport = Transport()
    await opened(transport, "alice/one", 2)
    await opened(transport, "alice/two")
    await opened(transport, "bob/one")

    await transport.limiter.end(lambda bearer: bearer.principal.subject == "alice")

    assert transport.open == ["s4"]
    assert await used(transport, "alice/one", "s1") == 404


async def test_connections_can_be_ended_before_there_are_any() -> None:
    connections = OpenConnections()

    await connections.end(lambda _: True)
    transport = Transport()
    transport.limiter = connections.limit_sessions(transport)
    await opened(transport, "alice/one")
    await opened(transport, "bob/one")
    await connections.end_of(frozenset({Principal("https://id.test", "alice")}))

    assert transport.open == ["s2"]
