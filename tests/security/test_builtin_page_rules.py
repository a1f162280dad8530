"""What holds for every page between a chat client and its code: headers, cookies, forms, names, addresses."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import httpx2
import pytest

from tests.authorization_pages import (
    CURSOR,
    HOSTED,
    AuthorizationPages,
    answer,
    ask_url,
    client_browser,
    confirm,
    fields_of,
    return_from_nextcloud,
)
from tests.callback_results import RESULT_ADDRESS, shown
from tests.multi_user_pages import HOST, NEXTCLOUD, ORIGIN, config, state_of, target_of

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{client}"
NOBODY = f"/authorize/confirm?transaction={'a' * 32}"
CALLBACK = "/oauth/callback/nextcloud"
LOOKS = [
    ask_url(),
    ask_url("mcp-unknown"),
    ask_url(state="x" * 9_000),
    "/authorize",
    NOBODY,
    f"{CALLBACK}?code=bob&state=c-x",
    f"{CALLBACK}?error=access_denied&state=c-x",
    f"{CALLBACK}?code=bob&state=s-x",
]
ROUTES = [
    *(("GET", path) for path in LOOKS),
    ("POST", "/authorize"),
    ("POST", "/authorize/confirm"),
    ("PUT", "/authorize"),
    ("HEAD", "/authorize/confirm"),
    ("DELETE", "/authorize/confirm"),
]


@pytest.fixture
async def known(authorization_pages: AuthorizationPages) -> AuthorizationPages:
    await authorization_pages.client()
    return authorization_pages


@pytest.fixture
async def browser(known: AuthorizationPages) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_browser(known) as opened:
        yield opened


async def every_answer(browser: httpx2.AsyncClient, known: AuthorizationPages) -> list[httpx2.Response]:
    """Walk all the ways there are, good and bad, and keep what was answered."""
    answers = [await browser.get(ask_url()), await answer(browser, "allow"), await answer(browser, "deny")]
    redirect_target = await answer(browser, "allow", "notes:read")
    cancelled = {"error": "access_denied", "state": state_of(target_of(redirect_target))}
    answers += [redirect_target, await browser.get(CALLBACK, params=cancelled)]
    back = await return_from_nextcloud(browser, known)
    answers += [back, await browser.get(back.headers["location"])]
    # A request that was answered to its end is not asked again, so that this one comes last of its kind.
    answers += [await confirm(browser, known, said) for said in ("not-mine", "none", "mine")]
    answers += [await browser.get(ask_url(resource="https://other.example"))]
    answers += [await browser.get(ask_url(redirect_uri="https://unknown.example/cb"))]
    again = ask_url(state="of the client, once more")
    known.admit_only("staff")
    answers.append(await return_from_nextcloud(browser, known, address=again))
    known.mend()
    known.pages.break_nextcloud(lambda request: httpx2.ConnectError("refused", request=request))
    answers.append(await return_from_nextcloud(browser, known, address=again))
    known.mend()
    known.fail_at("INSERT INTO codes", RuntimeError("A bug."))
    answers.append(await confirm(browser, known, address=again))
    known.mend()
    return answers


# Headers and cookies


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
    known: AuthorizationPages, method: str, path: str, headers: dict[str, str]
) -> None:
    async with client_browser(known, config(max_body_bytes=5)) as browser:
        response = await browser.request(method, path, headers=headers)

    require_headers(response)
    assert "access-control-allow-origin" not in response.headers


def require_headers(response: httpx2.Response) -> None:
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert len(response.headers.get_list("cross-origin-opener-policy")) == 1


async def test_every_page_on_the_way_carries_them_and_leaves_the_client_in_touch_with_its_window(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    answers = await every_answer(browser, known)

    for response in answers:
        require_headers(response)
    assert {response.headers["cross-origin-opener-policy"] for response in answers} == {"unsafe-none"}


async def test_the_first_page_promises_what_comes_where_people_sign_in_with_nextcloud(
    browser: httpx2.AsyncClient,
) -> None:
    page = (await browser.get("/")).text

    assert "choose what it may do, and sign in to Nextcloud." in page
    assert "The first time, it gives you a link" not in page


async def test_the_pages_of_multi_user_modes_contact_no_other_host(browser: httpx2.AsyncClient) -> None:
    pages = [await browser.get(path) for path in ("/", "/account", "/healthz", "/oauth/consent")]

    assert {page.headers["cross-origin-opener-policy"] for page in pages} == {"same-origin"}


async def test_every_cookie_is_out_of_reach_of_scripts_other_sites_and_other_hosts(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    answers = await every_answer(browser, known)

    cookies = [cookie for response in answers for cookie in response.headers.get_list("set-cookie")]
    assert {cookie.partition("=")[0] for cookie in cookies} == {"__Host-browser", "__Host-result"}
    for cookie in cookies:
        assert {"Secure", "HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
        assert "domain" not in cookie.lower()


async def test_no_answer_but_the_question_itself_gives_a_cookie(
    browser: httpx2.AsyncClient,
) -> None:
    for method, path in ROUTES:
        response = await browser.request(method, path)
        given = {each.partition("=")[0] for each in response.headers.get_list("set-cookie")}
        ended = response.headers.get("location") == RESULT_ADDRESS
        asked = (method, path) == ("GET", ask_url())
        assert given == ({"__Host-result"} if ended else {"__Host-browser"} if asked else set())


@pytest.mark.parametrize(
    ("header", "value", "status"), [("Host", "evil.example", 421), ("Origin", "https://evil.example", 403)]
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_refuses_strangers(  # noqa: PLR0917 - all of them named cases
    browser: httpx2.AsyncClient,
    known: AuthorizationPages,
    method: str,
    path: str,
    header: str,
    value: str,
    status: int,
) -> None:
    response = await browser.request(method, path, headers={header: value})

    assert response.status_code == status
    assert known.pages.statements.seen == []


# Where a browser is sent


@pytest.mark.parametrize(
    "evil", ["//evil.example", "\\\\evil.example", "https://evil.example", "/%0d%0aX: y", "javascript:1"]
)
async def test_nothing_but_the_registered_address_sends_a_browser_anywhere(
    browser: httpx2.AsyncClient, known: AuthorizationPages, evil: str
) -> None:
    names = ("next", "url", "redirect", "return_to", "target", "rd", "continue", "error_uri", "iss")
    more = urlencode(dict.fromkeys(names, evil))

    for method, path in ROUTES:
        response = await browser.request(method, f"{path}{'&' if '?' in path else '?'}{more}")
        assert response.headers.get("location", RESULT_ADDRESS) == RESULT_ADDRESS
        assert "refresh" not in response.headers
        assert "evil" not in "".join(re.findall(r'(?:href|action)="([^"]*)"', response.text))
    redirect_target = await answer(
        browser, "allow", "notes:read", address=f"{ask_url()}&{more}", **dict.fromkeys(names, evil)
    )

    assert target_of(redirect_target).startswith(f"{NEXTCLOUD}/")
    assert known.away == 1


@pytest.mark.parametrize(
    "state",
    [
        "x\r\nSet-Cookie: a=b\r\n\r\n<script>",
        "0; url=https://evil.example",
        "'\"><a href='javascript:1'>",
        "a&code=mine&iss=https://evil.example#",
        "\x00\x7f\u2028\u202e\U0001f600",
        "%0d%0a%2500",
        "x" * 2_048,
    ],
)
@pytest.mark.parametrize("uri", [HOSTED, CURSOR, f"{HOSTED}?tenant=1"])
@pytest.mark.parametrize("way", ["denied", "sent", "not me"])
async def test_a_state_is_returned_unchanged_and_has_no_effect(
    browser: httpx2.AsyncClient, known: AuthorizationPages, state: str, uri: str, way: str
) -> None:
    await known.client(redirect_uris=(uri,))
    address = ask_url(state=state, redirect_uri=uri)

    if way == "denied":
        page = await answer(browser, "deny", address=address)
    else:
        page = await confirm(browser, known, "mine" if way == "sent" else "not-mine", address=address)

    link = next(link for link in hrefs(page) if link.startswith(uri))
    params = httpx2.URL(link.replace("cursor:", "https:")).params
    assert params.get_list("state") == [state]
    assert params.get_list("iss") == [ORIGIN]
    assert (params.get_list("error"), "code" in params) == (
        ([], True) if way == "sent" else (["access_denied"], False)
    )
    assert re.fullmatch(r"[!-~]+", link)
    assert page.headers.get("refresh", f"0; url={link}") == f"0; url={link}"
    assert page.headers.get_list("set-cookie") == []
    assert "<script" not in page.text


def hrefs(page: httpx2.Response) -> list[str]:
    found = re.findall(r'<a [^>]*href="([^"]+)"', page.text)
    return [link.replace("&amp;", "&").replace("&#39;", "'") for link in found]


async def test_no_browser_is_redirected_before_the_user_has_answered(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    pages = [page for page in await every_answer(browser, known) if "refresh" in page.headers]

    paths = [target_of(page) for page in pages]
    assert [target.partition("?")[0] for target in paths] == [
        HOSTED,
        f"{NEXTCLOUD}/index.php/apps/oauth2/authorize",
        HOSTED,
    ]
    assert {page.request.method for page in pages} == {"POST"}


# Whose browser, whose form


async def test_a_link_that_is_looked_at_in_advance_or_twice_changes_nothing(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    back = await return_from_nextcloud(browser, known)
    before = (known.away, known.here, known.connected)

    for path in (ask_url(), back.headers["location"], ask_url(), back.headers["location"]):
        assert (await browser.get(path, headers={"Purpose": "prefetch"})).status_code == 200

    assert (known.away, known.here, known.connected) == before


async def test_what_one_browser_was_given_is_of_no_use_in_another(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    redirect_target = await answer(browser, "allow", "notes:read")
    state = state_of(target_of(redirect_target))
    auth_transaction = (await return_from_nextcloud(browser, known)).headers["location"]
    form = fields_of(await browser.get(auth_transaction))
    question = fields_of(await browser.get(ask_url()))
    sent = len(known.pages.network.asked)

    for cookies in (None, "x" * 24, ""):
        async with client_browser(known) as other:
            if cookies is None:
                await other.get(ask_url())
            else:
                other.cookies.set("__Host-browser", cookies, domain=HOST)
            answers = [
                await shown(
                    other, await other.get(CALLBACK, params={"code": known.pages.code("bob"), "state": state})
                ),
                await other.get(auth_transaction),
                *[
                    await other.post("/authorize/confirm", data={**form, "answer": said})
                    for said in ("mine", "not-mine")
                ],
                await other.post("/authorize", data={**question, "answer": "allow", "allow.notes": "read"}),
                await other.post("/authorize", data={**question, "answer": "deny"}),
            ]
        assert [each.status_code for each in answers] == [403] * 6
        assert all("refresh" not in each.headers and "Bob" not in each.text for each in answers)

    assert (known.away, known.connected) == (0, {})
    # The code that reached another browser is exchanged once, to end what it opens.
    token_requests = [one for one in known.pages.network.asked[sent:] if one.url.path.endswith("/token")]
    assert len(token_requests) == 1
    ended = await shown(
        browser, await browser.get(CALLBACK, params={"code": known.pages.code("bob"), "state": state})
    )
    assert ended.status_code == 403


async def test_a_check_value_is_good_for_its_own_form_alone(
    browser: httpx2.AsyncClient, known: AuthorizationPages
) -> None:
    question = fields_of(await browser.get(ask_url()))
    auth_transaction = fields_of(
        await browser.get((await return_from_nextcloud(browser, known)).headers["location"])
    )
    other = fields_of(await browser.get((await return_from_nextcloud(browser, known)).headers["location"]))

    refused = [
        await browser.post("/authorize/confirm", data={**auth_transaction, "csrf": csrf, "answer": "mine"})
        for csrf in (question["csrf"], other["csrf"], "", "é", "0" * 64)
    ] + [
        await browser.post(
            "/authorize", data={**question, "csrf": auth_transaction["csrf"], "answer": "deny"}
        ),
        await browser.post("/authorize", data={**question, "csrf": [question["csrf"]] * 2, "answer": "deny"}),
        await browser.post("/authorize", data={**question, "request": "", "answer": "deny"}),
    ]

    assert [each.status_code for each in refused] == [403] * 8
    assert known.connected == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": ORIGIN},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_form_that_another_page_sends_connects_nothing(
    browser: httpx2.AsyncClient, known: AuthorizationPages, headers: dict[str, str]
) -> None:
    question = fields_of(await browser.get(ask_url()))
    auth_transaction = fields_of(
        await browser.get((await return_from_nextcloud(browser, known)).headers["location"])
    )
    away = known.away

    refused = [
        await browser.post(
            "/authorize", data={**question, "answer": "allow", "allow.notes": "read"}, headers=headers
        ),
        await browser.post(
            "/authorize/confirm", data={**auth_transaction, "answer": "mine"}, headers=headers
        ),
        await browser.post(
            "/authorize/confirm", data={**auth_transaction, "answer": "not-mine"}, headers=headers
        ),
    ]

    assert [each.status_code for each in refused] == [403] * 3
    assert (known.away, known.connected, known.here) == (away, {}, 1)


@pytest.mark.parametrize("media", ["text/plain", "application/json", "multipart/form-data; boundary=x", ""])
@pytest.mark.parametrize("path", ["/authorize", "/authorize/confirm"])
async def test_a_form_in_another_form_is_not_read(
    browser: httpx2.AsyncClient, known: AuthorizationPages, media: str, path: str
) -> None:
    form = {**fields_of(await browser.get(ask_url())), "answer": "deny"}

    refused = await browser.post(path, content=urlencode(form), headers={"Content-Type": media})

    assert refused.status_code == 400
    assert "refresh" not in refused.headers


# Names


@pytest.mark.parametrize(
    "name",
    [HOSTILE, "\u202egpj.live", "Claude\r\nX: y", "x" * 300, "a\u0300" * 200, "{host}"],
)
async def test_a_name_is_only_a_name_on_every_page(
    browser: httpx2.AsyncClient, known: AuthorizationPages, name: str
) -> None:
    await known.client(name=name)
    known.pages.call("bob", name)

    answers = [page for page in await every_answer(browser, known) if page.status_code != 303]

    for page in answers:
        assert "<script" not in page.text
        assert "<img" not in page.text
        assert "\u202e" not in page.text
        assert "x" * 65 not in page.text
        assert not any(name in value for value in page.headers.values())
    assert "<bdi>" in answers[0].text


# What is kept to oneself


async def test_codes_states_and_cookies_never_reach_the_log(
    browser: httpx2.AsyncClient, known: AuthorizationPages, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="nextcloud_mcp_server")

    answers = await every_answer(browser, known)

    secrets = [browser.cookies["__Host-browser"], "of the client", "of+the+client"]
    secrets += [code for page in answers for code in re.findall(r"ncc_[A-Za-z0-9_-]{43}", page.text)]
    places = [page.headers["location"] for page in answers if page.status_code == 303]
    secrets += [place.partition("=")[2] for place in places if place != RESULT_ADDRESS]
    assert len(secrets) > 5
    assert not any(secret in caplog.text for secret in secrets)
