"""Tools for the Deck app."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.deck.client import LAST, Changes, DeckClient, Place
from nextcloud_mcp_server.apps.deck.models import (
    Board,
    BoardPage,
    Boards,
    Card,
    CardDeleted,
    CardRow,
    CardText,
    CardWritten,
    Stack,
)
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.spelling import folded, has_words
from nextcloud_mcp_server.tools import pagination, time_argument
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.text_page import cut_aside
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

deck = Toolset("deck")

#: Leaves room for the comments within the limit of a result.
_MAX_TEXT_BYTES = 12_000
_MAX_TITLE = 255
_COMMENTS = 10
_LISTED = 20
_MAX_NAMES = 200
#: Archived cards are fetched one by one.
_ARCHIVED = 20

Labels = Annotated[list[str] | None, Field(description="Titles of the board's labels; the whole list.")]
Assignees = Annotated[list[str] | None, Field(description="User ids; the whole list.")]
Due = Annotated[str | None, Field(description='ISO 8601; "" for none.'), Empty("no date")]


@deck.tool("Show boards", read_only=True, aliases={"nc_deck_list_boards": {}})
@require_provisioning("deck:read")
async def nc_deck_get_board(
    nc: Account,
    board_id: Annotated[Id | None, Field(description="Show this one.")] = None,
    *,
    query: Annotated[str, Field(description="Only cards with these words.")] = "",
    archived: Annotated[bool, Field(description="The archived cards instead.")] = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> Boards | BoardPage:
    """List the Deck boards, or show one: its stacks, labels and members, and its cards in pages by cursor."""
    if board_id is None:
        if query or archived:
            raise InvalidInput("'query' and 'archived' are about the cards of a board: send board_id, too.")
        listing = pagination.Listing(cursor)
        boards, cursor = listing.page(await nc.client(DeckClient).list_boards())
        return Boards(boards=boards, cursor=cursor)
    listing = pagination.Listing(cursor, board_id, query, archived)
    end = listing.start + (min(limit, _ARCHIVED) if archived else limit)
    board = await nc.client(DeckClient).board(board_id)
    stacks = sorted(
        await nc.client(DeckClient).stacks(board_id, archived=archived),
        key=lambda stack: (stack.order, number(stack.id)),
    )
    size = sum(len(card.description) for stack in stacks for card in stack.cards)
    cards = await aside(partial(_found, stacks, query), uid=nc.uid, size=size)
    shown = await nc.client(DeckClient).whole(board_id, cards[listing.start : end])
    rows = pagination.fit(await aside(partial(_rows, shown), uid=nc.uid, size=size))
    return BoardPage(
        id=board.id,
        title=board.title,
        can_edit=board.can_edit,
        labels=[label.title for label in board.labels[:_MAX_NAMES]],
        members=[person.uid for person in board.people[:_MAX_NAMES]],
        stacks=stacks,
        cards=rows,
        total=len(cards),
        archived=board.archived,
        cursor=listing.after(len(rows), len(cards)),
    )


@deck.tool("Read a card", read_only=True)
@require_provisioning("deck:read")
async def nc_deck_get_card(
    nc: Account,
    board_id: Id,
    stack_id: Id,
    card_id: Id,
    *,
    offset: Annotated[int, Field(ge=0)] = 0,
    comments_offset: Annotated[int, Field(ge=0)] = 0,
) -> CardText:
    """Read a card: its description, in pages of bytes, its newest comments, and the etag a change needs."""
    card = await nc.client(DeckClient).card(Place(board_id, stack_id, card_id))
    part = await cut_aside(card.description, uid=nc.uid, offset=offset, limit=_MAX_TEXT_BYTES)
    comments = (
        await nc.client(DeckClient).comments(card_id, limit=_COMMENTS, offset=comments_offset)
        if card.comments
        else []
    )
    return CardText(
        **card.state,
        content=part.text,
        archived=card.archived,
        attachments=card.attachments,
        comments=comments or None,
        comments_total=card.comments,
        size=part.size,
        next_offset=part.next_offset,
    )


@deck.tool("Create a card")
@require_provisioning("deck:write")
async def nc_deck_create_card(
    nc: Account,
    board_id: Id,
    stack_id: Id,
    title: str,
    *,
    description: str = "",
    due: Due = None,
    labels: Labels = None,
    assignees: Assignees = None,
) -> CardWritten:
    """Create a card at the end of a stack."""
    _refuse_unfit(title, None)
    board = await _board(nc, board_id, labels, assignees)
    changes = Changes(
        title=title.strip(),
        description=description,
        duedate=await _due(nc, due),
        labels=_label_ids(board, labels),
        people=_uids(board, assignees),
    )
    made = await nc.client(DeckClient).create(board_id, stack_id, changes)
    return _written(made.card, made.note)


# A comment does not change the etag, so repeating the call would add another one.
@deck.tool("Change a card", destructive=True, repeatable=False)
@require_provisioning("deck:write")
async def nc_deck_update_card(
    nc: Account,
    board_id: Id,
    stack_id: Id,
    card_id: Id,
    *,
    etag: str,
    title: str | None = None,
    description: Annotated[
        str | None, Field(description="Replaces the whole text."), Empty("takes it off")
    ] = None,
    due: Due = None,
    done: bool | None = None,
    archived: bool | None = None,
    labels: Labels = None,
    assignees: Assignees = None,
    comment: Annotated[str | None, Field(description="Adds a comment.")] = None,
) -> CardWritten:
    """Change only the given parts of a card, or mark it done, archive or comment it."""
    given = (title, description, due, done, archived, labels, assignees, comment)
    if all(one is None for one in given):
        raise InvalidInput("Nothing to change: send at least one of 'title', 'done', 'comment' and so on.")
    _refuse_unfit(title, comment)
    board = await _board(nc, board_id, labels, assignees)
    finished = {None: None, False: "", True: datetime.now(UTC).isoformat(timespec="seconds")}
    changes = Changes(
        title=title and title.strip(),
        description=description,
        duedate=await _due(nc, due),
        done=finished[done],
        archived=archived,
        labels=_label_ids(board, labels),
        people=_uids(board, assignees),
        comment=comment,
    )
    changed = await nc.client(DeckClient).update(Place(board_id, stack_id, card_id), changes, if_match=etag)
    return _written(changed.card, changed.note)


@deck.tool("Move a card", destructive=True)
@require_provisioning("deck:write")
async def nc_deck_move_card(
    nc: Account,
    board_id: Id,
    stack_id: Id,
    card_id: Id,
    *,
    etag: str,
    to_stack_id: Id,
    position: Annotated[int | None, Field(ge=0, description="0 = top; default: the end.")] = None,
) -> CardWritten:
    """Move a card to another stack of its board, or to another place in its stack."""
    stacks = {stack.id: stack.title for stack in (await nc.client(DeckClient).board(board_id)).stacks}
    if to_stack_id not in stacks:
        known = ", ".join(f"{each} “{title}”" for each, title in list(stacks.items())[:_LISTED])
        raise InvalidInput(f"'to_stack_id' is no stack of this board. Its stacks are: {known or 'none'}.")
    place = Place(board_id, stack_id, card_id)
    order = LAST if position is None else position
    return _written(await nc.client(DeckClient).move(place, to_stack_id, position=order, if_match=etag))


@deck.tool("Delete a card", destructive=True)
@require_provisioning("deck:write")
async def nc_deck_delete_card(
    nc: Account, board_id: Id, stack_id: Id, card_id: Id, *, etag: str
) -> CardDeleted:
    """Delete a card; the answer says how to restore it. To put it away, archive it instead."""
    card = await nc.client(DeckClient).delete(Place(board_id, stack_id, card_id), if_match=etag)
    return CardDeleted(
        deleted=f"{card.title} ({card.id})",
        undo="For some days the card can be restored in Deck: open the board's details, then “Deleted items”.",
    )


def _found(stacks: Sequence[Stack], query: str) -> list[Card]:
    """Return the cards with all words of a query, stack by stack."""
    return [
        card
        for stack in stacks
        for card in sorted(stack.cards, key=lambda card: (card.order, number(card.id)))
        if has_words(
            query, card.title, card.description, *(label.title for label in card.labels), *card.people
        )
    ]


def _rows(cards: Sequence[Card]) -> list[CardRow]:
    return [
        CardRow(**card.state, comments=card.comments, has_description=True if card.description else None)
        for card in cards
    ]


def _written(card: Card, note: str | None = None) -> CardWritten:
    return CardWritten(**card.state, archived=card.archived, note=note)


def _refuse_unfit(title: str | None, comment: str | None) -> None:
    if title is not None and not 0 < len(title.strip()) <= _MAX_TITLE:
        raise InvalidInput(f"'title' must have 1 to {_MAX_TITLE} characters.")
    if comment is not None and not comment.strip():
        raise InvalidInput("'comment' is empty: send its text.")


async def _board(nc: Account, board_id: Id, *names: Sequence[str] | None) -> Board | None:
    """Fetch the board if labels or users are to be looked up on it."""
    return None if names == (None, None) else await nc.client(DeckClient).board(board_id)


async def _due(nc: Account, text: str | None) -> str | None:
    """Parse a due date and return it in UTC: Deck drops the offset when it stores the date."""
    return text and (await time_argument.read(nc, "due", text)).isoformat(timespec="seconds")


def _label_ids(board: Board | None, titles: Sequence[str] | None) -> list[Id] | None:
    if board is None or titles is None:
        return None
    known = {folded(label.title): label.id for label in board.labels}
    missing = [title for title in titles if folded(title) not in known]
    if missing:
        listed = ", ".join(f"“{label.title}”" for label in board.labels[:_LISTED])
        raise InvalidInput(f"The board has no label “{missing[0]}”. Its labels are: {listed or 'none'}.")
    return [known[folded(title)] for title in titles]


def _uids(board: Board | None, names: Sequence[str] | None) -> list[str] | None:
    """Find users of the board by their ids or, for unknown ids, by their names."""
    if board is None or names is None:
        return None
    known = {person.name: person.uid for person in board.people}
    known |= {person.uid: person.uid for person in board.people}
    missing = [name for name in names if name not in known]
    if missing:
        listed = ", ".join(person.uid for person in board.people[:_LISTED])
        raise InvalidInput(f"“{missing[0]}” is no member of the board. Its members are: {listed}.")
    return [known[name] for name in names]
