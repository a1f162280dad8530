"""Boards of the sandbox's Deck, as its tables hold them."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class DeckLabel:
    """A label of a board."""

    id: int
    title: str
    color: str
    changed_at: int | None = 0


@dataclass(slots=True)
class DeckComment:
    """A comment on a card."""

    id: int
    author: str
    text: str
    created_at: str


@dataclass(slots=True)
class DeckCard:
    """One card. `assigned` maps a uid to the id of the assignment."""

    id: int
    title: str
    stack_id: int
    type: str
    owner: str
    order: int
    description: str
    duedate: str | None
    created_at: int
    changed_at: int
    before: str | None = None
    editor: str | None = None
    done: str | None = None
    color: str | None = None
    startdate: str | None = None
    archived: bool = False
    deleted_at: int = 0
    labels: list[int] = field(default_factory=list[int])
    assigned: dict[str, int] = field(default_factory=dict[str, int])
    comments: list[DeckComment] = field(default_factory=list[DeckComment])


@dataclass(slots=True)
class DeckStack:
    """A column."""

    id: int
    title: str
    board_id: int
    order: int
    changed_at: int = 0
    #: Whether what comes here is done (1.18); no request of the API sets it.
    is_done_column: bool = False


@dataclass(slots=True)
class DeckBoard:
    """A board; `people` may edit it, too."""

    id: int
    title: str
    owner: str
    color: str
    changed_at: int
    archived: bool = False
    deleted_at: int = 0
    people: list[str] = field(default_factory=list[str])
    labels: list[DeckLabel] = field(default_factory=list[DeckLabel])

    def lists(self, uid: str) -> bool:
        """Return whether a user's list has the board; it keeps a deleted one for some time."""
        return uid in (self.owner, *self.people)

    def admits(self, uid: str) -> bool:
        """Return whether a user sees the board."""
        return not self.deleted_at and self.lists(uid)


@dataclass(slots=True)
class DeckStore:
    """All boards of all users; ids are unique over all kinds."""

    boards: dict[int, DeckBoard] = field(default_factory=dict[int, DeckBoard])
    stacks: dict[int, DeckStack] = field(default_factory=dict[int, DeckStack])
    cards: dict[int, DeckCard] = field(default_factory=dict[int, DeckCard])
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(301), repr=False)

    def stacks_of(self, board_id: int) -> list[DeckStack]:
        """List a board's stacks in order."""
        found = [stack for stack in self.stacks.values() if stack.board_id == board_id]
        return sorted(found, key=lambda stack: (stack.order, stack.id))

    def cards_of(self, stack_id: int, *, archived: bool = False) -> list[DeckCard]:
        """List a stack's cards in order."""
        found = [
            card
            for card in self.cards.values()
            if card.stack_id == stack_id and card.archived is archived and not card.deleted_at
        ]
        return sorted(found, key=lambda card: (card.order, card.id))

    def board_of(self, card: DeckCard) -> DeckBoard:
        """Return the board of a card."""
        return self.boards[self.stacks[card.stack_id].board_id]

    def touch(self, card: DeckCard, now: int) -> None:
        """Set the time of change of a card's stack and board."""
        card.changed_at = self.stacks[card.stack_id].changed_at = self.board_of(card).changed_at = now
