"""Declares the app tables of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.tables.api import TablesApi
from nextcloud_mcp_server.sandbox.apps.tables.store import TableStore
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State, User

_PLACES = [{"id": 1, "label": "Office"}, {"id": 2, "label": "Cellar"}]
_INVENTORY_COLUMNS = (
    {"title": "Item", "type": "text", "subtype": "line", "mandatory": True},
    {"title": "Count", "type": "number", "numberMin": 0, "numberMax": 100},
    {"title": "Place", "type": "selection", "selectionOptions": _PLACES},
    {"title": "Checked", "type": "selection", "subtype": "check"},
)
_INVENTORY = (("Chairs", 12, "1", "true"), ("Lamps", 7, "1", "false"), ("Boxes", 40, "2", "false"))


def _capability(context: Context, _user: User) -> dict[str, object]:
    return {"enabled": True, "version": context.profile.tables, "apiVersions": ["1.0", "2.0", "2.1"]}


def _add_table(state: State) -> None:
    """Let alice list what the office has."""
    now = f"{state.clock():%Y-%m-%d %H:%M:%S}"
    table = state.store(TableStore).add("Inventory", "📦", "alice", now)
    name, count, place, checked = (
        state.store(TableStore).add_column(table, fields, now).id for fields in _INVENTORY_COLUMNS
    )
    for item, number, where, done in _INVENTORY:
        state.store(TableStore).add_row(table, {name: item, count: number, place: where, checked: done})


app = SandboxApp("tables", api=TablesApi, capability=_capability, menu=("Tables", 100), seed=_add_table)
