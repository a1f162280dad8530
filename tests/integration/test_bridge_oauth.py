"""The client of other servers signs in to this one, which many people use: with its own issuer, and with another."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.from_thread
import httpx2
import pytest
from anyio.abc import TaskGroup

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.bridge.oauth.faults import SignInNeeded
from nextcloud_mcp_server.bridge.oauth.http_auth import HttpAuth, auth_for
from nextcloud_mcp_server.bridge.oauth.sign_in import SignedOut, sign_in, sign_out
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.target import target_of
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault
from nextcloud_mcp_server.errors import AuthorizationFailed
from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.integration.mcp_client import REGISTERED
from tests.integration.oidc_app import OidcApp

DOCUMENT = "https://app.example.org/oauth/client.json"
LIST, CREATE = "nc_notes_list_notes", "nc_notes_create_note"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "server") as opened:
        yield opened


@dataclass
class User:
    """A user with a browser and a place for tokens; `declines` presses the other button."""

    app: OidcApp
    person: Person
    group: TaskGroup
    folder: Path
    said: list[str] = field(default_factory=list[str])
    opened: list[str] = field(default_factory=list[str])
    pages: list[str] = field(default_factory=list[str])
    #: What the user allows at each sign-in; the last one holds for all after it, None for what is preset.
    allows: list[list[str] | None] = field(default_factory=lambda: [["notes:read"]])

    @property
    def store(self) -> TokenStore:
        return TokenStore(FileVault(self.folder / "tokens.json"), self.folder)

    def server(self, **config: object) -> Server:
        fields = {"id": "nextcloud", "transport": "http", "url": f"{self.app.url}/mcp", "oauth": "auto"}
        return Server.model_validate({**fields, "timeout_seconds": 20, "oauth_config": config})

    def browser(self) -> Browser:
        return Browser(self.said.append, launch=self.launch)

    def auth(self, server: Server, *, is_interactive: bool = True) -> HttpAuth:
        return auth_for(
            target_of(server), self.store, self.browser() if is_interactive else None, clock=self.app.clock
        )

    @asynccontextmanager
    async def connected(self, server: Server, *, is_interactive: bool = True) -> AsyncGenerator[Connection]:
        async with connect(server, auth=self.auth(server, is_interactive=is_interactive)) as connection:
            yield connection

    def scopes(self) -> list[set[str]]:
        return [set(parse_qs(urlsplit(url).query)["scope"][0].split()) for url in self.opened]

    def launch(self, url: str) -> bool:
        self.opened.append(url)
        anyio.from_thread.run_sync(self.group.start_soon, self.visit, url)
        return True

    async def visit(self, url: str) -> None:
        redirect_uri = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        only = self.allows[min(len(self.opened), len(self.allows)) - 1]
        back = await self.person.sign_in(url, until=redirect_uri, only=only)
        async with httpx2.AsyncClient(timeout=30) as http:
            self.pages.append((await http.get(back)).text)


@asynccontextmanager
async def user_of(app: OidcApp, name: str, folder: Path) -> AsyncGenerator[User]:
    async with app.person(name) as person, anyio.create_task_group() as group:
        with anyio.fail_after(120):
            yield User(app, person, group, folder)


async def test_a_server_is_used_after_one_sign_in_and_tokens_outlive_the_process(
    builtin_app: BuiltinApp, tmp_path: Path
) -> None:
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        server = alice.server()
        async with alice.connected(server) as connection:
            notes = await connection.call_tool(LIST, {})
        async with alice.connected(server, is_interactive=False) as connection:
            again = await connection.call_tool(LIST, {})

    assert "Shopping list" in str(notes.structured_content)
    assert again.structured_content == notes.structured_content
    assert len(alice.opened) == 1
    assert "Signed in" in alice.pages[0]
    assert alice.opened[0] in alice.said[0]


async def test_a_sign_in_may_take_longer_than_the_server(builtin_app: BuiltinApp, tmp_path: Path) -> None:
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        server = alice.server().model_copy(update={"timeout_seconds": 1.0})
        visit = alice.visit

        async def dawdle(url: str) -> None:
            await anyio.sleep(2.5)
            await visit(url)

        alice.visit = dawdle  # type: ignore[method-assign]
        async with alice.connected(server) as connection:
            assert connection.server_info is not None


async def test_a_document_names_the_client_and_nothing_is_registered(
    builtin_app: BuiltinApp, tmp_path: Path
) -> None:
    builtin_app.documents[DOCUMENT] = {
        "client_id": DOCUMENT,
        "client_name": "Nextcloud MCP client",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
    async with user_of(builtin_app, "bob", tmp_path) as bob:
        server = bob.server(client_metadata_url=DOCUMENT)
        async with bob.connected(server) as connection:
            notes = await connection.call_tool(LIST, {})

    assert "Garage code" in str(notes.structured_content)
    assert parse_qs(urlsplit(bob.opened[0]).query)["client_id"] == [DOCUMENT]


async def test_an_expired_token_is_refreshed_without_the_user(
    builtin_app: BuiltinApp, tmp_path: Path
) -> None:
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        server = alice.server()
        async with alice.connected(server) as connection:
            await connection.call_tool(LIST, {})
            builtin_app.clock.ahead += timedelta(hours=2)
            assert not (await connection.call_tool(LIST, {})).is_error
        builtin_app.clock.ahead += timedelta(hours=2)
        async with alice.connected(server, is_interactive=False) as connection:
            assert not (await connection.call_tool(LIST, {})).is_error

    assert len(alice.opened) == 1


async def test_a_call_that_needs_more_asks_for_more(builtin_app: BuiltinApp, tmp_path: Path) -> None:
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        alice.allows = [["notes:read"], ["notes:read", "notes:write"]]
        async with alice.connected(alice.server()) as connection:
            await connection.call_tool(LIST, {})
            made = await connection.call_tool(CREATE, {"title": "Plans"})

    assert not made.is_error, made.content
    assert len(alice.opened) == 2
    assert alice.scopes()[1] >= {"notes:read", "notes:write"}


async def test_a_sign_out_ends_the_access_at_the_server(builtin_app: BuiltinApp, tmp_path: Path) -> None:
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        server = alice.server()
        await sign_in(target_of(server), alice.store, alice.browser(), clock=builtin_app.clock)
        kept = await alice.store.load(server.url)
        assert kept is not None

        assert await sign_out(target_of(server), alice.store) == SignedOut(had_tokens=True, revoked="revoked")

        with pytest.raises(SignInNeeded, match="Run: nextcloud-mcp-server client auth nextcloud"):
            async with alice.connected(server, is_interactive=False):
                raise NotImplementedError
        bearer = {"Authorization": f"Bearer {kept.access_token.get_secret_value()}"}
        async with httpx2.AsyncClient(headers=bearer) as http:
            assert (await http.post(server.url, json={})).status_code == 401


async def test_two_programs_at_once_refresh_once(builtin_app: BuiltinApp, tmp_path: Path) -> None:
    """A refresh token that is used twice would end the access: RFC 9700 §4.14.2."""
    async with user_of(builtin_app, "alice", tmp_path) as alice:
        server = alice.server()
        async with (
            alice.connected(server) as first,
            alice.connected(server, is_interactive=False) as second,
        ):
            await first.call_tool(LIST, {})
            builtin_app.clock.ahead += timedelta(hours=2)
            results: list[bool] = []

            async def call(connection: Connection) -> None:
                results.append((await connection.call_tool(LIST, {})).is_error)

            async with anyio.create_task_group() as group:
                for connection in (first, second) * 4:
                    group.start_soon(call, connection)

    assert results == [False] * 8
    assert len(alice.opened) == 1


async def test_a_registered_client_signs_in_at_another_issuer(oidc_app: OidcApp, tmp_path: Path) -> None:
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    async with user_of(oidc_app, "bob", tmp_path) as bob:
        bob.allows = [None]
        server = bob.server(client_id="assistant")
        async with bob.connected(server) as connection:
            tools = await connection.list_tools()

    kept = await bob.store.load(server.url)
    assert {LIST, CREATE} & {tool.name for tool in tools}
    assert kept is not None
    assert kept.issuer == oidc_app.issuer.url
    assert "offline_access" in bob.scopes()[0]


async def test_where_no_one_can_register_the_missing_id_is_named(oidc_app: OidcApp, tmp_path: Path) -> None:
    async with user_of(oidc_app, "bob", tmp_path) as bob:
        with pytest.raises(AuthorizationFailed, match="no viable client registration mechanism"):
            async with bob.connected(bob.server()):
                raise NotImplementedError

    assert bob.opened == []


async def test_manual_needs_no_discovery(oidc_app: OidcApp, tmp_path: Path) -> None:
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    async with httpx2.AsyncClient() as http:
        known = (await http.get(f"{oidc_app.issuer.url}/.well-known/openid-configuration")).json()
    async with user_of(oidc_app, "bob", tmp_path) as bob:
        bob.allows = [None]
        config = {
            "client_id": "assistant",
            "auth_url": known["authorization_endpoint"],
            "token_url": known["token_endpoint"],
            "scopes": ["openid", "notes:read"],
        }
        server = bob.server(**config).model_copy(update={"oauth": "manual"})
        async with bob.connected(server) as connection:
            assert await connection.list_tools()

    assert bob.scopes() == [{"openid", "notes:read"}]
