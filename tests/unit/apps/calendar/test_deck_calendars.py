"""What Deck shows as tasks is left out of a user's tasks, and leads to Deck where it is asked for."""

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckBoard, DeckCard, DeckStack, DeckStore
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from tests.dav_fakes import account_in, account_over, call

BOARD = "app-generated--deck--board-3"
TASK = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTODO\r\nUID:t\r\nSUMMARY:Buy milk\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"


@pytest.fixture
async def sandbox() -> Sandbox:
    """A sandbox where alice has a list of tasks, and a board with a card."""
    made = Sandbox()
    made.add_user("alice")
    deck = made.state.store(DeckStore)
    deck.boards[3] = DeckBoard(3, "Move", "alice", "0082c9", 1)
    deck.stacks[5] = DeckStack(5, "To do", 3, 0)
    due = "2026-12-05T10:00:00+00:00"
    deck.cards[7] = DeckCard(7, "Pack, all", 5, "plain", "alice", 0, "a\nb", due, 1, 1)
    deck.cards[8] = DeckCard(8, "Sign", 5, "plain", "alice", 1, "", None, 1, 1, done=due)
    todo = StoredCalendar("Tasks", kinds=("VTODO",))
    todo.put("t.ics", TASK, 0)
    made.state.users["alice"].calendars["tasks"] = todo
    return made


@pytest.fixture
async def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


async def test_cards_and_stacks_of_deck_are_no_tasks_of_the_person(alice: Account) -> None:
    found = await call(alice, "nc_tasks_list_tasks", status="all")

    assert [each.title for each in found.tasks] == ["Buy milk"]
    assert "cards of Deck" in found.note
    assert "nc_deck_get_board" in found.note


async def test_a_board_that_is_named_is_shown_and_marked(alice: Account) -> None:
    found = await call(alice, "nc_tasks_list_tasks", status="all", calendar=BOARD)

    assert [(each.title, each.app, each.due) for each in found.tasks] == [
        ("Pack, all", "deck", "2026-12-05T10:00:00+00:00"),
        ("Sign", "deck", None),
        ("List : To do", "deck", None),
    ]
    assert "nc_deck_update_card" in found.note


async def test_the_list_of_calendars_marks_what_deck_fills(alice: Account) -> None:
    found = await call(alice, "nc_calendar_list_calendars")

    rows = {each.calendar: (each.app, each.read_only) for each in found.calendars}
    assert rows[BOARD] == ("deck", True)
    assert rows["tasks"] == (None, None)
    assert "nc_deck_update_card" in found.note


@pytest.mark.parametrize("name", ["card-7.ics", "deck-card-7.ics", "stack-5.ics"])
async def test_changing_a_card_as_a_task_leads_to_deck_before_anything_is_sent(
    sandbox: Sandbox, alice: Account, name: str
) -> None:
    for tool, more in (
        ("nc_tasks_update_task", {"title": "x"}),
        ("nc_tasks_delete_task", {}),
    ):
        with pytest.raises(
            errors.Forbidden, match=r"of Deck, not a task .* board_id 3 .*nc_deck_update_card"
        ):
            await call(alice, tool, task_id=f"{BOARD}/{name}", etag="e", **more)

    assert sandbox.requests.total == 0


async def test_a_new_task_never_becomes_a_card(sandbox: Sandbox, alice: Account) -> None:
    made = await call(alice, "nc_tasks_create_task", title="New")
    with pytest.raises(errors.Forbidden, match="a calendar that Deck fills"):
        await call(alice, "nc_tasks_create_task", title="New", calendar=BOARD)
    del sandbox.state.users["alice"].calendars["tasks"]
    with pytest.raises(errors.NotFound, match="No calendar of the person's own takes tasks"):
        await call(alice, "nc_tasks_create_task", title="New")

    assert made.task_id.startswith("tasks/")


async def test_a_calendar_of_another_app_is_listed_with_the_name_of_the_app() -> None:
    event = TASK.replace("VTODO", "VEVENT").replace("SUMMARY", "DTSTART:20261201T100000Z\r\nSUMMARY")
    names = 'xmlns:d="DAV:" xmlns:cal="urn:ietf:params:xml:ns:caldav"'
    home = "/remote.php/dav/calendars/alice/app-generated--timesheet--all/"
    properties = (
        "<d:resourcetype><d:collection/><cal:calendar/></d:resourcetype><cal:supported-calendar-component-set>"
        '<cal:comp name="VEVENT"/></cal:supported-calendar-component-set>'
    )
    data = f"<d:getetag>&quot;e&quot;</d:getetag><cal:calendar-data>{event}</cal:calendar-data>"

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "PUT":
            return httpx2.Response(403, stream=httpx2.ByteStream(b""))
        href, inside = (f"{home}1.ics", data) if request.method == "REPORT" else (home, properties)
        if "/principals/" in request.url.path:
            href, inside = "/remote.php/dav/principals/users/alice/", "<d:displayname>Alice</d:displayname>"
        found = (
            f"<d:multistatus {names}><d:response><d:href>{href}</d:href><d:propstat><d:prop>{inside}</d:prop>"
            "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"
        )
        return httpx2.Response(207, stream=httpx2.ByteStream(found.encode()))

    account = account_over(answer)
    events = await call(
        account, "nc_calendar_list_events", start="2026-12-01", end="2026-12-01", timezone="UTC"
    )

    assert [(each.title, each.app) for each in events.events] == [("Buy milk", "timesheet")]
    with pytest.raises(errors.Forbidden, match="The app “timesheet” fills this calendar"):
        await call(
            account,
            "nc_calendar_create_event",
            title="x",
            start="2026-12-01",
            timezone="UTC",
            calendar="app-generated--timesheet--all",
        )
