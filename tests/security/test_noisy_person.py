"""Attack: ask so often, signed in or not, that others are not served."""

import sys

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.known_browser import KnownBrowsers
from nextcloud_mcp_server.web.limits import AddressLimits, Limits, Rates
from nextcloud_mcp_server.web.middleware import guard
from nextcloud_mcp_server.web.routes import multi_user_routes
from tests.multi_user_pages import (
    HOST,
    NEXTCLOUD_HOST,
    ORIGIN,
    USUAL_HEADERS,
    MultiUserPages,
    checks,
    config,
    gone_to_sign_in,
    sign_in,
)

CODE = "code-of-alice-at-nextcloud"
FORGED_MARK = f"__Host-known-browser={'A' * 24}.{'0' * 64}"


def site(consent_service: MultiUserPages, rates: Rates) -> ASGIApp:
    """Start a process of the server, whose counts are empty, as after a restart."""
    limits = Limits(rates)
    pages = multi_user_routes(
        consent_service.ready,
        keys=lambda: [b"k" * 32],
        nextcloud_host=NEXTCLOUD_HOST,
        mcp_url=f"{ORIGIN}/mcp",
        clock=consent_service.clock,
        on_person=limits.person,
    )
    limited = AddressLimits(Starlette(routes=pages), limits)
    known = KnownBrowsers(limited, keys=lambda: [b"k" * 32])
    return guard(known, config())


def browser_at(app: ASGIApp, address: str = "192.0.2.7") -> httpx2.AsyncClient:
    """Open a browser at an address."""
    transport = httpx2.ASGITransport(app, client=(address, 1))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=USUAL_HEADERS)


async def visit_and_sign_in(
    browser: httpx2.AsyncClient, consent_service: MultiUserPages, name: str
) -> httpx2.Response:
    """Sign in by the pages, which marks the browser: two pages and a callback."""
    address = await gone_to_sign_in(browser, await consent_service.open())
    params = consent_service.signed_in_at(address, name)
    return await browser.get("/oauth/callback/sign-in", params=params)


async def steps_of(app: ASGIApp, cookies: bytes, *, path: str = "/account", query: bytes = b"") -> int:
    """Count the functions that are called for a page."""
    steps, statuses = 0, list[int]()
    request = {"type": "http", "method": "GET", "scheme": "http", "path": path, "query_string": query}
    headers = [(b"host", HOST.encode()), *([(b"cookie", cookies)] if cookies else [])]
    scope = {**request, "headers": headers, "client": ("192.0.2.7", 1), "root_path": ""}

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1

    async def receive() -> Message:
        raise NotImplementedError

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    before = sys.getprofile()
    sys.setprofile(step)
    try:
        await app(scope, receive, send)
    finally:
        sys.setprofile(before)
    assert statuses[0] in {200, 303, 401, 404, 429}
    return steps


async def test_one_noisy_person_is_stopped_and_the_others_at_the_same_address_are_not(
    consent_service: MultiUserPages,
) -> None:
    app = site(consent_service, Rates(person=3))
    async with browser_at(app) as alice, browser_at(app) as bob:
        await sign_in(alice, consent_service, "alice")
        await sign_in(bob, consent_service, "bob")
        noisy = [(await alice.get("/account")).status_code for _ in range(4)]
        again = await alice.get("/account")
        calm = await bob.get("/account")

    assert noisy == [200, 200, 200, 429]
    assert "Too many requests" in again.text
    assert int(again.headers["retry-after"]) >= 1
    assert calm.status_code == 200


async def test_another_session_of_the_same_person_does_not_help(consent_service: MultiUserPages) -> None:
    async with browser_at(site(consent_service, Rates(person=2))) as browser:
        answers: list[int] = []
        for _ in range(3):
            await sign_in(browser, consent_service, "alice")
            answers.append((await browser.get("/account")).status_code)

    assert answers == [200, 200, 429]


async def test_strangers_at_the_address_do_not_keep_a_signed_in_user_from_disconnecting(
    consent_service: MultiUserPages,
) -> None:
    """The process that serves the page during the flood has never seen the browser before."""
    async with browser_at(site(consent_service, Rates())) as alice:
        await visit_and_sign_in(alice, consent_service, "alice")
        cookies = alice.cookies
    during = site(consent_service, Rates(page=5))
    async with browser_at(during) as stranger, browser_at(during) as alice:
        alice.cookies = cookies
        junk = [(await stranger.get("/account")).status_code for _ in range(9)]
        forged = await stranger.get(
            "/account", headers={"Cookie": f"__Host-session={'a' * 43}; {FORGED_MARK}"}
        )
        page = await alice.get("/account")
        ended = await alice.post("/account/disconnect", data={"csrf": checks(page)[0]})

    assert junk[-1] == forged.status_code == 429
    assert page.status_code == 200
    assert ended.headers["location"] == "/account"


async def test_a_user_signs_in_again_in_a_known_browser_during_a_flood(
    consent_service: MultiUserPages,
) -> None:
    during = site(consent_service, Rates(page=8, callback=3))
    async with browser_at(during) as alice, browser_at(during) as stranger:
        await visit_and_sign_in(alice, consent_service, "alice")
        page = await alice.get("/account")
        await alice.post("/account/sign-out", data={"csrf": checks(page)[0]})
        for _ in range(9):
            await stranger.get("/account")
            await stranger.get("/oauth/callback/sign-in", params={"state": "x", "code": "y" * 20})
        pages = await stranger.get("/account")
        callbacks = await stranger.get("/oauth/callback/sign-in")
        await visit_and_sign_in(alice, consent_service, "alice")
        again = await alice.get("/account")

    assert pages.status_code == 429
    assert "Retry-After" in callbacks.headers
    assert checks(again)


async def test_a_session_without_a_mark_counts_for_its_address(consent_service: MultiUserPages) -> None:
    async with browser_at(site(consent_service, Rates(page=5))) as alice:
        await sign_in(alice, consent_service, "alice")
        answers = [(await alice.get("/account")).status_code for _ in range(6)]

    assert answers == [200] * 5 + [429]


async def test_collected_marks_help_a_user_only_so_far(consent_service: MultiUserPages) -> None:
    during = site(consent_service, Rates(page=4, marked_page=6))
    answers: list[int] = []
    cookies = httpx2.Cookies()
    for _ in range(8):
        async with browser_at(site(consent_service, Rates())) as other, browser_at(during) as attacker:
            await visit_and_sign_in(other, consent_service, "mallory")
            attacker.cookies = other.cookies
            answers += [(await attacker.get("/account")).status_code for _ in range(2)]
            cookies = other.cookies
    async with browser_at(during, "198.51.100.1") as elsewhere:
        elsewhere.cookies = cookies
        in_another_network = await elsewhere.get("/account")

    # Six for the marked browsers of the network, four for its address.
    assert answers == [200] * 10 + [429] * 6
    assert in_another_network.status_code == 200


async def test_one_known_browser_cannot_use_up_the_share_of_all_in_its_network(
    consent_service: MultiUserPages,
) -> None:
    during = site(consent_service, Rates(page=5, callback=3, marked_page=12, marked_callback=7))
    async with browser_at(during) as alice, browser_at(during) as mallory, browser_at(during) as stranger:
        await visit_and_sign_in(alice, consent_service, "alice")
        await visit_and_sign_in(mallory, consent_service, "mallory")
        flood = [(await mallory.get("/account")).status_code for _ in range(20)]
        for _ in range(20):
            await mallory.get("/oauth/callback/sign-in")
            await stranger.get("/account")
            await stranger.get("/oauth/callback/sign-in")
        page = await alice.get("/account")
        await alice.post("/account/sign-out", data={"csrf": checks(page)[0]})
        await visit_and_sign_in(alice, consent_service, "alice")
        again = await alice.get("/account")

    assert flood[-1] == 429
    assert page.status_code == 200
    assert checks(again)


async def test_a_signed_in_browser_has_a_limit_of_pages_too(consent_service: MultiUserPages) -> None:
    async with browser_at(site(consent_service, Rates(page=5))) as alice:
        await visit_and_sign_in(alice, consent_service, "alice")
        answers = [(await alice.get("/account")).status_code for _ in range(6)]

    assert answers == [200] * 5 + [429]


@pytest.mark.parametrize(
    "cookies",
    [
        *(b"a=b; " * 3_200, b"a;" * 8_000, b"=" * 16_000, b"a" * 16_000),
        *(
            b"__Host-known-browser=a;" * 700,
            b"x__Host-known-browser=a;" * 660,
            b"__Host-known-browser=;" + b" " * 15_000,
        ),
    ],
    ids=lambda cookies: cookies[:24].decode(),
)
async def test_a_request_that_is_refused_costs_the_same_with_16_kb_of_cookies(
    consent_service: MultiUserPages, cookies: bytes
) -> None:
    app = site(consent_service, Rates(page=1))
    for _ in range(2):
        await steps_of(app, b"")
    without, with_cookies = await steps_of(app, b""), await steps_of(app, cookies)

    assert without > 100
    # Of the cookie's name so many are read; for each cookie there would be one step.
    assert with_cookies < without + 16 * 8


@pytest.mark.parametrize("path", ["/mcp", "/oauth/provision", "/oauth/callback/sign-in", "/account"])
@pytest.mark.parametrize("query", [b"a&" * 30_000, b"%41=&" * 12_000])
async def test_a_query_of_thousands_of_parameters_costs_no_more_than_a_few(
    consent_service: MultiUserPages, path: str, query: bytes
) -> None:
    app = site(consent_service, Rates(page=5))
    for _ in range(2):
        await steps_of(app, b"", path=path)
    without = await steps_of(app, b"", path=path)
    with_query = await steps_of(app, b"", path=path, query=query)

    assert with_query < without + 2_000


async def test_guessing_links_is_stopped_by_the_address_and_makes_nothing(
    consent_service: MultiUserPages,
) -> None:
    async with browser_at(site(consent_service, Rates(page=5))) as stranger:
        answers = [
            await stranger.get(
                "/oauth/provision", params={"elicitationId": f"{n:08d}-0000-4000-8000-{n:012d}"}
            )
            for n in range(6)
        ]

    assert answers[-1].status_code == 429
    assert consent_service.requests == []


async def test_guessing_states_is_stopped_by_the_address(consent_service: MultiUserPages) -> None:
    async with browser_at(site(consent_service, Rates(callback=3))) as stranger:
        answers = [
            await stranger.get("/oauth/callback/nextcloud", params={"state": f"guess{n}", "code": "x" * 20})
            for n in range(4)
        ]

    # The address that held the code leaves the browser's bar, as after every callback.
    assert {answer.status_code for answer in answers} == {303}
    assert ["Retry-After" in answer.headers for answer in answers] == [False, False, False, True]
    assert all("guess" not in answer.headers["Location"] for answer in answers)
    assert answers[-1].headers["location"] == TOO_MANY_RESULT


async def test_a_code_is_spent_though_its_browser_has_asked_too_often_before(
    consent_service: MultiUserPages,
) -> None:
    """An attacker's page can lead a browser that is signed in here round and round, and then to Nextcloud."""
    async with browser_at(site(consent_service, Rates(person=1))) as victim:
        await sign_in(victim, consent_service, "alice")
        asked = [(await victim.get("/account")).status_code for _ in range(2)]

        await victim.get("/oauth/callback/nextcloud", params={"state": "made-up", "code": CODE})

    assert asked == [200, 429]
    assert consent_service.is_spent(CODE)


@pytest.mark.parametrize("path", ["/mcp/server-card", "/mcp/.well-known/oauth-protected-resource"])
async def test_a_document_for_everyone_makes_no_junk_token_one_that_worked(path: str) -> None:
    async def refuse(_: Request) -> Response:
        return Response(status_code=401)

    async def show(_: Request) -> Response:
        return Response(status_code=200)

    routes = [Route("/mcp", refuse), Route(path, show)]
    app = AddressLimits(Starlette(routes=routes), Limits(Rates(failure=5)))
    async with browser_at(app) as stranger:
        junk = [{"Authorization": f"Bearer junk-{number}"} for number in range(10)]
        for headers in junk:
            await stranger.get(path, headers=headers)
        statuses = [(await stranger.get("/mcp", headers=headers)).status_code for headers in junk]

    assert statuses == [401] * 5 + [429] * 5


@pytest.mark.parametrize(
    ("path", "spellings"),
    [
        ("/mcp/server-card", [f"Bearer junk-{number}" for number in range(4)]),
        ("/mcp", ["Bearer his", "bearer his", "Bearer  his", "BEARER   his"]),
    ],
)
async def test_no_document_and_no_spelling_displaces_a_token_that_worked(
    path: str, spellings: list[str]
) -> None:
    async def answer(request: Request) -> Response:
        return Response(
            status_code=200 if request.headers["authorization"].split()[1] in ("hers", "his") else 401
        )

    async def show(_: Request) -> Response:
        return Response(status_code=200)

    routes = [Route("/mcp", answer), Route("/mcp/server-card", show)]
    app = AddressLimits(Starlette(routes=routes), Limits(Rates(failure=5)), most_tokens=3)
    async with browser_at(app) as client:
        hers = {"Authorization": "Bearer hers"}
        await client.get("/mcp", headers=hers)
        for spelling in spellings:
            await client.get(path, headers={"Authorization": spelling})
        for _ in range(6):
            await client.get("/mcp", headers={"Authorization": "Bearer junk"})
        after = await client.get("/mcp", headers=hers)

    assert after.status_code == 200
