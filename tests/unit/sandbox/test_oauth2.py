import base64
import json
import re
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import OAuthClient

AUTHORIZE = "/index.php/apps/oauth2/authorize"
TOKEN = "/index.php/apps/oauth2/api/v1/token"
CLIENTS = "/index.php/apps/oauth2/clients"
CALLBACK = "https://mcp.example.org/oauth/callback/nextcloud"
OCS = {"OCS-APIRequest": "true"}
USER = "/ocs/v2.php/cloud/user?format=json"
APP_PASSWORD = "/ocs/v2.php/core/apppassword?format=json"
NOTES = "/index.php/apps/notes/api/v1/notes"
HOME = "/remote.php/dav/files/alice/"


@pytest.fixture
def client(sandbox: Sandbox) -> OAuthClient:
    return sandbox.state.new_oauth_client("mcp.example.org", CALLBACK)


async def open_tab(
    browser: httpx2.AsyncClient, client: OAuthClient, state: str = "s1", person: str = "alice"
) -> httpx2.Response:
    """Walk from the authorization address to the grant page."""
    query = {"response_type": "code", "client_id": client.client_id, "state": state}
    picker = await browser.get(AUTHORIZE, params=query, follow_redirects=True)
    link = re.search(r'href="([^"]+)"', picker.text)
    assert link is not None
    page = await browser.get(unescape(link[1]), follow_redirects=True)
    if "Log in to Nextcloud" in page.text:
        target = re.search(r'name="redirect_url" value="([^"]*)"', page.text)
        assert target is not None
        form = {"user": person, "password": person, "redirect_url": unescape(target[1])}
        page = await browser.post("/login", data=form, follow_redirects=True)
    return page


async def press(browser: httpx2.AsyncClient, page: httpx2.Response) -> httpx2.Response:
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    return await browser.post("/login/flow", data=fields)


async def code_for(browser: httpx2.AsyncClient, client: OAuthClient, person: str = "alice") -> str:
    answer = await press(browser, await open_tab(browser, client, person=person))
    return parse_qs(urlsplit(answer.headers["Location"]).query)["code"][0]


async def ask(anonymous: httpx2.AsyncClient, client: OAuthClient, **fields: str) -> httpx2.Response:
    keys = {"client_id": client.client_id, "client_secret": client.client_secret}
    return await anonymous.post(TOKEN, data=keys | fields)


async def exchange_code(anonymous: httpx2.AsyncClient, client: OAuthClient, code: str) -> dict[str, str]:
    answer = await ask(anonymous, client, grant_type="authorization_code", code=code)
    return answer.json()


async def refresh(anonymous: httpx2.AsyncClient, client: OAuthClient, token: str) -> httpx2.Response:
    return await ask(anonymous, client, grant_type="refresh_token", refresh_token=token)


async def whoami(anonymous: httpx2.AsyncClient, token: str) -> int:
    answer = await anonymous.get(USER, headers=OCS | {"Authorization": f"Bearer {token}"})
    return answer.status_code


async def test_the_code_goes_to_the_registered_address_whatever_was_asked(
    browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    query = {"response_type": "code", "client_id": client.client_id, "state": "s/1 &"}
    await browser.get(AUTHORIZE, params=query | {"redirect_uri": "https://evil.test/", "resource": "x"})

    answer = await press(browser, await open_tab(browser, client, state="s/1 &"))

    assert answer.status_code == 303
    assert re.fullmatch(
        re.escape(CALLBACK) + r"\?state=s%2F1\+%26&code=[A-Za-z0-9]{128}", answer.headers["Location"]
    )


async def test_a_registered_address_may_have_a_query(sandbox: Sandbox, browser: httpx2.AsyncClient) -> None:
    client = sandbox.state.new_oauth_client("with query", "https://mcp.example.org/cb?from=nc")

    answer = await press(browser, await open_tab(browser, client))

    assert answer.headers["Location"].startswith("https://mcp.example.org/cb?from=nc&state=s1&code=")


async def test_the_grant_page_names_the_account_and_offers_only_yes(
    browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    page = await open_tab(browser, client)

    assert "Alice Example" in page.text
    assert page.text.count("<form") == 1
    assert page.text.count("<button") == 1
    assert "<a " not in page.text


async def test_a_browser_that_is_signed_in_connects_that_person_without_asking_who(
    browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    await code_for(browser, client, "bob")

    tokens = await exchange_code(anonymous, client, await code_for(browser, client, "alice"))

    assert tokens["user_id"] == "bob"


async def test_two_tabs_at_once_both_end_in_403(browser: httpx2.AsyncClient, client: OAuthClient) -> None:
    first = await open_tab(browser, client, "s1")
    second = await open_tab(browser, client, "s2")

    answers = [await press(browser, first), await press(browser, second)]

    assert [answer.status_code for answer in answers] == [403, 403]


async def test_the_grant_page_of_an_older_tab_is_403(
    browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    first = await open_tab(browser, client)
    await open_tab(browser, client)

    reloaded = await browser.get(first.url)

    assert reloaded.status_code == 403


async def test_a_request_that_does_not_accept_html_gets_no_login_page(
    browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    browser.headers["Accept"] = "application/json"

    answers = [
        await browser.get("/login/flow/grant?stateToken=x"),
        await browser.post("/login/flow", data={"stateToken": "x"}),
    ]

    assert [answer.status_code for answer in answers] == [401, 401]


async def test_an_unknown_client_gets_a_page_and_no_redirect(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get(f"{AUTHORIZE}?response_type=code&client_id=made-up&state=s")

    assert (answer.status_code, "not authorized to connect" in answer.text) == (200, True)


async def test_another_response_type_is_reported_to_the_client(
    browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    answer = await browser.get(f"{AUTHORIZE}?response_type=token&client_id={client.client_id}&state=s")

    assert answer.headers["Location"] == f"{CALLBACK}?error=unsupported_response_type&state=s"


async def test_a_client_deleted_on_the_way_is_a_server_error(
    sandbox: Sandbox, browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    page = await open_tab(browser, client)
    sandbox.state.oauth_clients.clear()

    picker = await browser.get(f"/login/flow?clientIdentifier={client.client_id}")
    granted = await press(browser, page)

    assert [picker.status_code, granted.status_code] == [500, 500]


async def test_a_grant_page_for_a_deleted_client_is_a_server_error(
    sandbox: Sandbox, browser: httpx2.AsyncClient, client: OAuthClient
) -> None:
    page = await open_tab(browser, client)
    sandbox.state.oauth_clients.clear()

    assert (await browser.get(page.url)).status_code == 500


async def test_a_code_becomes_tokens_for_every_app(
    browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))

    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    user = await anonymous.get(USER, headers=OCS | bearer)
    home = await anonymous.request("PROPFIND", HOME, headers=bearer | {"Depth": "0"})
    notes = await anonymous.get(NOTES, headers=OCS | bearer)
    plain = await anonymous.get(NOTES, headers=bearer)
    assert (len(tokens["access_token"]), len(tokens["refresh_token"])) == (72, 128)
    assert (tokens["expires_in"], tokens["user_id"]) == (3600, "alice")
    assert [user.status_code, home.status_code, notes.status_code] == [200, 207, 200]
    assert (user.headers["X-User-Id"], notes.headers["X-User-Id"]) == ("alice", "alice")
    assert (plain.status_code, plain.json()) == (401, {"message": "CORS requires basic auth"})


async def test_a_session_cookie_beats_an_access_token(
    sandbox: Sandbox,
    bob: httpx2.AsyncClient,
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))
    cookies = (await bob.get(USER, headers=OCS | {"Cookie": "cookie_test=test"})).headers.get_list(
        "Set-Cookie"
    )
    headers = {"Authorization": f"Bearer {tokens['access_token']}", "Cookie": "; ".join(cookies)}

    answer = await anonymous.get(USER, headers=OCS | headers)

    assert answer.headers["X-User-Id"] == "bob"


async def test_an_access_token_ends_after_an_hour(
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
    advance: Callable[[timedelta], None],
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}

    advance(timedelta(minutes=59))
    before = await whoami(anonymous, tokens["access_token"])
    advance(timedelta(minutes=1))
    after = await whoami(anonymous, tokens["access_token"])
    deleted = await anonymous.delete(APP_PASSWORD, headers=OCS | bearer)
    home = await anonymous.request("PROPFIND", HOME, headers=bearer)
    renewed = await refresh(anonymous, client, tokens["refresh_token"])

    assert (before, after, deleted.status_code, renewed.status_code) == (200, 401, 401, 200)
    assert "Bearer token was incorrect" in home.text


async def test_a_refresh_token_works_once_and_its_successor_stays_good(
    browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    old = await exchange_code(anonymous, client, await code_for(browser, client))

    new = (await refresh(anonymous, client, old["refresh_token"])).json()
    again = await refresh(anonymous, client, old["refresh_token"])
    next_one = await refresh(anonymous, client, new["refresh_token"])

    assert (again.status_code, again.json()) == (400, {"error": "invalid_request"})
    assert next_one.status_code == 200


async def test_the_old_access_token_lives_some_seconds_more(
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
    advance: Callable[[timedelta], None],
) -> None:
    old = await exchange_code(anonymous, client, await code_for(browser, client))
    new = (await refresh(anonymous, client, old["refresh_token"])).json()

    at_once = await whoami(anonymous, old["access_token"])
    advance(timedelta(seconds=10))
    later = await whoami(anonymous, old["access_token"])

    assert (at_once, later, await whoami(anonymous, new["access_token"])) == (200, 401, 200)


async def test_many_refreshes_leave_no_dead_tokens_behind(
    sandbox: Sandbox,
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
    advance: Callable[[timedelta], None],
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))

    for _ in range(5):
        advance(timedelta(minutes=1))
        tokens = (await refresh(anonymous, client, tokens["refresh_token"])).json()

    assert len(sandbox.state.app_passwords) == 2


async def test_parallel_refreshes_all_answer_and_one_successor_lives(
    sandbox: Sandbox, browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))
    sandbox.state.oauth_races = 2

    answers = [await refresh(anonymous, client, tokens["refresh_token"]) for _ in range(4)]
    successors = [answer.json()["refresh_token"] for answer in answers[:3]]
    used = [(await refresh(anonymous, client, token)).status_code for token in successors]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 400]
    assert used == [400, 400, 200]


@pytest.mark.parametrize("which", ["old", "new"])
async def test_deleting_with_an_access_token_ends_the_whole_family(
    which: str,
    sandbox: Sandbox,
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
) -> None:
    old = await exchange_code(anonymous, client, await code_for(browser, client))
    new = (await refresh(anonymous, client, old["refresh_token"])).json()
    used = {"old": old, "new": new}[which]["access_token"]

    deleted = await anonymous.delete(APP_PASSWORD, headers=OCS | {"Authorization": f"Bearer {used}"})
    renewed = await refresh(anonymous, client, new["refresh_token"])

    assert deleted.status_code == 200
    assert await whoami(anonymous, old["access_token"]) == await whoami(anonymous, new["access_token"]) == 401
    assert (renewed.status_code, renewed.json()) == (400, {"error": "invalid_request"})
    assert sandbox.state.app_passwords == {}


async def test_a_code_works_once_for_ten_minutes_and_is_good_as_a_refresh_token(
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
    advance: Callable[[timedelta], None],
) -> None:
    used, odd, late, later = [await code_for(browser, client) for _ in range(4)]
    await exchange_code(anonymous, client, used)

    again = await exchange_code(anonymous, client, used)
    as_refresh = await refresh(anonymous, client, odd)
    advance(timedelta(minutes=10, seconds=1))
    too_late = await exchange_code(anonymous, client, late)
    much_later = await refresh(anonymous, client, later)

    assert again == too_late == {"error": "invalid_request"}
    assert (as_refresh.status_code, much_later.status_code) == (200, 200)


async def test_the_token_endpoint_takes_any_redirect_address_and_basic_or_json(
    browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    first, second = await code_for(browser, client), await code_for(browser, client)
    wanted = {"grant_type": "authorization_code", "redirect_uri": "https://evil.test/"}
    keys = {"client_id": client.client_id, "client_secret": client.client_secret}

    by_basic = await anonymous.post(
        TOKEN, data=wanted | {"code": first}, auth=(client.client_id, client.client_secret)
    )
    by_json = await anonymous.post(TOKEN, json=wanted | keys | {"code": second})

    assert (by_basic.status_code, by_json.status_code) == (200, 200)


async def test_wrong_credentials_of_the_client_leave_the_code_good(
    sandbox: Sandbox, browser: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, client: OAuthClient
) -> None:
    other = sandbox.state.new_oauth_client("other", CALLBACK)
    code = await code_for(browser, client)
    wanted = {"grant_type": "authorization_code", "code": code}

    refused = [
        await anonymous.post(TOKEN, data=wanted | {"client_id": client.client_id, "client_secret": "wrong"}),
        await anonymous.post(TOKEN, data=wanted, headers={"Authorization": "Basic ???"}),
        await ask(anonymous, other, **wanted),
    ]

    assert [answer.json() for answer in refused] == [{"error": "invalid_client"}] * 3
    assert "access_token" in await exchange_code(anonymous, client, code)


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"grant_type=password", "application/x-www-form-urlencoded", "invalid_grant"),
        (b"{broken", "application/json", "invalid_grant"),
        (b"[]", "application/json", "invalid_grant"),
        (b'{"grant_type":"refresh_token"}', "application/json", "invalid_request"),
    ],
)
async def test_a_bad_token_request_is_400(
    body: bytes, kind: str, error: str, anonymous: httpx2.AsyncClient
) -> None:
    answer = await anonymous.post(TOKEN, content=body, headers={"Content-Type": kind})

    assert (answer.status_code, answer.json()) == (400, {"error": error})


async def test_ten_failed_token_requests_block_good_ones_for_half_an_hour(
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    client: OAuthClient,
    advance: Callable[[timedelta], None],
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))

    failed = [(await refresh(anonymous, client, f"wrong {number}")).status_code for number in range(10)]
    blocked = await refresh(anonymous, client, tokens["refresh_token"])
    still_works = await whoami(anonymous, tokens["access_token"])
    advance(timedelta(minutes=30))
    good = await refresh(anonymous, client, tokens["refresh_token"])

    assert failed == [400] * 10
    assert (blocked.status_code, blocked.headers["Content-Type"]) == (429, "text/html; charset=UTF-8")
    assert "Retry-After" not in blocked.headers
    assert (still_works, good.status_code) == (200, 200)


@pytest.fixture
async def admin(
    sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[httpx2.AsyncClient]:
    sandbox.add_user("admin", admin=True)
    async with connect(sandbox, auth=("admin", "admin")) as client:
        yield client


async def test_an_admin_registers_a_client(
    sandbox: Sandbox,
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    admin: httpx2.AsyncClient,
) -> None:
    document = {"name": "mcp", "redirectUri": CALLBACK}

    made = await admin.post(CLIENTS, headers=OCS, json=document)

    client = sandbox.state.oauth_clients[0]
    assert made.json() == {
        "id": 1,
        **document,
        "clientId": client.client_id,
        "clientSecret": client.client_secret,
    }
    assert (len(client.client_id), len(client.client_secret)) == (64, 64)
    assert "access_token" in await exchange_code(anonymous, client, await code_for(browser, client))


async def test_only_an_admin_with_the_ocs_header_registers_clients(
    admin: httpx2.AsyncClient, alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    document = {"name": "mcp", "redirectUri": CALLBACK}

    answers = [
        await anonymous.post(CLIENTS, headers=OCS, json=document),
        await alice.post(CLIENTS, headers=OCS, json=document),
        await admin.post(CLIENTS, json=document),
        await admin.post(CLIENTS, headers=OCS, json=document | {"redirectUri": "/callback"}),
        await alice.delete(f"{CLIENTS}/1", headers=OCS),
        await admin.delete(f"{CLIENTS}/1", headers=OCS),
    ]

    assert [answer.status_code for answer in answers] == [401, 403, 412, 400, 403, 500]


async def test_deleting_a_client_ends_every_password_of_its_name(
    sandbox: Sandbox,
    browser: httpx2.AsyncClient,
    anonymous: httpx2.AsyncClient,
    admin: httpx2.AsyncClient,
    client: OAuthClient,
) -> None:
    tokens = await exchange_code(anonymous, client, await code_for(browser, client))
    sandbox.state.new_app_password(sandbox.state.users["bob"], name=client.name)
    other = sandbox.state.new_app_password(sandbox.state.users["bob"], name="phone")

    deleted = await admin.delete(f"{CLIENTS}/{client.id}", headers=OCS)

    assert (deleted.status_code, deleted.json()) == (200, [])
    assert list(sandbox.state.app_passwords) == [other.secret]
    assert (await refresh(anonymous, client, tokens["refresh_token"])).json() == {"error": "invalid_request"}


async def test_the_pages_of_a_nextcloud_below_a_path_stay_below_it(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo(base_path="/nextcloud", pretty_urls=False)
    client = sandbox.state.new_oauth_client("mcp", CALLBACK)

    async with connect(sandbox, cookies=True) as browser:
        browser.headers["Accept"] = "text/html"
        query = {"response_type": "code", "client_id": client.client_id, "state": "s"}
        start = await browser.get(f"/nextcloud{AUTHORIZE}", params=query)
        picker = await browser.get(start.headers["Location"])
        link = re.search(r'href="([^"]+)"', picker.text)
        assert link is not None
        login = await browser.get(unescape(link[1]))

    assert start.headers["Location"].startswith("http://nextcloud.test/nextcloud/index.php/login/flow?")
    assert link[1].startswith("/nextcloud/index.php/login/flow/grant?")
    assert login.headers["Location"].startswith(
        "/nextcloud/index.php/login?redirect_url=/login/flow/grant?user%3D"
    )


async def test_a_bearer_of_a_trusted_issuer_acts_as_that_person(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    sandbox.state.check_bearer = {"for alice": "alice", "for nobody": "carol", "for bob": "bob"}.get
    sandbox.state.users["bob"].enabled = False

    statuses = [await whoami(anonymous, token) for token in ("for alice", "for nobody", "for bob", "bogus")]

    assert statuses == [200, 401, 401, 401]


SECURITY = "/index.php/settings/admin/security"


async def test_the_security_page_lists_the_clients_without_their_secrets(
    anonymous: httpx2.AsyncClient, sandbox: Sandbox, client: OAuthClient
) -> None:
    sandbox.add_user("admin", admin=True)

    page = await anonymous.get(SECURITY, auth=("admin", "admin"))

    found = re.search(r'id="initial-state-oauth2-clients" value="([^"]+)"', page.text)
    assert found is not None
    assert json.loads(base64.b64decode(found[1])) == [
        {
            "id": client.id,
            "name": "mcp.example.org",
            "redirectUri": CALLBACK,
            "clientId": client.client_id,
            "clientSecret": "",
        }
    ]


async def test_the_security_page_is_for_administrators(
    anonymous: httpx2.AsyncClient, alice: httpx2.AsyncClient
) -> None:
    assert (await alice.get(SECURITY)).status_code == 403
    assert (await anonymous.get(SECURITY)).status_code == 401


async def test_without_the_app_the_security_page_tells_of_no_clients(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox(apps={"files"})
    sandbox.add_user("admin", admin=True)

    async with connect(sandbox, auth=("admin", "admin")) as admin:
        page = await admin.get(SECURITY)

    assert "initial-state-bruteforcesettings-remote-address" in page.text
    assert "oauth2-clients" not in page.text
