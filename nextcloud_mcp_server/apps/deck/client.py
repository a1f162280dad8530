"""The Deck app (API 1.0): boards, stacks, cards and their comments.

Deck accepts a card only as a whole: a PUT clears the fields it leaves out, including `done`, and ignores If-Match. So
a card is read, compared with the state the client saw, changed, and sent back completely.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Final

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.deck.models import Board, Card, Comment, Stack
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud import file_errors, outcome, state_etag
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.outcome import NEW, Part
from nextcloud_mcp_server.nextcloud.top_k import cut

_BASE: Final = "/index.php/apps/deck/api/v1.0/boards"
_COMMENTS: Final = "/apps/deck/api/v1.0/cards"
#: The position that Deck's own pages send for the end of a stack.
LAST: Final = 999
_SENTENCES: Final = {
    # Deck gives the same answer for missing cards, deleted ones and those of other users.
    403: (
        "Deck does not allow this{reason}: that board, stack or card is not there, was deleted, or the person "
        "may not see or edit it. Call nc_deck_get_board, without and then with a board_id, for the ids there are."
    ),
    500: (
        "Deck refused this without a reason; it does so where the board or the card is archived. Look with "
        "nc_deck_get_board, and unarchive it first."
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """The board, stack and id of a card."""

    board_id: Id
    stack_id: Id
    card_id: Id

    @property
    def path(self) -> str:
        """The path of its route."""
        return f"{_BASE}/{self.board_id}/stacks/{self.stack_id}/cards/{self.card_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a card; None keeps a value. An empty due date removes it; labels are ids."""

    title: str | None = None
    description: str | None = None
    duedate: str | None = None
    done: str | None = None
    labels: Sequence[Id] | None = None
    people: Sequence[str] | None = None
    comment: str | None = None
    archived: bool | None = None

    def of(self, card: Card) -> dict[str, object]:
        """Return the fields of the card itself that these changes set to another value."""
        wanted = {"title": self.title, "description": self.description, "duedate": self.duedate}
        # A card that is done already keeps the time at which it was completed.
        if self.done is not None and bool(self.done) != bool(card.done):
            wanted["done"] = self.done
        return {
            name: value or None if name in ("duedate", "done") else value
            for name, value in wanted.items()
            if value is not None and (value or None) != (getattr(card, name) or None)
        }

    def parts(self, before: Card | None, after: Card) -> list[Part]:
        """List the parts of a card that differ from the requested state; unnamed fields must be unchanged."""
        named = {
            "title": self.title,
            "description": self.description,
            "due": self.duedate and _utc(self.duedate),
            "done": None if self.done is None else bool(self.done),
            "archived": self.archived,
            "labels": None if self.labels is None else sorted(self.labels, key=number),
            "assignees": None if self.people is None else sorted({*self.people}),
        }
        given = {name: value for name, value in named.items() if value is not None}
        now, old = _facts(after), {} if before is None else _facts(before)
        if "done" in given:
            # Deck chooses the time of completion, so it is not compared.
            now, old = ({**one, "done": bool(one["done"])} if one else one for one in (now, old))
        parts = [
            Part(name, given.get(name, old.get(name)), stored, old.get(name, NEW))
            for name, stored in now.items()
            if name in given or name in old
        ]
        if self.comment and before is not None:
            added = self.comment if after.comments > before.comments else None
            parts.append(Part("comment", self.comment, added, None))
        return parts


class DeckClient(AppClient):
    """Reads and writes one user's boards."""

    async def list_boards(self) -> list[Board]:
        """Fetch the boards that the user can see."""
        boards = await self._request("GET", _BASE, list[Board], sentences=_SENTENCES)
        return [board for board in boards if not board.deleted_at]

    async def board(self, board_id: Id) -> Board:
        """Fetch a board with its labels, users and stacks, without cards.

        Raises:
          Forbidden: No such board, or it is not shared with the user.
        """
        return await self._request("GET", f"{_BASE}/{board_id}", Board, sentences=_SENTENCES)

    async def stacks(self, board_id: Id, *, archived: bool = False) -> list[Stack]:
        """Fetch the stacks of a board with their cards, or with the archived cards instead."""
        path = f"{_BASE}/{board_id}/stacks{'/archived' if archived else ''}"
        return await self._request("GET", path, list[Stack], sentences=_SENTENCES)

    async def card(self, place: Place) -> Card:
        """Fetch one card.

        Raises:
          Forbidden: No such card, it was deleted, or the user may not see it.
        """
        return await self._request("GET", place.path, Card, sentences=_SENTENCES)

    async def whole(self, board_id: Id, cards: Sequence[Card]) -> list[Card]:
        """Return the cards with their assigned users; fetches those again that lack them, in parallel.

        Deck leaves the users out for archived cards. Without them there is no etag, which a change needs.
        """
        found = list(cards)
        failed: list[errors.NextcloudError] = []

        async def fetch(at: int, card: Card) -> None:
            try:
                found[at] = await self.card(Place(board_id, card.stack_id, card.id))
            except errors.NextcloudError as error:
                failed.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for at, card in enumerate(cards):
                if not card.people_known:
                    group.start_soon(fetch, at, card)
        if failed:
            raise failed[0]
        return found

    async def comments(self, card_id: Id, *, limit: int, offset: int) -> list[Comment]:
        """Fetch the comments on a card, newest first."""
        path, params = f"{_COMMENTS}/{card_id}/comments", {"limit": limit, "offset": offset}
        found = await self._request_ocs("GET", path, list[Comment], params=params, sentences=_SENTENCES)
        return cut(found, limit).rows

    async def create(self, board_id: Id, stack_id: Id, changes: Changes) -> "Changed":
        """Create a card at the end of a stack, then add labels and users: one request for each.

        Raises:
          InvalidName: Deck rejects the title.
        """
        card = await self._request(
            "POST",
            f"{_BASE}/{board_id}/stacks/{stack_id}/cards",
            Card,
            json={
                "title": changes.title,
                "type": "plain",
                "order": LAST,
                "description": changes.description or "",
                "duedate": changes.duedate or None,
            },
            sentences=_SENTENCES,
        )
        place = Place(board_id, card.stack_id, card.id)
        steps = self._marks(place, card, changes)
        if steps:
            await _all([(made := f"the card {card.id} was made", None), *steps])
            card = await self._after([made, *(sentence for sentence, _ in steps)], place)
        return Changed(card, outcome.compare("Deck", changes.parts(None, card)))

    async def update(self, place: Place, changes: Changes, *, if_match: str) -> "Changed":
        """Change a card and keep its other fields: one request to read, one per part, one to read again.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
          ServerFault: Deck accepted the request but stored nothing.
        """
        card, place = await self._current(place, if_match)
        steps: list[_Step] = []
        if changes.archived is False and card.archived:
            steps.append(("the card was unarchived", partial(self._put, f"{place.path}/unarchive")))
        if fields := changes.of(card):
            steps.append(("its fields were changed", partial(self._put, place.path, _whole(card, fields))))
        steps += self._marks(place, card, changes)
        if changes.comment:
            steps.append(("the comment was added", partial(self._comment, card.id, changes.comment)))
        if changes.archived and not card.archived:
            steps.append(("the card was archived", partial(self._put, f"{place.path}/archive")))
        if not steps:
            return Changed(card, None)
        await _all(steps)
        after = await self._after([sentence for sentence, _ in steps], place)
        return Changed(after, outcome.compare("Deck", changes.parts(card, after)))

    async def move(self, place: Place, stack_id: Id, *, position: int, if_match: str) -> Card:
        """Move a card to a position in a stack of its board; two requests.

        Deck's route has a stack in its URL and another in its body; which one it uses depends on when the body was
        read. So both name the target.

        Raises:
          EtagMismatch: It was changed since it was read; it did not move.
          ServerFault: Deck accepted the request but did not move the card.
        """
        card, _ = await self._current(place, if_match)
        target = Place(place.board_id, stack_id, card.id)
        sent = {"stackId": number(stack_id), "order": position}
        cards = await self._request(
            "PUT", f"{target.path}/reorder", list[Card], json=sent, sentences=_SENTENCES
        )
        moved = next((one for one in cards if one.id == card.id), None)
        if moved is None or moved.stack_id != stack_id:
            raise errors.ServerFault("Deck took the move, but the card did not arrive. Read it again.")
        # The response has neither labels nor users. A stack may set or clear `done` (Deck 1.18).
        return card.model_copy(update={"stack_id": stack_id, "order": moved.order, "done": moved.done})

    async def delete(self, place: Place, *, if_match: str) -> Card:
        """Delete a card, which Deck keeps for a while; two requests.

        Raises:
          EtagMismatch: It was changed since it was read; it still exists.
        """
        card, place = await self._current(place, if_match)
        await self._http.request("DELETE", place.path, sentences=_SENTENCES)
        return card

    async def _after(self, done: Sequence[str], place: Place) -> Card:
        """Fetch a card after a change; an error says that the change was made all the same."""
        try:
            return await self.card(place)
        except errors.NextcloudError as error:
            raise type(error)(
                f"It is all done, so do not repeat it: {', '.join(done)}. Only reading the card again failed: "
                f"do that with nc_deck_get_card. {error}"
            ) from None

    async def _current(self, place: Place, if_match: str) -> tuple[Card, Place]:
        """Fetch a card and its current place, and check that its etag is still `if_match`."""
        card = await self.card(place)
        state_etag.require(if_match, card.etag)
        # A PUT moves a card to the stack in its URL.
        return card, Place(place.board_id, card.stack_id, card.id)

    def _marks(self, place: Place, card: Card, changes: Changes) -> "list[_Step]":
        """List the steps that add and remove labels and users."""
        steps: list[_Step] = []
        labels, here = {label.id for label in card.labels}, card.people
        for label in () if changes.labels is None else sorted({*changes.labels} ^ labels, key=number):
            done, route = ("removed", "removeLabel") if label in labels else ("added", "assignLabel")
            steps.append(
                (
                    f"label {label} was {done}",
                    partial(self._put, f"{place.path}/{route}", {"labelId": number(label)}),
                )
            )
        for uid in () if changes.people is None else sorted({*changes.people} ^ {*here}):
            done, route = ("unassigned", "unassignUser") if uid in here else ("assigned", "assignUser")
            steps.append((f"{uid} was {done}", partial(self._put, f"{place.path}/{route}", {"userId": uid})))
        return steps

    async def _put(self, path: str, body: dict[str, object] | None = None) -> None:
        await self._http.request("PUT", path, json=body or {}, sentences=_SENTENCES)

    async def _comment(self, card_id: Id, text: str) -> None:
        await self._http.request(
            "POST",
            f"/ocs/v2.php{_COMMENTS}/{card_id}/comments",
            params={"format": "json"},
            json={"message": text},
            sentences=_SENTENCES,
        )


@dataclass(frozen=True, slots=True)
class Changed:
    """A card after a change; `note` says where Deck stored other values than those sent."""

    card: Card
    note: str | None


#: What is true afterwards, and the request that achieves it.
_Step = tuple[str, Callable[[], Awaitable[None]] | None]


def _whole(card: Card, fields: dict[str, object]) -> dict[str, object]:
    """Return the body of a PUT: the fields, and all others that Deck would clear.

    `archived` is left out: Deck then keeps it, and rejects a value that is already set.
    """
    kept: dict[str, object] = {
        "title": card.title,
        "type": card.type,
        "owner": card.owner.uid,
        "description": card.description,
        "order": card.order,
        "duedate": card.duedate,
        "done": card.done,
    }
    newer = {name: getattr(card, name) for name in ("startdate", "color") if name in card.model_fields_set}
    return {**kept, **newer, **fields}


async def _all(steps: "Sequence[_Step]") -> None:
    """Run the steps one after the other; an error says which of them are done."""
    done: list[str] = []
    for sentence, step in steps:
        try:
            if step is not None:
                await step()
        except errors.NextcloudError as error:
            if not done:
                raise
            raise type(error)(
                f"Only a part was done: {', '.join(done)}. Then one more step failed "
                f"(“{sentence}” is not so{file_errors.perhaps(error)}). {error}"
            ) from None
        done.append(sentence)


def _facts(card: Card) -> dict[str, object]:
    """Return what a change may set or must keep, under the names that the tools use."""
    newer = {name: getattr(card, name) for name in ("startdate", "color") if name in card.model_fields_set}
    return {
        "title": card.title,
        "description": card.description,
        "due": card.duedate and _utc(card.duedate),
        "done": card.done and _utc(card.done),
        "archived": card.archived,
        "labels": sorted((label.id for label in card.labels), key=number),
        "assignees": sorted(card.people),
        **newer,
    }


def _utc(text: str) -> str:
    """Return a time in one form, so that two spellings of it are equal."""
    try:
        at = timestamp.read(text)
    except ValueError:
        return text
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
