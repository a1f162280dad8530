"""The pages of many users against those who would have a user answer for another user."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.types import ASGIApp

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.pages import stylesheet
from tests.access_fields import chosen_in, fields_for
from tests.callback_results import shown
from tests.multi_user_pages import (
    HOST,
    ORIGIN,
    USUAL_HEADERS,
    MultiUserPages,
    allow,
    browser_of,
    checks,
    config,
    give,
    gone_to_nextcloud,
    gone_to_sign_in,
    sign_in,
    state_of,
    target_of,
    url,
)

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{client}"
LOOKS = [
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/static/{style}"),
    ("GET", "/nothing/here"),
    ("GET", "/oauth/provision?elicitationId={open}"),
    ("HEAD", "/oauth/provision?elicitationId={open}"),
    ("GET", "/oauth/provision?elicitationId={unknown}"),
    ("GET", "/oauth/sign-in"),
    ("GET", "/oauth/callback/sign-in?code=alice&state=x"),
    ("GET", "/oauth/callback/nextcloud?code=alice&state=x"),
    ("HEAD", "/oauth/callback/nextcloud?code=alice&state=x"),
    ("GET", "/oauth/consent?elicitationId={open}"),
    ("GET", "/oauth/consent?elicitationId={foreign}"),
    ("GET", "/oauth/consent?elicitationId={unknown}"),
    ("GET", "/oauth/nextcloud"),
    ("GET", "/oauth/confirm?elicitationId={open}"),
    ("GET", "/oauth/not-me?elicitationId={open}"),
    ("GET", "/oauth/waiting?elicitationId={open}"),
    ("GET", "/oauth/done?elicitationId={open}"),
    ("GET", "/account"),
    ("PUT", "/account"),
]
FORMS = [
    "/oauth/provision?elicitationId={open}",
    "/oauth/other-account",
    "/oauth/consent",
    "/oauth/confirm",
    "/oauth/cancel",
    "/account/sign-in",
    "/account/app",
    "/account/disconnect",
    "/account/sign-out",
    "/account/sign-out-everywhere",
]
ROUTES = [*LOOKS, *(("POST", path) for path in FORMS), ("POST", "/mcp"), ("POST", "/mcp/broken")]
#: Where an answer may send a browser: nowhere else, whatever was asked.
PLACES = re.compile(
    r"/oauth/(sign-in|nextcloud|result#ended)|/account"
    r"|/oauth/(provision|consent|confirm|waiting|not-me|done)\?elicitationId=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


@pytest.fixture
async def people(consent_service: MultiUserPages) -> AsyncIterator[httpx2.AsyncClient]:
    async with browser_of(consent_service) as client:
        yield client


def seen(response: httpx2.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything a browser can tell two answers apart by."""
    return response.status_code, response.content, sorted(response.headers.multi_items())


def fields(elicitation_id: str, check: str | list[str], **more: str) -> dict[str, Any]:
    """Everything any form of ours sends."""
    usual = {"elicitationId": elicitation_id, "csrf": check, "allow.notes": "read", "client": "claude"}
    return usual | {"answer": "allow", "do": "remove"} | more


# Links


async def test_before_a_sign_in_every_link_gets_the_same_page(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    ended = {state: await consent_service.open() for state in ElicitationState if state.final}
    for state, elicitation_id in ended.items():
        await consent_service.end(elicitation_id, state)
    links = [
        UNKNOWN,
        await consent_service.open("alice"),
        await consent_service.open("bob", client_name="Other"),
        *ended.values(),
    ]

    answers = [await people.get(url("provision", link)) for link in links]
    await sign_in(people, consent_service, "bob")
    answers += [await people.get(url("provision", link)) for link in links]

    assert answers[0].status_code == 200
    assert all(seen(answer) == seen(answers[0]) for answer in answers)
    assert not consent_service.statements.touch("elicitations")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "elicitationId=",
        "elicitationId=not-a-uuid",
        "elicitationId={upper}",
        "elicitationId={open}0",
        "elicitationId={open}%00",
        "elicitationId={open}%0d%0aLocation:%20https://evil.example",
        "elicitationId={open}&elicitationId={open}",
        f"elicitationId={{open}}&elicitationId={UNKNOWN}",
        "elicitationid={open}",
        "elicitationId=" + "a" * 5000,
        "elicitationId=//evil.example",
        "elicitationId=%3Cscript%3E",
    ],
)
@pytest.mark.parametrize("path", ["provision", "consent", "confirm", "not-me", "waiting", "done"])
async def test_every_malformed_link_gets_the_same_page(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str, query: str
) -> None:
    elicitation_id = await consent_service.open()
    plain = await people.get("/oauth/provision")

    address = f"/oauth/{path}?{query.format(open=elicitation_id, upper=elicitation_id.upper())}"
    signed_out = await people.get(address)
    await sign_in(people, consent_service)
    signed_in = await people.get(address)

    assert signed_out.status_code == 404
    assert seen(signed_out) == seen(signed_in) == seen(plain)


async def test_a_link_preview_has_no_effect(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    before = consent_service.requests

    for path in ("provision", "consent", "confirm", "not-me", "waiting", "done"):
        answers = [await people.get(url(path, elicitation_id)), await people.head(url(path, elicitation_id))]
        assert all("set-cookie" not in answer.headers for answer in answers)

    assert consent_service.requests == before
    assert consent_service.statements.seen == []


@pytest.mark.parametrize("path", ["consent", "confirm", "not-me", "waiting", "done"])
async def test_another_users_link_is_refused_and_tells_nothing_about_it(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    elicitation_id = await consent_service.open("alice", client_name="Secret Client")
    await sign_in(people, consent_service, "bob")

    response = await people.get(url(path, elicitation_id))

    assert response.status_code == 403
    assert "This request belongs to <strong>another account</strong>" in response.text
    assert "Secret Client" not in response.text
    assert "alice" not in response.text.lower()


async def test_another_user_can_neither_allow_nor_decline_nor_confirm(
    consent_service: MultiUserPages,
) -> None:
    elicitation_id = await consent_service.open("alice")
    own = await consent_service.open("bob")
    before = consent_service.requests

    async with browser_of(consent_service) as bob:
        await sign_in(bob, consent_service, "bob")
        page = await bob.get(url("consent", own))
        # The check value is right for a consent request of his own, and wrong for hers.
        check = checks(page)[-1]
        answers = [
            await bob.post(f"/oauth/{path}", data=fields(elicitation_id, check, answer=answer))
            for path in ("consent", "confirm", "cancel")
            for answer in ("allow", "deny", "mine", "not-mine")
        ]

    assert {answer.status_code for answer in answers} == {403}
    assert consent_service.requests == before
    assert consent_service.asked == []


async def test_the_third_look_of_another_user_ends_the_consent_request_and_the_owner_is_told(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open("alice")
    await sign_in(people, consent_service, "bob")

    for _ in range(3):
        await people.get(url("consent", elicitation_id))
    async with browser_of(consent_service) as alice:
        await sign_in(alice, consent_service, "alice")
        told = await alice.get(url("consent", elicitation_id), follow_redirects=True)

    assert "Another person opened the link several times" in told.text


async def test_a_login_flow_is_shown_to_and_ended_by_its_own_user_alone(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.follows = True
    elicitation_id = await consent_service.open("alice")
    await sign_in(people, consent_service, "alice")
    await allow(people, elicitation_id)
    shown = await people.get(url("waiting", elicitation_id))
    link = await consent_service.login_url(elicitation_id)

    async with browser_of(consent_service) as bob, browser_of(consent_service) as stranger:
        await sign_in(bob, consent_service, "bob")
        refused = await bob.get(url("waiting", elicitation_id))
        cancelled = await bob.post("/oauth/cancel", data=fields(elicitation_id, checks(shown)[0]))
        signed_out = await stranger.get(url("waiting", elicitation_id))

    assert link is not None
    assert link in shown.text
    assert (refused.status_code, cancelled.status_code, signed_out.status_code) == (403, 403, 303)
    for answer in (refused, cancelled, signed_out):
        assert "/login/v2/" not in answer.text + str(answer.headers)
    assert await consent_service.state(elicitation_id) is ElicitationState.OPENED


# Flows


async def test_an_address_to_sign_in_is_worth_nothing_in_another_browser(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    redirect_target = await gone_to_sign_in(people, await consent_service.open())
    params = consent_service.signed_in_at(redirect_target, "alice")

    async with browser_of(consent_service) as fresh, browser_of(consent_service) as busy:
        without = await shown(fresh, await fresh.get("/oauth/callback/sign-in", params=params))
        await busy.post(url("provision", await consent_service.open()))
        with_another = await shown(busy, await busy.get("/oauth/callback/sign-in", params=params))

    assert without.status_code == with_another.status_code == 403
    assert "This began in another browser" in without.text
    assert consent_service.sessions == set()
    assert consent_service.is_spent(*params["code"])


async def test_an_address_to_confirm_is_worth_nothing_in_another_browser(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open("alice")
    await sign_in(people, consent_service, "alice")
    captured = await gone_to_nextcloud(people, elicitation_id)
    params = {"code": consent_service.code("bob"), "state": captured}

    async with (
        browser_of(consent_service) as signed_out,
        browser_of(consent_service) as bob,
        browser_of(consent_service) as other,
    ):
        await sign_in(bob, consent_service, "bob")
        await sign_in(other, consent_service, "alice")
        pages = [
            await shown(each, await each.get("/oauth/callback/nextcloud", params=params))
            for each in (signed_out, bob, other)
        ]
    own = await shown(people, await people.get("/oauth/callback/nextcloud", params=params))

    assert {page.status_code for page in (*pages, own)} == {403}
    assert "This began in another browser" in pages[0].text
    assert consent_service.is_spent(params["code"])
    assert consent_service.connected == {}
    assert consent_service.pending_grants == 0


async def test_each_callback_has_its_own_path(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    await sign_in(people, consent_service)
    state = await gone_to_nextcloud(people, elicitation_id)

    params = {"code": consent_service.code("alice"), "state": state}
    answer = await people.get("/oauth/callback/sign-in", params=params)

    assert (await shown(people, answer)).status_code == 403
    assert len(consent_service.sessions) == 1
    assert consent_service.connected == {}


async def test_a_callback_is_accepted_once(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    await sign_in(people, consent_service)
    back = await give(people, consent_service, elicitation_id, "alice")

    again = await shown(people, await people.get(str(back.request.url)))

    assert back.status_code == 303
    assert again.status_code == 403


@pytest.mark.parametrize("callback", ["sign-in", "nextcloud"])
async def test_a_callback_is_accepted_by_get_only(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, callback: str
) -> None:
    await sign_in(people, consent_service)

    answers = [
        await people.request(method, f"/oauth/callback/{callback}?code=a&state=b")
        for method in ("HEAD", "POST")
    ]

    assert [answer.status_code for answer in answers] == [405, 405]
    assert consent_service.statements.changes == []


@pytest.mark.parametrize("callback", ["sign-in", "nextcloud"])
async def test_every_value_of_a_parameter_reaches_who_decides(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, callback: str
) -> None:
    elicitation_id = await consent_service.open()
    redirect_target = await gone_to_sign_in(people, elicitation_id)
    state = state_of(redirect_target)
    codes = [*consent_service.signed_in_at(redirect_target, "alice")["code"], consent_service.code("bob")]
    if callback == "nextcloud":
        await sign_in(people, consent_service)
        state = await gone_to_nextcloud(people, elicitation_id)
        codes = [consent_service.code(name) for name in ("alice", "bob")]

    answers = [
        await people.get(f"/oauth/callback/{callback}?code={codes[0]}&code={codes[1]}&state={state}"),
        await people.get(f"/oauth/callback/{callback}?code={codes[0]}&state={state}&state={state}"),
    ]

    assert [(await shown(people, answer)).status_code for answer in answers] == [403, 403]
    assert consent_service.connected == {}


@pytest.mark.parametrize("callback", ["sign-in", "nextcloud"])
async def test_what_came_with_an_answer_is_neither_shown_nor_logged(
    people: httpx2.AsyncClient,
    consent_service: MultiUserPages,
    callback: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(0)
    await people.post(url("provision", await consent_service.open()))
    await sign_in(people, consent_service)

    params = {"error": HOSTILE, "error_description": HOSTILE, "code": "canary-code", "state": "canary-state"}
    response = await shown(people, await people.get(f"/oauth/callback/{callback}", params=params))

    ours = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("nextcloud"))
    assert response.status_code == 403
    assert not any(word in response.text + ours for word in ("alert(1)", "canary"))


# Sessions


async def test_a_session_that_was_planted_before_the_sign_in_is_worth_nothing_after_it(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    planted = await sign_in(people, consent_service, "mallory")
    await people.post("/oauth/other-account", data=fields(await consent_service.open(), ""))
    await consent_service.database.sign_ins.delete(planted)
    redirect_target = await gone_to_sign_in(people, await consent_service.open())

    params = consent_service.signed_in_at(redirect_target, "alice")
    await people.get("/oauth/callback/sign-in", params=params)

    token = people.cookies["__Host-session"]
    assert token != planted
    assert consent_service.sessions == {hash_of(token)}


@pytest.mark.parametrize(
    "cookie",
    [
        "__Host-session={alice}; __Host-session={bob}",
        "__Host-session={bob}; __Host-session={alice}",
        "session={alice}",
        "__Host-session={alice}x",
        "__Host-session=",
        "__Host-session=short",
        "__Host-session={alice}\u00fc",
        "__host-session={alice}",
    ],
)
async def test_a_repeated_or_malformed_session_cookie_signs_no_user_in(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, cookie: str
) -> None:
    values = {name: await consent_service.session(name) for name in ("alice", "bob")}

    response = await people.get("/account", headers={b"cookie": cookie.format(**values).encode()})

    assert "Sign in to see which apps" in response.text


async def test_a_check_value_is_worth_nothing_in_another_session_of_the_same_person(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)
    check = checks(await people.get("/account"))[0]
    await sign_in(people, consent_service)

    response = await people.post("/account/disconnect", data={"csrf": check})

    assert response.status_code == 403
    assert consent_service.connected == {"alice": "alice"}


@pytest.mark.parametrize("path", ["/account/app", "/account/disconnect", "/account/sign-out-everywhere"])
async def test_a_form_that_comes_so_slowly_that_its_session_ends_does_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    """Who has a stolen session sends the beginning, and the rest after the user has signed out everywhere."""
    await consent_service.client()
    await sign_in(people, consent_service)
    body = urlencode(fields(UNKNOWN, checks(await people.get("/account"))[0])).encode()
    ended: list[int] = []

    async def slowly() -> AsyncIterator[bytes]:
        yield body[:1]
        ended.append(
            await consent_service.database.sign_ins.delete_all(consent_service.person("alice").principal)
        )
        await consent_service.session("alice")
        yield body[1:]

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await people.post(path, content=slowly(), headers=headers)

    assert (answer.status_code, ended) == (403, [1])
    assert list(consent_service.clients) == [("alice", "claude")]
    assert len(await consent_service.database.sign_ins.open(consent_service.person("alice").principal)) == 1


async def test_after_signing_out_the_back_button_shows_and_does_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    token = await sign_in(people, consent_service)
    page = await people.get("/account")
    await people.post("/account/sign-out", data={"csrf": checks(page)[0]})
    sign_out = dict(people.cookies)

    people.cookies.set("__Host-session", token, domain=HOST)
    again = await people.get("/account")
    changed = await people.post("/account/app", data=fields(UNKNOWN, checks(page)[0]))

    assert "__Host-session" not in sign_out
    assert page.headers["cache-control"] == "no-store"
    assert "Claude Code" not in again.text
    assert changed.headers["location"] == "/account"
    assert list(consent_service.clients) == [("alice", "claude")]


# Forms


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": ORIGIN},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": f"http://{HOST}"},
        {},
    ],
)
async def test_a_form_of_another_page_changes_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str, headers: dict[str, str]
) -> None:
    elicitation_id = await consent_service.open()
    await consent_service.client()
    await sign_in(people, consent_service)
    check = checks(await people.get("/account" if "account/" in path else url("consent", elicitation_id)))[-1]
    del people.headers["sec-fetch-site"]

    data = fields(elicitation_id, check)
    response = await people.post(path.format(open=elicitation_id), data=data, headers=headers)

    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert consent_service.statements.changes == []


async def test_an_old_browser_that_names_our_origin_is_believed(
    consent_service: MultiUserPages,
) -> None:
    async with browser_of(consent_service, Origin=ORIGIN) as old:
        del old.headers["sec-fetch-site"]
        response = await old.post(url("provision", await consent_service.open()))

    assert response.headers["location"] == "/oauth/sign-in"


@pytest.mark.parametrize(
    "change", ["missing", "empty", "other request", "other page", "other person", "twice", "ü"]
)
@pytest.mark.parametrize("path", [path for path in FORMS if path not in (FORMS[0], "/account/sign-in")])
async def test_a_form_without_its_check_value_changes_nothing(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str, change: str
) -> None:
    elicitation_id, other_id = await consent_service.open(), await consent_service.open()
    await consent_service.client()
    await sign_in(people, consent_service)
    consent = await people.get(url("consent", elicitation_id))
    account = await people.get("/account")
    async with browser_of(consent_service) as mallory:
        await sign_in(mallory, consent_service, "mallory")
        own = await consent_service.open("mallory")
        foreign = [*checks(await mallory.get(url("consent", own))), *checks(await mallory.get("/account"))]
    values: dict[str, Any] = {
        "missing": [],
        "empty": "",
        "other request": checks(await people.get(url("consent", other_id)))[-1],
        "other page": checks(consent)[-1] if "account" in path else checks(account)[0],
        "other person": foreign[-1] if "account/" in path else foreign[0],
        "twice": [checks(account)[0], checks(account)[0]],
        "ü": "ü",
    }
    before = consent_service.requests

    response = await people.post(path, data=fields(elicitation_id, values[change]))

    assert response.status_code == 403
    assert consent_service.statements.changes == []
    assert consent_service.requests == before
    assert list(consent_service.clients) == [("alice", "claude")]


async def test_the_value_of_a_consent_form_is_worth_nothing_on_the_page_that_asks_whose_account_it_is(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open()
    await sign_in(people, consent_service)
    check = checks(await people.get(url("consent", elicitation_id)))[-1]
    await give(people, consent_service, elicitation_id, "bob")

    response = await people.post("/oauth/confirm", data=fields(elicitation_id, check, answer="mine"))

    assert response.status_code == 403
    assert consent_service.connected == {}


@pytest.mark.parametrize(
    "path", [path for path in FORMS if "provision" not in path and path != "/account/sign-in"]
)
async def test_a_form_in_another_form_is_not_read(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    await sign_in(people, consent_service)

    answers = [
        await people.post(path, json={"answer": "allow"}),
        await people.post(path, data={"a": "x" * 20_000}),
    ]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert consent_service.statements.changes == []


@pytest.mark.parametrize("path", [path for path in FORMS if "?" not in path])
async def test_what_changes_something_is_never_a_link(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, path: str
) -> None:
    await consent_service.client()
    await sign_in(people, consent_service)
    check = checks(await people.get("/account"))[0]

    await people.get(path, params={"csrf": check, "do": "remove", "client": "claude", "answer": "allow"})

    assert consent_service.statements.changes == []


async def test_what_a_second_call_adds_while_the_page_is_open_is_not_allowed_by_its_form(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    elicitation_id = await consent_service.open(needed=["notes:read"])
    await sign_in(people, consent_service)
    before = await people.get(url("consent", elicitation_id))
    await consent_service.ask_more(elicitation_id, "notes:write")

    shown_before = chosen_in(before.text)
    form = {"elicitationId": elicitation_id, "csrf": checks(before)[-1], "answer": "allow"}
    await people.post("/oauth/consent", data={**form, **fields_for(*shown_before)})
    after = await people.get(url("consent", elicitation_id))

    assert shown_before == ["notes:read"]
    assert consent_service.asked == [{"notes:read"}]
    assert chosen_in(after.text) == ["notes:change"]


# What is shown


async def test_markup_in_a_name_is_only_text(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    for name in ("alice", "bob"):
        consent_service.call(name, HOSTILE)
    await consent_service.client(
        client_id=HOSTILE, name=HOSTILE, recent=consent_service.did(f"nc_{HOSTILE}"), uid=HOSTILE
    )
    await consent_service.client(client_id=f"{HOSTILE}2", name=HOSTILE)
    await sign_in(people, consent_service)
    pages = [
        await people.get("/account"),
        await people.get(url("consent", await consent_service.open(client_name=HOSTILE))),
    ]
    elicitation_id = await consent_service.open(client_name=HOSTILE)
    done = await allow(people, elicitation_id)
    pages.append(await people.get(done.headers["location"]))
    await consent_service.disconnect()
    elicitation_id = await consent_service.open(client_name=HOSTILE)
    asked = await give(people, consent_service, elicitation_id, "bob")
    pages.append(await people.get(asked.headers["location"]))
    pages.append(await people.get(url("consent", await consent_service.open("bob"))))

    assert all("<script" not in page.text and "<img" not in page.text for page in pages)
    assert all("&lt;script&gt;" in page.text for page in pages)
    assert all(">49<" not in page.text for page in pages)


async def test_a_name_cannot_turn_the_text_around(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.call("alice", "\u202eecila\u2066\u200b" + "W" * 300)
    await consent_service.client(name="\u202egpj.live\u200b")
    await sign_in(people, consent_service)

    pages = [await people.get("/account"), await people.get(url("consent", await consent_service.open()))]

    assert all(char not in page.text for page in pages for char in "\u202e\u2066\u200b")
    assert all(len(word) <= 64 for page in pages for word in re.findall(r"W+", page.text))


async def test_a_name_of_letters_that_are_drawn_as_nothing_is_no_name(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    consent_service.call("alice", "\u3164\u115f\u2800\ufe0f\U000e0101")
    await sign_in(people, consent_service)

    page = await people.get(url("consent", await consent_service.open()))

    assert "<bdi>alice</bdi>" in page.text
    assert "\u3164" not in page.text


async def test_no_page_repeats_what_was_in_its_address(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await sign_in(people, consent_service)

    pages = [
        await people.get(path.format(style="x"), params={"x": HOSTILE, "told": HOSTILE})
        for method, path in LOOKS
        if method == "GET" and "?" not in path
    ]

    assert all("alert(1)" not in page.text for page in pages)


# Where a browser is sent


@pytest.mark.parametrize(
    "evil", ["//evil.example", "\\\\evil.example", "https://evil.example", "/%0d%0aX: y", "javascript:1"]
)
async def test_no_answer_sends_a_browser_anywhere_but_to_our_own_pages(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, evil: str
) -> None:
    elicitation_id = await consent_service.open()
    names = ("next", "url", "redirect", "redirect_uri", "return_to", "target", "rd", "continue")
    query = urlencode(dict.fromkeys(names, evil))
    locations: list[str] = []

    for signed_in in (False, True):
        if signed_in:
            await sign_in(people, consent_service)
        for method, path in ROUTES:
            address = path.format(
                open=elicitation_id, unknown=UNKNOWN, foreign=await consent_service.open("bob"), style="x"
            )
            response = await people.request(method, f"{address}{'&' if '?' in address else '?'}{query}")
            locations += response.headers.get_list("location")

    assert locations
    assert all(PLACES.fullmatch(location) for location in locations)


@pytest.mark.parametrize("callback", ["sign-in", "nextcloud"])
@pytest.mark.parametrize("change", ["payload", "mac", "no mac", "other callback", "other browser"])
async def test_a_cookie_of_another_user_leads_our_page_nowhere(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, callback: str, change: str
) -> None:
    kept: dict[str, str] = {}
    async with browser_of(consent_service) as mallory:
        await sign_in(mallory, consent_service, "mallory")
        await allow(mallory, await consent_service.open("mallory"))
        foreign = {"nextcloud": mallory.cookies["__Host-redirect"]}
        mallory.cookies.delete("__Host-session", domain=HOST)
        await mallory.post(url("provision", await consent_service.open()))
        foreign["sign-in"] = mallory.cookies["__Host-redirect"]
    await people.post(url("provision", await consent_service.open()))
    kept["sign-in"] = people.cookies["__Host-redirect"]
    await sign_in(people, consent_service)
    await allow(people, await consent_service.open())
    kept["nextcloud"] = people.cookies["__Host-redirect"]
    payload, _, mac = kept[callback].partition(".")
    other = kept["nextcloud" if callback == "sign-in" else "sign-in"]
    value = {
        "payload": f"{foreign[callback].partition('.')[0]}.{mac}",
        "mac": f"{payload}.{'0' * 64}",
        "no mac": payload,
        "other callback": other,
        "other browser": foreign[callback],
    }[change]
    people.cookies.set("__Host-redirect", value, domain=HOST)

    response = await people.get(f"/oauth/{callback}")

    assert response.status_code == 404
    assert "refresh" not in response.headers


# Every route


@pytest.fixture(scope="module")
def short_bodies(multi_user_pages: MultiUserPages) -> ASGIApp:
    """An application whose limit on bodies is lower than what the tests send."""
    return multi_user_pages.application(config(max_body_bytes=5))


@pytest.fixture
async def filled(
    multi_user_pages: MultiUserPages, short_bodies: ASGIApp
) -> AsyncIterator[tuple[httpx2.AsyncClient, dict[str, str]]]:
    """A browser, and the values for `ROUTES`; the consent request is the same for all tests."""
    if not multi_user_pages.ids:
        await multi_user_pages.open()
    multi_user_pages.statements.seen.clear()
    values = {
        "open": multi_user_pages.ids[0],
        "foreign": UNKNOWN,
        "unknown": UNKNOWN,
        "style": stylesheet()[0],
    }
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(short_bodies), base_url=ORIGIN, headers=USUAL_HEADERS
    ) as browser:
        yield browser, values


@pytest.mark.parametrize("signed_in", [False, True])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Accept": "application/json"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Content-Length": "6"},
    ],
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_answer_carries_the_security_headers(
    filled: tuple[httpx2.AsyncClient, dict[str, str]],
    multi_user_pages: MultiUserPages,
    method: str,
    path: str,
    headers: dict[str, str],
    *,
    signed_in: bool,
) -> None:
    browser, values = filled
    if signed_in:
        await sign_in(browser, multi_user_pages)
    if "{foreign}" in path:
        values["foreign"] = await multi_user_pages.open("bob")

    response = await browser.request(method, path.format(**values), headers=headers)

    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-opener-policy"] == "same-origin"
    kept = path == "/static/{style}" and response.status_code == 200
    assert response.headers["cache-control"].startswith("public" if kept else "no-store")
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("header", "value", "status"), [("Host", "evil.example", 421), ("Origin", "https://evil.example", 403)]
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_strangers(  # noqa: PLR0917 - all of them named cases
    filled: tuple[httpx2.AsyncClient, dict[str, str]],
    multi_user_pages: MultiUserPages,
    method: str,
    path: str,
    header: str,
    value: str,
    status: int,
) -> None:
    browser, values = filled
    await sign_in(browser, multi_user_pages)

    response = await browser.request(method, path.format(**values), headers={header: value})

    assert response.status_code == status
    assert "set-cookie" not in response.headers
    assert multi_user_pages.statements.seen == []


async def test_every_cookie_is_out_of_reach_of_scripts_other_sites_and_other_hosts(
    people: httpx2.AsyncClient, consent_service: MultiUserPages
) -> None:
    await consent_service.client()
    await consent_service.client("bob")
    answers = [await people.post(url("provision", await consent_service.open()))]
    redirect_target = target_of(await people.get("/oauth/sign-in"))
    params = consent_service.signed_in_at(redirect_target, "carol")
    answers.append(await people.get("/oauth/callback/sign-in", params=params))
    elicitation_id = await consent_service.open("carol")
    answers += [
        await allow(people, elicitation_id),
        await give(people, consent_service, elicitation_id, "carol"),
    ]
    check = {"csrf": checks(await people.get("/account"))[0]}
    answers.append(await people.post("/account/disconnect", data=check))
    answers += [await people.get("/account"), await people.post("/account/sign-out", data=check)]

    cookies = [cookie for answer in answers for cookie in answer.headers.get_list("set-cookie")]

    assert {cookie.partition("=")[0] for cookie in cookies} == {
        f"__Host-{name}" for name in ("session", "sign-in", "redirect", "message")
    }
    for cookie in cookies:
        attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"httponly", "secure", "samesite=lax", "path=/"} <= attributes, cookie
        assert not any(attribute.startswith("domain") for attribute in attributes)


async def test_secrets_of_a_consent_request_never_reach_the_log(
    people: httpx2.AsyncClient, consent_service: MultiUserPages, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    elicitation_id = await consent_service.open()
    token = await sign_in(people, consent_service)
    back = await give(people, consent_service, elicitation_id, "alice")
    await people.get(back.headers["location"])
    await people.get(str(back.request.url))
    await people.post("/account/disconnect", data={"csrf": "wrong"})

    ours = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("nextcloud"))

    state = back.request.url.params["state"]
    assert ours
    assert not any(secret in ours for secret in (elicitation_id, token, state))
