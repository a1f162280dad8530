"""Results of the Tables tools.

Rows and columns have results of their own: a row is shown by the names of its columns, which depend on each other.
"""

from collections.abc import Sequence
from typing import Any

from nextcloud_mcp_server.apps.tables.client import Row, Table
from nextcloud_mcp_server.apps.tables.values import Column, shown
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools.result import Flag, Result, Text

_MAX_CELL = 500
_MAX_WHOLE_CELL = 15_000
_MAX_OPTIONS = 50


class TableList(Result):
    """The tables the person can see."""

    tables: list[Table]
    cursor: str | None = None


class ColumnRow(Result):
    """One column; `name` is what values are given under."""

    name: str
    type: str
    mandatory: Flag = None
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] | None = None
    description: Text = None


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


def names(columns: Sequence[Column]) -> dict[str, str]:
    """Return the names of the columns by id; the id is appended to duplicate titles."""
    titles = [column.title for column in columns]
    return {
        column.id: column.title if titles.count(column.title) == 1 else f"{column.title} #{column.id}"
        for column in columns
    }


def row(row: Row, columns: Sequence[Column], *, whole: bool = False) -> RowValues:
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
    columns: Sequence[Column],
    rows: list[RowValues],
    *,
    total: int,
    searched: int | None = None,
    cursor: str | None = None,
) -> TablePage:
    """Return a table with some of its rows."""
    called = names(columns)
    return TablePage(
        id=table.id,
        title=table.title,
        readonly=table.readonly,
        columns=[
            ColumnRow(
                name=called[column.id],
                type=column.kind,
                mandatory=column.mandatory,
                minimum=column.minimum,
                maximum=column.maximum,
                choices=[option.label for option in column.options[:_MAX_OPTIONS]] or None,
                description=column.description,
            )
            for column in columns
        ],
        rows=rows,
        total=total,
        searched=searched,
        cursor=cursor,
    )
