"""The Deck API 1.0, and its comments under OCS.

Recorded from Deck 1.16.7 and 1.19.0-beta.1. The removal of labels and people from a card, archiving and the archived
cards follow its source.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.deck.responses import DeckWriter, Fields, etag, label_json
from nextcloud_mcp_server.sandbox.apps.deck.store import (
    DeckBoard,
    DeckCard,
    DeckComment,
    DeckLabel,
    DeckStack,
    DeckStore,
)
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.handlers import Handlers
from nextcloud_mcp_server.sandbox.identity import Gate, Identity, Refusal, refuse_json, refuse_ocs
from nextcloud_mcp_server.sandbox.reply import NO_CACHE, empty_html, json_reply, ocs_reply

_METHODS = ["GET", "POST", "PUT", "DELETE"]
_LABELS = (("Finished", "31CC7C"), ("To review", "317CCC"), ("Action needed", "FF7A66"), ("Later", "F1DB50"))
_LONGEST_TITLE = 255
_BOARD = r"boards/(?P<board>\d+)"
_STACK = rf"{_BOARD}/stacks/(?P<stack>\d+)"
_CARD = rf"{_STACK}/cards/(?P<card>\d+)"
_NO_CARD = "Operation not allowed. This card is archived."
_BROKEN = (
    "Internal server error: Please contact the server administrator if this error reappears multiple times, "
    'please include the request ID "sandbox" below in your report.'
)


class DeckFault(Exception):
    """An error of Deck: a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Asked:
    """The user of a request, its fields, and the ids in its path; missing ids are 0."""

    uid: str
    body: Fields
    board: int = 0
    stack: int = 0
    card: int = 0
    verb: str = ""


class DeckApi:
    """Answers below /apps/deck/api and /ocs/v2.php/apps/deck/api."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self._newer = context.profile.done_column
        self._write = DeckWriter(context.state, newer=self._newer)
        self._handlers = Handlers[Callable[[Asked], object]](
            (
                ("GET", "boards", self._boards),
                ("POST", "boards", self._make_board),
                ("GET", _BOARD, self._get_board),
                ("DELETE", _BOARD, self._delete_board),
                ("POST", rf"{_BOARD}/labels", self._make_label),
                ("GET", rf"{_BOARD}/stacks", self._stacks),
                ("GET", rf"{_BOARD}/stacks/archived", self._archived),
                ("POST", rf"{_BOARD}/stacks", self._make_stack),
                ("POST", rf"{_STACK}/cards", self._make_card),
                ("GET", _CARD, self._get_card),
                ("PUT", _CARD, self._update_card),
                ("DELETE", _CARD, self._delete_card),
                ("PUT", rf"{_CARD}/reorder", self._reorder),
                ("PUT", rf"{_CARD}/(?P<verb>archive|unarchive)", self._archive),
                ("PUT", rf"{_CARD}/(?P<verb>assign|remove)Label", self._mark),
                ("PUT", rf"{_CARD}/(?P<verb>assign|unassign)User", self._assign),
            )
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        comments = "/ocs/v{version:int}.php/apps/deck/api/v1.0/cards/{card:int}/comments"
        return [
            Route("/apps/deck/api/v1.0/{path:path}", self._answer, methods=_METHODS),
            Route(comments, self._answer_comments, methods=["GET", "POST"]),
        ]

    @property
    def _store(self) -> DeckStore:
        return self._context.state.store(DeckStore)

    @property
    def _now(self) -> int:
        return int(self._context.clock().timestamp())

    @property
    def _moment(self) -> str:
        return self._context.clock().astimezone(UTC).isoformat(timespec="seconds")

    async def _answer(self, request: Request) -> Response:
        entry = self._handlers.find(request)
        if entry is None:
            return empty_html(405)
        handler, match = entry
        # What holds for the Notes API without the OCS header holds for this one.
        found = self._gate.identify(request, "notes")
        if isinstance(found, Refusal):
            return refuse_json(found)
        uid = found.user.uid
        try:
            body = cast("Fields", json.loads(await request.body() or b"{}"))
            if not self._newer:
                _refuse_future(request, self._now)
            parts = match.groupdict()
            numbers = {name: int(part) for name, part in parts.items() if name != "verb"}
            value = handler(Asked(uid, body, verb=parts.get("verb", ""), **numbers))
            response = json_reply(value, headers=_tag(request, value))
        except DeckFault as fault:
            reply: Fields = {"status": fault.status, "message": fault.message}
            response = json_reply(
                reply | ({"requestId": "sandbox"} if fault.message == _BROKEN else {}), status=fault.status
            )
        if request.headers.get("If-None-Match", "-") == response.headers.get("ETag"):
            response = Response(status_code=304, headers={**NO_CACHE, "ETag": response.headers["ETag"]})
        response.headers["X-User-Id"] = uid
        return response

    async def _answer_comments(self, request: Request) -> Response:
        found = self._gate.identify(request, "ocs")
        if isinstance(found, Refusal):
            return refuse_ocs(request, found)
        try:
            value = await self._comments(request, found)
            response = ocs_reply(request, value)
        except DeckFault as fault:
            response = ocs_reply(request, code=fault.status, message=fault.message)
        response.headers["X-User-Id"] = found.user.uid
        return response

    async def _comments(self, request: Request, found: Identity) -> object:
        card = self._card(found.user.uid, request.path_params["card"])
        if request.method == "POST":
            text = str(json.loads(await request.body())["message"])
            card.comments.append(DeckComment(next(self._store.ids), found.user.uid, text, self._moment))
            return self._write.comment(card, card.comments[-1])
        offset, limit = (
            int(request.query_params.get(name, default)) for name, default in (("offset", 0), ("limit", 20))
        )
        return [self._write.comment(card, one) for one in card.comments[::-1][offset : offset + limit]]

    # Boards

    def _boards(self, asked: Asked) -> object:
        boards = [board for board in self._store.boards.values() if board.lists(asked.uid)]
        brief: Fields = {"labels": [], "users": [], "shared": 0, "stacks": [], "settings": []}
        return [self._write.board(board) | brief for board in boards]

    def _make_board(self, asked: Asked) -> object:
        _require(asked.body, "title", "color")
        made = DeckBoard(next(self._store.ids), asked.body["title"], asked.uid, asked.body["color"], 0)
        labelled_at = self._now if self._newer else None
        made.labels = [
            DeckLabel(next(self._store.ids), title, color, labelled_at) for title, color in _LABELS
        ]
        self._store.boards[made.id] = made
        bare: Fields = {"users": [], "settings": []}
        answer = self._write.board(made) | bare
        made.changed_at = self._now
        for label in made.labels:
            label.changed_at = labelled_at or 0
        return answer

    def _get_board(self, asked: Asked) -> object:
        return self._write.board(self._board(asked.uid, asked.board))

    def _delete_board(self, asked: Asked) -> object:
        board = self._board(asked.uid, asked.board)
        board.deleted_at = self._now
        return self._write.board(board)

    def _make_label(self, asked: Asked) -> object:
        board = self._board(asked.uid, asked.board)
        _require(asked.body, "title", "color")
        made_at = self._now if self._newer else None
        made = DeckLabel(next(self._store.ids), asked.body["title"], asked.body["color"], made_at)
        board.labels.append(made)
        answer = label_json(made, board, None)
        made.changed_at = made_at or 0
        return answer

    # Stacks

    def _stacks(self, asked: Asked, *, archived: bool = False) -> object:
        stacks = self._store.stacks_of(self._board(asked.uid, asked.board).id)
        return [self._write.stack(stack, archived=archived) for stack in stacks]

    def _archived(self, asked: Asked) -> object:
        return self._stacks(asked, archived=True)

    def _make_stack(self, asked: Asked) -> object:
        board = self._board(asked.uid, asked.board)
        _require(asked.body, "title")
        made = DeckStack(next(self._store.ids), asked.body["title"], board.id, int(asked.body["order"]))
        self._store.stacks[made.id] = made
        answer = self._write.stack_head(made)
        made.changed_at = board.changed_at = self._now
        return answer

    # Cards

    def _make_card(self, asked: Asked) -> object:
        stack = self._stack(asked.uid, asked.stack)
        _require(asked.body, "title")
        made = DeckCard(
            id=next(self._store.ids),
            title=asked.body["title"],
            stack_id=stack.id,
            type=asked.body.get("type", "plain"),
            owner=asked.uid,
            order=int(asked.body.get("order", 999)),
            description=asked.body.get("description", ""),
            duedate=_clock_of(asked.body.get("duedate")),
            color=asked.body.get("color"),
            startdate=_clock_of(asked.body.get("startdate")),
            created_at=self._now,
            changed_at=self._now,
        )
        self._store.cards[made.id] = made
        self._store.touch(made, self._now)
        # The answer to a write shows the time as it was sent; the next reading shows what is stored.
        return self._write.card(made) | {"duedate": asked.body.get("duedate")}

    def _get_card(self, asked: Asked) -> object:
        looked_up: Fields = {"attachments": []}
        return self._write.card(self._card(asked.uid, asked.card)) | looked_up

    def _update_card(self, asked: Asked) -> object:
        """Replace the whole card: missing fields are cleared, and If-Match is ignored."""
        if self._newer and None in (asked.body.get("title"), asked.body.get("type")):
            raise DeckFault(500, _BROKEN)
        _require(asked.body, "title", "type", "owner")
        card = self._card(asked.uid, asked.card)
        # The stack in the address is where the card goes.
        card.stack_id = self._stack(asked.uid, asked.stack).id
        if card.before is None:
            card.before = card.description
        card.title, card.type, card.editor = asked.body["title"], asked.body["type"], asked.uid
        card.description, card.order = asked.body.get("description", ""), int(asked.body.get("order", 0))
        card.duedate, card.done = (_clock_of(asked.body.get(name)) for name in ("duedate", "done"))
        card.startdate = _clock_of(asked.body.get("startdate"))
        if "color" in asked.body or not self._context.profile.keeps_colors:
            card.color = asked.body.get("color")
        if asked.body.get("archived") is not None:
            card.archived = bool(asked.body["archived"])
        self._store.touch(card, self._now)
        return self._write.card(card) | {name: asked.body.get(name) for name in ("duedate", "done")}

    def _delete_card(self, asked: Asked) -> object:
        card = self._card(asked.uid, asked.card)
        self._store.touch(card, self._now)
        card.deleted_at = self._now
        return self._write.raw(card) | {
            "labels": self._write.labels(card),
            "owner": self._write.person(card.owner),
        }

    def _reorder(self, asked: Asked) -> object:
        """Move a card; the stack in the path wins over the one in the body."""
        card = self._changeable(asked.uid, asked.card)
        before, stack = self._store.stacks[card.stack_id], self._stack(asked.uid, asked.stack)
        card.stack_id, order = stack.id, int(asked.body["order"])
        if before is not stack and stack.is_done_column:
            card.done = self._moment
        elif before is not stack and before.is_done_column:
            card.done = None
        others = [one for one in self._store.cards_of(card.stack_id) if one is not card]
        for index, other in enumerate(others):
            other.order = index + (index >= order)
            other.changed_at = self._now
        card.order = order
        self._store.touch(card, self._now)
        return [self._write.raw(one) for one in self._store.cards_of(card.stack_id)]

    def _archive(self, asked: Asked) -> object:
        card = self._card(asked.uid, asked.card)
        card.archived = asked.verb == "archive"
        self._store.touch(card, self._now)
        return self._write.raw(card)

    def _mark(self, asked: Asked) -> object:
        card, label = self._changeable(asked.uid, asked.card), int(asked.body["labelId"])
        if label not in {one.id for one in self._store.board_of(card).labels}:
            _deny("Permission denied")
        before = self._write.labels(card)
        card.labels = [one for one in card.labels if one != label] + (
            [label] if asked.verb == "assign" else []
        )
        self._store.touch(card, self._now)
        if not self._newer:
            return None
        # As it was before, and with its owner looked up (recorded for assigning alone).
        return self._write.raw(card) | {"labels": before, "owner": self._write.person(card.owner)}

    def _assign(self, asked: Asked) -> object:
        card, person = self._card(asked.uid, asked.card), str(asked.body["userId"])
        if asked.verb == "unassign":
            if person not in card.assigned:
                raise DeckFault(404, f"No assignment for {person}found.")
            return self._write.assignment(card, person, card.assigned.pop(person))
        if person in card.assigned:
            raise DeckFault(400, "The user is already assigned to the card")
        board_of = self._store.board_of(card)
        if person not in (board_of.owner, *board_of.people):
            raise DeckFault(400, "The user is not part of the board")
        card.assigned[person] = next(self._store.ids)
        self._store.touch(card, self._now)
        return self._write.assignment(card, person, card.assigned[person])

    # What a person may see

    def _board(self, uid: str, board_id: int) -> DeckBoard:
        board = self._store.boards.get(board_id)
        if board is None or not board.admits(uid):
            _deny("Permission denied")
        return board

    def _stack(self, uid: str, stack_id: int) -> DeckStack:
        stack = self._store.stacks.get(stack_id)
        if stack is None:
            _deny("Permission denied")
        if self._board(uid, stack.board_id).archived:
            raise DeckFault(500, "Operation not allowed. This board is archived.")
        return stack

    def _card(self, uid: str, card_id: int) -> DeckCard:
        card = self._store.cards.get(card_id)
        if card is None:
            _deny("Permission denied")
        self._board(uid, self._store.stacks[card.stack_id].board_id)
        if card.deleted_at:
            _deny("Card is deleted")
        return card

    def _changeable(self, uid: str, card_id: int) -> DeckCard:
        card = self._card(uid, card_id)
        if card.archived:
            raise DeckFault(500, _NO_CARD)
        return card


def _clock_of(text: str | None) -> str | None:
    """Return a time as Deck stores it: its clock time, without the offset (nextcloud/deck#4764)."""
    return text and datetime.fromisoformat(text).replace(tzinfo=UTC).isoformat(timespec="seconds")


def _tag(request: Request, value: object) -> dict[str, str]:
    """Return the header that the list of boards, one board and one card have."""
    if request.method != "GET" or request.path_params["path"].endswith(("stacks", "archived")):
        return {}
    found = value["ETag"] if isinstance(value, dict) else etag(json.dumps(value))  # pyright: ignore[reportUnknownVariableType]
    return {"ETag": f'"{found}"'}


def _refuse_future(request: Request, now: int) -> None:
    since = request.headers.get("If-Modified-Since")
    if since is not None and parsedate_to_datetime(since).timestamp() > now:
        raise DeckFault(500, _BROKEN)


def _require(body: Fields, *names: str) -> None:
    for name in names:
        if body.get(name) in (None, ""):
            raise DeckFault(400, f"{name} must be provided and must be not empty")
    if len(str(body["title"])) > _LONGEST_TITLE:
        raise DeckFault(400, f"title cannot be longer than {_LONGEST_TITLE} characters ")


def _deny(message: str) -> NoReturn:
    raise DeckFault(403, message)
