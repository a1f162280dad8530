import pytest

from nextcloud_mcp_server.nextcloud.watch import Place
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.note_store import Changes, NoteStore
from tests.dav_fakes import account_in, call


async def test_the_etag_of_the_top_folder_changes_with_everything_below_it() -> None:
    sandbox = Sandbox.demo(one_second_etags=False)
    watch, files = account_in(sandbox).watch, sandbox.state.users["alice"].files
    files.make_folder("/Deep")
    files.put("/Deep/a.txt", b"1")
    before = [await watch.etag("files", path) for path in ("/", "Deep/a.txt", "Readme.md")]

    files.put("/Deep/a.txt", b"2")
    after = [await watch.etag("files", path) for path in ("/", "Deep/a.txt", "Readme.md")]

    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]
    assert all(before)


@pytest.mark.parametrize("path", ["no such.txt", "../admin/secret", "a\nb"])
async def test_what_is_not_there_has_no_etag(path: str) -> None:
    assert await account_in(Sandbox.demo()).watch.etag("files", path) == ""


@pytest.mark.parametrize(
    ("place", "name", "tool", "arguments"),
    [
        ("calendars", "personal", "nc_calendar_create_event", {"title": "New", "start": "2026-12-01"}),
        ("addressbooks", "contacts", "nc_contacts_create_contact", {"name": "New"}),
    ],
)
async def test_a_calendar_or_an_address_book_changes_with_what_is_in_it(
    place: Place, name: str, tool: str, arguments: dict[str, str]
) -> None:
    account = account_in(Sandbox.demo())
    before = await account.watch.states(place)

    await call(account, tool, **arguments)
    after = await account.watch.states(place)

    assert before[name] != after[name]
    assert {key: one for key, one in before.items() if key != name} == {
        key: one for key, one in after.items() if key != name
    }


async def test_the_list_of_notes_comes_again_only_when_it_is_another() -> None:
    sandbox = Sandbox.demo()
    notes, store = account_in(sandbox).notes, NoteStore(sandbox.state.users["alice"], sandbox.state.clock)
    first = await notes.changed(None)
    assert first is not None

    same = await notes.changed(first.etag)
    store.create(Changes(title="New"))
    other = await notes.changed(first.etag)

    assert same is None
    assert other is not None
    assert {note.title for note in other.notes} - {note.title for note in first.notes} == {"New"}
    assert all(note.content is None for note in other.notes)
