"""How the recordings of Tables are replayed."""

import json
from typing import Any

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.tables.store import TableStore
from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import JSON, expect, in_sandbox

_TIMES = ("createdAt", "lastEditAt")
#: The id of the row is also part of `utf-8`.
_ROW = (*_TIMES, "content-type")
_WELCOME_TABLE = "a table that the app makes for everybody, with views that cannot be made here"


def sent(*names: str) -> Step:
    """Send earlier recordings first; what each creates stands for what was created then."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(name)
            answer = await session.server.send(
                earlier.method,
                session.translate(earlier.path),
                headers={**JSON, "OCS-APIRequest": "true"},
                body=session.translate(earlier.body.decode()).encode(),
            )
            made: dict[str, Any] = expect(answer, 200).json()
            if earlier.method == "POST":
                session.bind(earlier.json["id"], made["id"])

    return step


def _welcome(sandbox: Sandbox) -> None:
    """Create Tables' welcome table in its full size."""
    found = json.loads(load("tables/tables_list").text)[0]
    store = sandbox.state.store(TableStore)
    table = store.add(found["title"], found["emoji"], "alice", found["createdAt"])
    table.views = found["views"]
    for number in range(found["columnsCount"]):
        store.add_column(table, {"title": f"{number}", "type": "text"}, found["createdAt"])
    for _ in range(found["rowsCount"]):
        store.add_row(table, {})


_TABLE = sent("tables/table_create")
_COLUMNS = sent("tables/table_create", "tables/column_create_text", "tables/column_create_number")
_ROWS = (_COLUMNS, sent("tables/row_create"))
_CHANGED = (*_ROWS, sent("tables/row_update"))

TABLES: Table = {
    "tables/column_create_number": case(_TABLE, ignore=_TIMES),
    "tables/column_create_text": case(_TABLE, ignore=_TIMES),
    "tables/columns_list": case(_COLUMNS, ignore=_TIMES),
    "tables/list_without_ocs_header": case(
        in_sandbox(_welcome), *_ROWS, sandbox_only=_WELCOME_TABLE, ignore=(*_ROW, "columnsCount", "views")
    ),
    "tables/row_create": case(_COLUMNS),
    "tables/row_create_out_of_range": case(_COLUMNS),
    "tables/row_create_unknown_column": case(_COLUMNS),
    "tables/row_delete": case(*_CHANGED, ignore=_ROW),
    "tables/row_get": case(*_CHANGED, ignore=_ROW),
    "tables/row_update": case(*_ROWS, ignore=_ROW),
    "tables/rows_list": case(*_ROWS, ignore=_ROW),
    "tables/rows_list_limit": case(*_ROWS, ignore=_ROW),
    "tables/table_create": case(ignore=_TIMES),
    "tables/table_delete": case(*_ROWS, ignore=_ROW),
    "tables/table_get_404": case(),
    "tables/table_get_forbidden": case(_TABLE),
    "tables/tables_list": case(in_sandbox(_welcome), sandbox_only=_WELCOME_TABLE, ignore=_TIMES),
}
