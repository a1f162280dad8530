"""The boards of Deck as calendars, as its `lib/DAV` publishes them: cards and stacks as read-only tasks."""

from datetime import UTC, datetime

from nextcloud_mcp_server.sandbox.apps.deck.store import DeckBoard, DeckCard, DeckStack, DeckStore
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar

_PREFIX = "app-generated--deck--board-"


def board_calendars(deck: DeckStore, uid: str) -> dict[str, StoredCalendar]:
    """Return the calendars of the boards that a user sees."""
    return {
        f"{_PREFIX}{board.id}": _calendar(deck, board) for board in deck.boards.values() if board.admits(uid)
    }


def _calendar(deck: DeckStore, board: DeckBoard) -> StoredCalendar:
    made = StoredCalendar(f"Deck: {board.title}", color=f"#{board.color}", kinds=("VTODO",), kind="deck")
    for stack in deck.stacks_of(board.id):
        for card in deck.cards_of(stack.id):
            made.put(f"card-{card.id}.ics", _task(_card_lines(deck, board, card)), card.changed_at)
        made.put(f"stack-{stack.id}.ics", _task(_stack_lines(stack)), stack.changed_at)
    return made


def _card_lines(deck: DeckStore, board: DeckBoard, card: DeckCard) -> list[str]:
    labels = ",".join(each.title for each in board.labels if each.id in card.labels)
    due = [] if card.duedate is None else [f"DUE:{_utc(card.duedate)}"]
    done = [] if card.done is None else [f"COMPLETED:{_utc(card.done)}"]
    return [
        f"UID:deck-card-{card.id}",
        *due,
        f"RELATED-TO:deck-stack-{deck.stacks[card.stack_id].id}",
        f"STATUS:{'COMPLETED' if done else 'NEEDS-ACTION'}",
        *done,
        f"CATEGORIES:{labels}",
        f"SUMMARY:{_escaped(card.title)}",
        f"DESCRIPTION:{_escaped(card.description)}",
    ]


def _stack_lines(stack: DeckStack) -> list[str]:
    return [f"UID:deck-stack-{stack.id}", f"SUMMARY:List : {_escaped(stack.title)}"]


def _task(lines: list[str]) -> str:
    whole = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Sabre//Sabre VObject 4.5.6//EN", "BEGIN:VTODO"]
    return "".join(f"{line}\r\n" for line in [*whole, *lines, "END:VTODO", "END:VCALENDAR"])


def _utc(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;")
    return text.replace("\r", "").replace("\n", "\\n")
