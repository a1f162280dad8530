"""Attack: an access that Nextcloud refuses, that opens another user's account, or that is another one by now.

Much goes on in one user's name at once: calls, looks for changes, questions for apps, the parts of an
upload. Nextcloud counts every refusal against every user behind our address, so none of these may go on
with what another has seen refused.
"""

from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import httpx2
import pytest
from mcp.server.mcpserver import Context
from pydantic import SecretStr

from nextcloud_mcp_server.apps.upload.client import UploadClient
from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import CredentialRejected, NextcloudError, WrongAccount
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import NOTHING, AppList, Apps
from nextcloud_mcp_server.tools.access import Access
from nextcloud_mcp_server.tools.apps import apps_of
from tests.dav_fakes import account_over, call, entry, multistatus, network, recorded
from tests.updates_fixtures import ALICE, UpdatesServer, open_harness, settled

README = "nc://files/Readme.md"
CALLER = Caller(ALICE, "a", "Test")


class Refusing:
    """A Nextcloud that takes the app password "old" no more."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        pool = open_pool(ca_bundle=None, user_agent="t", transport=httpx2.MockTransport(self._answer))
        self._nextcloud = Nextcloud(NextcloudUrl.parse("https://cloud.test"), pool)

    def account(self, password: str) -> Account:
        return self._nextcloud.account(BasicCredential("alice", SecretStr(password)), uid="alice")

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.method)
        # Anyone who can ask has asked before anyone is answered.
        await anyio.wait_all_tasks_blocked()
        sent = b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        empty = httpx2.ByteStream(multistatus([]).content)
        return httpx2.Response(401 if sent == "alice:old" else 207, stream=empty)


async def _menu(account: Account) -> object:
    return await account.menu.changed(None)


async def _look(account: Account) -> object:
    return await account.watch.states("calendars")


async def _read(account: Account) -> object:
    return await account.user.get()


async def test_what_runs_side_by_side_sends_a_refused_access_no_more_and_a_new_one_gets_through() -> None:
    refusing = Refusing()
    ended: list[type[Exception]] = []

    async def one(work: Callable[[Account], Awaitable[object]]) -> None:
        try:
            await work(refusing.account("old"))
        except NextcloudError as error:
            ended.append(type(error))

    async with anyio.create_task_group() as group:
        for work in (_menu, _look, _read) * 7:
            group.start_soon(one, work)
    refused = len(refusing.asked)
    again = await _look(refusing.account("new"))

    assert ended == [CredentialRejected] * 21
    # The first, which goes alone while no one knows whether the access works, and its probe.
    assert refused == 2
    assert again == {}


async def test_an_upload_whose_access_is_refused_is_not_cleared_away_with_it() -> None:
    refusing = Refusing()
    upload, upload_id = refusing.account("old").client(UploadClient), f"mcp-{'0' * 32}"

    with pytest.raises(CredentialRejected):
        async with upload.cleared(upload_id):
            await upload.requests.put(upload_id, 1, b"x")

    # The chunk, and the probe; nothing is cleared away with a credential that is dead.
    assert refusing.asked == ["PUT", "GET"]


PAGE = (
    '{"ocs": {"data": {"page": {"id": 7, "title": "New", "parentId": 1, "collectivePath": ".Collectives/Team", '
    '"filePath": "", "fileName": "New.md"}}}}'
)
HALVES: dict[str, tuple[dict[str, object], list[httpx2.Response]]] = {
    "nc_collectives_create_page": (
        {"collective_id": 1, "title": "New", "content": "x", "parent_id": 365},
        [httpx2.Response(200, text=PAGE)],
    ),
    "nc_cookbook_save_recipe": ({"name": "Cake"}, [recorded("cookbook/recipe_create")]),
    "nc_news_mark_articles": (
        {"article_ids": [1], "read": True, "starred": True},
        [httpx2.Response(200, json=[])],
    ),
    "nc_status_set_status": (
        {"message": "x", "status": "dnd"},
        [recorded("user/user_status"), recorded("misc/user_status_put")],
    ),
}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx2.Response(401, json={}), CredentialRejected),
        (httpx2.Response(200, headers={"X-User-Id": "bob"}, json={}), WrongAccount),
    ],
    ids=["refused", "another person"],
)
@pytest.mark.parametrize("tool", HALVES)
async def test_no_note_about_a_half_that_failed_hides_what_is_wrong_with_the_access(
    tool: str, answer: httpx2.Response, expected: type[Exception]
) -> None:
    arguments, done = HALVES[tool]

    with pytest.raises(expected):
        # Twice: a refusal is confirmed by a probe.
        await call(account_over(network(*done, answer, answer)), tool, **arguments)


@pytest.fixture
async def harness() -> AsyncGenerator[UpdatesServer]:
    async with open_harness(("notes", "files", "news")) as made:
        yield made


async def opened(harness: UpdatesServer) -> Opened:
    found = await harness.accounts.find(CALLER)
    assert found is not None
    return found


async def test_a_menu_of_another_person_is_not_taken_and_written_down(harness: UpdatesServer) -> None:
    def menu(request: httpx2.Request) -> httpx2.Response | None:
        named = {"X-User-Id": "bob"}
        body = {"ocs": {"meta": {"statuscode": 200}, "data": [{"id": "news"}]}}
        asked = request.url.path.endswith("/navigation/apps")
        return httpx2.Response(200, headers=named, json=body) if asked else None

    access = Access(await harness.state.services(), CALLER, wire.Form.TEXT, harness.state, Context(), 0.0)
    harness.network.instead = menu

    with pytest.raises(WrongAccount):
        await access.server()
    with pytest.raises(WrongAccount):
        await apps_of(access.services, CALLER, await opened(harness), in_menu={"news"})(NOTHING)

    assert harness.audit.results == ["WrongAccount"] * 2
    assert harness.state.availability.known(ALICE).menu is None


async def test_what_was_known_of_the_apps_of_another_account_of_the_same_person_is_forgotten(
    harness: UpdatesServer,
) -> None:
    availability, services = harness.state.availability, await harness.state.services()
    etag = (await (await opened(harness)).account.capabilities.get()).etag
    await availability.heard(ALICE, Apps(AppList(frozenset(), etag), account="alice"))
    lacked = availability.lacks(ALICE, "notes")

    harness.connect("bob")
    now = await opened(harness)
    availability.learn(ALICE, apps_of(services, CALLER, now, in_menu=()), account=now.account.uid)
    await settled()
    known = availability.known(ALICE)
    again = await apps_of(services, CALLER, now, in_menu=())(known)

    assert lacked
    assert again == known
    assert not availability.lacks(ALICE, "notes")


async def test_a_subscription_that_outlasts_a_change_of_the_account_tells_of_it_and_compares_no_marks(
    harness: UpdatesServer,
) -> None:
    def same(request: httpx2.Request) -> httpx2.Response | None:
        if request.method != "PROPFIND":
            return None
        return multistatus([entry("Readme.md", uid=request.url.path.split("/")[4])])

    session = harness.client().listed()
    harness.network.instead = same
    await session.subscribed(README)
    await harness.look()
    before = session.heard()
    harness.connect("bob")
    await harness.look()
    at_the_change = session.heard()
    await harness.look()

    assert before == []
    assert sorted(at_the_change) == [README, "resources/list_changed"]
    assert session.heard() == []
