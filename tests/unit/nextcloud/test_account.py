from collections.abc import Callable

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.errors import Forbidden, NotNextcloud, TooOld, Unreachable
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.concurrency_limiter import REQUESTS_AT_ONCE
from nextcloud_mcp_server.nextcloud.credential import BasicCredential, BearerCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

SECRET = SecretStr("p" * 72)
STATUS = {
    "installed": True,
    "maintenance": False,
    "needsDbUpgrade": False,
    "version": "32.0.1.2",
    "versionstring": "32.0.1",
    "edition": "",
    "productname": "Nextcloud",
    "extendedSupport": False,
}


def nextcloud(answer: Callable[[httpx2.Request], httpx2.Response], *, public: str | None = None) -> Nextcloud:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    public_url = NextcloudUrl.parse(public) if public else None
    return Nextcloud(NextcloudUrl.parse("https://h/nextcloud"), pool, public_url=public_url)


async def test_status_tells_version_and_maintenance_without_a_credential() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={**STATUS, "maintenance": True})

    info = await nextcloud(answer).server_info()

    assert (info.version, info.product_name, info.maintenance, info.needs_upgrade) == (
        "32.0.1",
        "Nextcloud",
        True,
        False,
    )
    assert str(asked[0].url) == "https://h/nextcloud/status.php"
    assert "Authorization" not in asked[0].headers


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(404),
        httpx2.Response(403),
        httpx2.Response(200, html="<html>It works!</html>"),
        httpx2.Response(200, json=[]),
        httpx2.Response(200, json={**STATUS, "installed": False}),
        httpx2.Response(200, content=b"x" * 100_000),
    ],
)
async def test_something_else_at_that_address_is_not_a_nextcloud(answer: httpx2.Response) -> None:
    with pytest.raises(NotNextcloud, match="NEXTCLOUD_HOST"):
        await nextcloud(lambda _: answer).server_info()


async def test_an_old_nextcloud_is_refused_by_its_version() -> None:
    with pytest.raises(TooOld, match=r"27\.1\.4.*28"):
        await nextcloud(
            lambda _: httpx2.Response(200, json={**STATUS, "versionstring": "27.1.4"})
        ).server_info()


async def test_nothing_there_is_unreachable() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(Unreachable):
        await nextcloud(answer).server_info()


async def test_the_uid_and_not_the_login_name_is_in_every_path() -> None:
    """B13, B14, U23: users log in by e-mail, and a uid can hold anything."""
    asked: list[httpx2.Request] = []
    uid = "a b+c@dü"

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.url.path.endswith("/cloud/user"):
            data = {"id": uid, "displayname": "A"}
            return httpx2.Response(200, json={"ocs": {"meta": {}, "data": data}})
        href = request.url.raw_path.decode()
        body = (
            '<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:response>'
            f"<d:href>{href}</d:href><d:propstat><d:prop><oc:id>00000007ocid</oc:id></d:prop>"
            "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"
        )
        return httpx2.Response(207, text=body)

    server = nextcloud(answer)
    user = await server.whoami(BasicCredential("a@example.org", SECRET))
    storage_id = await server.storage_id(BasicCredential("a@example.org", SECRET), uid=user.uid)

    assert (user.uid, storage_id) == (uid, "00000007ocid")
    assert asked[1].url.raw_path.startswith(b"/nextcloud/remote.php/dav/files/a%20b%2Bc%40d%C3%BC")
    assert {request.headers["Authorization"] for request in asked} == {basic("a@example.org")}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["team", "Staff & Co"], ("team", "Staff & Co")),
        ([], ()),
        ({"0": "team", "2": "staff"}, ("team", "staff")),
        ([2024, "team"], ("2024", "team")),
        ([["team"], None], ()),
        ("team", ()),
        (None, ()),
    ],
)
async def test_groups_are_read_as_php_may_write_them(given: object, read: tuple[str, ...]) -> None:
    answer = {"ocs": {"meta": {"statuscode": 200}, "data": {"id": "alice", "groups": given}}}
    server = nextcloud(lambda _: httpx2.Response(200, json=answer))

    assert (await server.whoami(BasicCredential("alice", SECRET))).groups == read


async def test_a_home_folder_without_id_has_none() -> None:
    empty = '<?xml version="1.0"?><d:multistatus xmlns:d="DAV:"/>'

    storage_id = await nextcloud(lambda _: httpx2.Response(207, text=empty)).storage_id(
        BasicCredential("alice", SECRET), uid="alice"
    )

    assert storage_id is None


def basic(name: str) -> str:
    request = httpx2.Request("GET", "https://h")
    authorised = next(httpx2.BasicAuth(name, SECRET.get_secret_value()).auth_flow(request))
    return authorised.headers["Authorization"]


DELETE = "DELETE https://h/nextcloud/ocs/v2.php/core/apppassword?format=json"
PROBE = "PROPFIND https://h/nextcloud/remote.php/dav/"


@pytest.mark.parametrize(
    ("status", "ended", "requests"), [(200, True, [DELETE]), (401, False, [DELETE, PROBE])]
)
async def test_deleting_an_app_password_tells_whether_nextcloud_still_knew_it(
    status: int, requests: list[str], *, ended: bool
) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url}")
        return httpx2.Response(status, json={"ocs": {"meta": {}, "data": []}})

    known = await nextcloud(answer).delete_app_password(BasicCredential("alice", SECRET))

    assert known is ended
    assert asked == requests


async def test_a_real_password_cannot_be_deleted_and_that_is_said() -> None:
    body = {"ocs": {"meta": {"statuscode": 403, "message": "no app password in use"}, "data": None}}

    with pytest.raises(Forbidden, match="no app password in use"):
        await nextcloud(lambda _: httpx2.Response(403, json=body)).delete_app_password(
            BasicCredential("alice", SECRET)
        )


async def test_an_account_has_a_client_for_each_app_and_login_is_on_the_public_address() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"poll": {"token": "t"}, "login": "https://h/login/v2/flow/x"})

    server = nextcloud(answer, public="https://cloud.example.org")
    account = server.account(BasicCredential("alice", SECRET), uid="alice")
    started = await server.login.start()

    assert account.uid == "alice"
    assert all(
        (account.client(NotesClient), account.files, account.trash, account.user, account.capabilities)
    )
    assert started.login_url.get_secret_value() == "https://cloud.example.org/login/v2/flow/x"


async def test_an_access_token_is_sent_as_a_bearer_with_the_header_that_apps_ask_for() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={"ocs": {"meta": {}, "data": {"id": "alice"}}})

    credential = BearerCredential(SECRET)
    server = nextcloud(answer)
    await server.account(credential, uid="alice").user.get()
    await server.delete_app_password(credential)

    assert {request.headers["Authorization"] for request in asked} == {f"Bearer {'p' * 72}"}
    assert {request.headers["OCS-APIRequest"] for request in asked} == {"true"}
    assert SECRET.get_secret_value() not in repr(credential)


async def test_of_one_persons_slow_requests_only_some_are_under_way_and_others_get_through() -> None:
    """Connections are shared by every user: without a limit, anyone who's storage hangs would take them all."""
    slow: list[httpx2.Request] = []
    proven = False
    full, over = anyio.Event(), anyio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        uid = "alice" if request.headers["Authorization"] == "Bearer alice" else "bob"
        if uid == "alice" and proven:
            slow.append(request)
            if len(slow) == REQUESTS_AT_ONCE:
                full.set()
            await over.wait()
        return httpx2.Response(200, json={"ocs": {"meta": {}, "data": {"id": uid}}})

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    made = Nextcloud(NextcloudUrl.parse("https://h"), pool)

    async def ask(name: str) -> str:
        # As for every call: the account of the call before may be gone.
        account = made.account(BearerCredential(SecretStr(name)), uid=name)
        return (await account.user.get()).uid

    # The first request with a credential goes alone.
    await ask("alice")
    proven = True
    bob, under_way = "", 0
    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            for _ in range(REQUESTS_AT_ONCE + 5):
                group.start_soon(ask, "alice")
            await full.wait()
            bob, under_way = await ask("bob"), len(slow)
            over.set()

    assert bob == "bob"
    assert under_way == REQUESTS_AT_ONCE
    assert len(slow) == REQUESTS_AT_ONCE + 5
