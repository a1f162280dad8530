"""Declares the app deck of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.deck.api import DeckApi
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckBoard, DeckCard, DeckLabel, DeckStack, DeckStore
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State, User

_ALICE_LABELS = (("Urgent", "e9322d"), ("Later", "f1db50"))
_ALICE_STACKS = {
    "To do": (("Order boxes", "40 large, 25 small."), ("Label the cables", "")),
    "Doing": (("Write to the landlord", "By the end of the month."),),
    "Done": (),
}


def _capability(context: Context, _user: User) -> dict[str, object]:
    return {"version": context.profile.deck, "canCreateBoards": True, "apiVersions": ["1.0", "1.1"]}


def _add_board(state: State) -> None:
    """Let alice plan the office move with bob."""
    deck, now = state.store(DeckStore), int(state.clock().timestamp())
    board = DeckBoard(next(deck.ids), "Office move", "alice", "0082c9", now, people=["bob"])
    board.labels = [DeckLabel(next(deck.ids), title, color) for title, color in _ALICE_LABELS]
    deck.boards[board.id] = board
    for order, (title, cards) in enumerate(_ALICE_STACKS.items()):
        stack = DeckStack(next(deck.ids), title, board.id, order, now)
        deck.stacks[stack.id] = stack
        for place, (card, text) in enumerate(cards):
            number = next(deck.ids)
            deck.cards[number] = DeckCard(
                number, card, stack.id, "plain", "alice", place, text, None, now, now
            )


app = SandboxApp("deck", api=DeckApi, capability=_capability, menu=("Deck", 10), seed=_add_board)
