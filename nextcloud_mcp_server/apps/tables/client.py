"""The Tables app (API 1)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tables.values import Column
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.http import Answer, decoded
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.top_k import cut

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


class Rights(Answer):
    """The permissions of a user with whom a table is shared."""

    create: bool = False
    update: bool = False
    delete: bool = False


class Table(Answer):
    """One table; `rights` apply only where it is shared with the user."""

    id: Id
    title: str
    emoji: str | None = None
    owner: str = Field(default="", validation_alias="ownership")
    archived: bool = False
    description: str | None = None
    rows: int = Field(default=0, validation_alias="rowsCount")
    columns: int = Field(default=0, validation_alias="columnsCount")
    shared: bool | None = Field(default=None, validation_alias="isShared")
    rights: Rights | None = Field(default=None, validation_alias="onSharePermissions")

    @property
    def readonly(self) -> bool:
        """Tell whether the user can only read it.

        For the user's own table Tables 1 sends no rights, and Tables 2 sends that everything is forbidden; so only
        shared tables are checked.
        """
        rights = None if self.shared is False else self.rights
        return rights is not None and not (rights.create or rights.update or rights.delete)


class _Cell(Answer):
    column: Id = Field(validation_alias="columnId")
    # The type depends on the column.
    value: Any = None


class Row(Answer):
    """One row."""

    id: Id
    table_id: Id = Field(validation_alias="tableId")
    cells: Annotated[list[_Cell], BeforeValidator(lambda value: value or [])] = Field(  # pyright: ignore[reportUnknownLambdaType]
        default_factory=list[_Cell], validation_alias="data"
    )

    @property
    def values(self) -> dict[str, Any]:
        """The values by column id."""
        return {cell.column: cell.value for cell in self.cells}

    @property
    def etag(self) -> str:
        """A hash of the row's state, since Tables has no etags."""
        state = sorted(
            (column, json.dumps(value)) for column, value in self.values.items() if value is not None
        )
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]


_TABLE = TypeAdapter(Table)
_TABLES = TypeAdapter(list[Table], config=ConfigDict(defer_build=True))
_COLUMNS = TypeAdapter(list[Column], config=ConfigDict(defer_build=True))
_ROW = TypeAdapter(Row)
_ROWS = TypeAdapter(list[Row], config=ConfigDict(defer_build=True))


class TablesClient(AppClient):
    """Reads and writes one user's tables."""

    async def list_tables(self) -> list[Table]:
        """Fetch the tables that the user owns or that are shared with the user."""
        return decoded(await self._http.request("GET", f"{_BASE}/tables"), _TABLES)

    async def table(self, table_id: Id) -> Table:
        """Fetch one table.

        Raises:
          NotFound: No such table, or it belongs to another user.
        """
        response = await self._http.request("GET", f"{_BASE}/tables/{table_id}", sentences=_OF_TABLE)
        return decoded(response, _TABLE)

    async def columns(self, table_id: Id) -> list[Column]:
        """Fetch the columns of a table."""
        response = await self._http.request("GET", f"{_BASE}/tables/{table_id}/columns", sentences=_OF_TABLE)
        return decoded(response, _COLUMNS)

    async def rows(self, table_id: Id, *, limit: int, offset: int, total: int | None = None) -> list[Row]:
        """Fetch some rows of a table, which has `total` rows in all."""
        response = await self._http.request(
            "GET",
            f"{_BASE}/tables/{table_id}/rows",
            params={"limit": limit, "offset": offset},
            sentences=_OF_TABLE,
        )
        return cut(decoded(response, _ROWS), limit, offset=offset, total=total).rows

    async def row(self, row_id: Id) -> Row:
        """Fetch one row.

        Raises:
            NotFound: No such row.
        """
        return decoded(await self._http.request("GET", f"{_BASE}/rows/{row_id}", sentences=_OF_ROW), _ROW)

    async def create(self, table_id: Id, values: Mapping[str, object]) -> Row:
        """Add a row.

        Raises:
          InvalidName: Tables rejects a value.
        """
        response = await self._http.request(
            "POST",
            f"{_BASE}/tables/{table_id}/rows",
            json={"data": dict(values)},
            sentences={403: _NOT_ALLOWED, 404: _NO_TABLE},
        )
        return decoded(response, _ROW)

    async def update(self, row: Row, values: Mapping[str, object]) -> Row:
        """Set the given cells of a row that was just read and keep the others."""
        response = await self._http.request(
            "PUT",
            f"{_BASE}/rows/{row.id}",
            json={"data": dict(values)},
            sentences=_OF_ROW,
        )
        return decoded(response, _ROW)

    async def current(self, row_id: Id, if_match: str) -> Row:
        """Fetch a row and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
        """
        row = await self.row(row_id)
        if if_match.strip().strip('"') != row.etag:
            raise errors.EtagMismatch(CHANGED, current_etag=row.etag)
        return row

    async def delete(self, row_id: Id) -> None:
        """Delete a row permanently."""
        await self._http.request("DELETE", f"{_BASE}/rows/{row_id}", sentences=_OF_ROW)
