"""How the recordings of Deck are replayed."""

import json
from typing import Any

from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import BOARDS, JSON, expect


def made(title: str, color: str, *, recorded: int | None = None) -> Step:
    """Create a board; its id stands for the recorded one."""

    async def step(session: Session) -> None:
        body = json.dumps({"title": title, "color": color}).encode()
        board = await _json(session, "POST", BOARDS, body)
        if recorded is not None:
            session.bind(recorded, board["id"])

    return step


def sent(*names: str) -> Step:
    """Send earlier recordings first; what each creates stands for what was created then."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(name)
            body = session.translate(earlier.body.decode()).encode()
            answer = await _json(session, earlier.method, session.translate(earlier.path), body)
            if earlier.method == "POST" and "/ocs/" not in earlier.path:
                session.bind(earlier.json["id"], answer["id"])

    return step


async def _json(session: Session, method: str, path: str, body: bytes) -> Any:  # noqa: ANN401 - JSON is anything
    headers = {**JSON, "OCS-APIRequest": "true"}
    return expect(await session.server.send(method, path, headers=headers, body=body), 200).json()


_WELCOME = made("Welcome to Nextcloud Deck!", "bf678b")
_BOARD = made("Rec board", "ff0000", recorded=2)
_STACK = (_BOARD, sent("deck/stack_create"))
_CARD = (*_STACK, sent("deck/card_create"))
_LABEL = (*_STACK, sent("deck/label_create", "deck/card_create"))
_STALE = (
    *_LABEL,
    sent(
        "deck/card_update", "deck/card_assign_label", "deck/card_update_if_match_stale", "deck/card_reorder"
    ),
)
_STALE_BARE = (*_CARD, sent("deck/card_update"))

_DELETED_TOO = "the boards that earlier tests deleted are listed, too"

DECK: Table = {
    "deck/board_create": case(ignore=("boardId",)),
    "deck/board_create_missing_title": case(),
    "deck/board_delete": case(*_LABEL),
    "deck/board_get": case(_BOARD),
    "deck/board_get_404": case(),
    "deck/board_get_after_delete": case(_BOARD, sent("deck/board_delete")),
    "deck/board_get_forbidden_403": case(_BOARD),
    "deck/boards_if_modified_since": case(ignore=("requestId", "message")),
    "deck/boards_list": case(_WELCOME, sandbox_only=_DELETED_TOO),
    "deck/boards_without_ocs_header": case(_WELCOME, _BOARD, sandbox_only=_DELETED_TOO),
    "deck/card_assign_label": case(*_LABEL),
    "deck/card_assign_user": case(*_CARD),
    "deck/card_assign_user_again_400": case(*_CARD, sent("deck/card_assign_user")),
    "deck/card_create": case(*_STACK),
    "deck/card_create_title_too_long": case(*_STACK),
    "deck/card_delete": case(*_STALE, ignore=("lastEditor",)),
    "deck/card_get": case(*_CARD),
    "deck/card_get_after_delete": case(*_CARD, sent("deck/card_delete")),
    "deck/card_reorder": case(*_STALE_BARE, sent("deck/card_update_if_match_stale"), ignore=("lastEditor",)),
    "deck/card_update": case(*_CARD, ignore=("lastEditor",)),
    "deck/card_update_if_match_stale": case(*_STALE_BARE, ignore=("lastEditor",)),
    "deck/card_update_partial_400": case(*_CARD),
    "deck/comment_create": case(*_CARD, ignore=("creationDateTime", "objectId")),
    "deck/comments_list": case(*_CARD, sent("deck/comment_create"), ignore=("creationDateTime", "objectId")),
    "deck/label_create": case(_BOARD),
    "deck/stack_create": case(_BOARD),
    "deck/stacks_list": case(*_CARD),
}

NOT_REPLAYED = {
    "deck/boards_if_none_match": "its etag was that of another list, which is not among the recordings",
}
