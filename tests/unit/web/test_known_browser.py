from collections.abc import Sequence

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from nextcloud_mcp_server.auth.requester import current_requester
from nextcloud_mcp_server.web.known_browser import KnownBrowsers, remember_browser

NEW, OLD = b"n" * 32, b"o" * 32
COOKIE = "__Host-known-browser"


async def sign_in(request: Request) -> PlainTextResponse:
    remember_browser(request)
    return PlainTextResponse("")


async def look(request: Request) -> PlainTextResponse:
    del request
    return PlainTextResponse(f"{current_requester.get().is_known_browser}")


async def visit(browser: httpx2.Cookies, path: str, keys: Sequence[bytes]) -> httpx2.Response:
    routes = [Route("/oauth/sign-in", sign_in), Route("/account", look)]
    app = KnownBrowsers(Starlette(routes=routes), keys=lambda: keys)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="https://mcp.test", cookies=browser
    ) as client:
        response = await client.get(path)
        browser.update(client.cookies)
    return response


@pytest.fixture
async def marked() -> httpx2.Cookies:
    """The cookies of a browser that was marked with the old key."""
    browser = httpx2.Cookies()
    await visit(browser, "/oauth/sign-in", [OLD])
    return browser


async def test_a_mark_of_an_older_key_is_made_anew_at_the_next_page_and_outlives_that_key(
    marked: httpx2.Cookies,
) -> None:
    value = str(marked.get(COOKIE)).partition(".")[0]

    between = await visit(marked, "/account", [NEW, OLD])
    after = await visit(marked, "/account", [NEW])

    assert (between.text, after.text) == ("True", "True")
    assert str(marked.get(COOKIE)).startswith(f"{value}.")


async def test_a_mark_whose_key_was_removed_before_the_next_visit_is_a_strangers(
    marked: httpx2.Cookies,
) -> None:
    response = await visit(marked, "/account", [NEW])

    assert response.text == "False"
    assert "set-cookie" not in response.headers


async def test_a_mark_of_the_newest_key_is_not_written_again(marked: httpx2.Cookies) -> None:
    response = await visit(marked, "/account", [OLD])

    assert response.text == "True"
    assert "set-cookie" not in response.headers
