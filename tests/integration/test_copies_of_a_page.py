"""A consent page that is fetched more than once, as browsers and their extensions do, for many users."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.sandbox.document import Document
from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import Asked

LIST = "nc_notes_list_notes"
HTML = {"Accept": "text/html"}
OURS = {**HTML, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(params=["oidc", "builtin"])
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[OidcApp]:
    opened = open_oidc_app(tmp_path) if request.param == "oidc" else open_builtin_app(tmp_path)
    async with opened as made:
        yield made


class Tab:
    """A browser in which alice is signed in, and what it shows."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.alice = Person("alice", "alice", browser=http)

    async def open(self, url: str) -> httpx2.Response:
        """Open a page as a browser does, or as what fetches it beforehand."""
        return await self._http.get(url, headers=HTML, follow_redirects=True)

    async def send(self, copy: httpx2.Response, *, answer: str = "allow") -> httpx2.Response:
        """Press a button on a copy of the page, as it was rendered."""
        form = next(one for one in Document.read(copy.text).forms if ("answer", "allow") in one.buttons)
        fields: dict[str, list[str]] = {"answer": [answer]}
        for one in form.fields:
            if not one.is_choice or one.ticked:
                fields.setdefault(one.name, []).append(one.value)
        url = urljoin(str(copy.url), form.action)
        return await self._http.post(url, data=fields, headers=OURS, follow_redirects=True)

    async def go_on(self, page: httpx2.Response) -> None:
        """Go on from the page that leads to Nextcloud, and say yes there; not where the sign-in brought the access."""
        if "Refresh" in page.headers:
            await self.alice.consent(page.headers["Refresh"].partition("url=")[2])


async def token_of(server: OidcApp, tab: Tab, http: httpx2.AsyncClient) -> str:
    """Get alice's client a token, and have it need her consent."""
    if not isinstance(server, BuiltinApp):
        return server.token("alice")
    token = str((await server.sign_in(tab.alice, http))["access_token"])
    # As in Nextcloud's settings, under "Devices & sessions".
    server.sandbox.state.app_passwords.clear()
    return token


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_each_copy_of_a_page_can_be_sent_and_the_other_says_that_it_is_done(
    server: OidcApp, order: tuple[int, int]
) -> None:
    """N01: for the user who is signed in, in each mode with many users."""
    pages: list[httpx2.Response] = []
    async with (
        httpx2.AsyncClient(timeout=60) as browser,
        httpx2.AsyncClient(timeout=60) as http,
        # The last to open, and so the first to close: it waits until the browser is done.
        server.person(),
    ):
        tab = Tab(browser)
        token = await token_of(server, tab, http)

        async def consent_request(link: str) -> None:
            # Fetched once beforehand, too.
            await tab.open(link)
            page = await tab.alice.sign_in(link, until=f"{server.url}/oauth/consent")
            copies = [await tab.open(page) for _ in range(2)]
            pages.append(await tab.send(copies[order[0]]))
            await tab.go_on(pages[0])
            pages.append(await tab.send(copies[order[1]]))

        asked = Asked(server).by(consent_request, once=True)
        async with server.client(token, elicitation_callback=asked) as client:
            with anyio.fail_after(60):
                result = await client.call_tool(LIST, {})

    content: dict[str, Any] = result.structured_content or {}
    assert [page.status_code for page in pages] == [200, 200]
    assert "Connected" in pages[1].text
    assert len({one.grant_id for one in server.sandbox.state.app_passwords.values()}) == 1
    assert len(set(asked.urls)) == 1
    assert "Shopping list" in {note["title"] for note in content["notes"]}
