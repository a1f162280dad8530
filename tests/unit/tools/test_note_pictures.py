from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.files import FileTree
from nextcloud_mcp_server.tools import note_pictures
from tests.dav_fakes import account_in, account_over, call

PNG = b"\x89PNG\r\n\x1a\n"
NAME = "Screenshot 1 (2).png"


class Place:
    """A note with a picture of the Text app, and one that the Notes app took in."""

    def __init__(self) -> None:
        self.sandbox = Sandbox.demo()
        self.files: FileTree = self.sandbox.state.users["alice"].files
        self.account: Account = account_in(self.sandbox)
        self.files.make_folder("/Notes/Work", parents=True)
        self.note = self.files.put("/Notes/Work/Plan.md", b"")
        self.folder = f".attachments.{self.note.file_id}"
        self.files.make_folder(f"/Notes/Work/{self.folder}", parents=True)
        self.files.put(f"/Notes/Work/{self.folder}/{NAME}", PNG)
        self.files.put("/Notes/Work/5f.png", PNG)
        text = f"![a]({self.folder}/Screenshot%201%20%282%29.png)\n![b](5f.png) [c](https://h/x.png) ![d](none.png)"
        self.files.put("/Notes/Work/Plan.md", text.encode())
        # A category is dropped with its last note.
        self.files.put("/Notes/Work/Other.md", b"")


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize(
    "written",
    [
        "{folder}/Screenshot%201%20%282%29.png",
        "./{folder}/Screenshot%201%20%282%29.png",
        "{folder}/Screenshot 1 (2).png",
        "<{folder}/Screenshot 1 (2).png>",
        '{folder}/Screenshot%201%20%282%29.png "A title"',
        "{folder}/Screenshot%201%20%282%29.png 'A title'",
        "![alt]({folder}/Screenshot%201%20%282%29.png)",
        "{folder}/Screenshot%201%20\\(2\\).png",
        "{folder}/Screenshot%201%20%282%29.png?fileId=7#mimetype=image%2Fpng&hasPreview=true",
        "text://image?imageFileName=Screenshot%201%20%282%29.png",
    ],
)
async def test_a_picture_is_found_by_its_path_as_the_text_has_it(place: Place, written: str) -> None:
    path = written.format(folder=place.folder)

    shown = await call(place.account, "nc_notes_get_attachment", note_id=place.note.file_id, path=path)

    assert (shown.path, shown.data) == (f"{place.folder}/{NAME}", PNG)


@pytest.mark.parametrize("name", ["100%.png", "a%20b.png", "Page (2)", "a?b.png", "a#b.png"])
async def test_a_name_that_only_looks_encoded_is_found_too(place: Place, name: str) -> None:
    place.files.put(f"/Notes/Work/{name}", PNG)

    shown = await call(place.account, "nc_notes_get_attachment", note_id=place.note.file_id, path=name)

    assert shown.path == name


@pytest.mark.parametrize(
    "written",
    ["%2e%2e/x.png", "..%2Fx.png", "a%5Cb.png", "a%0Ab.png", " ", "<../x.png>", "![a](../x)"],
)
def test_a_path_that_climbs_once_it_is_decoded_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput):
        note_pictures.names(written)


async def test_a_picture_that_is_nowhere_is_said_to_be_missing(place: Place) -> None:
    with pytest.raises(NotFound, match="no such attachment"):
        await call(place.account, "nc_notes_get_attachment", note_id=place.note.file_id, path="a%20b.png")


async def test_a_restored_note_has_its_pictures_back(place: Place) -> None:
    await place.account.client(NotesClient).delete(str(place.note.file_id))
    listed = await call(place.account, "nc_files_list_trash")
    note = next(row for row in listed.items if row.path.endswith("Plan.md"))

    restored = await call(place.account, "nc_files_restore_trash", trash_id=note.trash_id)

    assert (await place.account.files.info(f"Notes/Work/{place.folder}/{NAME}")).size == len(PNG)
    assert restored.note == f"Its pictures are back too, in 'Notes/Work/{place.folder}'."


async def test_pictures_that_cannot_be_restored_are_said_to_be_in_the_trash(place: Place) -> None:
    await place.account.client(NotesClient).delete(str(place.note.file_id))
    items = {row.path: row for row in (await call(place.account, "nc_files_list_trash")).items}
    inner = httpx2.ASGITransport(app=place.sandbox.app)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "MOVE" and ".attachments" in request.url.path:
            return httpx2.Response(403)
        return await inner.handle_async_request(request)

    account = account_over_async(answer)
    restored = await call(account, "nc_files_restore_trash", trash_id=items["Notes/Work/Plan.md"].trash_id)

    assert items[f"Notes/Work/{place.folder}"].trash_id in restored.note


def account_over_async(answer: Callable[[httpx2.Request], Coroutine[Any, Any, httpx2.Response]]) -> Account:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    return Nextcloud(NextcloudUrl.parse("http://localhost"), pool).account(
        BasicCredential("alice", SecretStr("alice")), uid="alice"
    )


async def test_what_has_no_pictures_is_restored_without_a_word_of_them(place: Place) -> None:
    for path in ("Notes/Work/Other.md", "Notes/Work/5f.png"):
        deleted = await call(place.account, "nc_files_delete_item", path=path)
        restored = await call(place.account, "nc_files_restore_trash", trash_id=deleted.trash_id)
        assert restored.note is None


async def test_a_note_in_another_category_keeps_its_pictures_or_says_which_stayed(place: Place) -> None:
    moved = await call(place.account, "nc_notes_update_note", note_id=place.note.file_id, category="Home")
    renamed = await call(place.account, "nc_notes_update_note", note_id=place.note.file_id, title="New")

    assert (await place.account.files.info(f"Notes/Home/{place.folder}/{NAME}")).size == len(PNG)
    assert "left in 'Notes/Work'" in moved.changed
    assert "'5f.png'" in moved.changed
    assert place.folder not in moved.changed
    assert "none.png" not in moved.changed
    assert renamed.changed is None


async def test_a_note_without_files_of_its_own_is_moved_without_a_word(place: Place) -> None:
    other = place.files.get("/Notes/Work/Other.md").file_id

    moved = await call(place.account, "nc_notes_update_note", note_id=other, category="Home")

    assert moved.changed is None


@pytest.mark.parametrize("several", [False, True])
async def test_a_note_moved_as_a_file_says_which_files_stayed(place: Place, *, several: bool) -> None:
    place.files.make_folder("/Archive")
    source = ["Notes/Work/Plan.md"] if several else "Notes/Work/Plan.md"
    destination = "Archive" if several else "Archive/Plan.md"

    moved = await call(place.account, "nc_files_move_item", source=source, destination=destination)

    assert "'5f.png'" in moved.note
    assert place.folder not in moved.note
    assert (await place.account.files.info(f"Archive/{place.folder}/{NAME}")).size == len(PNG)


async def test_what_cannot_be_looked_at_after_a_move_is_not_spoken_of(place: Place) -> None:
    def broken(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503)

    account = account_over(broken)

    assert await note_pictures.after_move(account, "a/x.md", "b/x.md") is None
    assert await note_pictures.after_move(account, "a/x.md", "a/y.md") is None
    assert await note_pictures.left_behind(account, "![a](a.png)", before="a", after="b") is None


def test_the_files_that_a_text_names_are_found_each_once() -> None:
    text = (
        "![a](a.png) ![again](a.png) [b](<b c.pdf>) ![c](c%20d.png 'title') ![](/abs.png) [x](#top) "
        "[m](mailto:a@b.c) [n](Other.md) ![up](../up.png) ![e](data:image/png;base64,xx) ![p](p_(1).png)"
    )

    assert list(note_pictures.linked(text)) == ["a.png", "b c.pdf", "c d.png", "p_(1).png"]
