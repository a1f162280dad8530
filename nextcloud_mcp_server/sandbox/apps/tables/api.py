"""The API 1 of the Tables app, recorded from the versions 1.0.9 and 2.2.2."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.tables.store import StoredColumn, StoredRow, StoredTable, TableStore
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.handlers import Handlers
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.reply import HTML_TYPE, NO_CACHE, empty_html, json_reply

_METHODS = ["GET", "POST", "PUT", "DELETE"]
_TABLE = r"tables/(?P<table>\d+)"
_ROW = r"rows/(?P<row>\d+)"
#: The fields of a column that a client did not set, at its creation and later.
_UNSET: dict[str, tuple[object, object]] = {
    "numberDefault": (None, None), "numberMin": (None, None), "numberMax": (None, None),
    "numberDecimals": (None, 0), "numberPrefix": ("", ""), "numberSuffix": ("", ""), "textDefault": (None, None),
    "textAllowedPattern": (None, None), "textMaxLength": (None, None), "textUnique": (None, False),
    "selectionOptions": ([], []), "selectionDefault": ("", ""), "datetimeDefault": ("", ""),
    "usergroupDefault": ([], []), "usergroupMultipleItems": (None, False), "usergroupSelectUsers": (None, False),
    "usergroupSelectGroups": (None, False), "usergroupSelectTeams": (None, False), "showUserStatus": (None, False),
    "customSettings": ({}, {}),
}  # fmt: skip

_NO_SHARE = {"read": True, "create": False, "update": False, "delete": False, "manage": False}

Fields = dict[str, Any]


class TablesFault(Exception):
    """An error of the app: a status, and a message if it sends one."""

    def __init__(self, status: int, message: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Asked:
    """The user of a request, its fields, and the ids in its path; missing ids are 0."""

    uid: str
    body: Fields
    query: QueryParams
    table: int = 0
    row: int = 0


class TablesApi:
    """Answers below /apps/tables/api/1."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self._handlers = Handlers[Callable[[Asked], object]](
            (
                ("GET", "tables", self._list),
                ("POST", "tables", self._make),
                ("GET", _TABLE, self._get),
                ("DELETE", _TABLE, self._delete),
                ("GET", rf"{_TABLE}/columns", self._columns),
                ("POST", rf"{_TABLE}/columns", self._make_column),
                ("GET", rf"{_TABLE}/rows", self._rows),
                ("POST", rf"{_TABLE}/rows", self._make_row),
                ("GET", _ROW, self._get_row),
                ("PUT", _ROW, self._change_row),
                ("DELETE", _ROW, self._delete_row),
            )
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/apps/tables/api/1/{path:path}", self._answer, methods=_METHODS)]

    @property
    def _store(self) -> TableStore:
        return self._context.state.store(TableStore)

    @property
    def _newer(self) -> bool:
        return self._context.profile.newer_tables

    @property
    def _now(self) -> str:
        return f"{self._context.clock():%Y-%m-%d %H:%M:%S}"

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
            numbers = {name: int(part) for name, part in match.groupdict().items()}
            response = json_reply(handler(Asked(uid, body, request.query_params, **numbers)))
        except TablesFault as fault:
            if fault.message is None:
                response = Response(b"", fault.status, {**NO_CACHE, "Content-Type": HTML_TYPE})
            else:
                response = json_reply({"message": fault.message}, status=fault.status)
        response.headers["X-User-Id"] = uid
        return response

    # Tables and columns

    def _list(self, asked: Asked) -> object:
        return [self._table_json(table) for table in self._store.tables.values() if table.owner == asked.uid]

    def _make(self, asked: Asked) -> object:
        if self._newer and not str(asked.body["title"]).strip():
            raise TablesFault(400, "Title is missing.")
        made = self._store.add(asked.body["title"], asked.body.get("emoji", ""), asked.uid, self._now)
        return self._table_json(made)

    def _get(self, asked: Asked) -> object:
        return self._table_json(self._table(asked))

    def _delete(self, asked: Asked) -> object:
        table = self._table(asked)
        table.rows, table.columns = {}, {}
        del self._store.tables[table.id]
        return self._table_json(table) | {"ownerDisplayName": "", "onSharePermissions": None}

    def _columns(self, asked: Asked) -> object:
        table = self._table(asked)
        return [self._column_json(table, column, made=False) for column in table.columns.values()]

    def _make_column(self, asked: Asked) -> object:
        table = self._table(asked)
        return self._column_json(table, self._store.add_column(table, asked.body, self._now), made=True)

    # Rows

    def _rows(self, asked: Asked) -> object:
        table = self._table(asked)
        offset = int(asked.query.get("offset", 0))
        limit = int(asked.query.get("limit", len(table.rows)))
        return [self._row_json(table, row) for row in list(table.rows.values())[offset : offset + limit]]

    def _make_row(self, asked: Asked) -> object:
        table = self._table(asked)
        made = self._store.add_row(table, _read(table, asked.body["data"]))
        # Tables answers with a row that does not have its author and times yet.
        return self._row_json(table, made, fresh=True) | dict.fromkeys(
            ("createdBy", "createdAt", "lastEditBy", "lastEditAt")
        )

    def _get_row(self, asked: Asked) -> object:
        return self._row_json(*self._row(asked))

    def _change_row(self, asked: Asked) -> object:
        table, row = self._row(asked)
        row.values |= _read(table, asked.body["data"])
        return self._row_json(table, row, fresh=True)

    def _delete_row(self, asked: Asked) -> object:
        table, row = self._row(asked)
        del table.rows[row.id]
        return self._row_json(table, row)

    # What a person may see

    def _table(self, asked: Asked) -> StoredTable:
        table = self._store.tables.get(asked.table)
        if table is None or table.owner != asked.uid:
            raise TablesFault(404)
        return table

    def _row(self, asked: Asked) -> tuple[StoredTable, StoredRow]:
        for table in self._store.tables.values():
            if table.owner == asked.uid and asked.row in table.rows:
                return table, table.rows[asked.row]
        raise TablesFault(404, "Row not found.")

    # How it is written

    def _name(self, uid: str) -> str:
        return self._context.state.users[uid].display_name

    def _table_json(self, table: StoredTable) -> Fields:
        return {
            "id": table.id,
            "title": table.title,
            "emoji": table.emoji,
            "ownership": table.owner,
            "ownerDisplayName": self._name(table.owner),
            "createdBy": table.owner,
            "createdAt": table.made_at,
            "lastEditBy": table.owner,
            "lastEditAt": table.made_at,
            "archived": False,
            "isShared": False,
            "favorite": False,
            # Of one's own table it says nothing, and Tables 2 does not say so (TableService::setIsSharedState).
            "onSharePermissions": dict(_NO_SHARE) if self._newer else None,
            "hasShares": False,
            "rowsCount": len(table.rows),
            "columnsCount": len(table.columns),
            "views": table.views,
            "description": "",
            **({"columnOrder": [], "sort": []} if self._newer else {}),
        }

    def _column_json(self, table: StoredTable, column: StoredColumn, *, made: bool) -> Fields:
        fields = column.fields
        name = self._name(table.owner)
        technical = _technical_name(column.id)
        newer = {"uuid": str(column.uuid), "technicalName": technical, "selectionDefault": "null"}
        return {
            "id": column.id,
            "tableId": table.id,
            "title": fields["title"],
            "createdBy": table.owner,
            "createdByDisplayName": name,
            "createdAt": column.made_at,
            "lastEditBy": table.owner,
            "lastEditByDisplayName": name,
            "lastEditAt": column.made_at,
            "viewColumnInformation": None,
            "type": fields["type"],
            "subtype": fields.get("subtype", ""),
            "mandatory": fields.get("mandatory", False),
            "description": fields.get("description", ""),
            **{key: unset[0 if made else 1] for key, unset in _UNSET.items()},
            **(newer if self._newer else {}),
            **{key: fields[key] for key in _UNSET if key in fields},
        }

    def _row_json(self, table: StoredTable, row: StoredRow, *, fresh: bool = False) -> Fields:
        """Write a row; the answer to a write has the values as they were sent (`Row2Mapper::insert`)."""
        data = [
            {"columnId": column, "value": value if fresh else table.columns[column].read(value)}
            for column, value in row.values.items()
        ]
        by_alias = {_technical_name(cell["columnId"]): cell for cell in data}
        return {
            "id": row.id,
            "tableId": table.id,
            "createdBy": table.owner,
            "createdAt": table.made_at,
            "lastEditBy": table.owner,
            "lastEditAt": table.made_at,
            "data": data,
            **({"dataByAlias": by_alias} if self._newer else {}),
        }


def _technical_name(column_id: int) -> str:
    return f"column_{column_id}"


def _read(table: StoredTable, data: Fields) -> dict[int, Any]:
    """Check and read the values of a row."""
    values: dict[int, Any] = {}
    for key, value in data.items():
        column = table.columns.get(int(key))
        if column is None:
            raise TablesFault(500, f"Column with id {key} is not part of table with id {table.id}")
        most, title = column.fields.get("numberMax"), column.fields["title"]
        if most is not None and isinstance(value, int | float) and value > most:
            raise TablesFault(400, f"Value for column {title} exceeds maximum allowed value of {most}")
        values[column.id] = column.parsed(value)
    return values
