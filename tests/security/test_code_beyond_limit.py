"""An attacker sends junk callbacks from the network of the victim, so that the victim's callback is one too many.

Such a callback is answered without a look at what it brings. Its code would stay usable, had it not been spent.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.errors import SignInRefused, StorageError
from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.limits import AddressLimits, Limits, Rates
from tests.authorization_fixtures import COOKIE, AuthorizationFixture, open_authorization
from tests.consent_fixtures import ConsentSetup
from tests.integration.builtin_app import open_builtin_app

Spend = Callable[[Params], Awaitable[None]]
CALLBACK = "/oauth/callback/nextcloud"
RATES = Rates(callback=1, excess=3)
SAME_ORIGIN = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
STATE = re.compile(r"state=(s-[A-Za-z0-9_-]+)")


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as harness:
        await harness.register()
        yield harness


def _looked_at(_: Request) -> Response:
    return PlainTextResponse("looked at")


def beyond_limit(spend: Spend) -> httpx2.AsyncClient:
    """A browser at an address from which junk comes."""
    inner = Starlette(routes=[Route(CALLBACK, _looked_at)])
    transport = httpx2.ASGITransport(AddressLimits(inner, Limits(RATES), spend=spend))
    return httpx2.AsyncClient(transport=transport, base_url="https://mcp.test")


async def brought(spend: Spend, *callbacks: Params) -> list[int]:
    """Use up what is looked at, then bring these callbacks; the answers' status codes."""
    async with beyond_limit(spend) as browser:
        assert (await browser.get(CALLBACK)).text == "looked at"
        return [(await browser.get(CALLBACK, params=dict(params))).status_code for params in callbacks]


async def test_builtin_spends_the_code_of_a_client_s_sign_in(authorization: AuthorizationFixture) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(COOKIE), "victim")

    assert await brought(authorization.consent_service.spend_if_known, params) == [303]

    with pytest.raises(SignInRefused):
        await authorization.finish_sign_in(params, browser=COOKIE)
    assert authorization.provider.exchanged == []


async def test_builtin_spends_the_code_of_a_page_s_sign_in(authorization: AuthorizationFixture) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    params = authorization.provider.confirm(start.url, "victim")

    await brought(authorization.consent_service.spend_if_known, params)

    with pytest.raises(SignInRefused):
        await authorization.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
    assert authorization.provider.exchanged == []


async def test_oidc_spends_the_code_of_a_grant(people: ConsentSetup) -> None:
    consent_request, attacker = await people.ask("alice"), await people.browser("alice")
    params = people.provider.confirm(await people.allow(consent_request, attacker), "victim")

    await brought(people.consent_service.spend_if_known, params)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_grant(params, attacker.who, attacker.token)
    assert people.provider.exchanged == []


async def test_oidc_spends_the_code_of_a_sign_in(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")

    await brought(people.consent_service.spend_if_known, params)

    with pytest.raises(SignInRefused):
        await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
    assert people.issuer.token_requests() == []


async def test_an_old_sign_in_of_oidc_is_not_known_any_more(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in("account")
    params = people.issuer.sign_in(start.url, "victim")
    people.clock.forward(21 * 60)

    await brought(people.consent_service.spend_if_known, params)

    assert not await people.database.spent_codes.is_spent(params["code"][0])


@pytest.mark.parametrize(
    "change",
    [
        {"state": ["c-made-up"]},
        {"state": []},
        {"state": ["c-made-up", "s-made-up"]},
        {"code": ["code-number-one-of-two", "code-number-two-of-two"]},
        {"code": []},
        {"padding": ["x" * 9_000]},
    ],
    ids=["unknown state", "no state", "two states", "two codes", "no code", "too long"],
)
@pytest.mark.parametrize("mode", ["builtin", "oidc"])
async def test_what_strangers_write_costs_no_row(
    authorization: AuthorizationFixture, people: ConsentSetup, mode: str, change: dict[str, list[str]]
) -> None:
    harness = authorization if mode == "builtin" else people
    start = await harness.consent_service.begin_sign_in("account")
    state = httpx2.URL(start.url).params["state"]
    junk = {"state": [state], "code": ["code-that-a-stranger-wrote"], **change}

    assert await brought(harness.consent_service.spend_if_known, junk) == [303]

    assert not [code for code in junk["code"] if await harness.database.spent_codes.is_spent(code)]


async def test_only_so_many_callbacks_of_an_address_are_looked_up() -> None:
    looked_up: list[Params] = []

    async def spend(params: Params) -> None:
        looked_up.append(params)

    answers = await brought(spend, *({"state": ["x"], "code": [f"code-{n}"]} for n in range(10)))

    assert answers == [303] * 10
    assert len(looked_up) == RATES.excess


async def test_a_database_that_is_away_changes_nothing_of_the_answer() -> None:
    async def spend(_: Params) -> None:
        raise StorageError("The database cannot be reached.")

    assert await brought(spend, {"state": ["x"], "code": ["a-code-of-somebody"]}) == [303]


async def test_the_server_spends_the_code_when_sixty_junk_callbacks_came_before(tmp_path: Path) -> None:
    async with open_builtin_app(tmp_path) as builtin_app, httpx2.AsyncClient(timeout=60) as http:
        begun = await http.post(
            f"{builtin_app.url}/account/sign-in", headers=SAME_ORIGIN, follow_redirects=True
        )
        (state,) = STATE.findall(begun.text)[:1]
        callback = f"{builtin_app.url}{CALLBACK}"
        for number in range(Rates().callback):
            await http.get(callback, params={"state": "junk", "code": f"junk-{number:020}"})

        answer = await http.get(callback, params={"state": state, "code": "code-of-the-victim"})

        assert builtin_app.parts is not None
        services = await builtin_app.parts.services.get()
        assert answer.headers["location"] == TOO_MANY_RESULT
        assert await services.database.spent_codes.is_spent("code-of-the-victim")
