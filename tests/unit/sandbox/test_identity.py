from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import Session, User

OCS = {"OCS-APIRequest": "true"}
USER = "/ocs/v2.php/cloud/user?format=json"
NOTES = "/index.php/apps/notes/api/v1/notes"
HOME = "/remote.php/dav/files/alice/"
PROBE = "cookie_test=test"


async def cookies_of(
    client: httpx2.AsyncClient, method: str, url: str, headers: dict[str, str] | None = None
) -> str:
    """Ask as a client that keeps cookies, and give those it has afterwards."""
    response = await client.request(method, url, headers={**(headers or {}), "Cookie": PROBE})
    return "; ".join([PROBE, *(item.partition(";")[0] for item in response.headers.get_list("Set-Cookie"))])


async def test_every_first_answer_sets_session_cookies(alice: httpx2.AsyncClient) -> None:
    response = await alice.get(USER, headers=OCS)

    names = [cookie.partition("=")[0] for cookie in response.headers.get_list("Set-Cookie")]
    assert names == [
        "oc_sessionPassphrase",
        "nc_sameSiteCookielax",
        "nc_sameSiteCookiestrict",
        "ocsandbox001",
        "cookie_test",
    ]


@pytest.mark.parametrize(("requests", "acting"), [(1, "bob"), (2, "alice")])
async def test_a_password_opens_a_session_once_the_first_cookies_have_come_back(
    alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, requests: int, acting: str
) -> None:
    first = (await alice.get(USER, headers=OCS)).headers.get_list("Set-Cookie")
    kept = OCS | {"Cookie": "; ".join(item.partition(";")[0] for item in first)}
    for _ in range(requests - 1):
        await alice.get(USER, headers=kept)

    response = await anonymous.get(USER, headers=kept, auth=("bob", "bob"))

    assert response.headers["X-User-Id"] == acting


async def test_an_app_password_opens_a_session_with_the_first_answer(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["alice"]).secret
    first = (await anonymous.get(USER, headers=OCS, auth=("alice", secret))).headers.get_list("Set-Cookie")
    cookies = "; ".join(item.partition(";")[0] for item in first)

    response = await anonymous.get(USER, headers=OCS | {"Cookie": cookies}, auth=("bob", "bob"))

    assert response.headers["X-User-Id"] == "alice"


async def test_dav_only_reads_with_the_cookie_of_a_bearer(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    sandbox.state.users["alice"].files.put("/hers.txt", b"hers")
    secret = sandbox.state.new_app_password(sandbox.state.users["alice"]).secret
    cookies = {
        "Cookie": await cookies_of(anonymous, "GET", USER, OCS | {"Authorization": f"Bearer {secret}"})
    }

    read = await anonymous.get(f"{HOME}hers.txt", headers=cookies, auth=("bob", "bob"))
    write = await anonymous.put(f"{HOME}hers.txt", headers=cookies, auth=("bob", "bob"), content=b"x")

    assert (read.status_code, read.text) == (200, "hers")
    assert (write.status_code, "CSRF check not passed." in write.text) == (401, True)


@pytest.mark.parametrize("password", ["bob", "wrong"])
async def test_a_session_cookie_beats_the_authorization_header(
    alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient, password: str
) -> None:
    cookies = await cookies_of(alice, "GET", USER, headers=OCS)

    response = await anonymous.get(USER, headers=OCS | {"Cookie": cookies}, auth=("bob", password))

    assert (response.status_code, response.headers["X-User-Id"]) == (200, "alice")
    assert "Set-Cookie" not in response.headers


async def test_a_session_cookie_beats_a_bogus_bearer(
    alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    cookies = await cookies_of(alice, "GET", USER, headers=OCS)

    response = await anonymous.get(USER, headers=OCS | {"Cookie": cookies, "Authorization": "Bearer bogus"})

    assert response.headers["X-User-Id"] == "alice"


async def test_a_write_with_the_wrong_cookie_lands_in_the_cookies_home(
    sandbox: Sandbox, alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    cookies = await cookies_of(alice, "PROPFIND", HOME, headers={"Depth": "0"})

    response = await anonymous.put(
        f"{HOME}ck.txt", content=b"x", headers={"Cookie": cookies}, auth=("bob", "bob")
    )

    assert response.status_code == 201
    assert sandbox.state.users["alice"].files.get("/ck.txt").read() == b"x"


async def test_notes_use_the_cookie_only_with_the_ocs_header(
    alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    cookies = {"Cookie": await cookies_of(alice, "GET", USER, headers=OCS)}

    with_header = await anonymous.get(NOTES, headers=OCS | cookies, auth=("bob", "bob"))
    without = await anonymous.get(NOTES, headers=cookies, auth=("bob", "bob"))
    afterwards = await anonymous.get(USER, headers=OCS | cookies)

    assert with_header.headers["X-User-Id"] == "alice"
    assert (without.headers["X-User-Id"], len(without.headers.get_list("Set-Cookie"))) == ("bob", 4)
    assert afterwards.status_code == 401


async def test_dav_refuses_the_cookie_of_a_plain_notes_answer(
    alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    cookies = {"Cookie": await cookies_of(alice, "GET", NOTES)}

    dav = await anonymous.request("PROPFIND", HOME, headers=cookies, auth=("bob", "bob"))
    ocs = await anonymous.get(USER, headers=OCS | cookies, auth=("bob", "bob"))

    assert (dav.status_code, "CSRF check not passed." in dav.text) == (401, True)
    assert ocs.headers["X-User-Id"] == "alice"


async def test_a_session_ends_with_its_app_password(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["alice"]).secret
    bearer = {"Authorization": f"Bearer {secret}"}
    cookies = await cookies_of(anonymous, "GET", USER, headers=OCS | bearer)

    before = await anonymous.get(USER, headers=OCS | {"Cookie": cookies})
    sandbox.state.app_passwords.clear()
    after = await anonymous.get(USER, headers=OCS | {"Cookie": cookies})

    assert (before.status_code, after.status_code) == (200, 401)


@pytest.mark.parametrize("cookie", ["ocsandbox001=unknown", "a,b=1", "a=b; \x7f=,;", '"'])
async def test_a_cookie_that_means_nothing_is_ignored(alice: httpx2.AsyncClient, cookie: str) -> None:
    response = await alice.get(USER, headers=OCS | {"Cookie": cookie})

    assert response.headers["X-User-Id"] == "alice"


async def test_an_app_password_works_as_bearer_and_as_basic(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["alice"]).secret

    bearer = await anonymous.get(USER, headers=OCS | {"Authorization": f"Bearer {secret}"})
    basic = await anonymous.get(USER, headers=OCS, auth=("alice", secret))

    assert (bearer.headers["X-User-Id"], basic.headers["X-User-Id"]) == ("alice", "alice")


async def test_an_app_password_needs_the_login_name_it_was_made_for(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    user = sandbox.state.users["alice"]
    secret = sandbox.state.new_app_password(user, login_name="alice@example.test").secret

    email = await anonymous.get(USER, headers=OCS, auth=("alice@example.test", secret))
    uid = await anonymous.get(USER, headers=OCS, auth=("alice", secret))

    assert (email.status_code, email.json()["ocs"]["data"]["id"], uid.status_code) == (200, "alice", 401)


async def test_the_login_name_need_not_be_the_uid(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    sandbox.state.add_user(User("3f2c", "Carol", "carol", login_names=("carol",)))

    response = await anonymous.get(USER, headers=OCS, auth=("Carol", "carol"))

    assert response.json()["ocs"]["data"]["id"] == "3f2c"


async def test_the_app_password_of_a_deleted_user_opens_nothing(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["bob"]).secret
    del sandbox.state.users["bob"]

    response = await anonymous.get(USER, headers=OCS, auth=("bob", secret))

    assert response.status_code == 401


@pytest.mark.parametrize("name", ["alice", "ghost"])
async def test_a_bad_password_is_refused_in_each_areas_own_words(
    anonymous: httpx2.AsyncClient, name: str
) -> None:
    auth = (name, "wrong")

    ocs = await anonymous.get(USER, headers=OCS, auth=auth)
    notes = await anonymous.get(NOTES, auth=auth)
    dav = await anonymous.request("PROPFIND", HOME, auth=auth)

    assert (ocs.status_code, ocs.json()["ocs"]["meta"]["message"]) == (401, "Unauthorised")
    assert (notes.status_code, notes.text, "Cache-Control" in notes.headers) == (401, '{"message":""}', False)
    assert (dav.status_code, dav.headers["WWW-Authenticate"]) == (
        401,
        'Basic realm="Nextcloud", charset="UTF-8"',
    )
    assert dav.text.count("Username or password was incorrect") == 2


async def test_an_anonymous_request_is_refused_in_each_areas_own_words(anonymous: httpx2.AsyncClient) -> None:
    notes = await anonymous.get(NOTES)
    notes_with_header = await anonymous.get(NOTES, headers=OCS)
    dav = await anonymous.request("PROPFIND", HOME)

    assert (notes.status_code, notes.text) == (401, '{"message":"CORS requires basic auth"}')
    assert notes_with_header.text == '{"message":"Current user is not logged in"}'
    assert (dav.status_code, dav.text.count("No 'Authorization: Basic' header found.")) == (401, 2)


async def test_a_bearer_opens_notes_only_with_the_ocs_header(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["alice"]).secret
    bearer = {"Authorization": f"Bearer {secret}"}

    without = await anonymous.get(NOTES, headers=bearer)
    with_header = await anonymous.get(NOTES, headers=OCS | bearer)

    assert (without.status_code, with_header.status_code) == (401, 200)


async def test_basic_credentials_that_cannot_be_read_count_as_none(anonymous: httpx2.AsyncClient) -> None:
    response = await anonymous.get(USER, headers=OCS | {"Authorization": "Basic ???"})

    assert response.json()["ocs"]["meta"]["message"] == "Current user is not logged in"


async def test_a_disabled_account_is_503_for_dav_and_401_elsewhere(
    sandbox: Sandbox, bob: httpx2.AsyncClient
) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["bob"]).secret
    sandbox.state.users["bob"].enabled = False

    dav = await bob.request("PROPFIND", "/remote.php/dav/files/bob/")
    ocs = await bob.get(USER, headers=OCS)
    notes = await bob.get(NOTES)
    app_password = await bob.get(NOTES, auth=("bob", secret))

    assert (dav.status_code, "OC\\User\\DisabledUserException: Account disabled" in dav.text) == (503, True)
    assert (ocs.status_code, ocs.json()["ocs"]["meta"]["message"]) == (401, "Unauthorised")
    assert (notes.status_code, notes.text) == (401, '{"message":"Account disabled"}')
    assert app_password.text == '{"message":"Account disabled"}'


async def test_a_session_of_an_account_disabled_later_is_refused(
    sandbox: Sandbox, alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    cookies = await cookies_of(alice, "GET", USER, headers=OCS)
    sandbox.state.users["alice"].enabled = False

    response = await anonymous.request("PROPFIND", HOME, headers={"Cookie": cookies})

    assert response.status_code == 503


async def test_the_twelfth_login_after_eleven_bad_ones_is_429_with_the_right_password_too(
    sandbox: Sandbox, alice: httpx2.AsyncClient
) -> None:
    bad = [await alice.get(USER, headers=OCS, auth=("alice", "wrong")) for _ in range(11)]

    ocs = await alice.get(USER, headers=OCS)
    notes = await alice.get(NOTES)
    dav = await alice.request("PROPFIND", HOME)

    assert {response.status_code for response in bad} == {401}
    assert (ocs.status_code, ocs.json()["ocs"]["meta"]) == (
        429,
        {"status": "failure", "statuscode": 429, "message": "Reached maximum delay"},
    )
    assert (notes.status_code, notes.text) == (429, '{"message":"Reached maximum delay"}')
    assert (dav.status_code, "TooManyRequests" in dav.text, "Retry-After" in dav.headers) == (
        429,
        True,
        False,
    )


async def test_the_throttle_lets_go_after_half_an_hour(
    sandbox: Sandbox, alice: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    for _ in range(11):
        sandbox.throttle.count("127.0.0.1")

    before = await alice.get(USER, headers=OCS)
    advance(timedelta(minutes=30))
    after = await alice.get(USER, headers=OCS)

    assert (before.status_code, after.status_code) == (429, 200)


async def test_a_good_login_resets_the_throttle(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    for _ in range(10):
        sandbox.throttle.count("127.0.0.1")

    await alice.get(USER, headers=OCS)

    assert sandbox.throttle.delay_ms("127.0.0.1") == 0


async def test_bogus_bearers_are_not_counted(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    for _ in range(12):
        await anonymous.get(USER, headers=OCS | {"Authorization": "Bearer bogus"})

    assert not sandbox.throttle.blocks("127.0.0.1")


async def test_capabilities_tell_the_delay(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    for _ in range(11):
        sandbox.throttle.count("127.0.0.1")

    response = await anonymous.get("/ocs/v2.php/cloud/capabilities?format=json", headers=OCS)

    assert response.json()["ocs"]["data"]["capabilities"]["bruteforce"]["delay"] == 25_000


def test_old_sessions_are_forgotten(sandbox: Sandbox) -> None:
    sessions: list[Session] = [sandbox.state.new_session() for _ in range(2_001)]

    assert sessions[0].id not in sandbox.state.sessions
    assert sessions[1].id in sandbox.state.sessions


def test_a_person_outside_the_state_has_no_files() -> None:
    user = User("carol", "Carol", "carol")

    with pytest.raises(ValueError, match="carol was not added"):
        _ = user.files
