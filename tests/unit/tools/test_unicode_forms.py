"""An accent sent as a character of its own (Unicode form NFD, as macOS writes names) means the same letter.

Nextcloud stores the names of files in NFC (`Filesystem::normalizePath`), and so the titles and categories of notes.
"""

import unicodedata
from typing import Any

import pytest

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.outcome import Part, compare
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.tables.store import StoredTable, TableStore
from tests.dav_fakes import account_in, call


def apart(text: str) -> str:
    """Write accents as characters of their own."""
    return unicodedata.normalize("NFD", text)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def test_a_note_keeps_its_title_when_only_the_form_of_an_accent_differs(alice: Account) -> None:
    made = await call(alice, "nc_notes_create_note", title="Müsli", content="x")

    changed = await call(
        alice, "nc_notes_update_note", note_id=made.id, title=apart("Müsli"), content="y", etag=made.etag
    )

    assert (changed.title, changed.changed, changed.size) == ("Müsli", None, 1)


async def test_a_category_is_the_same_in_both_forms(alice: Account) -> None:
    made = await call(alice, "nc_notes_create_note", title="Brot", category=apart("Küche/Öfen"))

    for category in ("Küche", apart("Küche")):
        listed = await call(alice, "nc_notes_list_notes", category=category)
        assert [note.id for note in listed.notes] == [made.id]
    assert (made.category, made.changed) == ("Küche/Öfen", None)


@pytest.mark.parametrize(("stored", "asked"), [("Fête", apart("fête")), (apart("Fête"), "FÊTE")])
async def test_events_and_tasks_are_found_by_either_form(alice: Account, stored: str, asked: str) -> None:
    await call(alice, "nc_calendar_create_event", title=stored, start="2026-12-08")
    await call(alice, "nc_tasks_create_task", title=stored)

    events = await call(alice, "nc_calendar_list_events", start="2026-12-08", end="2026-12-08", query=asked)
    tasks = await call(alice, "nc_tasks_list_tasks", query=asked)

    assert [event.title for event in events.events] == [stored]
    assert [task.title for task in tasks.tasks] == [stored]


@pytest.fixture
def table(sandbox: Sandbox) -> StoredTable:
    made = sandbox.state.store(TableStore).add("Answers", "", "alice", "2026-11-27 21:15:29")
    labels = ("ja", "Ja", "vielleicht später")
    options = [{"id": number, "label": label} for number, label in enumerate(labels)]
    fields: dict[str, Any] = {"title": "Answer", "type": "selection", "selectionOptions": options}
    sandbox.state.store(TableStore).add_column(made, fields, "2026-11-27 21:15:29")
    return made


@pytest.mark.parametrize(
    ("sent", "chosen"),
    [("ja", "ja"), ("Ja", "Ja"), ("JA", "ja"), (apart("Vielleicht später"), "vielleicht später")],
)
async def test_a_choice_is_the_one_that_is_spelled_so_before_one_in_another_case(
    alice: Account, table: StoredTable, sent: str, chosen: str
) -> None:
    made = await call(alice, "nc_tables_create_row", table_id=str(table.id), values={"Answer": sent})

    assert (made.values, made.note) == ({"Answer": chosen}, None)


@pytest.mark.parametrize(("sent", "stored"), [(apart("é"), "é"), ([apart("é"), "a"], ["a", "é"])])
def test_a_text_that_is_stored_in_another_form_is_stored_as_it_was_sent(sent: object, stored: object) -> None:
    assert compare("Notes", [Part("title", sent, stored, before=stored)]) is None
