import json
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from nextcloud_mcp_server.errors import CredentialRejected, InvalidInput, ServerFault
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.search import SearchClient, path_of
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import account_in, account_over, call, http_over


def entries(number: int, *, size: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "title": f"hit {n} " + "ü" * size,
            "subline": "",
            "resourceUrl": f"https://h/f/{n}",
            "attributes": [],
        }
        for n in range(number)
    ]


def answering(**pages: dict[str, Any] | int) -> Any:  # noqa: ANN401 - a handler
    """Answer for these providers: a page, or a status."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        if "/providers" not in request.url.path:
            # The probe after a refusal.
            return httpx2.Response(401)
        parts = request.url.path.split("/providers")[1].strip("/").split("/")
        data: object = [{"id": name, "name": name.title()} for name in pages]
        if parts != [""]:
            data = pages[parts[0]]
        if isinstance(data, int):
            return httpx2.Response(data, json={"ocs": {"meta": {}, "data": []}})
        # Fresh, and unread, as it comes from a network.
        return httpx2.Response(200, stream=httpx2.ByteStream(json.dumps({"ocs": {"data": data}}).encode()))

    return handler


async def test_everything_is_searched_and_what_found_nothing_is_only_named() -> None:
    sandbox = Sandbox.demo(apps=DEFAULT_APPS | {"fulltextsearch"})

    found = await call(account_in(sandbox), "nc_search_find_items", query="Lisbon")

    assert {group.provider: [row.title for row in group.items] for group in found.groups} == {
        "fulltextsearch": ["(files) …lisbon…"]
    }
    assert found.groups[0].items[0].path == "Documents/Travel plan.md"
    assert found.nothing_in == ["notes", "files"]


async def test_one_provider_is_followed_page_by_page() -> None:
    account = account_in(Sandbox.demo())
    paths: list[str | None] = []
    cursor = None

    for _ in range(3):
        page = await call(
            account, "nc_search_find_items", query=".md", providers=["Files"], limit=4, cursor=cursor
        )
        paths += [row.path for group in page.groups for row in group.items]
        cursor = page.groups[0].cursor if page.groups else None

    assert len(paths) == len(set(paths)) == 11
    assert cursor is None
    with pytest.raises(InvalidInput, match="one provider"):
        await call(account, "nc_search_find_items", query=".md", cursor="x")


async def test_cursors_that_are_words_are_passed_on_as_they_are() -> None:
    seen: list[httpx2.Request] = []
    answer = answering(mail={"isPaginated": True, "entries": entries(2), "cursor": "next words"})

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return answer(request)

    account = account_over(handler)
    first = await call(account, "nc_search_find_items", query="a", limit=2)
    await call(
        account, "nc_search_find_items", query="a", limit=2, providers=["mail"], cursor=first.groups[0].cursor
    )

    assert seen[-1].url.params["cursor"] == "next words"


async def test_a_provider_that_fails_hides_none_of_the_others() -> None:
    good = {"isPaginated": False, "entries": entries(1), "cursor": None}

    found = await call(account_over(answering(broken=500, files=good)), "nc_search_find_items", query="a")
    with pytest.raises(ServerFault, match="Nothing could be searched"):
        await call(account_over(answering(broken=500)), "nc_search_find_items", query="a")
    with pytest.raises(CredentialRejected):
        await call(account_over(answering(files=good, other=401)), "nc_search_find_items", query="a")

    assert [(group.provider, len(group.items)) for group in found.groups] == [("broken", 0), ("files", 1)]
    assert "failed to answer" in found.groups[0].note


async def test_what_does_not_fit_is_named() -> None:
    page = {"isPaginated": False, "entries": entries(25, size=400), "cursor": None}
    long = {
        "isPaginated": True,
        "cursor": 25,
        "entries": [
            {**one, "subline": "ü" * 900, "resourceUrl": f"https://h/{'x' * 1900}"}
            for one in entries(25, size=400)
        ],
    }

    many = await call(
        account_over(answering(**{f"p{n}": page for n in range(9)})),
        "nc_search_find_items",
        query="a",
        limit=25,
    )
    one = await call(account_over(answering(p=long)), "nc_search_find_items", query="a", limit=25)

    many_each = min(len(group.items) for group in many.groups)
    assert many.not_shown is None
    assert {len(group.items) for group in many.groups} <= {many_each, many_each + 1}
    assert all(group.cursor for group in many.groups)
    assert 0 < len(one.groups[0].items) < 25
    assert one.groups[0].cursor
    assert one.groups[0].items[0].detail.endswith("…")


async def test_what_is_searched_for_leaves_nextcloud_only_when_its_provider_is_named() -> None:
    asked: list[str] = []
    page = {"isPaginated": False, "entries": [{"title": "hit", "resourceUrl": "x" * 3000}], "cursor": None}

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path.rpartition("/providers")[2])
        data: object = page
        if not asked[-1]:
            data = [
                {"id": "files", "name": "Files"},
                {"id": "openWeb", "name": "Web", "isExternalProvider": True},
            ]
        return httpx2.Response(200, stream=httpx2.ByteStream(json.dumps({"ocs": {"data": data}}).encode()))

    every = await call(account_over(handler), "nc_search_find_items", query="a")
    named = await call(account_over(handler), "nc_search_find_items", query="a", providers=["openweb"])

    assert asked == ["", "/files/search", "", "/openWeb/search"]
    assert [group.provider for group in every.groups] == ["files"]
    assert named.groups[0].items[0].link is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": "a", "providers": ["nope"]}, "There are: notes, files"),
        ({"query": " "}, "nothing but spaces"),
        ({"query": ""}, "query"),
    ],
)
async def test_a_search_that_nextcloud_would_fail_at_is_refused(
    arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await call(account_in(Sandbox.demo()), "nc_search_find_items", **arguments)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/index.php/apps/files/?dir=/Rec&scrollto=a%20b%26.txt", "/Rec/a b&.txt"),
        ("https://h/apps/files/?dir=/&scrollto=a", "/a"),
        ("https://h/apps/files/?dir=/Rec&fileid=7", "/Rec"),
        ("https://h/f/7", None),
        ("https://h/apps/files/", None),
        ("https://[", None),
    ],
)
def test_the_path_of_a_file_is_read_from_a_link(url: str, path: str | None) -> None:
    assert path_of(url) == path


async def test_a_provider_whose_name_makes_no_address_hides_no_other() -> None:
    found = await call(
        account_over(answering(**{"../x": {}, "notes": {"entries": entries(1)}})),
        "nc_search_find_items",
        query="x",
    )

    assert [(group.provider, len(group.items), bool(group.note)) for group in found.groups] == [
        ("../x", 0, True), ("notes", 1, False),
    ]  # fmt: skip


def everything(number: int) -> dict[str, Any]:
    """Answer as the Notes app does: all it finds, however much was asked for."""
    return {"isPaginated": False, "entries": entries(number), "cursor": None}


async def all_titles(account: Account, *, limit: int) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await call(
            account, "nc_search_find_items", query="a", providers=["notes"], limit=limit, cursor=cursor
        )
        assert all(len(group.items) <= limit for group in page.groups)
        found += [row.title for group in page.groups for row in group.items]
        cursor = page.groups[0].cursor if page.groups else None
        if cursor is None:
            return found


@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, 60), limit=st.integers(1, 25), paginated=st.booleans())
async def test_pages_of_a_provider_that_ignores_the_limit_lose_and_repeat_nothing(
    number: int, limit: int, *, paginated: bool
) -> None:
    page = {**everything(number), "isPaginated": paginated}

    found = await all_titles(account_over(answering(notes=page)), limit=limit)

    assert found == [one["title"] for one in entries(number)]


async def test_a_hit_that_comes_between_two_pages_repeats_nothing() -> None:
    pages = {"notes": everything(9)}
    account = account_over(answering(**pages))
    first = await call(account, "nc_search_find_items", query="a", providers=["notes"], limit=4)
    new = {**entries(1)[0], "title": "new", "resourceUrl": "https://h/f/new"}
    pages["notes"] = {**pages["notes"], "entries": [new, *entries(9)]}

    second = await call(
        account_over(answering(**pages)),
        "nc_search_find_items",
        query="a",
        providers=["notes"],
        limit=4,
        cursor=first.groups[0].cursor,
    )

    assert [row.link for row in second.groups[0].items] == [f"https://h/f/{n}" for n in range(4, 8)]


async def test_a_provider_with_much_to_say_leaves_room_to_the_others() -> None:
    long = {"isPaginated": False, "cursor": None, "entries": entries(179, size=400)}
    account = account_over(answering(notes=long, files=everything(3), cards=everything(3)))

    found = await call(account, "nc_search_find_items", query="a", limit=25)

    assert [(group.provider, len(group.items)) for group in found.groups][1:] == [("files", 3), ("cards", 3)]
    assert 0 < len(found.groups[0].items) <= 25
    assert found.groups[0].cursor


async def test_a_provider_that_is_too_slow_is_named_and_the_others_are_shown() -> None:
    answer = answering(files=everything(1), sluggish=everything(1))

    async def handler(request: httpx2.Request) -> httpx2.Response:
        if "sluggish" in request.url.path:
            await anyio.sleep_forever()
        return answer(request)

    account = account_over(handler)
    account.__dict__["search"] = SearchClient(http_over(handler), patience=0.2)

    with anyio.fail_after(60):
        found = await call(account, "nc_search_find_items", query="a")

    assert [(group.provider, len(group.items)) for group in found.groups] == [("files", 1), ("sluggish", 0)]
    assert found.groups[1].note.startswith("Sluggish did not answer within 0.2 seconds")
    assert 'providers=["sluggish"]' in found.groups[1].note


async def test_all_providers_are_asked_at_once_but_none_with_a_credential_that_is_not_known_to_be_good() -> (
    None
):
    asked: list[str] = []
    most = running = 0
    pages = {f"p{n}": everything(1) for n in range(20)}
    answer = answering(**pages)
    refuse = False

    async def handler(request: httpx2.Request) -> httpx2.Response:
        nonlocal most, running
        asked.append(request.url.path.rpartition("/providers")[2])
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        running -= 1
        return httpx2.Response(401) if refuse else answer(request)

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(handler))
    nextcloud = Nextcloud(NextcloudUrl.parse("https://h"), pool)
    credential = BasicCredential("alice", SecretStr("x"))
    account = nextcloud.account(credential, uid="alice")

    await call(account, "nc_search_find_items", query="a")
    await call(nextcloud.account(credential, uid="alice"), "nc_search_find_items", query="a")
    known = asked.count("")
    refuse = True
    other = nextcloud.account(BasicCredential("bob", SecretStr("old")), uid="bob")
    asked.clear()
    with pytest.raises(CredentialRejected):
        await call(other, "nc_search_find_items", query="a")

    assert most == 20
    assert known == 1
    assert asked == ["", "/remote.php/dav/"]


async def test_of_long_texts_of_many_providers_only_the_beginning_is_kept() -> None:
    """Twenty providers with 30 MB each took 850 MB."""
    long = {"title": "t" * 100_000, "subline": "s" * 100_000, "resourceUrl": "u" * 100_000}
    account = account_over(answering(one={"entries": [long]}))

    hits = await account.search.search((await account.search.providers())[0], "x", limit=5)

    assert [len(hit.title) + len(hit.detail) + len(hit.url) for hit in hits.hits] == [3 * 4096]
