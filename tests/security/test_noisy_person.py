"""Attack: ask so often, signed in or not, that others are not served."""

import httpx2
from starlette.applications import Starlette

from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.known_browser import KnownBrowsers
from nextcloud_mcp_server.web.limits import AddressLimits, Limits, Rates
from nextcloud_mcp_server.web.middleware import guard
from nextcloud_mcp_server.web.routes import multi_user_routes
from tests.multi_user_pages import NEXTCLOUD_HOST, ORIGIN, MultiUserPages, checks, config, sign_in

CODE = "code-of-alice-at-nextcloud"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def site(consent_service: MultiUserPages, rates: Rates) -> httpx2.ASGITransport:
    limits = Limits(rates)
    pages = multi_user_routes(
        consent_service.ready,
        keys=lambda: [b"k" * 32],
        nextcloud_host=NEXTCLOUD_HOST,
        mcp_url=f"{ORIGIN}/mcp",
        clock=consent_service.clock,
        on_person=limits.person,
    )
    known = KnownBrowsers(Starlette(routes=pages), keys=lambda: [b"k" * 32])
    return httpx2.ASGITransport(guard(AddressLimits(known, limits), config()))


async def test_one_noisy_person_is_stopped_and_the_others_at_the_same_address_are_not(
    consent_service: MultiUserPages,
) -> None:
    transport = site(consent_service, Rates(person=3))
    options = {"transport": transport, "base_url": ORIGIN, "headers": {"Accept": "text/html"}}
    async with httpx2.AsyncClient(**options) as alice, httpx2.AsyncClient(**options) as bob:  # type: ignore[arg-type]
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
    async with httpx2.AsyncClient(
        transport=site(consent_service, Rates(person=2)), base_url=ORIGIN
    ) as browser:
        answers: list[int] = []
        for _ in range(3):
            await sign_in(browser, consent_service, "alice")
            answers.append((await browser.get("/account")).status_code)

    assert answers == [200, 200, 429]


async def test_strangers_at_the_address_do_not_keep_a_signed_in_user_from_disconnecting(
    consent_service: MultiUserPages,
) -> None:
    options = {"transport": site(consent_service, Rates(page=5)), "base_url": ORIGIN}
    async with httpx2.AsyncClient(**options) as alice, httpx2.AsyncClient(**options) as stranger:  # type: ignore[arg-type]
        await sign_in(alice, consent_service, "alice")
        first = await alice.get("/account")
        junk = [(await stranger.get("/account")).status_code for _ in range(9)]
        forged = await stranger.get("/account", headers={"Cookie": f"__Host-session={'a' * 43}"})
        page = await alice.get("/account")
        ended = await alice.post("/account/disconnect", data={"csrf": checks(page)[0]}, headers=OWN_PAGE)

    assert first.status_code == 200
    assert junk[-1] == forged.status_code == 429
    assert page.status_code == 200
    assert ended.headers["location"] == "/account"


async def test_a_session_that_ended_does_not_pass_by_the_limit_of_its_address(
    consent_service: MultiUserPages,
) -> None:
    options = {"transport": site(consent_service, Rates(page=5)), "base_url": ORIGIN}
    async with httpx2.AsyncClient(**options) as alice:  # type: ignore[arg-type]
        session = await sign_in(alice, consent_service, "alice")
        page = await alice.get("/account")
        await alice.post("/account/sign-out", data={"csrf": checks(page)[0]}, headers=OWN_PAGE)
        kept = {"Cookie": f"__Host-session={session}"}
        # One of another session and one of this, both of which count for the address.
        answers = [(await alice.get("/account", headers=kept)).status_code for _ in range(5)]
        other = await alice.get("/account")

    assert answers == [200, 200, 200, 200, 200]
    assert other.status_code == 429


async def test_a_signed_in_browser_has_a_limit_of_pages_too(consent_service: MultiUserPages) -> None:
    async with httpx2.AsyncClient(transport=site(consent_service, Rates(page=5)), base_url=ORIGIN) as alice:
        await sign_in(alice, consent_service, "alice")
        answers = [(await alice.get("/account")).status_code for _ in range(8)]

    assert answers[-1] == 429


async def test_guessing_links_is_stopped_by_the_address_and_makes_nothing(
    consent_service: MultiUserPages,
) -> None:
    async with httpx2.AsyncClient(
        transport=site(consent_service, Rates(page=5)), base_url=ORIGIN
    ) as stranger:
        answers = [
            await stranger.get(
                "/oauth/provision", params={"elicitationId": f"{n:08d}-0000-4000-8000-{n:012d}"}
            )
            for n in range(6)
        ]

    assert answers[-1].status_code == 429
    assert consent_service.requests == []


async def test_guessing_states_is_stopped_by_the_address(consent_service: MultiUserPages) -> None:
    async with httpx2.AsyncClient(
        transport=site(consent_service, Rates(callback=3)), base_url=ORIGIN
    ) as stranger:
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
    async with httpx2.AsyncClient(
        transport=site(consent_service, Rates(person=1)), base_url=ORIGIN
    ) as victim:
        await sign_in(victim, consent_service, "alice")
        asked = [(await victim.get("/account")).status_code for _ in range(2)]

        await victim.get("/oauth/callback/nextcloud", params={"state": "made-up", "code": CODE})

    assert asked == [200, 429]
    assert consent_service.is_spent(CODE)
