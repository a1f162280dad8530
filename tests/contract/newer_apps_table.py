"""How the recordings of newer apps are replayed: Notes 6.0.2, Tables 2.2.2, Deck 1.19.0-beta.1.

They were recorded on 32.0.1, so only the responses of the app itself are compared.
"""

import json
from typing import Any

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckStore
from nextcloud_mcp_server.sandbox.profile import ProfileName
from tests.contract.recording import load
from tests.contract.replay import Case, Session, Step, Table, case
from tests.contract.steps import JSON, NOTES, expect, in_sandbox

_FOLDER = "newer_apps/"
_NO_REQUEST_SETS_IT = "no request of the API makes a stack the one for what is done"
_TIMES = ("createdAt", "lastEditAt", "uuid", "technicalName")
#: Keys and times that vary, and the id of a row, which may be part of other values.
_ROW = (*_TIMES, "dataByAlias", "content-type")


def sent(*names: str) -> Step:
    """Send earlier recordings first; what each creates stands for what was created then."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(f"{_FOLDER}{name}")
            answer = await session.server.send(
                earlier.method,
                session.translate(earlier.path),
                headers={**JSON, "OCS-APIRequest": "true"},
                body=session.translate(earlier.body.decode()).encode(),
            )
            made: dict[str, Any] = expect(answer, 200).json()
            if earlier.method == "POST":
                session.bind(earlier.json["id"], made["id"])
                for old, new in zip(earlier.json.get("labels", ()), made.get("labels", ()), strict=True):
                    session.bind(old["id"], new["id"])

    return step


def _done_column(sandbox: Sandbox) -> None:
    stacks = sandbox.state.store(DeckStore).stacks.values()
    next(stack for stack in stacks if stack.title == "Done").is_done_column = True


async def _note(session: Session) -> None:
    """Create the recorded note, at the recorded time."""
    made = load(f"{_FOLDER}notes6_get").json
    body = json.dumps({key: made[key] for key in ("title", "content", "category", "modified")}).encode()
    answer = expect(await session.server.send("POST", NOTES, headers=JSON, body=body), 200).json()
    session.bind(made["id"], answer["id"])


def _newer(*steps: Step, ignore: tuple[str, ...] = (), sandbox_only: str | None = None) -> Case:
    # The recordings have no cookies.
    return case(*steps, ignore=("set-cookie", "vary", *ignore), sandbox_only=sandbox_only)


_BOARD = (
    sent("deck19_board_create", "deck19_stack_create_0", "deck19_stack_create_1"),
    in_sandbox(_done_column),
)
_CARD = (*_BOARD, sent("deck19_card_create"))
_LABELLED = (*_CARD, sent("deck19_card_assign_label"))
_BARE = (*_LABELLED, sent("deck19_card_put_without_startdate_and_color"))
_COLORED = (*_BARE, sent("deck19_card_put_with_startdate_and_color"))
_TABLE = sent("tables2_table_create")
_COLUMN = sent("tables2_table_create", "tables2_column_create")
_ROWS = sent("tables2_table_create", "tables2_column_create", "tables2_row_create")

_NOTES_AND_TABLES: Table = {
    "notes6_attachment_404": _newer(_note),
    "notes6_create": _newer(),
    "notes6_delete": _newer(_note),
    "notes6_delete_404": _newer(),
    "notes6_get": _newer(_note),
    "notes6_get_404": _newer(),
    "notes6_list": _newer(_note),
    "notes6_put_404": _newer(),
    "tables2_column_create": _newer(_TABLE, ignore=_TIMES),
    "tables2_columns_list": _newer(_COLUMN, ignore=_TIMES),
    "tables2_row_create": _newer(_COLUMN, ignore=_ROW),
    "tables2_row_delete": _newer(_ROWS, sent("tables2_row_update"), ignore=_ROW),
    "tables2_row_update": _newer(_ROWS, ignore=_ROW),
    "tables2_rows_list": _newer(_ROWS, ignore=_ROW),
    "tables2_table_create": _newer(ignore=_TIMES),
    "tables2_table_create_empty_title": _newer(),
    "tables2_table_delete": _newer(_TABLE, ignore=_TIMES),
    "tables2_table_get": _newer(_ROWS, ignore=_TIMES),
    "tables2_table_get_404": _newer(),
    "tables2_tables_list": _newer(_ROWS, ignore=_TIMES),
}
_DECK: Table = {
    "deck19_board_create": _newer(ignore=("boardId",)),
    "deck19_board_delete": _newer(*_COLORED, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_board_get": _newer(*_BOARD, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_assign_label": _newer(*_CARD, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_create": _newer(*_BOARD, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_get": _newer(
        *_COLORED,
        sent("deck19_card_reorder_into_done_column"),
        sandbox_only=_NO_REQUEST_SETS_IT,
        ignore=("done",),
    ),
    "deck19_card_get_404": _newer(*_BOARD, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_put_missing_type": _newer(
        *_CARD, ignore=("requestId", "message"), sandbox_only=_NO_REQUEST_SETS_IT
    ),
    "deck19_card_put_with_startdate_and_color": _newer(*_BARE, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_put_without_startdate_and_color": _newer(*_LABELLED, sandbox_only=_NO_REQUEST_SETS_IT),
    "deck19_card_reorder_into_done_column": _newer(
        *_COLORED, sandbox_only=_NO_REQUEST_SETS_IT, ignore=("done",)
    ),
    "deck19_card_reorder_out_of_done_column": _newer(
        *_COLORED, sent("deck19_card_reorder_into_done_column"), sandbox_only=_NO_REQUEST_SETS_IT
    ),
    "deck19_stack_create_0": _newer(sent("deck19_board_create")),
    "deck19_stack_create_1": _newer(sent("deck19_board_create")),
    "deck19_stacks_list": _newer(
        *_COLORED,
        sent("deck19_card_reorder_into_done_column"),
        sandbox_only=_NO_REQUEST_SETS_IT,
        ignore=("done",),
    ),
}

NEWER_APPS: Table = {f"{_FOLDER}{name}": one for name, one in (_NOTES_AND_TABLES | _DECK).items()}


def profiles_of(name: str) -> tuple[ProfileName, ...]:
    """Return the profiles that must answer like a recording; all others were recorded from 32."""
    if not name.startswith(_FOLDER):
        return ("32",)
    return ("35",) if "/deck19" in name else ("33", "34", "35")
