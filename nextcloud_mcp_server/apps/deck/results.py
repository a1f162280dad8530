"""Results of the Deck tools."""

from collections.abc import Sequence
from datetime import datetime

from nextcloud_mcp_server.apps.deck.models import Board, Card, Comment, Stack
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools.result import Document, LongText, Result
from nextcloud_mcp_server.tools.text_page import TextPage

_MAX_NAMES = 200
_NAMES = {0: "", 1: "group: ", 7: "team: "}


class BoardRow(Result):
    """One board."""

    id: Id
    title: str
    owner: str
    can_edit: bool
    archived: bool | None = None


class Boards(Result):
    """The boards the person can see."""

    boards: list[BoardRow]
    cursor: str | None = None


class CardRow(Result):
    """A card in a list, with what changing it needs."""

    id: Id
    stack_id: Id
    title: str
    etag: str
    due: str | None = None
    done: str | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None
    comments: int | None = None
    has_description: bool | None = None


class StackRow(Result):
    """A column of a board."""

    id: Id
    title: str


class BoardPage(Result):
    """A board and a page of its cards, stack by stack; `total` counts the cards that were found."""

    id: Id
    title: str
    can_edit: bool
    labels: list[str]
    members: list[str]
    stacks: list[StackRow]
    cards: list[CardRow]
    total: int
    archived: bool | None = None
    cursor: str | None = None


class CommentRow(Result):
    """One comment."""

    by: str
    at: datetime
    text: LongText


class CardText(Document):
    """A card with its description as content, or a page of it; sizes and offsets are bytes."""

    id: Id
    stack_id: Id
    title: str
    etag: str
    due: str | None = None
    done: str | None = None
    archived: bool | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None
    attachments: int | None = None
    comments: list[CommentRow] | None = None
    comments_total: int
    size: int
    next_offset: int | None = None


class CardWritten(Result):
    """What the card is now; `note` says what Deck stored otherwise than it was sent."""

    id: Id
    stack_id: Id
    title: str
    etag: str
    due: str | None = None
    done: str | None = None
    archived: bool | None = None
    labels: list[str] | None = None
    assignees: list[str] | None = None
    note: str | None = None


class CardDeleted(Result):
    """What was deleted, and how to undo it."""

    deleted: str
    undo: str


def board_row(board: Board) -> BoardRow:
    """Return the row of a board."""
    return BoardRow(
        id=board.id,
        title=board.title,
        owner=board.owner.name or board.owner.uid,
        can_edit=board.permissions.edit,
        archived=board.archived or None,
    )


def card_row(card: Card) -> CardRow:
    """Return the list row of a card."""
    return CardRow(
        id=card.id,
        stack_id=card.stack_id,
        title=card.title,
        etag=card.etag,
        due=card.duedate,
        done=card.done,
        labels=_labels(card),
        assignees=_assignees(card),
        comments=card.comments or None,
        has_description=True if card.description else None,
    )


def page(
    board: Board, stacks: Sequence[Stack], cards: list[CardRow], *, total: int, cursor: str | None
) -> BoardPage:
    """Return a board with some of its cards."""
    return BoardPage(
        id=board.id,
        title=board.title,
        can_edit=board.permissions.edit,
        labels=[label.title for label in board.labels[:_MAX_NAMES]],
        members=[person.uid for person in board.people[:_MAX_NAMES]],
        stacks=[StackRow(id=stack.id, title=stack.title) for stack in stacks],
        cards=cards,
        total=total,
        archived=board.archived or None,
        cursor=cursor,
    )


def text(card: Card, part: TextPage, comments: Sequence[Comment]) -> CardText:
    """Return a card with its description and comments."""
    return CardText(
        content=part.text,
        id=card.id,
        stack_id=card.stack_id,
        title=card.title,
        etag=card.etag,
        due=card.duedate,
        done=card.done,
        archived=card.archived or None,
        labels=_labels(card),
        assignees=_assignees(card),
        attachments=card.attachments or None,
        comments=[CommentRow(by=one.actor, at=one.created_at, text=one.message) for one in comments] or None,
        comments_total=card.comments,
        size=part.size,
        next_offset=part.next_offset,
    )


def written(card: Card, note: str | None = None) -> CardWritten:
    """Return the state of a card after a change."""
    return CardWritten(
        id=card.id,
        stack_id=card.stack_id,
        title=card.title,
        etag=card.etag,
        due=card.duedate,
        done=card.done,
        archived=card.archived or None,
        labels=_labels(card),
        assignees=_assignees(card),
        note=note,
    )


def deleted(card: Card) -> CardDeleted:
    """Return the deleted card, and where it can still be found."""
    return CardDeleted(
        deleted=f"{card.title} ({card.id})",
        undo="For some days the card can be restored in Deck: open the board's details, then “Deleted items”.",
    )


def _labels(card: Card) -> list[str] | None:
    return [label.title for label in card.labels] or None


def _assignees(card: Card) -> list[str] | None:
    return [f"{_NAMES.get(one.type, '')}{one.participant.uid}" for one in card.assigned] or None
