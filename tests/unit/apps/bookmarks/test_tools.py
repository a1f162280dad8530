from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.bookmarks.client import Bookmark, BookmarksClient
from nextcloud_mcp_server.apps.bookmarks.tools import bookmarks
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.bookmarks import BookmarkStore, StoredBookmark, bookmark_json
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, call_in


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def store(sandbox: Sandbox) -> BookmarkStore:
    store = sandbox.state.store(BookmarkStore)
    store.folders["alice"] = {12: "Offices"}
    return store


@pytest.fixture
def alice(sandbox: Sandbox, store: BookmarkStore) -> Account:
    return account_in(sandbox)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(bookmarks, account, f"nc_bookmarks_{tool}", **arguments)


async def find(account: Account, **arguments: object) -> list[Any]:
    return (await call(account, "find_bookmarks", **arguments)).bookmarks


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        ({}, ["Movers", "Cutting hedges"]),
        ({"query": "HEDGES garden"}, ["Cutting hedges"]),
        ({"query": "hedges office"}, []),
        ({"tags": ["garden", "winter"]}, ["Cutting hedges"]),
        ({"tags": ["gard"]}, []),
        ({"folder": "-1"}, ["Movers", "Cutting hedges"]),
        ({"folder": 12}, []),
    ],
)
async def test_bookmarks_are_found_by_words_tags_and_folder(
    alice: Account, arguments: dict[str, object], titles: list[str]
) -> None:
    assert [one.title for one in await find(alice, **arguments)] == titles


async def test_a_folder_that_is_not_there_is_said_to_be_missing(alice: Account) -> None:
    with pytest.raises(errors.NextcloudError, match="no such folder"):
        await find(alice, folder=99)


async def test_every_bookmark_comes_once_in_pages_that_fit(alice: Account, store: BookmarkStore) -> None:
    for number in range(100, 145):
        store.bookmarks[number] = StoredBookmark(
            number, "alice", f"https://x.test/{number}", "t" * 900, "ä" * 1000, 1, 1, folders={-1}
        )

    page = await call(alice, "find_bookmarks")
    ids = [one.id for one in page.bookmarks]
    while page.cursor:
        assert answer.result(page)
        page = await call(alice, "find_bookmarks", cursor=page.cursor)
        ids += [one.id for one in page.bookmarks]

    assert (len(ids), len(set(ids))) == (47, 47)


async def test_a_new_address_is_saved_with_all_that_was_given(alice: Account) -> None:
    made = await call(
        alice, "save_bookmark", url="https://new.test/a", title="New", tags=["x"], folders=[12, "-1"]
    )

    assert (made.created, made.title, made.description, made.folders) == (True, "New", None, ["-1", "12"])
    [again] = await find(alice, query="new.test")
    assert again.model_dump() == {**made.model_dump(exclude={"created"})}


async def test_an_address_that_is_there_is_not_overwritten_unread(alice: Account) -> None:
    [before] = await find(alice, query="movers")

    with pytest.raises(errors.AlreadyExists, match=f"as the bookmark {before.id}"):
        await call(alice, "save_bookmark", url="https://movers.example.test", title="Lost")

    assert await find(alice, query="movers") == [before]


async def test_an_address_without_its_scheme_overwrites_no_bookmark_that_has_it(alice: Account) -> None:
    before = await call(
        alice, "save_bookmark", url="http://plain.test/a", title="Mine", description="Keep this."
    )

    with pytest.raises(errors.InvalidInput, match="a whole address"):
        await call(alice, "save_bookmark", url="plain.test/a", title="Lost")

    [after] = await find(alice, query="plain.test")
    assert (after.title, after.description, after.etag) == ("Mine", "Keep this.", before.etag)


async def test_only_the_given_parts_change_and_only_of_what_was_read(alice: Account) -> None:
    [before] = await find(alice, query="movers")

    changed = await call(
        alice, "save_bookmark", bookmark_id=before.id, etag=before.etag, title="Movers!", description=""
    )

    assert (changed.created, changed.title, changed.description, changed.tags) == (
        False,
        "Movers!",
        None,
        ["office"],
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "save_bookmark", bookmark_id=before.id, etag=before.etag, title="Late")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"title": "x"}, "Send a 'url'"),
        ({"url": ""}, "Send a 'url'"),
        ({"url": "not a url"}, "a whole address"),
        ({"url": " https://x.test/"}, "a whole address"),
        ({"url": "javascript:alert(1)"}, "a whole address"),
        ({"url": "gopher://x.test/"}, "takes http, https, ftp, sftp and file"),
        ({"url": "https://x.test", "tags": ["t" * 256]}, "at most 255"),
        ({"url": "https://x.test", "title": "ä" * 513}, "'title' is longer than the 1024 bytes"),
        ({"bookmark_id": 1, "etag": "e", "description": "d" * 1025}, "'description' is longer"),
        ({"bookmark_id": 1, "etag": "e", "url": "x.test"}, "a whole address"),
        ({"url": "https://x.test", "etag": "e"}, "Send a 'url'"),
        ({"bookmark_id": 1}, "Send the 'etag'"),
        ({"bookmark_id": 1, "etag": "e"}, "what to change"),
        ({"bookmark_id": 1, "etag": "e", "folders": []}, "would delete the bookmark"),
        ({"url": "https://x.test", "folders": ["top"]}, "A folder is a number"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    alice: Account, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, "save_bookmark", **arguments)


async def test_a_folder_of_nobody_takes_no_bookmark(alice: Account) -> None:
    with pytest.raises(errors.NotFound, match="no such folder as 99"):
        await call(alice, "save_bookmark", url="https://x.test/", folders=["12", "99"])

    assert await find(alice, query="x.test") == []


async def test_a_bookmark_is_not_deleted_by_moving_it_to_a_folder_of_nobody(alice: Account) -> None:
    [before] = await find(alice, query="movers")

    with pytest.raises(errors.NotFound, match="no such folder as 99"):
        await call(alice, "save_bookmark", bookmark_id=before.id, etag=before.etag, folders=["99"])

    assert await find(alice, query="movers") == [before]


async def test_the_address_of_another_bookmark_is_refused_before_the_tags_are_gone(alice: Account) -> None:
    [before] = await find(alice, query="movers")
    change = {"url": "https://GARDEN.example.test/hedges", "tags": ["lost"]}

    with pytest.raises(errors.AlreadyExists, match="the bookmark 2"):
        await call(alice, "save_bookmark", bookmark_id=before.id, etag=before.etag, **change)
    same = await call(
        alice, "save_bookmark", bookmark_id=before.id, etag=before.etag, url="https://Movers.example.test"
    )

    assert same.etag == before.etag


async def test_tags_are_trimmed_and_sent_once(alice: Account) -> None:
    made = await call(
        alice,
        "save_bookmark",
        url="https://x.test/",
        title="x",
        tags=["a", " a ", "", "b"],
        folders=[12, "12"],
    )

    assert (made.tags, made.folders) == (["a", "b"], ["12"])


async def test_a_deleted_bookmark_comes_back_as_its_answer_says(alice: Account) -> None:
    made = await call(
        alice, "save_bookmark", url="https://new.test/a", title="New", tags=["x"], folders=[12, -1]
    )

    gone = await call(alice, "delete_bookmark", bookmark_id=made.id, etag=made.etag)
    assert await find(alice, query="new.test") == []
    held = gone.bookmark.model_dump(exclude={"id", "etag"}, exclude_none=True)
    back = await call(alice, "save_bookmark", **held)

    assert "nc_bookmarks_save_bookmark" in gone.undo
    assert (back.id, back.etag) == (made.id, made.etag)


async def test_what_is_in_the_trash_already_is_not_deleted_again(
    alice: Account, store: BookmarkStore
) -> None:
    [one] = await find(alice, query="movers")
    stored = store.bookmarks[int(one.id)]
    stored.folders, stored.trashed = set(), {-1}
    trashed = await alice.client(BookmarksClient).current(
        one.id, Bookmark.model_validate(bookmark_json(stored)).etag
    )

    with pytest.raises(errors.NotFound, match="in the trash"):
        await call(alice, "delete_bookmark", bookmark_id=one.id, etag=trashed.etag)


@pytest.mark.parametrize(
    ("tool", "arguments"), [("delete_bookmark", {}), ("save_bookmark", {"title": "Late"})]
)
async def test_a_bookmark_that_was_deleted_since_it_was_read_is_said_to_be_in_the_trash(
    alice: Account, tool: str, arguments: dict[str, object]
) -> None:
    [one] = await find(alice, query="movers")
    await call(alice, "delete_bookmark", bookmark_id=one.id, etag=one.etag)

    with pytest.raises(errors.NotFound, match=r"in the trash.*without bookmark_id"):
        await call(alice, tool, bookmark_id=one.id, etag=one.etag, **arguments)


async def test_a_deletion_that_stops_half_way_says_where_the_bookmark_still_is(
    alice: Account, sandbox: Sandbox
) -> None:
    made = await call(alice, "save_bookmark", url="https://new.test/a", title="New", folders=[12, -1])
    sandbox.faults.status(507, times=1, after=2)

    half = await call(alice, "delete_bookmark", bookmark_id=made.id, etag=made.etag)

    assert "not from 12" in half.note
    assert [one.folders for one in await find(alice, query="new.test")] == [["12"]]


async def test_a_deletion_that_did_not_begin_is_an_error(alice: Account, sandbox: Sandbox) -> None:
    [one] = await find(alice, query="movers")
    sandbox.faults.status(507, times=1, after=1)

    with pytest.raises(errors.StorageFull):
        await call(alice, "delete_bookmark", bookmark_id=one.id, etag=one.etag)

    assert await find(alice, query="movers") == [one]
