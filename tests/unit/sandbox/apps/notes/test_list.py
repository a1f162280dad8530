import hashlib
from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.reply import php_json

NOTES = "/index.php/apps/notes/api/v1/notes"


@pytest.fixture
async def seven(alice: httpx2.AsyncClient) -> list[int]:
    made: list[int] = []
    for number, category in enumerate(("", "Work", "Work/Projekt A", "Ünï/çat", "a & b", "", "Work")):
        response = await alice.post(NOTES, json={"title": f"Note {number}", "category": category})
        made.append(response.json()["id"])
    return made


async def test_an_empty_list_has_the_etag_of_an_empty_array(alice: httpx2.AsyncClient) -> None:
    response = await alice.get(NOTES)

    assert (response.status_code, response.text) == (200, "[]")
    assert response.headers["ETag"] == '"d751713988987e9331980363e24189ce"'
    assert response.headers["Last-Modified"] == "Fri, 27 Nov 2026 21:06:47 GMT"


async def test_a_list_holds_every_note_in_the_order_of_their_changes(
    alice: httpx2.AsyncClient, seven: list[int]
) -> None:
    response = await alice.get(NOTES)

    notes = response.json()
    assert [note["id"] for note in notes] == seven
    assert "X-Notes-Chunk-Cursor" not in response.headers
    keyed = php_json({note["id"]: note for note in notes})
    assert response.headers["ETag"] == f'"{hashlib.md5(keyed.encode()).hexdigest()}"'


async def test_the_list_works_without_index_php(alice: httpx2.AsyncClient, seven: list[int]) -> None:
    response = await alice.get("/apps/notes/api/v1/notes?exclude=content")

    assert len(response.json()) == len(seven)


async def test_excluded_fields_are_left_out_but_not_the_etag(
    alice: httpx2.AsyncClient, seven: list[int]
) -> None:
    whole = await alice.get(NOTES)
    part = await alice.get(f"{NOTES}?exclude=content,title,etag")

    assert set(whole.json()[0]) - set(part.json()[0]) == {"content", "title"}
    assert whole.headers["ETag"] != part.headers["ETag"]


async def test_an_unchanged_list_is_304(alice: httpx2.AsyncClient, seven: list[int]) -> None:
    etag = (await alice.get(NOTES)).headers["ETag"]

    response = await alice.get(NOTES, headers={"If-None-Match": etag})

    assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", etag)


@pytest.mark.parametrize(
    ("category", "places"), [("Work/Projekt A", [2]), ("", [0, 5]), ("Work", [1, 6]), ("Nowhere", [])]
)
async def test_a_category_lists_its_own_notes_alone(
    alice: httpx2.AsyncClient, seven: list[int], category: str, places: list[int]
) -> None:
    response = await alice.get(NOTES, params={"category": category})

    assert [note["id"] for note in response.json()] == [seven[place] for place in places]


async def test_chunks_follow_the_cursor_and_the_last_one_names_all_others_by_id(
    alice: httpx2.AsyncClient, seven: list[int]
) -> None:
    first = await alice.get(f"{NOTES}?chunkSize=3")
    second = await alice.get(
        f"{NOTES}?chunkSize=3", params={"chunkSize": 3, "chunkCursor": first.headers["X-Notes-Chunk-Cursor"]}
    )
    third = await alice.get(
        NOTES, params={"chunkSize": 3, "chunkCursor": second.headers["X-Notes-Chunk-Cursor"]}
    )

    assert [note["id"] for note in first.json()] == seven[:3]
    assert first.headers["X-Notes-Chunk-Cursor"] == f"1795813607-1795813607-{seven[2]}"
    assert (first.headers["X-Notes-Chunk-Pending"], second.headers["X-Notes-Chunk-Pending"]) == ("4", "1")
    assert [note["id"] for note in second.json()] == seven[3:6]
    assert third.json()[0]["title"] == "Note 6"
    assert third.json()[1:] == [{"id": seven[place]} for place in (0, 5, 1, 2, 4, 3)]
    assert "X-Notes-Chunk-Cursor" not in third.headers
    assert "X-Notes-Chunk-Pending" not in third.headers


async def test_a_bogus_cursor_restarts_without_a_word(alice: httpx2.AsyncClient, seven: list[int]) -> None:
    response = await alice.get(f"{NOTES}?chunkSize=3&chunkCursor=bogus")

    assert [note["id"] for note in response.json()] == seven[:3]


async def test_prune_before_compares_with_the_time_of_the_change_not_with_modified(
    alice: httpx2.AsyncClient, advance: Callable[[timedelta], None]
) -> None:
    old = (await alice.post(NOTES, json={"title": "old", "modified": 1700000000})).json()
    advance(timedelta(seconds=10))
    new = (await alice.post(NOTES, json={"title": "new", "modified": 1600000000})).json()

    everything = await alice.get(f"{NOTES}?pruneBefore=1700000004")
    newer = await alice.get(f"{NOTES}?pruneBefore=1795813617")
    nothing = await alice.get(f"{NOTES}?pruneBefore=1795813618")

    assert everything.json() == [old, new]
    assert newer.json() == [new, {"id": old["id"]}]
    assert nothing.json() == [{"id": new["id"]}, {"id": old["id"]}]


async def test_files_written_over_dav_are_notes(sandbox: Sandbox, alice: httpx2.AsyncClient) -> None:
    files = sandbox.state.users["alice"].files
    files.make_folder("/Notes/.trash", parents=True)
    for path in ("/Notes/a.md", "/Notes/b.txt", "/Notes/c.png", "/Notes/.trash/d.md"):
        files.put(path, b"text")

    response = await alice.get(NOTES)

    assert [note["title"] for note in response.json()] == ["a", "b", "d"]
