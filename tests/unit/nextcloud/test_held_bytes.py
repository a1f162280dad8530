"""What one call holds of many objects has one limit, and the result says what was left out."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.notes.texts import KeptNotes
from nextcloud_mcp_server.nextcloud import held_bytes, remarks
from nextcloud_mcp_server.nextcloud.content_cache import MAX_PERSON_BYTES
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.tables.store import TableStore
from tests.dav_fakes import account_in, call
from tests.unit.apps.notes.test_texts import Served, over

LONG = "word " * 30_000
NOTE: dict[str, Any] = {"title": "a", "content": "word", "etag": "e"}
EVENT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:{kind}\r\nUID:{uid}\r\nDTSTART:20261205T100000Z\r\nSUMMARY:{uid}\r\n"
    "DESCRIPTION:{text}\r\nEND:{kind}\r\nEND:VCALENDAR\r\n"
)
CARD = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uid}\r\nFN:{uid}\r\nNOTE:{text}\r\nEND:VCARD\r\n"


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the limit of a call."""
    return lambda most: monkeypatch.setattr(held_bytes, "MOST_BYTES", most)


def test_what_does_not_fit_is_left_out_and_what_is_smaller_may_still_fit(
    little: Callable[[int], None],
) -> None:
    little(10)
    with HeldBytes("alice") as held:
        assert [held.take(size) for size in (6, 5, 4, 1, 0)] == [True, False, True, False, True]


def test_the_calls_of_a_user_share_one_limit(little: Callable[[int], None]) -> None:
    little(10)
    with HeldBytes("alice") as first, HeldBytes("alice") as second, HeldBytes("bob") as other:
        assert [first.take(6), second.take(5), second.take(4), other.take(10)] == [True, False, True, True]


def test_what_a_call_held_is_free_when_it_ends_or_fails(little: Callable[[int], None]) -> None:
    little(10)
    with HeldBytes("alice") as first:
        for end in (nullcontext(), pytest.raises(RuntimeError, match="fails")):
            with end, HeldBytes("alice") as second:
                assert second.take(10)
                if end.__class__ is not nullcontext:
                    raise RuntimeError("fails")

        assert first.take(10)


async def test_two_calendars_read_at_once_share_the_limit(little: Callable[[int], None]) -> None:
    sandbox = Sandbox()
    calendar = sandbox.add_user("alice").calendars["personal"]
    for uid in ("one", "two"):
        calendar.put(f"{uid}.ics", EVENT.format(kind="VEVENT", uid=uid, text="x" * 1000), 0)
    account = account_in(sandbox)
    given = {"start": "2026-12-01", "end": "2026-12-31", "calendar": "personal"}
    with HeldBytes(account.uid) as held:
        little(100_000)
        assert held.take(100_000)
        beside = await call(account, "nc_calendar_list_events", **given)
    after = await call(account, "nc_calendar_list_events", **given)

    assert (len(beside.events), beside.note[:2], len(after.events)) == (0, "2 ", 2)


def test_the_calls_of_a_user_may_hold_more_than_is_kept_and_both_together_at_most_100_mb() -> None:
    assert MAX_PERSON_BYTES < held_bytes.MOST_BYTES
    assert MAX_PERSON_BYTES + held_bytes.MOST_BYTES <= 100_000_000


async def test_a_search_holds_note_texts_up_to_the_limit_and_tells_how_many(
    little: Callable[[int], None],
) -> None:
    little(20_000)
    served = over(
        httpx2.Response(
            200,
            headers={"Last-Modified": "Fri, 27 Nov 2026 21:03:53 GMT"},
            json=[{**NOTE, "id": 1}, {**NOTE, "id": 2, "content": LONG}, {**NOTE, "id": 3}],
        )
    )

    found = await call(served, "nc_notes_search_notes", query="word")

    assert ({each.id for each in found.notes}, found.searched) == ({"1", "3"}, 2)


async def test_an_incomplete_search_is_not_kept(little: Callable[[int], None]) -> None:
    little(20_000)
    served = Served()
    notes = served.account().client(NotesClient)
    await notes.create(title="long", content=LONG, category="", favorite=False)

    first = await notes.texts()
    little(10_000_000)
    second = await notes.texts()

    assert (first.complete, second.complete) == (False, True)
    assert len(second.notes) == len(first.notes) + 1


async def test_what_changed_since_the_last_search_has_the_same_limit(little: Callable[[int], None]) -> None:
    served = Served()
    notes = served.account().client(NotesClient)
    await notes.texts()
    served.pass_time()
    await notes.create(title="long", content=LONG, category="", favorite=False)
    little(100_000)

    found = await notes.texts()

    assert not found.complete
    assert KeptNotes.of(found.notes, 0).size <= 100_000


@pytest.mark.parametrize(
    ("kind", "tool", "given", "field"),
    [
        (
            "VEVENT",
            "nc_calendar_list_events",
            {"start": "2026-12-01", "end": "2026-12-31"},
            "events",
        ),
        ("VTODO", "nc_tasks_list_tasks", {}, "tasks"),
    ],
)
@pytest.mark.parametrize("only", [True, False])
async def test_calendars_are_read_up_to_the_limit_of_a_call(
    little: Callable[[int], None], kind: str, tool: str, given: dict[str, str], field: str, *, only: bool
) -> None:
    """Another user may share a calendar with events of megabytes."""
    little(100_000)
    sandbox = Sandbox()
    calendar = sandbox.add_user("alice").calendars["personal"]
    calendar.kinds = (kind,)
    for uid, text in (("long", LONG), ("short", "x")):
        calendar.put(f"{uid}.ics", EVENT.format(kind=kind, uid=uid, text=text), 0)
    account = account_in(sandbox)
    where = {"calendar": "personal"} if only else {}

    found = await call(account, tool, **given, **where)
    little(10_000_000)
    later = await call(account, tool, **given, **where)

    assert [each.title for each in getattr(found, field)] == ["short"]
    assert found.note.startswith("1 ")
    assert {each.title for each in getattr(later, field)} == {"short", "long"}


async def test_contacts_of_megabytes_are_held_up_to_the_limit_of_a_call(
    little: Callable[[int], None],
) -> None:
    little(100_000)
    sandbox = Sandbox()
    book = sandbox.add_user("alice").address_books["contacts"]
    for uid, text in (("long", LONG), ("short", "x")):
        book.put(f"{uid}.vcf", CARD.format(uid=uid, text=text), 0)

    with remarks.collected() as said:
        found = await call(account_in(sandbox), "nc_contacts_search_contacts")

    assert [each.name for each in found.contacts] == ["alice", "short"]
    assert "so long that not all of them were read" in said[0]


async def test_a_search_holds_one_card_at_a_time(little: Callable[[int], None]) -> None:
    """It kept every card that it found until it ended: 450 cards of 65 kB took more than a gigabyte."""
    little(2_000_000)
    sandbox = Sandbox()
    book = sandbox.add_user("alice").address_books["contacts"]
    for number in range(5):
        book.put(f"{number}.vcf", CARD.format(uid=number, text="x\r\n" + "TEL:1\r\n" * 1_000), 0)

    with remarks.collected() as said:
        found = await call(account_in(sandbox), "nc_contacts_search_contacts", query="x", limit=1)

    assert (found.total, said) == (5, [])


async def test_a_search_holds_rows_of_long_names_up_to_the_limit_of_a_call(
    little: Callable[[int], None],
) -> None:
    little(1_300_000)
    sandbox = Sandbox()
    book = sandbox.add_user("alice").address_books["contacts"]
    for number in range(5):
        book.put(f"{number}.vcf", CARD.format(uid="x" * 40_000, text=number), 0)

    with remarks.collected() as said:
        found = await call(account_in(sandbox), "nc_contacts_search_contacts", query="xx")

    assert found.total == 2
    assert "so long that not all of them were read" in said[0]


async def test_rows_of_a_table_are_searched_up_to_the_limit_of_a_call(little: Callable[[int], None]) -> None:
    little(100_000)
    sandbox = Sandbox.demo()
    store = sandbox.state.store(TableStore)
    table = store.add("Texts", "", "alice", "2026-11-27 21:15:29")
    column = store.add_column(
        table, {"title": "Text", "type": "text", "subtype": "rich"}, "2026-11-27 21:15:29"
    )
    account = account_in(sandbox)
    for text in ("word", LONG, "word"):
        await call(account, "nc_tables_create_row", table_id=str(table.id), values={"Text": text})

    found = await call(account, "nc_tables_get_table", table_id=str(table.id), query="word")

    assert column
    assert (len(found.rows), found.searched) == (1, 1)
