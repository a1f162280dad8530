"""A callback that connected nothing is shown at an address without code and state."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.web.callback_result import (
    RESULT,
    TOO_MANY_RESULT,
    CallbackResults,
    keep_back,
    keep_gone,
    keep_other_account,
    keep_problem,
    pack,
    result_page,
    unpack,
)
from nextcloud_mcp_server.web.problem import Problem
from tests.callback_results import RESULT_ADDRESS, shown

KEY, OLD_KEY = b"k" * 32, b"o" * 32
CALLBACK = "/callback?code=canary-code-value&state=canary-state-value"
RETURN = "https://claude.ai/api/mcp/auth_callback?error=access_denied"
#: What the header of a reverse proxy's buffer has room for, beside the other headers.
ROOM = 3_500

Keep = Callable[[Request], None]


def browser(
    keep: Keep, *, answer: Response | None = None, keys: tuple[bytes, ...] = (KEY,)
) -> httpx2.AsyncClient:
    """Make a browser before one callback, which leaves what `keep` does and gives `answer`."""

    async def callback(request: Request) -> Response:
        keep(request)
        return answer or PlainTextResponse("the page at the address of the callback", 403)

    results = Middleware(CallbackResults, keys=lambda: keys)
    routes = [Route("/callback", callback, middleware=[results]), Route(RESULT, result_page(lambda: keys))]
    transport = httpx2.ASGITransport(Starlette(routes=routes))
    headers = {"Accept": "text/html", "Accept-Language": "en"}
    return httpx2.AsyncClient(transport=transport, base_url="https://mcp.test", headers=headers)


def back(*, again: str = "/authorize?client_id=x", url: str = RETURN) -> Keep:
    def keep(request: Request) -> None:
        keep_back(request.scope, "cancelled", status=200, url=url, again=again, client="Claude", app=False)

    return keep


def nothing(_: Request) -> None:
    """Leave nothing, as an answer that no page of ours made would."""


def problem(request: Request) -> None:
    keep_problem(request.scope, Problem("other_browser", 403), reference="7F3K-92QD", retry="/oauth/again")


async def test_a_problem_is_shown_with_its_status_reference_and_way_on() -> None:
    async with browser(problem) as one:
        page = await shown(one, await one.get(CALLBACK))

    assert page.status_code == 403
    assert "This began in another browser" in page.text
    assert "7F3K-92QD" in page.text
    assert 'href="/oauth/again"' in page.text


async def test_a_link_that_leads_nowhere_is_shown_as_such() -> None:
    async with browser(lambda request: keep_gone(request.scope)) as one:
        page = await shown(one, await one.get(CALLBACK))

    assert page.status_code == 404


async def test_the_page_for_another_account_keeps_the_form_that_changes_it() -> None:
    def keep(request: Request) -> None:
        keep_other_account(request.scope, elicitation_id="some-id", csrf="check", person="<b>Bob</b>")

    async with browser(keep) as one:
        page = await shown(one, await one.get(CALLBACK))

    assert page.status_code == 403
    assert 'value="some-id"' in page.text
    assert "<b>Bob" not in page.text


async def test_the_redirect_to_the_client_is_shown() -> None:
    async with browser(back()) as one:
        page = await shown(one, await one.get(CALLBACK))

    assert page.status_code == 200
    assert f'href="{RETURN}"' in page.text
    assert 'href="/authorize?client_id=x"' in page.text


@pytest.mark.parametrize(
    ("again", "url", "holds"),
    [
        ("/authorize?" + "a" * 3_000, RETURN, [RETURN]),
        ("/authorize?short", RETURN + "b" * 3_000, ["The sign-in did not work"]),
    ],
)
async def test_what_is_too_long_for_a_cookie_leaves_out_the_least_important(
    again: str, url: str, holds: list[str]
) -> None:
    async with browser(back(again=again, url=url)) as one:
        answer = await one.get(CALLBACK)
        page = await shown(one, answer)

    assert sum(len(name) + len(value) for name, value in answer.headers.raw) < ROOM
    assert all(text in page.text for text in holds)
    assert again not in page.text


async def test_a_later_result_takes_the_place_of_an_earlier_one() -> None:
    kept: list[Keep] = [problem, back(url=RETURN + "b" * 3_000)]

    def keep(request: Request) -> None:
        kept.pop(0)(request)

    async with browser(keep) as one:
        await shown(one, await one.get(CALLBACK))
        page = await shown(one, await one.get(CALLBACK))

    assert "another browser</" not in page.text
    assert "7F3K-92QD" not in page.text


async def test_a_redirect_of_the_callback_itself_is_passed_on() -> None:
    async with browser(nothing, answer=RedirectResponse("/oauth/done", 303)) as one:
        answer = await one.get(CALLBACK)

    assert (answer.status_code, answer.headers["location"]) == (303, "/oauth/done")
    assert "set-cookie" not in answer.headers


async def test_what_the_answer_says_to_the_browser_beside_its_page_is_kept() -> None:
    page = PlainTextResponse("page", 429, {"Retry-After": "7", "X-Page": "gone"})
    page.set_cookie("session", "ended")
    async with browser(nothing, answer=page) as one:
        answer = await one.get(CALLBACK)

    assert answer.headers["retry-after"] == "7"
    assert [each.partition("=")[0] for each in answer.headers.get_list("set-cookie")] == [
        "__Host-result",
        "session",
    ]
    assert "x-page" not in answer.headers


async def test_a_browser_that_keeps_no_cookies_gets_a_general_sentence() -> None:
    async with browser(problem) as one:
        answer = await one.get(CALLBACK)
        one.cookies.clear()
        page = await one.get(RESULT)

    assert answer.headers["location"] == RESULT_ADDRESS
    assert page.status_code == 403
    assert "The sign-in did not work" in page.text


async def test_too_many_callbacks_are_said_to_be_so_whatever_came_before() -> None:
    async with browser(problem) as one:
        await one.get(CALLBACK)
        page = await one.get(TOO_MANY_RESULT)

    assert page.status_code == 429


async def test_the_cookie_is_for_this_host_alone_and_out_of_reach_of_scripts() -> None:
    async with browser(problem) as one:
        answer = await one.get(CALLBACK)

    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-result=")
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= set(attributes)


def _changed(packed: str) -> list[str]:
    payload, _, mac = packed.partition(".")
    forged = urlsafe_b64encode(b'{"page": "back", "url": "https://evil.example"}').decode()
    return ["", ".", payload, f"{payload}.", f"{forged}.{mac}", f"{payload}.{mac[:-1]}0", f"x{packed}", "é.é"]


@pytest.mark.parametrize("number", range(8))
def test_what_was_changed_counts_for_nothing(number: int) -> None:
    values: dict[str, Any] = {"page": "back", "url": RETURN}

    assert unpack(_changed(pack(values, b"0" * 32))[number], [KEY]) == {}


def test_a_mac_that_the_same_key_made_for_another_purpose_counts_for_nothing() -> None:
    payload = pack({"page": "gone"}, KEY).partition(".")[0]
    macs = [hmac.digest(KEY, f"{use}{payload}".encode(), "sha256").hex() for use in ("", "callback result")]

    assert [unpack(f"{payload}.{mac}", [KEY]) for mac in macs] == [{}, {}]


def test_what_an_older_key_made_still_counts() -> None:
    assert unpack(pack({"page": "gone"}, OLD_KEY), [KEY, OLD_KEY]) == {"page": "gone"}
