from collections.abc import Sequence

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.auth.requester import current_requester
from nextcloud_mcp_server.web.known_browser import KnownBrowsers, remember_browser

KEYS = (b"k" * 32, b"older" * 8)
COOKIE = "__Host-known-browser"
FORGED = f"{'A' * 24}.{'0' * 64}"


async def who(request: Request) -> Response:
    requester = current_requester.get()
    return JSONResponse({"source": requester.source, "known": requester.is_known_browser})


async def sign_in(request: Request) -> Response:
    remember_browser(request)
    return Response()


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


async def test_a_mark_is_good_while_its_key_is_in_the_ring() -> None:
    cookie = await mark()

    async with (
        browser((b"new" * 11, KEYS[0]), cookie=cookie) as after,
        browser(KEYS[1:], cookie=cookie) as gone,
    ):
        assert (await after.get("/account")).json()["known"]
        assert not (await gone.get("/account")).json()["known"]


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


async def test_what_is_no_page_has_no_requester() -> None:
    async with browser(cookie=await mark()) as client:
        assert (await client.get("/elsewhere")).json() == {"source": "", "known": False}
