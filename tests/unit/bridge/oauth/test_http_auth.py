"""Requests to a server get a token; 401 and 403 are answered, and no more often than they should be."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.oauth.faults import SignInNeeded
from nextcloud_mcp_server.bridge.oauth.http_auth import HttpAuth, auth_for, http_auth
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import ISSUER, SERVER, SERVER_METADATA, FakeServers, target
from tests.unit.bridge.oauth.test_tokens import GRANT

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FRESH = GRANT.model_copy(update={"expires_at": NOW + timedelta(hours=1), "requested": "read"})


class Clock:
    """The time, which tests move."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return NOW + self.ahead


@pytest.fixture
def servers() -> FakeServers:
    return FakeServers()


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(FileVault(tmp_path / "tokens.json"), tmp_path)


def auth(
    servers: FakeServers,
    store: TokenStore,
    *,
    clock: Callable[[], datetime] = lambda: NOW,
    is_interactive: bool = True,
    **configured: object,
) -> HttpAuth:
    browser = servers.browser() if is_interactive else None
    return auth_for(target(**configured), store, browser, open_http=servers.http, clock=clock)


async def call(servers: FakeServers, authenticated: HttpAuth, url: str = SERVER) -> httpx2.Response:
    async with servers.http() as http:
        return await http.post(url, json={"id": 1}, auth=authenticated)


def calls(servers: FakeServers) -> list[str | None]:
    """Return the tokens with which the server was called."""
    return [one.headers.get("Authorization") for one in servers.requests if str(one.url) == SERVER]


async def test_the_first_call_signs_in_and_the_next_ones_use_its_token(
    servers: FakeServers, store: TokenStore
) -> None:
    authenticated = auth(servers, store)

    assert [(await call(servers, authenticated)).status_code for _ in range(3)] == [200] * 3

    assert calls(servers) == [None] + ["Bearer access-1"] * 3
    assert len(servers.opened) == 1
    kept = await store.load(SERVER)
    assert kept is not None
    assert kept.access_token == SecretStr("access-1")


async def test_the_next_process_uses_what_is_kept(servers: FakeServers, store: TokenStore) -> None:
    await call(servers, auth(servers, store))

    assert (await call(servers, auth(servers, store, is_interactive=False))).status_code == 200

    assert len(servers.opened) == 1


async def test_a_token_is_refreshed_a_minute_before_it_expires(
    servers: FakeServers, store: TokenStore
) -> None:
    clock = Clock()
    authenticated = auth(servers, store, clock=clock)
    await call(servers, authenticated)

    clock.ahead = timedelta(seconds=3539)
    await call(servers, authenticated)
    assert len(servers.forms("/token")) == 1
    clock.ahead = timedelta(seconds=3540)
    await call(servers, authenticated)

    assert servers.forms("/token")[1]["refresh_token"] == "refresh-1"
    assert calls(servers)[-1] == "Bearer access-2"
    assert len(servers.opened) == 1


async def test_a_refresh_after_a_restart_asks_the_server_that_issued_the_token(
    servers: FakeServers, store: TokenStore
) -> None:
    """The SDK's provider would send the refresh token to the MCP server's own host."""
    clock = Clock()
    await call(servers, auth(servers, store, clock=clock))
    clock.ahead = timedelta(hours=2)

    assert (await call(servers, auth(servers, store, clock=clock, is_interactive=False))).status_code == 200

    assert servers.asked().count(SERVER_METADATA) == 1


async def test_many_calls_at_once_refresh_once(servers: FakeServers, store: TokenStore) -> None:
    clock = Clock()
    shared, other = auth(servers, store, clock=clock), auth(servers, store, clock=clock, is_interactive=False)
    await call(servers, shared)
    clock.ahead = timedelta(hours=2)

    async with anyio.create_task_group() as group:
        for number in range(10):
            # Half of them stand for another process: they share the store alone.
            group.start_soon(call, servers, (shared, other)[number % 2])

    assert len(servers.forms("/token")) == 2
    assert calls(servers)[2:] == ["Bearer access-2"] * 10


async def test_many_calls_at_once_sign_in_once(servers: FakeServers, store: TokenStore) -> None:
    shared = auth(servers, store)
    other = auth(servers, store)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(call, servers, (shared, other)[number % 2])

    assert len(servers.opened) == 1


async def test_who_waits_for_a_sign_in_that_fails_starts_no_other_one(
    servers: FakeServers, store: TokenStore
) -> None:
    servers.redirect = lambda back: {"state": back["state"], "error": "access_denied"}
    authenticated = auth(servers, store)
    failed: list[str] = []

    async def fail() -> None:
        with pytest.raises(AuthorizationFailed) as caught:
            await call(servers, authenticated)
        failed.append(str(caught.value))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(fail)

    assert failed == ["You did not allow the access."] * 4
    assert len(servers.opened) == 1
    # A later call may ask again.
    servers.redirect = None
    assert (await call(servers, authenticated)).status_code == 200


async def test_a_refused_token_is_refreshed_and_the_call_made_once_again(
    servers: FakeServers, store: TokenStore
) -> None:
    authenticated = auth(servers, store)
    await call(servers, authenticated)
    servers.valid.clear()

    assert (await call(servers, authenticated)).status_code == 200

    assert len(servers.opened) == 1
    assert [form["grant_type"] for form in servers.forms("/token")] == ["authorization_code", "refresh_token"]


async def test_where_the_refresh_token_is_dead_the_user_signs_in_with_the_same_registration(
    servers: FakeServers, store: TokenStore
) -> None:
    authenticated = auth(servers, store)
    await call(servers, authenticated)
    servers.valid.clear()
    servers.refresh_tokens.clear()

    assert (await call(servers, authenticated)).status_code == 200

    assert len(servers.opened) == 2
    assert len(servers.forms("/register")) == 1


async def test_a_registration_that_the_server_has_forgotten_is_made_anew(
    servers: FakeServers, store: TokenStore
) -> None:
    authenticated = auth(servers, store)
    await call(servers, authenticated)
    servers.valid.clear()
    servers.replies[f"{ISSUER}/token"] = httpx2.Response(401, json={"error": "invalid_client"})
    browser_opens = servers.visit

    def visit(url: str) -> bool:
        del servers.replies[f"{ISSUER}/token"]
        return browser_opens(url)

    servers.visit = visit  # type: ignore[method-assign]
    authenticated = auth(servers, store)

    assert (await call(servers, authenticated)).status_code == 200
    assert len(servers.forms("/register")) == 2


async def test_a_server_that_refuses_every_token_is_asked_twice_alone(
    servers: FakeServers, store: TokenStore
) -> None:
    servers.replies[SERVER] = httpx2.Response(401, headers={"WWW-Authenticate": servers.challenge})
    authenticated = auth(servers, store)

    with pytest.raises(
        AuthorizationFailed, match=r"refuses the access that was just given.*client auth example"
    ):
        await call(servers, authenticated)

    assert len(calls(servers)) == 2
    assert len(servers.opened) == 1


async def test_without_a_browser_the_command_is_named(servers: FakeServers, store: TokenStore) -> None:
    with pytest.raises(SignInNeeded, match="Run: nextcloud-mcp-server client auth example"):
        await call(servers, auth(servers, store, is_interactive=False))

    assert servers.opened == []


async def test_a_403_is_not_called_a_missing_sign_in(servers: FakeServers, store: TokenStore) -> None:
    await store.save(SERVER, FRESH)
    header = 'Bearer error="insufficient_scope", scope="notes:write"'
    servers.replies[SERVER] = httpx2.Response(403, headers={"WWW-Authenticate": header})

    with pytest.raises(SignInNeeded) as raised:
        await call(servers, auth(servers, store, is_interactive=False))

    assert str(raised.value) == (
        "example answered 403: it wants more rights (notes:write) than this client has. "
        "Run: nextcloud-mcp-server client auth example"
    )


async def test_more_scopes_are_asked_for_with_those_that_are_there(
    servers: FakeServers, store: TokenStore
) -> None:
    authenticated = auth(servers, store)
    await call(servers, authenticated)
    servers.needs = {"write"}

    assert (await call(servers, authenticated)).status_code == 200

    asked = parse_qs(urlsplit(servers.opened[1]).query)["scope"]
    assert asked == ["read write"]
    assert len(servers.opened) == 2


async def test_scopes_are_asked_for_at_most_three_times(servers: FakeServers, store: TokenStore) -> None:
    await store.save(SERVER, FRESH)
    servers.valid["access-0"] = "read"
    rounds = iter(range(100))
    answer = servers.answer

    async def never_enough(request: httpx2.Request) -> httpx2.Response:
        if str(request.url) == SERVER:
            servers.requests.append(request)
            header = f'Bearer error="insufficient_scope", scope="more-{next(rounds)}"'
            return httpx2.Response(403, headers={"WWW-Authenticate": header})
        return await answer(request)

    servers.answer = never_enough  # type: ignore[method-assign]

    with pytest.raises(AuthorizationFailed, match="wants more rights than the sign-in gave"):
        await call(servers, auth(servers, store))

    assert len(calls(servers)) == 4
    assert [parse_qs(urlsplit(url).query)["scope"][0] for url in servers.opened] == [
        "read more-0",
        "read more-0 more-1",
        "read more-0 more-1 more-2",
    ]


async def test_a_user_who_does_not_allow_more_is_not_asked_again_in_the_same_call(
    servers: FakeServers, store: TokenStore
) -> None:
    servers.allows = {"read"}
    authenticated = auth(servers, store)
    await call(servers, authenticated)
    servers.needs = {"write"}

    with pytest.raises(AuthorizationFailed, match="wants more rights"):
        await call(servers, authenticated)

    assert len(servers.opened) == 2


@pytest.mark.parametrize("header", ['Bearer error="invalid_token"', 'Basic realm="x"', ""])
async def test_another_403_is_the_callers(servers: FakeServers, store: TokenStore, header: str) -> None:
    servers.replies[SERVER] = httpx2.Response(403, headers={"WWW-Authenticate": header} if header else {})

    assert (await call(servers, auth(servers, store))).status_code == 403
    assert len(servers.requests) == 1


@pytest.mark.parametrize(
    "url", ["https://evil.example/mcp", "http://mcp.example/mcp", "https://mcp.example:444/mcp"]
)
async def test_another_host_gets_no_token(servers: FakeServers, store: TokenStore, url: str) -> None:
    authenticated = auth(servers, store)
    await call(servers, authenticated)

    await call(servers, authenticated, url)

    assert "Authorization" not in servers.requests[-1].headers


async def test_a_refresh_that_fails_for_now_lets_a_token_that_holds_be_used(
    servers: FakeServers, store: TokenStore
) -> None:
    clock = Clock()
    authenticated = auth(servers, store, clock=clock)
    await call(servers, authenticated)
    servers.replies[f"{ISSUER}/token"] = httpx2.Response(503)
    clock.ahead = timedelta(seconds=3590)

    assert (await call(servers, authenticated)).status_code == 200

    clock.ahead = timedelta(seconds=3600)
    with pytest.raises(AuthorizationFailed, match="did not refresh the access"):
        await call(servers, authenticated)
    # Nothing was lost: the next call works when the server does.
    servers.replies.clear()
    assert (await call(servers, authenticated)).status_code == 200
    assert len(servers.opened) == 1


async def test_a_token_without_a_refresh_token_is_used_to_its_end(
    servers: FakeServers, store: TokenStore
) -> None:
    servers.valid["access-0"] = "read"
    await store.save(SERVER, FRESH.model_copy(update={"refresh_token": None}))
    clock = Clock()
    authenticated = auth(servers, store, clock=clock)
    clock.ahead = timedelta(seconds=3599)
    assert (await call(servers, authenticated)).status_code == 200

    clock.ahead = timedelta(seconds=3601)
    assert (await call(servers, authenticated)).status_code == 200

    assert len(servers.opened) == 1
    assert servers.forms("/token")[0]["grant_type"] == "authorization_code"


async def test_a_grant_of_another_client_id_is_not_used(servers: FakeServers, store: TokenStore) -> None:
    await store.save(SERVER, FRESH)
    servers.valid["access-0"] = "read"

    await call(servers, auth(servers, store, client_id="configured-since"))

    assert parse_qs(urlsplit(servers.opened[0]).query)["client_id"] == ["configured-since"]


async def test_after_a_sign_out_elsewhere_nothing_is_refreshed(
    servers: FakeServers, store: TokenStore
) -> None:
    clock = Clock()
    authenticated = auth(servers, store, clock=clock, is_interactive=False)
    await store.save(SERVER, FRESH)
    servers.valid["access-0"] = "read"
    await call(servers, authenticated)
    await store.remove(SERVER)
    clock.ahead = timedelta(hours=2)
    servers.valid.clear()

    with pytest.raises(SignInNeeded):
        await call(servers, authenticated)

    assert servers.forms("/token") == []


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"a" * 65_536


async def test_the_body_of_a_refusal_is_not_read(servers: FakeServers, store: TokenStore) -> None:
    answer = servers.answer

    async def refuse_at_length(request: httpx2.Request) -> httpx2.Response:
        response = await answer(request)
        if response.status_code != 401:
            return response
        return httpx2.Response(401, headers=response.headers, content=endless())

    servers.answer = refuse_at_length  # type: ignore[method-assign]

    with anyio.fail_after(20):
        assert (await call(servers, auth(servers, store))).status_code == 200


async def test_answers_come_as_streams_and_at_once(servers: FakeServers, store: TokenStore) -> None:
    await store.save(SERVER, FRESH)
    authenticated = auth(servers, store)

    async def stream(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=endless())

    servers.answer = stream  # type: ignore[method-assign]
    async with servers.http() as http:
        with anyio.fail_after(20):
            async with (
                http.stream("GET", SERVER, auth=authenticated) as first,
                http.stream("GET", SERVER, auth=authenticated) as second,
            ):
                assert await anext(first.aiter_bytes())
                assert await anext(second.aiter_bytes())


@pytest.mark.parametrize("url", ["http://mcp.example/mcp", "http://192.168.1.5:8000/mcp"])
def test_no_token_goes_over_a_network_in_the_clear(servers: FakeServers, store: TokenStore, url: str) -> None:
    with pytest.raises(AuthorizationFailed, match="has no https URL"):
        auth(servers, store, url=url)


@pytest.mark.parametrize(("oauth", "is_none"), [("off", True), ("auto", False)])
def test_a_configured_server_is_authenticated_where_it_says_so(
    store: TokenStore,
    oauth: str,
    is_none: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    server = Server.model_validate({"id": "example", "transport": "http", "url": SERVER, "oauth": oauth})

    assert (http_auth(server, store, None) is None) is is_none
