"""A credential is given up only when a probe of another kind is refused as well."""

from collections.abc import Awaitable, Callable

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential, BearerCredential, NextcloudCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.dav_fakes import entry, multistatus

USER = "/ocs/v2.php/cloud/user"
DAV = "/remote.php/dav/"
ROUTES: dict[str, tuple[str, str, Callable[[Account], Awaitable[object]]]] = {
    "an app": ("/index.php/apps/notes/", USER, lambda nc: nc.client(NotesClient).get("1")),
    "files": ("/remote.php/dav/files/", USER, lambda nc: nc.files.info("a.txt")),
    "a change": ("/remote.php/dav/files/", USER, lambda nc: nc.files.write("a.txt", b"x")),
    "the user": ("/ocs/v2.php/cloud/user", DAV, lambda nc: nc.user.get()),
    "capabilities": ("/ocs/v2.php/cloud/capabilities", DAV, lambda nc: nc.capabilities.get()),
}
CREDENTIALS: list[NextcloudCredential] = [
    BasicCredential("alice", SecretStr("made-up")),
    BearerCredential(SecretStr("made-up")),
]


class Upstream:
    """Answers 401 below the paths in `refusing`, and 200 elsewhere; remembers what it was asked."""

    def __init__(self, *refusing: str) -> None:
        self.refusing = refusing
        self.probe: httpx2.Response | Exception | None = None
        self.asked: list[str] = []
        pool = open_pool(ca_bundle=None, user_agent="t", transport=httpx2.MockTransport(self._answer))
        self.nextcloud = Nextcloud(NextcloudUrl.parse("https://cloud.test"), pool)

    def account(self, credential: NextcloudCredential = CREDENTIALS[0]) -> Account:
        return self.nextcloud.account(credential, uid="alice")

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append(path)
        await anyio.wait_all_tasks_blocked()
        if any(path.startswith(one) for one in self.refusing):
            return httpx2.Response(401)
        if len(self.asked) > 1 and self.probe is not None:
            if isinstance(self.probe, Exception):
                raise self.probe
            return self.probe
        body = {"ocs": {"data": {"id": "alice"}}} if path == USER else {}
        if path.startswith("/remote.php"):
            return httpx2.Response(207, stream=httpx2.ByteStream(multistatus([entry("a.txt")]).content))
        return httpx2.Response(200, json=body)


@pytest.mark.parametrize("credential", CREDENTIALS, ids=["app password", "token"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_refusal_of_one_route_alone_ends_no_credential(
    route: str, credential: NextcloudCredential
) -> None:
    path, probe, ask = ROUTES[route]
    upstream = Upstream(path)
    account = upstream.account(credential)

    with pytest.raises(errors.RouteRefused, match="takes it elsewhere"):
        await ask(account)
    refused = list(upstream.asked)
    upstream.refusing = ()
    again = await account.files.info("a.txt")

    assert refused[1:] == [probe]
    assert again.name == "a.txt"


@pytest.mark.parametrize("credential", CREDENTIALS, ids=["app password", "token"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_refusal_that_a_probe_confirms_costs_two_requests_and_no_more(
    route: str, credential: NextcloudCredential
) -> None:
    _, _, ask = ROUTES[route]
    upstream = Upstream("/")

    for _ in range(5):
        # The account that found out is held: the memory of it is not this test's.
        account = upstream.account(credential)
        with pytest.raises(errors.CredentialRejected):
            await ask(account)
        kept = account
        with pytest.raises(errors.CredentialRejected):
            await kept.files.info("a.txt")
        break

    assert len(upstream.asked) == 2


async def test_calls_that_come_together_send_a_dead_credential_twice_and_share_the_answer() -> None:
    upstream = Upstream("/")
    account = upstream.account()
    ended: list[type[Exception]] = []

    async def one(ask: Callable[[Account], Awaitable[object]]) -> None:
        try:
            await ask(account)
        except errors.NextcloudError as error:
            ended.append(type(error))

    async with anyio.create_task_group() as group:
        for _, _, ask in [*ROUTES.values()] * 4:
            group.start_soon(one, ask)

    assert ended == [errors.CredentialRejected] * 20
    assert len(upstream.asked) == 2


async def test_requests_that_are_under_way_when_one_is_refused_wait_for_the_same_probe() -> None:
    """An app password that is deleted while four requests run: each of them is refused, and one asks."""
    upstream = Upstream()
    account = upstream.account()
    await account.files.info("a.txt")
    upstream.refusing, upstream.asked = ("/",), []
    ended: list[type[Exception]] = []

    async def one() -> None:
        try:
            await account.files.info("a.txt")
        except errors.NextcloudError as error:
            ended.append(type(error))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(one)

    assert ended == [errors.CredentialRejected] * 12
    assert upstream.asked.count(USER) == 1
    assert len(upstream.asked) == 5


@pytest.mark.parametrize(
    "probe",
    [
        httpx2.Response(503),
        httpx2.Response(429),
        httpx2.ConnectError("x"),
        httpx2.ReadTimeout("x"),
        httpx2.Response(302, headers={"Location": "https://sso.test/"}),
    ],
    ids=["503", "429", "no connection", "no answer", "sign-in page"],
)
async def test_a_refusal_that_cannot_be_confirmed_ends_nothing(probe: httpx2.Response | Exception) -> None:
    upstream = Upstream("/index.php/apps/notes/")
    upstream.probe = probe
    account = upstream.account()

    with pytest.raises(errors.Unavailable, match="Nothing has ended"):
        await account.client(NotesClient).get("1")
    upstream.probe, upstream.refusing = None, ()

    assert (await account.user.get()).uid == "alice"


@pytest.mark.parametrize(
    "probe",
    [
        httpx2.Response(401, json={"message": "Account disabled"}),
        httpx2.Response(503, text="<s:exception>OC\\User\\DisabledUserException</s:exception>"),
    ],
    ids=["401", "503"],
)
async def test_all_who_wait_for_the_probe_hear_that_the_account_is_disabled_and_nothing_ends(
    probe: httpx2.Response,
) -> None:
    upstream = Upstream()
    account = upstream.account()
    await account.files.info("a.txt")
    upstream.refusing, upstream.probe, upstream.asked = ("/remote.php/dav/files",), probe, []
    ended: list[type[Exception]] = []

    async def one() -> None:
        try:
            await account.files.info("a.txt")
        except errors.NextcloudError as error:
            ended.append(type(error))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(one)
    upstream.refusing, upstream.probe = (), None

    assert set(ended) == {errors.AccountDisabled}
    assert (await account.files.info("a.txt")).path == "a.txt"


async def test_a_person_whose_first_request_fails_otherwise_can_go_on() -> None:
    upstream = Upstream()
    upstream.probe = httpx2.Response(404)
    account = upstream.account()

    await account.files.info("a.txt")
    for _ in range(3):
        with pytest.raises(errors.NotFound):
            await account.client(NotesClient).get("1")
    upstream.probe = None

    assert (await account.user.get()).uid == "alice"


async def test_a_credential_that_is_being_asked_about_is_confirmed_at_sign_in_too() -> None:
    """Before it is stored there are no turns: anyone who signs in is asked after twice at most."""
    upstream = Upstream(USER)
    with pytest.raises(errors.RouteRefused):
        await upstream.nextcloud.whoami(CREDENTIALS[0])
    route = list(upstream.asked)

    upstream.refusing, upstream.asked = ("/",), []
    with pytest.raises(errors.CredentialRejected):
        await upstream.nextcloud.whoami(CREDENTIALS[0])

    assert route == [USER, DAV]
    assert upstream.asked == [USER, DAV]


async def test_an_app_password_that_only_its_own_route_refuses_is_not_counted_as_ended() -> None:
    """It would live on, known to no one; so the outbox tries again."""
    upstream = Upstream("/ocs/v2.php/core/apppassword")

    with pytest.raises(errors.RouteRefused):
        await upstream.nextcloud.delete_app_password(CREDENTIALS[0])
    upstream.refusing = ("/",)

    assert await upstream.nextcloud.delete_app_password(CREDENTIALS[0]) is False
