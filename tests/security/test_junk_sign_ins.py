"""Attack: codes that Nextcloud does not accept, so that it or this server turns every user's sign-in away."""

import re
import secrets
import string
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.auth.consent.exchange_limiter import ALLOW_LISTED, USUAL, WINDOW, ExchangeLimiter
from nextcloud_mcp_server.auth.requester import Requester, current_requester
from nextcloud_mcp_server.errors import Throttled
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.limits import Rates
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.oauth_fixtures import Office, Replica, caller

SAME_ORIGIN = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
STATE = re.compile(r"state=(s-[A-Za-z0-9_-]+)")
ATTACKER, OTHER = "203.0.113.7", "198.51.100.9"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path, trusted_proxies="127.0.0.1") as made:
        yield made


@asynccontextmanager
async def browser(address: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A browser behind the operator's proxy, at an address of the network."""
    headers = {"X-Forwarded-For": address}
    async with httpx2.AsyncClient(headers=headers, timeout=60, follow_redirects=True) as http:
        yield http


def junk_code(length: int = 128) -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))


async def finish_callback(http: httpx2.AsyncClient, builtin_app: BuiltinApp, code: str) -> httpx2.Response:
    """Begin a sign-in for the account page, and come back with a code of one's own."""
    leads_on = await http.post(f"{builtin_app.url}/account/sign-in", headers=SAME_ORIGIN)
    found = STATE.search(leads_on.text)
    assert found, leads_on.text
    params = {"state": found[1], "code": code}
    return await http.get(f"{builtin_app.url}/oauth/callback/nextcloud", params=params, headers=SAME_ORIGIN)


async def sign_in(builtin_app: BuiltinApp, http: httpx2.AsyncClient, name: str = "alice") -> None:
    await builtin_app.sign_in(Person(name, name, browser=http), http)


async def failures(builtin_app: BuiltinApp) -> int:
    assert builtin_app.parts is not None
    services = await builtin_app.parts.services.get()
    return await services.database.failed_exchanges.count(since=builtin_app.clock() - WINDOW)


async def test_junk_from_one_network_leaves_the_sign_ins_of_another_alone(builtin_app: BuiltinApp) -> None:
    for number in range(6):
        async with browser(f"2001:db8::{number:x}") as stranger:
            await finish_callback(stranger, builtin_app, junk_code())

    async with browser(OTHER) as http:
        await sign_in(builtin_app, http)

    assert await failures(builtin_app) == USUAL.of_one


async def test_junk_sign_ins_at_an_identity_provider_leave_another_network_alone(tmp_path: Path) -> None:
    ends_at = ""
    async with (
        open_oidc_app(tmp_path, trusted_proxies="127.0.0.1") as oidc_app,
        browser(ATTACKER) as stranger,
        httpx2.AsyncClient(headers={"X-Forwarded-For": OTHER}, timeout=60) as http,
    ):
        callback = f"{oidc_app.url}/oauth/callback/sign-in"
        for number in range(Rates().callback + 5):
            # A browser that began, with a state of ours; the others have made one up.
            begun = await begin(stranger, oidc_app) if number < 5 else {"state": "junk"}
            junk = await stranger.get(callback, params={**begun, "code": junk_code()})
            ends_at = str(junk.url).removeprefix(oidc_app.url)

        start = await begin(http, oidc_app)
        back = await Person("alice", "alice", browser=http).sign_in(start["url"], until=callback)
        signed_in = await http.get(back, headers=SAME_ORIGIN)
        account = await http.get(f"{oidc_app.url}/account", headers=SAME_ORIGIN)

    assert ends_at == TOO_MANY_RESULT
    assert signed_in.headers["Location"] == "/account"
    assert (account.status_code, "Alice" in account.text) == (200, True)


async def begin(http: httpx2.AsyncClient, oidc_app: OidcApp) -> dict[str, str]:
    """Begin a sign-in at the identity provider; the answer is its address, and the state in it."""
    leads_on = await http.post(f"{oidc_app.url}/account/sign-in", headers=SAME_ORIGIN)
    if leads_on.is_redirect:
        leads_on = await http.get(f"{oidc_app.url}{leads_on.headers['Location']}", headers=SAME_ORIGIN)
    url = leads_on.headers["Refresh"].partition("url=")[2]
    return {"url": url, "state": parse_qs(urlsplit(url).query)["state"][0]}


async def test_a_browser_that_signed_in_before_has_a_share_of_its_own(
    builtin_app: BuiltinApp,
) -> None:
    async with browser(ATTACKER) as mine:
        await sign_in(builtin_app, mine)
        for number in range(4):
            async with browser(f"192.0.2.{number}") as stranger:
                await finish_callback(stranger, builtin_app, junk_code())
        async with browser(OTHER) as stranger:
            answer = await finish_callback(stranger, builtin_app, junk_code())

        await sign_in(builtin_app, mine)

    assert await failures(builtin_app) == USUAL.of_strangers
    assert "half an hour" in answer.text


async def test_a_user_with_many_marks_cannot_use_up_that_share_from_one_network(
    builtin_app: BuiltinApp,
) -> None:
    async with browser(OTHER) as mine, AsyncExitStack() as stack:
        await sign_in(builtin_app, mine)
        marked = [await stack.enter_async_context(browser(ATTACKER)) for _ in range(3)]
        for http in marked:
            await sign_in(builtin_app, http, "bob")
        for http in marked * 2:
            await finish_callback(http, builtin_app, junk_code())

        await sign_in(builtin_app, mine)

    assert await failures(builtin_app) == USUAL.of_one


async def test_a_signed_in_user_reads_the_account_page_and_disconnects_whatever_strangers_do(
    builtin_app: BuiltinApp,
) -> None:
    async with browser(OTHER) as mine:
        person = Person("alice", "alice", browser=mine)
        await builtin_app.sign_in(person, mine)
        await person.consent(f"{builtin_app.url}/account")
        for number in range(6):
            async with browser(f"192.0.2.{number}") as stranger:
                await finish_callback(stranger, builtin_app, junk_code())
        account = await mine.get(f"{builtin_app.url}/account", headers=SAME_ORIGIN)
        check = re.search(
            r'action="/account/disconnect".*?name="csrf" value="([^"]+)"', account.text, re.DOTALL
        )
        assert check, account.text
        ended = await mine.post(
            f"{builtin_app.url}/account/disconnect", data={"csrf": check[1]}, headers=SAME_ORIGIN
        )

    assert ended.status_code == 200
    assert builtin_app.connected() == []


@pytest.mark.parametrize(
    "code",
    [junk_code(20), "x" * 20, junk_code(127) + "-", junk_code(600)],
    ids=["short", "repeated", "with a dash", "long"],
)
async def test_what_cannot_be_a_code_of_nextcloud_is_not_sent_and_not_counted(
    builtin_app: BuiltinApp, code: str
) -> None:
    async with browser(ATTACKER) as stranger:
        await finish_callback(stranger, builtin_app, code)

    assert await failures(builtin_app) == 0


async def test_the_mark_of_a_browser_neither_names_its_user_nor_signs_them_in(
    builtin_app: BuiltinApp,
) -> None:
    async with browser(OTHER) as mine:
        await sign_in(builtin_app, mine)
        marks = {cookie.name: cookie for cookie in mine.cookies.jar if "known-browser" in cookie.name}
        (mark,) = marks.values()
    async with browser(OTHER) as thief:
        thief.cookies.set(mark.name, str(mark.value), domain="127.0.0.1")
        account = await thief.get(f"{builtin_app.url}/account", headers=SAME_ORIGIN)

    assert re.fullmatch(r"[A-Za-z0-9_-]{24}\.[0-9a-f]{64}", str(mark.value))
    assert mark.has_nonstandard_attr("HttpOnly")
    assert "alice" not in account.text


@pytest.fixture
def exchange_limiter(office: Office, replica: Replica) -> ExchangeLimiter:
    return ExchangeLimiter(replica.database, clock=office.harness.clock)


async def exchange_junk(exchange_limiter: ExchangeLimiter, requester: Requester, name: str) -> bool:
    """Do as a sign-in does whose code is not accepted; tell whether it was sent."""
    token = current_requester.set(requester)
    try:
        await exchange_limiter.check(None, name)
        await exchange_limiter.failed(caller("nobody").principal, name)
    except Throttled:
        return False
    finally:
        current_requester.reset(token)
    return True


async def test_of_a_thousand_junk_sign_ins_from_one_network_two_are_sent(
    exchange_limiter: ExchangeLimiter,
) -> None:
    sent = [
        await exchange_junk(exchange_limiter, Requester("network"), f"flow-{number}")
        for number in range(1_000)
    ]

    assert sum(sent) == USUAL.of_one
    assert await exchange_junk(exchange_limiter, Requester("another network"), "flow")


async def test_a_known_browser_cannot_use_up_what_the_others_have(exchange_limiter: ExchangeLimiter) -> None:
    mine = Requester("mine", mark="mark")

    sent = [await exchange_junk(exchange_limiter, mine, f"flow-{number}") for number in range(20)]

    assert sum(sent) == USUAL.of_one
    assert await exchange_junk(exchange_limiter, Requester("other", mark="another mark"), "flow")


async def test_where_nextcloud_counts_no_failures_of_this_server_strangers_stop_no_user(
    office: Office, replica: Replica
) -> None:
    asked: list[bool] = []

    async def is_allow_listed() -> bool:
        asked.append(True)
        return True

    exchange_limiter = ExchangeLimiter(
        replica.database, clock=office.harness.clock, is_allow_listed=is_allow_listed
    )
    sent = [
        await exchange_junk(exchange_limiter, Requester(f"network-{number // 10}"), f"flow-{number}")
        for number in range(30)
    ]

    assert all(sent)
    assert len(asked) == 1
    assert ALLOW_LISTED.of_strangers > len(sent) > USUAL.of_all
