"""The Tables app (API 1)."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from nextcloud_mcp_server.apps.tables.values import Column
from nextcloud_mcp_server.nextcloud import state_etag
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.php_json import LIST, as_map
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools.result import Flag, Result, Text

_BASE: Final = "/index.php/apps/tables/api/1"
_NO_TABLE: Final = (
    "There is no such table, or it is not shared with the person. "
    "Call nc_tables_get_table without a table_id for the ones there are."
)
_NO_ROW: Final = (
    "There is no such row, or its table is not shared with the person. Call nc_tables_get_table to find it."
)
_NOT_ALLOWED: Final = (
    "Tables does not allow this{reason}: the table may be shared with the person for reading only."
)
_OF_TABLE: Final = {403: _NO_TABLE, 404: _NO_TABLE}
_OF_ROW: Final = {403: _NOT_ALLOWED, 404: _NO_ROW}


class Table(Result):
    """One table."""

    id: Id
    title: str
    emoji: Text = None
    owner: str = Field(default_factory=str, validation_alias="ownership")
    rows: int = Field(default_factory=int, validation_alias="rowsCount")
    columns: int = Field(default_factory=int, validation_alias="columnsCount")
    archived: Flag = None
    readonly: Flag = None

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, value: object) -> dict[str, Any]:
        """Tell whether the user can only read it.

        For the user's own table Tables 1 sends no rights, and Tables 2 sends that everything is forbidden; so only
        shared tables are checked.
        """
        data = as_map(value)
        rights = None if data.get("isShared") is False else data.get("onSharePermissions")
        may = rights is None or any(as_map(rights).get(right) for right in ("create", "update", "delete"))
        return {**data, "readonly": not may}


class _Cell(Answer):
    column: Id = Field(validation_alias="columnId")
    # The type depends on the column.
    value: Any = None


class Row(Answer):
    """One row."""

    id: Id
    table_id: Id = Field(validation_alias="tableId")
    cells: Annotated[list[_Cell], LIST] = Field(default_factory=list[_Cell], validation_alias="data")

    @cached_property
    def values(self) -> dict[str, Any]:
        """The values by column id."""
        return {cell.column: cell.value for cell in self.cells}

    @property
    def size(self) -> int:
        """The approximate size in memory, in bytes."""
        return 500 + sum(200 + 2 * len(str(cell.value)) for cell in self.cells)

    @property
    def etag(self) -> str:
        """A hash of the row's state, since Tables has no etags."""
        return state_etag.of(
            sorted((column, json.dumps(value)) for column, value in self.values.items() if value is not None)
        )


class TablesClient(AppClient):
    """Reads and writes one user's tables."""

    async def list_tables(self) -> list[Table]:
        """Fetch the tables that the user owns or that are shared with the user."""
        return await self._request("GET", f"{_BASE}/tables", list[Table])

    async def table(self, table_id: Id) -> Table:
        """Fetch one table.

        Raises:
          NotFound: No such table, or it belongs to another user.
        """
        return await self._request("GET", f"{_BASE}/tables/{table_id}", Table, sentences=_OF_TABLE)

    async def columns(self, table_id: Id) -> list[Column]:
        """Fetch the columns of a table."""
        return await self._request(
            "GET", f"{_BASE}/tables/{table_id}/columns", list[Column], sentences=_OF_TABLE
        )

    async def rows(self, table_id: Id, *, limit: int, offset: int, total: int | None = None) -> list[Row]:
        """Fetch some rows of a table, which has `total` rows in all."""
        path, params = f"{_BASE}/tables/{table_id}/rows", {"limit": limit, "offset": offset}
        found = await self._request("GET", path, list[Row], params=params, sentences=_OF_TABLE)
        return cut(found, limit, offset=offset, total=total).rows

    async def row(self, row_id: Id) -> Row:
        """Fetch one row.

        Raises:
            NotFound: No such row.
        """
        return await self._request("GET", f"{_BASE}/rows/{row_id}", Row, sentences=_OF_ROW)

    async def create(self, table_id: Id, values: Mapping[str, object]) -> Row:
        """Add a row.

        Raises:
          InvalidName: Tables rejects a value.
        """
        path, sentences = f"{_BASE}/tables/{table_id}/rows", {403: _NOT_ALLOWED, 404: _NO_TABLE}
        return await self._request("POST", path, Row, json={"data": dict(values)}, sentences=sentences)

    async def update(self, row: Row, values: Mapping[str, object]) -> Row:
        """Set the given cells of a row that was just read and keep the others."""
        path = f"{_BASE}/rows/{row.id}"
        return await self._request("PUT", path, Row, json={"data": dict(values)}, sentences=_OF_ROW)

    async def current(self, row_id: Id, if_match: str) -> Row:
        """Fetch a row and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
        """
        row = await self.row(row_id)
        state_etag.require(if_match, row.etag)
        return row

    async def delete(self, row_id: Id) -> None:
        """Delete a row permanently."""
        await self._http.request("DELETE", f"{_BASE}/rows/{row_id}", sentences=_OF_ROW)
