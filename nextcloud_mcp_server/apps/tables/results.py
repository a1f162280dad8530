"""Results of the Tables tools."""

from typing import Any

from nextcloud_mcp_server.apps.tables.client import Row, Table
from nextcloud_mcp_server.apps.tables.values import Column, shown
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools.result import Result

_MAX_CELL = 500
_MAX_WHOLE_CELL = 15_000
_MAX_OPTIONS = 50


class TableRow(Result):
    """One table."""

    id: Id
    title: str
    emoji: str | None = None
    owner: str
    rows: int
    columns: int
    archived: bool | None = None
    readonly: bool | None = None


class TableList(Result):
    """The tables the person can see."""

    tables: list[TableRow]
    cursor: str | None = None


class ColumnRow(Result):
    """One column; `name` is what values are given under."""

    name: str
    type: str
    mandatory: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] | None = None
    description: str | None = None


class RowValues(Result):
    """One row; cells without a value are left out, and long texts are cut where `truncated` is true.

    `note` says what Tables stored otherwise than it was sent.
    """

    id: Id
    etag: str
    values: dict[str, Any]
    truncated: bool | None = None
    note: str | None = None


class TablePage(Result):
    """A table's columns and a page of its rows. `searched` is given where not all rows were looked at."""

    id: Id
    title: str
    readonly: bool | None = None
    columns: list[ColumnRow]
    rows: list[RowValues]
    total: int
    searched: int | None = None
    cursor: str | None = None


class RowDeleted(Result):
    """What was deleted."""

    deleted: Id
    undo: str
    values: dict[str, Any] | None = None


def table_row(table: Table) -> TableRow:
    """Return the row of a table in a list."""
    return TableRow(
        id=table.id,
        title=table.title,
        emoji=table.emoji or None,
        owner=table.owner,
        rows=table.rows,
        columns=table.columns,
        archived=table.archived or None,
        readonly=table.readonly or None,
    )


def names(columns: list[Column]) -> dict[str, str]:
    """Return the names of the columns by id; the id is appended to duplicate titles."""
    titles = [column.title for column in columns]
    return {
        column.id: column.title if titles.count(column.title) == 1 else f"{column.title} #{column.id}"
        for column in columns
    }


def column_row(column: Column, name: str) -> ColumnRow:
    """Return the description of a column."""
    return ColumnRow(
        name=name,
        type=column.kind,
        mandatory=column.mandatory or None,
        minimum=column.minimum,
        maximum=column.maximum,
        choices=[option.label for option in column.options[:_MAX_OPTIONS]] or None,
        description=column.description or None,
    )


def row(row: Row, columns: list[Column], *, whole: bool = False) -> RowValues:
    """Return the values of a row by column name."""
    called, found = names(columns), row.values
    values: dict[str, Any] = {}
    cut = False
    for column in columns:
        value = shown(column, found.get(column.id))
        if isinstance(value, str) and len(value) > (most := _MAX_WHOLE_CELL if whole else _MAX_CELL):
            value, cut = value[:most], True
        if value is not None:
            values[called[column.id]] = value
    return RowValues(id=row.id, etag=row.etag, values=values, truncated=cut or None)


def page(
    table: Table,
    columns: list[Column],
    rows: list[RowValues],
    *,
    total: int,
    searched: int | None,
    cursor: str | None,
) -> TablePage:
    """Return a table with some of its rows."""
    called = names(columns)
    return TablePage(
        id=table.id,
        title=table.title,
        readonly=table.readonly or None,
        columns=[column_row(column, called[column.id]) for column in columns],
        rows=rows,
        total=total,
        searched=searched,
        cursor=cursor,
    )


def deleted(row_before: Row, columns: list[Column]) -> RowDeleted:
    """Return the deleted row with its values, so that they can be entered again."""
    before = row(row_before, columns)
    return RowDeleted(
        deleted=row_before.id,
        undo="Tables has no trash, so this cannot be undone."
        + ("" if before.truncated else " nc_tables_create_row makes a new row of the values given here."),
        values=None if before.truncated else before.values,
    )
