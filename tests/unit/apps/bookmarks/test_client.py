import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.bookmarks.client import Bookmark, BookmarksClient
from tests.dav_fakes import http_over, network

#: As `Bookmark::toArray` of Bookmarks 16.2.6 and `_returnBookmarkAsArray` write it.
TOLD: dict[str, Any] = {
    "id": 7,
    "url": "https://example.test/",
    "target": "https://example.test/",
    "title": "Example",
    "description": "",
    "lastmodified": 1_795_000_000,
    "added": 1_795_000_000,
    "clickcount": 3,
    "lastPreview": 0,
    "available": None,
    "archivedFile": None,
    "userId": "alice",
    "textContent": "long " * 1000,
    "htmlContent": "",
    "folders": [-1, 12],
    "tags": ["one", "two"],
}


def told(**fields: object) -> Bookmark:
    return Bookmark.model_validate({**TOLD, **fields})


def test_a_bookmark_is_read_without_the_text_of_its_page() -> None:
    found = told()

    assert found.model_dump(exclude={"etag"}) == {
        "id": "7",
        "url": "https://example.test/",
        "title": "Example",
        "description": None,
        "tags": ["one", "two"],
        "folders": ["-1", "12"],
    }


def test_a_script_is_shown_as_the_address_that_it_is() -> None:
    assert told(url="", target="javascript:alert(1)").url == "javascript:alert(1)"


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "Other"},
        {"target": "https://example.test/x"},
        {"tags": ["one"]},
        {"folders": [-1]},
        {"description": "x"},
    ],
)
def test_what_a_person_can_change_changes_the_etag(fields: dict[str, object]) -> None:
    assert told(**fields).etag != told().etag


@pytest.mark.parametrize(
    "fields", [{"clickcount": 4}, {"tags": ["two", "one"]}, {"lastmodified": 5}, {"textContent": "x"}]
)
def test_what_happens_by_itself_leaves_the_etag(fields: dict[str, object]) -> None:
    assert told(**fields).etag == told().etag


async def test_words_and_tags_are_sent_as_lists_of_which_all_must_be_found() -> None:
    net = network(httpx2.Response(200, json={"data": [TOLD], "status": "success"}))

    found = await BookmarksClient(http_over(net)).find(
        words=["a b", "c"], tags=["t"], folder="-1", limit=20, page=2
    )

    assert [one.id for one in found] == ["7"]
    assert dict(net.seen[0].url.params) == {
        "search[0]": "a b",
        "search[1]": "c",
        "tags[0]": "t",
        "folder": "-1",
        "conjunction": "and",
        "limit": "20",
        "page": "2",
    }


async def test_a_bookmark_that_changed_is_not_handed_out_for_a_change() -> None:
    net = network(httpx2.Response(200, json={"item": TOLD, "status": "success"}))

    with pytest.raises(errors.EtagMismatch) as caught:
        await BookmarksClient(http_over(net)).current("7", "old")

    assert caught.value.current_etag == told().etag


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "no such bookmark.*nc_bookmarks_find_bookmarks"), (400, "did not save it.*https://")],
)
async def test_a_refused_change_says_what_to_do(status: int, words: str) -> None:
    net = network(httpx2.Response(status, json={"status": "error", "data": ["Could not edit bookmark"]}))

    with pytest.raises(errors.NextcloudError, match=words):
        await BookmarksClient(http_over(net)).update("7", {"title": "x"})

    assert json.loads(net.seen[0].content) == {"title": "x"}


async def test_a_change_that_deleted_the_bookmark_says_so() -> None:
    net = network(httpx2.Response(200, json={"item": None, "status": "success"}))

    with pytest.raises(errors.NotFound, match=r"deleted the bookmark.*saves it again"):
        await BookmarksClient(http_over(net)).update("7", {"folders": [12]})


async def test_folders_below_folders_are_known() -> None:
    row = {"title": "x", "userId": "alice", "userDisplayName": "alice", "parent_folder": -1}
    tree: list[Any] = [{**row, "id": 3, "children": [{**row, "id": 12, "children": []}]}]
    answer: dict[str, Any] = {"data": tree, "status": "success"}
    net = network(httpx2.Response(200, json=answer), httpx2.Response(200, json=answer))

    await BookmarksClient(http_over(net)).check(None, [-1, 3, 12])
    with pytest.raises(errors.NotFound, match="no such folder as 4, 5"):
        await BookmarksClient(http_over(net)).check(None, [5, 4, 12])


async def test_the_top_folder_needs_no_look() -> None:
    net = network()

    await BookmarksClient(http_over(net)).check(None, [-1])

    assert net.seen == []


async def test_an_address_that_the_app_cannot_read_is_named() -> None:
    net = network(httpx2.Response(400, json={"status": "error", "data": ["Failed to parse URL"]}))

    with pytest.raises(errors.InvalidName, match=r"cannot read the address.*'url'"):
        await BookmarksClient(http_over(net)).check("https://[x", None)


async def test_deleting_leaves_the_bookmark_in_the_trash_of_its_folder() -> None:
    net = network(httpx2.Response(200, json={"status": "success"}))

    await BookmarksClient(http_over(net)).trash(told(), "12")

    assert (net.seen[0].method, net.seen[0].url.path.partition("/v2/")[2]) == (
        "DELETE",
        "folder/12/bookmarks/7",
    )
    assert "hardDelete" not in net.seen[0].url.params
