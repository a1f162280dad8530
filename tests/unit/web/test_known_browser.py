from collections.abc import Sequence

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.auth.requester import current_requester
from nextcloud_mcp_server.web.known_browser import KnownBrowsers, remember_browser

NEW, OLD = b"n" * 32, b"o" * 32
COOKIE = "__Host-known-browser"
KEYS = (NEW, OLD)
FORGED = f"{'A' * 24}.{'0' * 64}"


async def sign_in(request: Request) -> PlainTextResponse:
    remember_browser(request)
    return PlainTextResponse("")


async def look(request: Request) -> PlainTextResponse:
    del request
    return PlainTextResponse(f"{current_requester.get().is_known_browser}")


async def consent_request(browser: httpx2.Cookies, path: str, keys: Sequence[bytes]) -> httpx2.Response:
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
    await consent_request(browser, "/oauth/sign-in", [OLD])
    return browser


async def test_a_mark_of_an_older_key_is_made_anew_at_the_next_page_and_outlives_that_key(
    marked: httpx2.Cookies,
) -> None:
    value = str(marked.get(COOKIE)).partition(".")[0]

    between = await consent_request(marked, "/account", [NEW, OLD])
    after = await consent_request(marked, "/account", [NEW])

    assert (between.text, after.text) == ("True", "True")
    assert str(marked.get(COOKIE)).startswith(f"{value}.")


async def test_a_mark_whose_key_was_removed_before_the_next_consent_request_is_a_strangers(
    marked: httpx2.Cookies,
) -> None:
    response = await consent_request(marked, "/account", [NEW])

    assert response.text == "False"
    assert "set-cookie" not in response.headers


async def test_a_mark_of_the_newest_key_is_not_written_again(marked: httpx2.Cookies) -> None:
    response = await consent_request(marked, "/account", [OLD])

    assert response.text == "True"
    assert "set-cookie" not in response.headers


async def who(request: Request) -> Response:
    requester = current_requester.get()
    return JSONResponse({"source": requester.source, "known": requester.is_known_browser})


def browser(
    keys: Sequence[bytes] = KEYS, *, address: str = "192.0.2.7", cookie: str = ""
) -> httpx2.AsyncClient:
    routes = [Route("/account", who), Route("/oauth/callback/sign-in", sign_in), Route("/elsewhere", who)]
    app = KnownBrowsers(Starlette(routes=routes), keys=lambda: keys)
    headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
    transport = httpx2.ASGITransport(app, client=(address, 1))
    return httpx2.AsyncClient(transport=transport, base_url="https://mcp.test", headers=headers)


async def mark() -> str:
    """Sign in, and take the mark."""
    async with browser() as client:
        return (await client.get("/oauth/callback/sign-in")).cookies[COOKIE]


async def test_a_browser_in_which_a_user_signed_in_is_known_by_its_mark() -> None:
    async with browser(cookie=await mark(), address="198.51.100.1") as client:
        assert (await client.get("/account")).json()["known"]


@pytest.mark.parametrize("cookie", ["", "x", FORGED, "A" * 24, f"{'A' * 24}."])
async def test_a_mark_that_we_did_not_make_makes_no_browser_known(cookie: str) -> None:
    async with browser(cookie=cookie) as client:
        assert not (await client.get("/account")).json()["known"]


async def test_a_browser_is_marked_when_a_user_signs_in_and_not_before() -> None:
    async with browser() as client:
        before = await client.get("/account")
        signed_in = await client.get("/oauth/callback/sign-in")

    assert "set-cookie" not in before.headers
    flags = {part.strip().lower() for part in signed_in.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= flags


async def test_strangers_are_told_apart_by_their_network_which_is_not_given_away() -> None:
    addresses = ("192.0.2.7", "192.0.2.8", "2001:db8::1", "2001:db8::2")
    sources: list[str] = []
    for address in addresses:
        async with browser(address=address) as client:
            sources.append((await client.get("/account")).json()["source"])

    assert len(set(sources)) == 3
    assert sources[2] == sources[3]
    assert not any(address in source for address in addresses for source in sources)


@pytest.mark.parametrize(
    ("before", "behind", "known"),
    [
        *(("a=b; ", "", True), ("a=b;", ";c=d", True), ("a; =; ", " ; ", True)),
        # The name as the end of another name, and as a part of a value.
        *((f"x{COOKIE}=1; y={COOKIE}=2; ", "", True), ("x", "", False)),
        # Two: neither is believed. A crowd of names that look like it: none is read.
        *(("", f"; {COOKIE}=x", False), (f"x{COOKIE}=1;" * 20, "", False)),
    ],
)
async def test_a_mark_is_found_among_other_cookies(before: str, behind: str, *, known: bool) -> None:
    async with browser() as client:
        cookie = f"{before}{COOKIE}={await mark()}{behind}"
        answer = await client.get("/account", headers={"Cookie": cookie})

    assert answer.json()["known"] == known


async def test_what_is_no_page_has_no_requester() -> None:
    async with browser(cookie=await mark()) as client:
        assert (await client.get("/elsewhere")).json() == {"source": "", "known": False}
