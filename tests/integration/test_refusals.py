"""A user who presses "Don't allow": the call that waits ends at once, and nothing is left (case N03)."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.sandbox.document import Document
from tests.integration.builtin_app import open_builtin_app, query_of
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import Asked, People, PersonalApp
from tests.integration.test_copies_of_a_page import Tab, token_of

LIST = "nc_notes_list_notes"


@pytest.fixture(params=["oidc", "builtin"])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[OidcApp]:
    opened = open_oidc_app if request.param == "oidc" else open_builtin_app
    async with opened(tmp_path, hold_seconds=50) as made:
        yield made


def stored(people: People) -> int:
    """Count what our server has kept of accesses and permissions."""
    file = people.data_dir / "state.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as database:
        # Those that were ended stay for the account page and the audit.
        query = "SELECT (SELECT count(*) FROM credentials) + (SELECT count(*) FROM permissions)"
        return int(database.execute(query).fetchone()[0])


class Counted(httpx2.AsyncBaseTransport):
    """Counts the calls of tools that a client sends."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.calls = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.calls += b'"tools/call"' in request.content
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_refusing_in_a_fresh_tab_ends_the_held_call_in_its_first_round_and_leaves_nothing(
    personal_app: PersonalApp, asked: Asked
) -> None:
    """N03: the call and its one retry, which is held; a hold that ran out would be followed by another."""
    counted = Counted()
    headers = {"Authorization": f"Bearer {personal_app.secret}"}
    async with (
        personal_app.person() as alice,
        httpx2.AsyncClient(headers=headers, timeout=60, transport=counted) as http,
        OidcApp.client_over(personal_app, http, elicitation_callback=asked.by(alice.decline)) as client,  # pyright: ignore[reportArgumentType] - all it reads is the address
    ):
        with anyio.fail_after(60):
            result = await client.call_tool(LIST, {})

    assert result.is_error
    assert "the user declined" in str(result.content)
    assert counted.calls == 2
    assert not personal_app.sandbox.state.app_passwords
    assert stored(personal_app) == 0


async def test_refusing_ends_the_held_call_of_one_of_many_people_and_a_later_call_asks_anew(
    server: OidcApp,
) -> None:
    """N03: in each mode with many users."""
    counted = Counted()
    async with httpx2.AsyncClient(timeout=60) as browser, httpx2.AsyncClient(timeout=60) as plain:
        tab = Tab(browser)
        token = await token_of(server, tab, plain)
        before = stored(server)
        headers = {"Authorization": f"Bearer {token}"}

        async def refuse(link: str) -> None:
            page = await tab.alice.sign_in(link, until=f"{server.url}/oauth/consent")
            await tab.send(await tab.open(page), answer="deny")

        asked = Asked(server).by(refuse, once=True)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, transport=counted) as http,
            server.client_over(http, elicitation_callback=asked) as client,
            server.person(),
        ):
            with anyio.fail_after(60):
                result = await client.call_tool(LIST, {})
            calls = counted.calls
            with anyio.fail_after(60):
                await client.call_tool(LIST, {})

    assert result.is_error
    assert "the user declined" in str(result.content)
    assert calls == 2
    assert len(set(asked.urls)) == 2
    assert not server.sandbox.state.app_passwords
    assert stored(server) <= before


async def test_refusing_a_client_tells_it_so_with_its_state_and_our_name_and_it_may_ask_again(
    tmp_path: Path,
) -> None:
    """N03: the page between a client and its code."""
    async with open_builtin_app(tmp_path) as builtin_app, httpx2.AsyncClient(timeout=60) as browser:
        tab = Tab(browser)
        client_id = str((await builtin_app.register(browser))["client_id"])
        url = builtin_app.authorize_url(client_id, state="of the client")
        told = await tab.send(await tab.open(url), answer="deny")
        again = await tab.open(url)

        back = query_of(told.headers["Refresh"].partition("url=")[2])
        assert {name: back[name] for name in ("error", "state", "iss")} == {
            "error": ["access_denied"],
            "state": ["of the client"],
            "iss": [builtin_app.url],
        }
        assert any(("answer", "allow") in one.buttons for one in Document.read(again.text).forms)
        assert builtin_app.connected() == []
        assert stored(builtin_app) == 0
