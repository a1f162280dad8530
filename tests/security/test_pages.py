"""The pages against those who would have a user consent to something else, or without knowing."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp

from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.pages import stylesheet
from tests.access_fields import fields_for
from tests.single_user_pages import (
    HOST,
    ORIGIN,
    SECRET,
    SingleUserPages,
    application,
    browser_of,
    config,
)

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"
FORM_CHECK = re.compile(r'name="csrf" value="([^"]+)"')
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
ROUTES = [
    ("GET", "/"),
    ("HEAD", "/"),
    ("GET", "/healthz"),
    ("GET", "/static/{style}"),
    ("GET", "/static/other.css"),
    ("GET", "/nothing/here"),
    ("PUT", "/oauth/provision"),
    ("GET", "/oauth/provision?elicitationId={open}"),
    ("HEAD", "/oauth/provision?elicitationId={open}"),
    ("GET", "/oauth/provision?elicitationId={unknown}"),
    ("POST", "/oauth/provision"),
    ("GET", "/oauth/waiting?elicitationId={open}"),
    ("POST", "/oauth/cancel"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("POST", "/mcp/broken"),
]
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{client}"


def provision(elicitation_id: str) -> str:
    return f"/oauth/provision?elicitationId={elicitation_id}"


def waiting(elicitation_id: str) -> str:
    return f"/oauth/waiting?elicitationId={elicitation_id}"


async def form_of(browser: httpx2.AsyncClient, url: str) -> dict[str, str]:
    text = (await browser.get(url)).text
    return {"elicitationId": url.partition("=")[2], "csrf": FORM_CHECK.findall(text)[0]}


async def allow(browser: httpx2.AsyncClient, elicitation_id: str, *scopes: str) -> httpx2.Response:
    form = await form_of(browser, provision(elicitation_id))
    data = {**form, "answer": "allow", **fields_for(*(scopes or ["notes:read"]))}
    return await browser.post("/oauth/provision", data=data)


def seen(response: httpx2.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything a browser can tell two answers apart by."""
    return response.status_code, response.content, sorted(response.headers.multi_items())


# Links


@pytest.mark.parametrize(
    "query",
    [
        "",
        "elicitationId=",
        f"elicitationId={UNKNOWN}",
        "elicitationId=not-a-uuid",
        "elicitationId={upper}",
        "elicitationId={open}0",
        "elicitationId={open}%00",
        "elicitationId={open}%0a",
        "elicitationId={open}&elicitationId={open}",
        f"elicitationId={{open}}&elicitationId={UNKNOWN}",
        "elicitationid={open}",
        "elicitationId={used}",
        "elicitationId={declined}",
        "elicitationId={failed}",
        "elicitationId={expired}",
        "elicitationId=" + "a" * 5000,
        "elicitationId=%3Cscript%3E",
    ],
)
@pytest.mark.parametrize("page", ["/oauth/provision", "/oauth/waiting"])
async def test_every_link_that_does_not_lead_on_gets_the_same_page(
    browser: httpx2.AsyncClient, consent: SingleUserPages, page: str, query: str
) -> None:
    expired = await consent.open()
    consent.expire()
    used, declined, failed = [await consent.open() for _ in range(3)]
    await consent.complete(used)
    await consent.decline(declined)
    await consent.fail(failed, Failure("not_accepted"))
    pending = await consent.open()
    names = {"open": pending, "used": used, "declined": declined, "failed": failed, "expired": expired}
    plain = await browser.get("/oauth/provision")

    response = await browser.get(f"{page}?{query.format(**names, upper=pending.upper())}")

    assert response.status_code == 404
    assert seen(response) == seen(plain)


async def test_a_link_preview_has_no_effect(browser: httpx2.AsyncClient, consent: SingleUserPages) -> None:
    elicitation_id = await consent.open()
    before = await consent.state(elicitation_id)

    for _ in range(3):
        await browser.get(provision(elicitation_id))
        await browser.head(provision(elicitation_id))
        await browser.get(f"{provision(elicitation_id)}&answer=allow&allow.notes=read")

    assert await consent.state(elicitation_id) is before
    assert consent.statements.changes == []


async def test_another_browser_never_sees_how_a_consent_request_goes_on(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open()
    await allow(browser, elicitation_id)
    login_url = await consent.login_url(elicitation_id)

    async with browser_of(consent) as other:
        gone = await other.get("/oauth/provision")
        while_waiting = await other.get(waiting(elicitation_id))
        again = await other.get(provision(elicitation_id))
        await consent.complete(elicitation_id)
        afterwards = [await other.get(waiting(elicitation_id)), await other.get(provision(elicitation_id))]

    assert seen(while_waiting) == seen(gone)
    assert "asks for access" in again.text
    assert login_url not in again.text
    assert all(seen(response) == seen(gone) for response in afterwards)


async def test_a_ticket_opens_no_other_consent_request(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    mine, other = await consent.open(), await consent.open()
    await allow(browser, mine)
    async with browser_of(consent) as somebody:
        await allow(somebody, other)
    ticket = next(value for name, value in browser.cookies.items() if name.startswith("consent-"))

    async with browser_of(consent) as thief:
        await thief.get(provision(await consent.open()))
        for name in (name for name in somebody.cookies if name.startswith("consent-")):
            thief.cookies.set(name, ticket)
        stolen = await thief.get(waiting(other))
        own = await browser.get(waiting(other))

    assert stolen.status_code == own.status_code == 404


# Forms


@pytest.mark.parametrize("answer", ["allow", "deny", "none"])
@pytest.mark.parametrize("page", ["/oauth/provision", "/oauth/cancel"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": ORIGIN},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": f"https://{HOST}"},
        {},
    ],
)
async def test_a_form_of_another_page_changes_nothing(
    browser: httpx2.AsyncClient, consent: SingleUserPages, headers: dict[str, str], page: str, answer: str
) -> None:
    elicitation_id = await consent.open()
    form = await form_of(browser, provision(elicitation_id))
    del browser.headers["sec-fetch-site"]

    data = {**form, "answer": answer, "allow.notes": "read"}
    response = await browser.post(page, data=data, headers=headers)

    assert response.status_code == 403
    assert await consent.state(elicitation_id) is ElicitationState.PENDING
    assert consent.statements.changes == []


async def test_an_old_browser_that_names_our_origin_is_believed(consent: SingleUserPages) -> None:
    elicitation_id = await consent.open()

    async with browser_of(consent, Origin=ORIGIN) as old:
        del old.headers["sec-fetch-site"]
        response = await allow(old, elicitation_id)

    assert response.status_code == 303


@pytest.mark.parametrize(
    "change", ["missing", "empty", "other request", "other browser", "ticket", "twice", "ü"]
)
async def test_a_form_without_its_check_value_changes_nothing(
    browser: httpx2.AsyncClient, consent: SingleUserPages, change: str
) -> None:
    elicitation_id, other_id = await consent.open(), await consent.open()
    form: dict[str, Any] = await form_of(browser, provision(elicitation_id))
    other_form = await form_of(browser, provision(other_id))
    await allow(browser, other_id)
    ticket = next(value for name, value in browser.cookies.items() if name.startswith("consent-"))
    async with browser_of(consent) as other:
        foreign = await form_of(other, provision(elicitation_id))
    values = {
        "missing": [],
        "empty": "",
        "other request": other_form["csrf"],
        "other browser": foreign["csrf"],
        "ticket": ticket,
        "twice": [form["csrf"], form["csrf"]],
        "ü": "ü",
    }

    data = {**form, "csrf": values[change], "answer": "allow", "allow.notes": "read"}
    response = await browser.post("/oauth/provision", data=data)

    assert response.status_code == 403
    assert await consent.state(elicitation_id) is ElicitationState.PENDING


async def test_a_form_without_the_cookie_changes_nothing_and_tells_nothing_about_the_id(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    form = await form_of(browser, provision(await consent.open()))

    async with browser_of(consent) as without:
        known = await without.post(
            "/oauth/provision", data={**form, "answer": "allow", "allow.notes": "read"}
        )
        unknown = await without.post("/oauth/provision", data={**form, "elicitationId": UNKNOWN})

    assert known.status_code == unknown.status_code == 403
    assert consent.statements.changes == []


@pytest.mark.parametrize(
    "value", ["", "short", "x" * 25, "ünïcödé-ünïcödé-ünïcödé!", "../../../../../etc/passwd"]
)
async def test_a_made_up_cookie_is_replaced(
    browser: httpx2.AsyncClient, consent: SingleUserPages, value: str
) -> None:
    cookie = f"browser={value}".encode()

    response = await browser.get(provision(await consent.open()), headers={b"cookie": cookie})

    assert re.search(r"browser=([\w-]{24});", response.headers["set-cookie"])


# What is shown


@pytest.mark.parametrize("name", ["client_name", "host"])
async def test_markup_in_a_name_is_only_text(
    browser: httpx2.AsyncClient, consent: SingleUserPages, name: str
) -> None:
    elicitation_id = await consent.open(**{name: HOSTILE})

    pages = [await browser.get(provision(elicitation_id))]
    await allow(browser, elicitation_id)
    pages.append(await browser.get(waiting(elicitation_id)))
    await consent.end(elicitation_id, ElicitationState.COMPLETE, account_name=HOSTILE)
    pages.append(await browser.get(waiting(elicitation_id)))

    assert all("<script" not in page.text and "<img" not in page.text for page in pages)
    assert "&lt;script&gt;" in pages[2].text
    assert "49" not in pages[0].text.partition("<h1>")[2].partition("</h1>")[0]


async def test_markup_in_an_error_is_only_text(browser: httpx2.AsyncClient, consent: SingleUserPages) -> None:
    elicitation_id = await consent.open()
    await allow(browser, elicitation_id)
    await consent.fail(elicitation_id, Failure("account_taken", {"answered": HOSTILE}))

    page = await browser.get(waiting(elicitation_id))

    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text


async def test_a_name_cannot_turn_the_text_around_or_push_it_away(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    elicitation_id = await consent.open(client_name="\u202eevil\u2066\u200b\n\n\n" + "W" * 300)

    page = await browser.get(provision(elicitation_id))

    assert "\u202e" not in page.text
    assert "\u2066" not in page.text
    assert max(len(word) for word in re.findall(r"W+", page.text)) <= 64


async def test_no_page_repeats_what_was_in_its_address(browser: httpx2.AsyncClient) -> None:
    pages = [
        await browser.get(f"/{HOSTILE}"),
        await browser.get(f"/oauth/provision?elicitationId={HOSTILE}&error_description={HOSTILE}"),
        await browser.get(f"/?x={HOSTILE}"),
    ]

    assert all("alert(1)" not in page.text for page in pages)


async def test_a_line_break_in_an_error_stays_in_one_line_of_the_log(
    browser: httpx2.AsyncClient, consent: SingleUserPages, caplog: pytest.LogCaptureFixture
) -> None:
    elicitation_id = await consent.open()
    await allow(browser, elicitation_id)
    await consent.fail(elicitation_id, Failure("", {"sentence": "one\r\nWARNING two"}))

    await browser.get(waiting(elicitation_id))

    assert all("\n" not in record.getMessage() for record in caplog.records)


async def test_secrets_of_a_consent_request_never_reach_the_log(
    browser: httpx2.AsyncClient, consent: SingleUserPages, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    elicitation_id = await consent.open()
    await allow(browser, elicitation_id)
    await browser.get(waiting(elicitation_id))
    await browser.post("/mcp", headers={"Authorization": f"Bearer {SECRET}x"})

    ours = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("nextcloud"))

    assert not any(
        secret in ours
        for secret in (
            elicitation_id,
            SECRET,
            await consent.login_url(elicitation_id),
            *browser.cookies.values(),
        )
    )


# Every route


@pytest.fixture(scope="module")
def short_bodies(single_user_pages: SingleUserPages) -> ASGIApp:
    """An application whose limit on bodies is lower than what the tests send."""
    return application(single_user_pages, config(max_body_bytes=5))


@pytest.fixture
async def filled(
    single_user_pages: SingleUserPages, short_bodies: ASGIApp
) -> AsyncIterator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    """A browser, and the values for `ROUTES`; the consent request is the same for all tests."""
    if not single_user_pages.ids:
        await single_user_pages.open()
    values = {"open": single_user_pages.ids[0], "unknown": UNKNOWN, "style": stylesheet()[0]}
    # Routes that fail answer, too.
    transport = httpx2.ASGITransport(short_bodies, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as browser:
        yield browser, values


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Accept": "text/html"},
        {"Authorization": f"Bearer {SECRET}"},
        {"Host": "evil.example", "Accept": "text/html"},
        {"Origin": "https://evil.example"},
        {"Via": "1.1 proxy", "Accept": "text/html"},
        {"Content-Length": "6", "Accept": "text/html"},
    ],
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_answer_carries_the_security_headers(
    filled: tuple[httpx2.AsyncClient, dict[str, str]], method: str, path: str, headers: dict[str, str]
) -> None:
    browser, values = filled

    response = await browser.request(method, path.format(**values), headers=headers)

    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-opener-policy"] == "same-origin"
    kept = path == "/static/{style}" and response.status_code == 200
    assert response.headers["cache-control"].startswith("public" if kept else "no-store")
    assert "access-control-allow-origin" not in response.headers
    assert all(
        "HttpOnly" in cookie and "SameSite" in cookie for cookie in response.headers.get_list("set-cookie")
    )


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("X-Forwarded-For", "203.0.113.7", 403),
        ("Forwarded", "for=203.0.113.7", 403),
        ("Via", "1.1 proxy", 403),
    ],
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_strangers(  # noqa: PLR0917 - one more than five, all of them named cases
    filled: tuple[httpx2.AsyncClient, dict[str, str]],
    method: str,
    path: str,
    header: str,
    value: str,
    status: int,
) -> None:
    browser, values = filled
    usual = {"Authorization": f"Bearer {SECRET}", "Accept": "text/html"}

    response = await browser.request(method, path.format(**values), headers=usual | {header: value})

    assert response.status_code == status
    assert "set-cookie" not in response.headers
