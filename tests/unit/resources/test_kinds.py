import json
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from nextcloud_mcp_server.apps.calendar.resources import Events
from nextcloud_mcp_server.apps.contacts.resources import Contacts
from nextcloud_mcp_server.apps.files.resources import Files
from nextcloud_mcp_server.documents.kinds import Kind as DocumentKind
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.errors import InvalidInput, NextcloudMcpError, NotFound, TooLarge
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources.kind import MAX_BYTES, Kind, Reader, Typed
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import system_clock
from nextcloud_mcp_server.tools.documents import Documents
from tests.dav_fakes import ProgressLog, account_in, account_over, call, multistatus, network, nothing_read
from tests.updates_fixtures import open_harness

LONG = "\N{OPEN BOOK}" * 20_000


def reader(text: bytes | None = None) -> Reader:
    """Read documents as if each had this text; without one, no document may be read."""

    async def read(
        kind: DocumentKind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
    ) -> Extract:
        async for _ in pieces:
            pass
        return Extract(text or b"", "ok" if text else "password")

    return Reader(Documents(nothing_read if text is None else read), cast("Any", ProgressLog()))


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def account(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def listed(kind: Kind, account: Account) -> list[dict[str, str]]:
    """Follow the pages, each as the names of its rows by their addresses."""
    pages: list[dict[str, str]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = await kind.page(account, cursor)
        pages.append({row.uri: row.name for row in page.rows})
        cursor = page.cursor
    return pages


async def test_events_are_listed_a_calendar_a_page_and_a_series_once(account: Account) -> None:
    kind = Events()
    pages = await listed(kind, account)
    (mine,) = [page for page in pages if "nc://calendar/personal/standup.ics" in page]
    read = [
        json.loads((await kind.read(account, kind.about.value(uri) or "", reader())).data) for uri in mine
    ]

    assert [name.partition(" (")[0] for name in mine.values()] == ["Stand-up", "Budget 2027", "Lisbon"]
    assert [one["title"] for one in read] == ["Stand-up", "Budget 2027", "Lisbon"]
    assert any("Office move (" in name for page in pages for name in page.values())


async def test_what_is_over_or_far_away_is_not_listed(account: Account) -> None:
    later = Events(clock=lambda: system_clock() + timedelta(days=90))

    names = [name for page in await listed(later, account) for name in page.values()]

    assert [name.partition(" (")[0] for name in names] == ["Stand-up"]


async def test_contacts_are_listed_book_by_book_in_pages(sandbox: Sandbox, account: Account) -> None:
    kind, book = Contacts(), sandbox.state.users["alice"].address_books["contacts"]
    for number in range(120):
        card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:n{number}\r\nFN:Person {number:03}\r\nEND:VCARD\r\n"
        book.put(f"n{number}.vcf", card, 0)
    pages = await listed(kind, account)
    mine = [page for page in pages if any(uri.startswith("nc://contacts/contacts/") for uri in page)]
    names = [name for page in mine for name in page.values()]

    first = await kind.read(account, kind.about.value(next(iter(mine[0]))) or "", reader())

    assert [len(page) for page in mine] == [100, len(names) - 100]
    assert len(names) == len(set(names))
    assert names == sorted(names, key=str.casefold)
    assert json.loads(first.data)["name"] == names[0]


@pytest.mark.parametrize("kind", [Events(), Contacts()])
async def test_a_user_without_any_has_an_empty_list(kind: Kind) -> None:
    assert await listed(kind, account_over(network(multistatus([])))) == [{}]


@pytest.mark.parametrize("kind", [Events(), Contacts()])
@pytest.mark.parametrize("cursor", ["nowhere", '["nowhere", null]', '["contacts", "x"]', "[1]"])
async def test_a_cursor_of_another_list_is_refused(kind: Kind, cursor: str, account: Account) -> None:
    with pytest.raises(InvalidInput, match="That cursor does not belong to this list"):
        await kind.page(account, cursor)


@pytest.mark.parametrize("kind", [Events(), Contacts()])
@pytest.mark.parametrize(
    "path",
    ["", "personal", "personal/no.ics", "contacts/no.vcf", "../../bob/x", "a/b/c", "%2e%2e/x", "x/%0d%0a"],
)
async def test_what_is_not_there_cannot_be_read_however_it_is_written(
    kind: Kind, path: str, account: Account
) -> None:
    value = kind.about.value(kind.about.prefix + path)
    assert value is not None

    with pytest.raises((NotFound, InvalidInput)):
        await kind.read(account, value, reader())


async def test_what_is_too_large_for_one_answer_says_so(account: Account) -> None:
    event = await call(account, "nc_calendar_create_event", title="x", start="2026-12-01", description=LONG)
    contact = await call(account, "nc_contacts_create_contact", name="x", note=LONG)

    for kind, value in ((Events(), event.event_id), (Contacts(), f"{contact.book}/{contact.id}")):
        with pytest.raises(TooLarge, match="too large for one resource"):
            await kind.read(account, value, reader())


@pytest.mark.parametrize(
    ("kind", "typed", "found"),
    [
        (Events(), Typed("calendar", "PER"), ["personal"]),
        (Events(), Typed("calendar", "zzz"), []),
        (Events(), Typed("event", "bud 2027", {"calendar": "personal"}), ["budget.ics"]),
        (Events(), Typed("event", "lis", {"calendar": "personal"}), ["lisbon.ics"]),
        (Events(), Typed("event", "lis", {"calendar": "nowhere"}), []),
        (Events(), Typed("event", "lis"), []),
        (Contacts(), Typed("book", "cont"), ["contacts", "z-app-generated--contactsinteraction--recent"]),
        (Contacts(), Typed("contact", "contact-1", {"book": "contacts"}), ["contact-1.vcf"]),
        (Contacts(), Typed("contact", "x", {"book": "nowhere"}), []),
        (Contacts(), Typed("contact", "x"), []),
    ],
)
async def test_names_are_completed_and_what_is_in_them(
    kind: Kind, typed: Typed, found: list[str], account: Account
) -> None:
    assert await kind.complete(account, typed) == found


async def test_a_document_is_read_as_its_text_whatever_it_is_called(
    sandbox: Sandbox, account: Account
) -> None:
    files = sandbox.state.users["alice"].files
    files.put("/plan.docx", b"PK")
    files.put("/noname", b"%PDF-1.7")

    texts = [await Files().read(account, path, reader(b"Words")) for path in ("plan.docx", "noname")]

    assert [(one.data, one.mime_type) for one in texts] == [("Words", "text/plain")] * 2


@pytest.mark.parametrize(
    ("text", "refused", "sentence"),
    [(b"", InvalidInput, "password"), (b"x" * (MAX_BYTES + 1), TooLarge, "reads it in parts")],
)
async def test_a_document_without_a_text_or_with_a_long_one_is_refused_with_the_reason(
    text: bytes, refused: type[NextcloudMcpError], sentence: str, sandbox: Sandbox, account: Account
) -> None:
    sandbox.state.users["alice"].files.put("/plan.pdf", b"%PDF-1.7")

    with pytest.raises(refused, match=sentence):
        await Files().read(account, "plan.pdf", reader(text))


async def test_changes_of_events_and_contacts_are_told_and_only_what_may_have_changed_is_looked_at() -> None:
    scopes = frozenset({"calendar:read", "contacts:read"})
    async with open_harness(("calendar", "contacts"), scopes=scopes) as harness:
        alice, client = harness.sandbox.state.users["alice"], harness.client()
        events = ["nc://calendar/personal/standup.ics", "nc://calendar/personal/budget.ics"]
        await client.listed().subscribed(*events, "nc://contacts/contacts/contact-1.vcf")
        unchanged = await harness.look()
        standup = alice.calendars["personal"].objects["standup.ics"]
        alice.calendars["personal"].put("standup.ics", standup.data.replace("Room 2", "Room 3"), 1)

        asked = await harness.look()

    home = "PROPFIND /remote.php/dav"
    states = [f"{home}/calendars/alice", f"{home}/addressbooks/users/alice"]
    assert unchanged == states
    members = "REPORT /remote.php/dav/calendars/alice/personal"
    assert asked == [states[0], members, states[1]]
    assert sorted(client.heard()) == [events[0], "resources/list_changed"]
