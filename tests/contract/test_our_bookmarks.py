"""Bookmarks: what it refuses, and our tools, on the sandbox and on a real Nextcloud."""

import json
from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account
from tests.contract.server import Server
from tests.contract.steps import BOOKMARKS, JSON, clean_bookmarks
from tests.dav_fakes import call

_HEADERS = {**JSON, "OCS-APIRequest": "true"}
_A, _B = "https://a.example.invalid/", "https://b.example.invalid/p?q=1&r=ä#frag"
#: Nothing answers there, and with a title and a description Nextcloud does not look.
_SHORT = {"title": "t", "description": ""}


async def send(
    server: Server, method: str, path: str, person: str = "alice", **fields: object
) -> tuple[int, Any]:
    """Send a request and return the status and the JSON."""
    body = json.dumps(fields).encode() if method in ("POST", "PUT") else b""
    answer = await server.send(method, f"{BOOKMARKS}/{path}", person=person, headers=_HEADERS, body=body)
    return answer.status_code, answer.json() if "json" in answer.headers["content-type"] else None


async def save(server: Server, url: str, **fields: object) -> str:
    """Save a bookmark and return its id."""
    status, made = await send(server, "POST", "bookmark", "alice", url=url, **{**_SHORT, **fields})
    assert status == 200, made
    return str(made["item"]["id"])


async def folder(server: Server, title: str, person: str = "alice") -> str:
    status, made = await send(server, "POST", "folder", person, title=title)
    assert status == 200, made
    return str(made["item"]["id"])


@pytest.fixture(autouse=True)
async def without_bookmarks(server: Server) -> None:
    """Delete all bookmarks and folders of a real Nextcloud's users, and the sandbox's first ones."""
    status, _ = await send(server, "GET", "folder")
    if status == 404:
        pytest.skip("Bookmarks is not on this Nextcloud")
    for person in ("alice", "bob"):
        await clean_bookmarks(server, person)


async def test_a_bookmark_is_saved_found_changed_deleted_and_brought_back(
    alice: Account, server: Server
) -> None:
    inside = await folder(server, "Rec")
    made = await call(
        alice,
        "nc_bookmarks_save_bookmark",
        url=_B,
        title="Änderung & 100 %",
        description="„fertig“ 🎉",
        tags=["x", " x", "y z", ""],
        folders=[inside, "-1", inside],
    )
    found = await call(
        alice, "nc_bookmarks_find_bookmarks", query="100 FERTIG y", tags=["y z"], folder=inside
    )
    with pytest.raises(errors.AlreadyExists, match=f"the bookmark {made.id}"):
        await call(alice, "nc_bookmarks_save_bookmark", url=_B.replace("b.ex", "B.ex"), title="Lost")
    changed = await call(
        alice, "nc_bookmarks_save_bookmark", bookmark_id=made.id, etag=made.etag, url=_B + "2", tags=["z"]
    )
    with pytest.raises(errors.EtagMismatch):
        await call(alice, "nc_bookmarks_save_bookmark", bookmark_id=made.id, etag=made.etag, title="Late")
    gone = await call(alice, "nc_bookmarks_delete_bookmark", bookmark_id=made.id, etag=changed.etag)
    empty = await call(alice, "nc_bookmarks_find_bookmarks")
    with pytest.raises(errors.NotFound, match="trash"):
        await call(alice, "nc_bookmarks_delete_bookmark", bookmark_id=made.id, etag=changed.etag)
    held = gone.bookmark.model_dump(exclude={"id", "etag"}, exclude_none=True)
    back = await call(alice, "nc_bookmarks_save_bookmark", **held)

    assert (made.url, made.tags, sorted(made.folders)) == (
        _B.replace("ä", "%C3%A4"),
        ["x", "y z"],
        ["-1", inside],
    )
    assert [one.id for one in found.bookmarks] == [made.id]
    assert (changed.title, changed.tags, changed.url) == ("Änderung & 100 %", ["z"], made.url + "2")
    assert empty.bookmarks == []
    assert (back.id, back.etag) == (made.id, changed.etag)


@pytest.mark.parametrize("wanted", [["999999"], ["-1", "999999"]])
async def test_a_bookmark_outlives_a_change_to_folders_that_do_not_exist(
    alice: Account, server: Server, wanted: list[str]
) -> None:
    number = await save(server, _A, tags=["kept"])
    [before] = (await call(alice, "nc_bookmarks_find_bookmarks")).bookmarks

    with pytest.raises(errors.NotFound, match="no such folder as 999999"):
        await call(alice, "nc_bookmarks_save_bookmark", bookmark_id=number, etag=before.etag, folders=wanted)
    with pytest.raises(errors.NotFound, match="no such folder as 999999"):
        await call(alice, "nc_bookmarks_save_bookmark", url=_B, title="t", folders=wanted)

    assert (await call(alice, "nc_bookmarks_find_bookmarks")).bookmarks == [before]


async def test_a_folder_in_the_trash_or_of_another_takes_no_bookmark(alice: Account, server: Server) -> None:
    mine, theirs = await folder(server, "Rec"), await folder(server, "Rec", "bob")
    await send(server, "DELETE", f"folder/{mine}")

    for one in (mine, theirs):
        with pytest.raises(errors.NotFound, match="no such folder"):
            await call(alice, "nc_bookmarks_save_bookmark", url=_A, title="t", folders=[one])

    assert (await call(alice, "nc_bookmarks_find_bookmarks")).bookmarks == []


async def test_a_refused_change_leaves_the_tags(alice: Account, server: Server) -> None:
    number = await save(server, _A, tags=["kept"])
    await save(server, _B)
    [before] = (await call(alice, "nc_bookmarks_find_bookmarks", tags=["kept"])).bookmarks
    at = {"bookmark_id": number, "etag": before.etag}

    with pytest.raises(errors.AlreadyExists):
        await call(alice, "nc_bookmarks_save_bookmark", **at, url=_B, tags=["lost"])
    with pytest.raises(errors.InvalidInput, match="255"):
        await call(alice, "nc_bookmarks_save_bookmark", **at, tags=["t" * 256])
    with pytest.raises(errors.InvalidName, match="cannot read the address"):
        await call(alice, "nc_bookmarks_save_bookmark", **at, url="https://a b".replace(" ", "%20"))

    assert (await call(alice, "nc_bookmarks_find_bookmarks", tags=["kept"])).bookmarks == [before]


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://A.example.invalid", "https://a.example.invalid/"),
        ("host.invalid/x", "http://host.invalid/x"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("https://u:p@c.example.invalid:443/a/../b", "https://u:p@c.example.invalid/b"),
        ("https://f.example.invalid/<b>\"'", "https://f.example.invalid/%3Cb%3E%22'"),
        ("ftp://f.example.invalid", "ftp://f.example.invalid/"),
        ("file:///etc/hosts", "file:///etc/hosts"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("gopher://g.example.invalid/x", "http://gopher//g.example.invalid/x"),
    ],
)
async def test_an_address_is_written_as_browsers_write_it(server: Server, url: str, stored: str) -> None:
    number = await save(server, url)

    _, found = await send(server, "GET", f"bookmark/{number}")

    item = found["item"]
    assert (item["target"], item["url"]) == (stored, "" if url.startswith("javascript") else stored)
    assert (item["folders"], item["tags"], item["userId"]) == ([-1], [], "alice")


async def test_long_texts_are_cut_by_bytes(server: Server) -> None:
    number = await save(server, _A, title="ä" * 700, description="d" * 1024)

    _, found = await send(server, "GET", f"bookmark/{number}")

    assert (found["item"]["title"], found["item"]["description"]) == ("ä" * 510 + "…", "d" * 1024)


@pytest.mark.parametrize(
    ("method", "path", "fields", "told"),
    [
        ("POST", "bookmark", {"url": "https://"}, (400, ["Invalid URL"])),
        ("POST", "bookmark", {}, (400, ["Invalid URL"])),
        ("POST", "bookmark", {"url": "https://with space.example/", **_SHORT}, (400, ["Invalid URL"])),
        (
            "POST",
            "bookmark",
            {"url": "https://c.invalid/", "folders": [999999]},
            (400, ["Could not add bookmark"]),
        ),
        ("GET", "bookmark/999999", {}, (404, ["Not found"])),
        ("PUT", "bookmark/999999", {"title": "x"}, (404, ["Could not edit bookmark"])),
        ("PUT", "bookmark/ID", {"url": _B.replace("ä", "%C3%A4")}, (400, ["Bookmark already exists"])),
        ("PUT", "bookmark/ID", {"url": _B}, (400, ["Could not edit bookmark"])),
        ("PUT", "bookmark/ID", {"url": "no-scheme"}, (400, ["Invald URL"])),
        ("PUT", "bookmark/ID", {"url": "https://with space.example/"}, (400, ["Invald URL"])),
        ("PUT", "bookmark/ID", {"tags": ["n", "n"]}, (400, ["Could not edit bookmark"])),
        ("PUT", "bookmark/ID", {"folders": [999999]}, (200, None)),
        ("PUT", "bookmark/ID", {"folders": []}, (200, None)),
        ("GET", "bookmark?url=nonsense", {}, (400, ["Failed to parse URL"])),
        ("GET", "bookmark?folder=999999", {}, (400, ["Not found"])),
        ("DELETE", "bookmark/999999", {}, (200, None)),
        ("DELETE", "folder/999999/bookmarks/ID", {}, (200, None)),
        ("DELETE", "folder/-1/bookmarks/999999", {}, (200, None)),
        ("POST", "folder/-1/bookmarks/999999/undelete", {}, (404, ["Not found"])),
    ],
)
async def test_what_is_refused_is_said_in_the_words_of_the_app(
    server: Server, method: str, path: str, fields: dict[str, Any], told: tuple[int, list[str] | None]
) -> None:
    number = await save(server, _A, tags=["x"])
    await save(server, _B)

    status, answer = await send(server, method, path.replace("ID", number), **fields)

    assert (status, answer.get("data"), answer.get("item")) == (*told, None)
    assert answer["status"] == ("success" if status == 200 else "error")


async def test_what_failed_half_way_stays_half_done(server: Server) -> None:
    """The app has no transactions: the reason for what our client checks before a change."""
    number = await save(server, _A, tags=["a", "b"])

    await send(server, "PUT", f"bookmark/{number}", title="new", tags=["n", "n"])
    _, half = await send(server, "GET", f"bookmark/{number}")
    await send(server, "PUT", f"bookmark/{number}", folders=[999999])
    status, _ = await send(server, "GET", f"bookmark/{number}")

    assert (half["item"]["title"], half["item"]["tags"]) == ("t", ["n"])
    assert status == 404


async def test_another_user_sees_none_of_it(server: Server) -> None:
    number = await save(server, _A)
    inside = await folder(server, "Rec")

    answers = [
        await send(server, method, path, "bob", title="Bob's")
        for method, path in (
            ("GET", f"bookmark/{number}"),
            ("PUT", f"bookmark/{number}"),
            ("DELETE", f"bookmark/{number}"),
            ("DELETE", f"folder/-1/bookmarks/{number}"),
            ("POST", f"folder/-1/bookmarks/{number}/undelete"),
            ("GET", f"bookmark?folder={inside}"),
        )
    ]
    _, kept = await send(server, "GET", f"bookmark/{number}")

    assert [status for status, _ in answers] == [404, 404, 200, 400, 403, 400]
    assert (kept["item"]["title"], kept["item"]["folders"]) == ("t", [-1])


async def test_the_trash_of_a_folder_gives_back_what_it_took(server: Server) -> None:
    number = await save(server, _A)
    await send(server, "DELETE", f"folder/-1/bookmarks/{number}")
    _, gone = await send(server, "GET", "bookmark?page=-1")
    _, trash = await send(server, "GET", "bookmark?page=-1&deleted=true")
    _, single = await send(server, "GET", f"bookmark/{number}")
    await send(server, "POST", f"folder/-1/bookmarks/{number}/undelete")
    _, back = await send(server, "GET", "bookmark?page=-1")

    assert (gone["data"], single["item"]["folders"]) == ([], [])
    assert [one["folders"] for one in trash["data"]] == [[-1]]
    assert [str(one["id"]) for one in back["data"]] == [number]


async def test_what_the_app_does_not_have_is_no_route(server: Server) -> None:
    answers = [
        await send(server, method, path) for method, path in (("GET", "elsewhere"), ("DELETE", "bookmark"))
    ]

    assert answers == [(405, None), (405, None)]
