import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.errors import CredentialRejected, InvalidInput, ServerFault
from nextcloud_mcp_server.nextcloud.search import path_of
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from tests.dav_fakes import account_in, account_over, call


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
