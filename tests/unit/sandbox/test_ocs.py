import re
from collections.abc import Callable

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

OCS = {"OCS-APIRequest": "true"}


async def test_a_person_learns_their_uid_and_name(alice: httpx2.AsyncClient) -> None:
    response = await alice.get("/ocs/v2.php/cloud/user?format=json", headers=OCS)

    data = response.json()["ocs"]["data"]
    assert (response.status_code, response.headers["X-User-Id"]) == (200, "alice")
    assert (data["id"], data["displayname"], data["email"]) == (
        "alice",
        "Alice Example",
        "alice@example.test",
    )
    assert data["quota"] == {"free": -3, "used": 0, "total": -3, "relative": 0, "quota": -3}


async def test_a_quota_shows_what_is_used_and_free(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    user = sandbox.state.users["alice"]
    user.quota_bytes = 200
    user.files.put("/a.txt", b"x" * 50)

    response = await alice.get("/ocs/v2.php/cloud/user?format=json", headers=OCS)

    quota = response.json()["ocs"]["data"]["quota"]
    assert quota == {"free": 150, "used": 50, "total": 200, "relative": 25.0, "quota": 200}


async def test_version_1_hides_the_status_in_the_body(alice: httpx2.AsyncClient) -> None:
    found = await alice.get("/ocs/v1.php/cloud/user?format=json", headers=OCS)
    missing = await alice.get("/ocs/v1.php/does/not/exist?format=json", headers=OCS)

    assert found.json()["ocs"]["meta"] == {
        "status": "ok",
        "statuscode": 100,
        "message": "OK",
        "totalitems": "",
        "itemsperpage": "",
    }
    assert (missing.status_code, missing.json()["ocs"]["meta"]["statuscode"]) == (200, 998)


async def test_an_unknown_route_is_404_with_998(alice: httpx2.AsyncClient) -> None:
    response = await alice.get("/ocs/v2.php/does/not/exist?format=json", headers=OCS)

    meta = response.json()["ocs"]["meta"]
    assert (response.status_code, meta["statuscode"]) == (404, 998)
    assert meta["message"].startswith("Invalid query, please check the syntax.")
    assert response.headers["X-User-Id"] == "alice"


async def test_a_request_without_the_ocs_header_fails_the_csrf_check(alice: httpx2.AsyncClient) -> None:
    response = await alice.get("/ocs/v2.php/cloud/capabilities?format=json")

    assert (response.status_code, response.text) == (412, '{"message":"CSRF check failed"}')
    assert response.headers["X-User-Id"] == "alice"


async def test_an_anonymous_person_is_not_logged_in(anonymous: httpx2.AsyncClient) -> None:
    response = await anonymous.get("/ocs/v2.php/cloud/user?format=json", headers=OCS)

    assert response.status_code == 401
    assert response.json()["ocs"]["meta"] == {
        "status": "failure",
        "statuscode": 997,
        "message": "Current user is not logged in",
    }
    assert "X-User-Id" not in response.headers


async def test_capabilities_name_the_apps_and_their_versions(alice: httpx2.AsyncClient) -> None:
    response = await alice.get("/ocs/v2.php/cloud/capabilities?format=json", headers=OCS)

    data = response.json()["ocs"]["data"]
    assert data["version"]["string"] == "32.0.1"
    assert data["capabilities"]["notes"] == {
        "api_version": ["0.2", "1.3", "1.4"],
        "version": "5.0.2",
        "notes_path": "Notes",
    }
    assert data["capabilities"]["files"]["undelete"] is True


async def test_capabilities_lack_an_app_that_is_not_installed(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox(apps={"files", "dav"})
    sandbox.add_user("alice")

    async with connect(sandbox, auth=("alice", "alice")) as client:
        capabilities = await client.get("/ocs/v2.php/cloud/capabilities?format=json", headers=OCS)
        notes = await client.get("/index.php/apps/notes/api/v1/notes", headers=OCS)

    assert "notes" not in capabilities.json()["ocs"]["data"]["capabilities"]
    assert notes.status_code == 404


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bogus"}])
async def test_anonymous_capabilities_are_few_also_with_a_bad_bearer(
    anonymous: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    response = await anonymous.get("/ocs/v2.php/cloud/capabilities?format=json", headers=OCS | headers)

    assert response.status_code == 200
    assert set(response.json()["ocs"]["data"]["capabilities"]) == {"bruteforce", "theming"}
    assert "X-User-Id" not in response.headers


async def test_capabilities_honour_if_none_match(alice: httpx2.AsyncClient) -> None:
    url = "/ocs/v2.php/cloud/capabilities?format=json"
    etag = (await alice.get(url, headers=OCS)).headers["ETag"]

    response = await alice.get(url, headers=OCS | {"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")
    assert (response.headers["ETag"], response.headers["X-User-Id"]) == (etag, "alice")


async def test_the_menu_lists_the_apps_that_a_person_can_open(
    sandbox: Sandbox, alice: httpx2.AsyncClient, anonymous: httpx2.AsyncClient
) -> None:
    url = "/ocs/v2.php/core/navigation/apps?format=json"
    sandbox.state.users["alice"].denied_apps = frozenset({"news"})

    response = await alice.get(url, headers=OCS)
    again = await alice.get(url, headers=OCS | {"If-None-Match": response.headers["ETag"]})
    refused = await anonymous.get(url, headers=OCS)

    items = {item["id"]: item for item in response.json()["ocs"]["data"]}
    assert {"files", "notes", "mail", "collectives"} <= items.keys()
    assert "news" not in items
    assert items["notes"] == {
        "id": "notes", "order": 10, "href": "/apps/notes/", "icon": "/apps/notes/img/app.svg", "type": "link",
        "name": "Notes", "app": "notes", "active": False, "unread": 0, "classes": "", "default": False,
    }  # fmt: skip
    assert (again.status_code, refused.status_code) == (304, 401)


async def test_xml_is_the_default_form(alice: httpx2.AsyncClient) -> None:
    response = await alice.get("/ocs/v2.php/cloud/capabilities", headers=OCS | {"Accept": "*/*"})

    assert response.headers["Content-Type"] == "application/xml; charset=utf-8"
    assert response.text.startswith(
        '<?xml version="1.0"?>\n<ocs>\n <meta>\n  <status>ok</status>\n  <statuscode>200</statuscode>\n'
    )
    assert "   <edition></edition>\n   <extendedSupport></extendedSupport>\n" in response.text
    assert "    <forbidden_filename_basenames/>\n" in response.text
    assert "     <element>.htaccess</element>\n" in response.text
    assert "    <bigfilechunking>1</bigfilechunking>\n" in response.text
    assert '    <!--"blacklisted_files" is deprecated' in response.text


async def test_a_real_password_makes_an_app_password(sandbox: Sandbox, bob: httpx2.AsyncClient) -> None:
    response = await bob.get("/ocs/v2.php/core/getapppassword?format=json", headers=OCS)

    made = response.json()["ocs"]["data"]["apppassword"]
    assert re.fullmatch(r"\w{72}", made)
    assert sandbox.state.app_passwords[made].uid == "bob"


async def test_an_app_password_makes_no_other(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    secret = sandbox.state.new_app_password(sandbox.state.users["bob"]).secret

    response = await anonymous.get(
        "/ocs/v2.php/core/getapppassword?format=json", headers=OCS, auth=("bob", secret)
    )

    assert response.status_code == 403
    assert (
        response.json()["ocs"]["meta"]["message"]
        == "You cannot request an new apppassword with an apppassword"
    )


async def test_a_deleted_app_password_is_dead(sandbox: Sandbox, anonymous: httpx2.AsyncClient) -> None:
    auth = ("bob", sandbox.state.new_app_password(sandbox.state.users["bob"]).secret)
    url = "/ocs/v2.php/core/apppassword?format=json"

    deleted = await anonymous.delete(url, headers=OCS, auth=auth)
    again = await anonymous.delete(url, headers=OCS, auth=auth)

    assert deleted.status_code == 200
    assert deleted.text == '{"ocs":{"meta":{"status":"ok","statuscode":200,"message":"OK"},"data":[]}}'
    assert (again.status_code, again.json()["ocs"]["meta"]["message"]) == (401, "Unauthorised")
    assert again.headers["WWW-Authenticate"] == 'Basic realm="Authorisation Required"'


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "core/apppassword"), ("POST", "core/apppassword/rotate")]
)
async def test_a_real_password_is_no_app_password(bob: httpx2.AsyncClient, method: str, path: str) -> None:
    response = await bob.request(method, f"/ocs/v2.php/{path}?format=json", headers=OCS)

    assert (response.status_code, response.json()["ocs"]["meta"]["message"]) == (
        403,
        "no app password in use",
    )


async def test_a_rotated_app_password_replaces_the_old_one(
    sandbox: Sandbox, anonymous: httpx2.AsyncClient
) -> None:
    old = sandbox.state.new_app_password(sandbox.state.users["bob"], name="phone").secret

    response = await anonymous.post(
        "/ocs/v2.php/core/apppassword/rotate?format=json", headers=OCS, auth=("bob", old)
    )

    made = response.json()["ocs"]["data"]["apppassword"]
    assert list(sandbox.state.app_passwords) == [made]
    assert sandbox.state.app_passwords[made].name == "phone"


async def test_status_php_answers_without_a_sign_in(anonymous: httpx2.AsyncClient) -> None:
    response = await anonymous.get("/status.php")

    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == {
        "installed": True,
        "maintenance": False,
        "needsDbUpgrade": False,
        "version": "32.0.1.2",
        "versionstring": "32.0.1",
        "edition": "",
        "productname": "Nextcloud",
        "extendedSupport": False,
    }
