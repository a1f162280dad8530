import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from urllib.parse import urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import User

STATE_TOKEN = re.compile(r'name="stateToken" value="(\w+)"')


def path_of(url: str) -> str:
    return urlsplit(url).path


async def start(client: httpx2.AsyncClient, path: str = "/index.php/login/v2") -> tuple[str, str]:
    response = await client.post(path, headers={"User-Agent": "Nextcloud MCP server"})
    document = response.json()
    return document["poll"]["token"], path_of(document["login"])


async def log_in(
    browser: httpx2.AsyncClient, page: httpx2.Response, user: str, password: str
) -> httpx2.Response:
    target = re.search(r'name="redirect_url" value="([^"]*)"', page.text)
    assert target is not None
    form = {"user": user, "password": password, "redirect_url": unescape(target[1])}
    return await browser.post(str(page.url.copy_with(query=None)), data=form, follow_redirects=True)


async def walk(browser: httpx2.AsyncClient, login: str, user: str, password: str) -> httpx2.Response:
    picker = await browser.get(login, follow_redirects=True)
    link = re.search(r'href="([^"]+)"', picker.text)
    assert link is not None
    page = await browser.get(unescape(link[1]), follow_redirects=True)
    if "Log in to Nextcloud" in page.text:
        page = await log_in(browser, page, user, password)
    token = STATE_TOKEN.search(page.text)
    assert token is not None
    return await browser.post(str(page.url.copy_with(query=None)), data={"stateToken": token[1]})


async def poll(client: httpx2.AsyncClient, token: str) -> httpx2.Response:
    return await client.post("/login/v2/poll", data={"token": token})


@pytest.mark.parametrize("path", ["/index.php/login/v2", "/login/v2"])
async def test_a_flow_starts_with_two_long_tokens(anonymous: httpx2.AsyncClient, path: str) -> None:
    response = await anonymous.post(path)

    document = response.json()
    assert re.fullmatch(r"\w{128}", document["poll"]["token"])
    assert document["poll"]["endpoint"] == "http://nextcloud.test/login/v2/poll"
    assert re.fullmatch(r"http://nextcloud\.test/login/v2/flow/\w{128}", document["login"])


@pytest.mark.parametrize("token", ["wrong", ""])
async def test_pending_and_made_up_tokens_look_the_same(anonymous: httpx2.AsyncClient, token: str) -> None:
    pending, _ = await start(anonymous)

    responses = [await poll(anonymous, pending), await poll(anonymous, token)]

    assert {(response.status_code, response.text) for response in responses} == {(404, "[]")}


async def test_polling_with_get_is_405(anonymous: httpx2.AsyncClient) -> None:
    token, _ = await start(anonymous)

    response = await anonymous.get(f"/login/v2/poll?token={token}")

    assert (response.status_code, response.text) == (405, "")
    assert response.headers["Content-Type"] == "text/html; charset=UTF-8"


async def test_a_person_grants_access_and_the_poll_answers_once(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    token, login = await start(anonymous)

    connected = await walk(browser, login, "alice", "alice")
    first = await poll(anonymous, token)
    second = await poll(anonymous, token)

    granted = first.json()
    assert "<h1>Account connected</h1>" in connected.text
    assert connected.headers["X-User-Id"] == "alice"
    assert (granted["server"], granted["loginName"]) == ("http://nextcloud.test", "alice")
    assert len(granted["appPassword"]) == 72
    assert sandbox.state.app_passwords[granted["appPassword"]].name == "Nextcloud MCP server"
    assert (second.status_code, second.text) == (404, "[]")


async def test_a_poll_may_be_json(anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient) -> None:
    token, login = await start(anonymous)
    await walk(browser, login, "bob", "bob")

    response = await anonymous.post("/login/v2/poll", json={"token": token})

    assert response.json()["loginName"] == "bob"


@pytest.mark.parametrize("body", ["{broken", "[]"])
async def test_a_poll_that_cannot_be_read_finds_nothing(anonymous: httpx2.AsyncClient, body: str) -> None:
    response = await anonymous.post(
        "/login/v2/poll", content=body, headers={"Content-Type": "application/json"}
    )

    assert response.status_code == 404


async def test_the_login_name_is_what_the_person_typed(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    token, login = await start(anonymous)
    await walk(browser, login, "alice@example.test", "alice")

    granted = (await poll(anonymous, token)).json()
    user = await anonymous.get(
        "/ocs/v2.php/cloud/user?format=json",
        headers={"OCS-APIRequest": "true"},
        auth=(granted["loginName"], granted["appPassword"]),
    )

    assert granted["loginName"] == "alice@example.test"
    assert user.json()["ocs"]["data"]["id"] == "alice"


async def test_two_people_can_grant_one_flow_and_the_last_one_wins(
    sandbox: Sandbox,
    anonymous: httpx2.AsyncClient,
    browser: httpx2.AsyncClient,
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    token, login = await start(anonymous)

    await walk(browser, login, "alice", "alice")
    async with connect(sandbox, cookies=True) as other_browser:
        await walk(other_browser, login, "bob", "bob")
    granted = (await poll(anonymous, token)).json()

    assert granted["loginName"] == "bob"
    assert [made.uid for made in sandbox.state.app_passwords.values()] == ["alice", "bob"]


async def test_a_browser_that_is_signed_in_goes_straight_to_the_grant_page(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    _, first = await start(anonymous)
    await walk(browser, first, "alice", "alice")
    token, second = await start(anonymous)

    await walk(browser, second, "", "")

    assert (await poll(anonymous, token)).json()["loginName"] == "alice"


async def test_another_account_can_be_used_from_the_grant_page(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    _, first = await start(anonymous)
    await walk(browser, first, "alice", "alice")
    token, second = await start(anonymous)
    picker = await browser.get(second, follow_redirects=True)
    link = re.search(r'href="([^"]+)"', picker.text)
    assert link is not None
    await browser.get(unescape(link[1]))

    page = await browser.post("/logout", follow_redirects=True)
    page = await log_in(browser, page, "bob", "bob")
    state_token = STATE_TOKEN.search(page.text)
    assert state_token is not None
    await browser.post("/login/v2/grant", data={"stateToken": state_token[1]})

    assert (await poll(anonymous, token)).json()["loginName"] == "bob"


async def test_logging_out_without_a_flow_leads_to_the_login_page(browser: httpx2.AsyncClient) -> None:
    response = await browser.post("/logout")

    assert (response.status_code, response.headers["Location"]) == (303, "/login")


async def test_a_flow_expires_after_twenty_minutes(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    token, login = await start(anonymous)
    await walk(browser, login, "alice", "alice")
    advance(timedelta(minutes=20))

    polled = await poll(anonymous, token)
    landing = await browser.get(login)

    assert (polled.status_code, landing.status_code) == (404, 403)


async def test_the_landing_page_redirects_to_the_picker(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    _, login = await start(anonymous)

    response = await browser.get(login)

    assert response.status_code == 303
    assert response.headers["Location"] == "http://nextcloud.test/login/v2/flow?user=&direct=0"


async def test_the_grant_page_asks_to_log_in_first(
    anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    _, login = await start(anonymous)
    picker = await browser.get(login, follow_redirects=True)
    link = re.search(r'href="([^"]+)"', picker.text)
    assert link is not None

    response = await browser.get(unescape(link[1]))

    assert re.fullmatch(
        r"/login\?redirect_url=/login/v2/grant\?user%3D%26direct%3D0%26stateToken%3D\w{64}",
        response.headers["Location"],
    )


async def test_a_sign_in_page_without_a_flow_is_forbidden(browser: httpx2.AsyncClient) -> None:
    picker = await browser.get("/login/v2/flow")
    grant_page = await browser.get("/login/v2/grant?stateToken=made-up")
    grant = await browser.post("/login/v2/grant", data={"stateToken": "made-up"})

    assert [response.status_code for response in (picker, grant_page, grant)] == [403, 403, 403]


async def test_a_grant_needs_the_state_token_of_the_visit(
    sandbox: Sandbox, browser: httpx2.AsyncClient
) -> None:
    login_page = await browser.get("/login")
    await log_in(browser, login_page, "alice", "alice")

    response = await browser.post("/login/v2/grant", data={"stateToken": "made-up"})

    assert (response.status_code, sandbox.state.app_passwords) == (403, {})


@pytest.mark.parametrize("target", ["https://evil.test/", "//evil.test", ""])
async def test_the_login_page_redirects_nowhere_else(browser: httpx2.AsyncClient, target: str) -> None:
    form = {"user": "alice", "password": "alice", "redirect_url": target}

    response = await browser.post("/login", data=form)

    assert (response.status_code, response.headers["Location"]) == (303, "/")


async def test_a_wrong_password_shows_the_form_again_and_is_counted(
    sandbox: Sandbox, browser: httpx2.AsyncClient
) -> None:
    login_page = await browser.get("/login?redirect_url=/login/v2/grant")

    response = await log_in(browser, login_page, "alice", "wrong")

    assert (response.status_code, "Wrong login or password." in response.text) == (200, True)
    assert 'value="/login/v2/grant"' in response.text
    assert sandbox.throttle.delay_ms("127.0.0.1") == 200


async def test_a_disabled_account_cannot_log_in(sandbox: Sandbox, browser: httpx2.AsyncClient) -> None:
    sandbox.state.users["alice"].enabled = False

    response = await browser.post("/login", data={"user": "alice", "password": "alice"})

    assert "Account disabled" in response.text


async def test_a_throttled_browser_gets_a_429_page(sandbox: Sandbox, browser: httpx2.AsyncClient) -> None:
    for _ in range(11):
        sandbox.throttle.count("127.0.0.1")

    response = await browser.post("/login", data={"user": "alice", "password": "alice"})

    assert (response.status_code, "Too many requests" in response.text) == (429, True)


async def test_names_are_escaped_on_the_pages(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    sandbox.state.add_user(User("<b>", "<i>", "x"))
    response = await anonymous.post("/login/v2", headers={"User-Agent": "<script>"})

    picker = await browser.get(path_of(response.json()["login"]), follow_redirects=True)
    login = await browser.get("/login")

    assert "&lt;script&gt;" in picker.text
    assert "<script>" not in picker.text
    assert "&lt;b&gt;" in login.text


async def test_urls_follow_the_servers_own_idea_of_its_host(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    sandbox.state.overwrite_host = "https://cloud.example.org"

    token, login = await start(anonymous)
    landing = await browser.get(login)
    browser.headers["Host"] = "nextcloud.test"
    await walk(
        browser, urlsplit(landing.headers["Location"])._replace(scheme="", netloc="").geturl(), "bob", "bob"
    )

    assert landing.headers["Location"].startswith("https://cloud.example.org/login/v2/flow")
    assert (await poll(anonymous, token)).json()["server"] == "https://cloud.example.org"


async def test_a_subpath_without_pretty_urls_is_in_every_url(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo(base_path="/nextcloud", pretty_urls=False)

    async with connect(sandbox) as client, connect(sandbox, cookies=True) as browser:
        response = await client.post("/nextcloud/index.php/login/v2")
        document = response.json()
        connected = await walk(browser, path_of(document["login"]), "alice", "alice")
        granted = await client.post(document["poll"]["endpoint"], data={"token": document["poll"]["token"]})

    assert document["poll"]["endpoint"] == "http://nextcloud.test/nextcloud/index.php/login/v2/poll"
    assert "Account connected" in connected.text
    assert granted.json()["server"] == "http://nextcloud.test/nextcloud"
