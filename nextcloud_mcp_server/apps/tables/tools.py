"""Tools for the Tables app."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, cast

from pydantic import Field

from nextcloud_mcp_server.apps.tables import results
from nextcloud_mcp_server.apps.tables.client import Row, Table, TablesClient
from nextcloud_mcp_server.apps.tables.results import RowDeleted, RowValues, TableList, TablePage
from nextcloud_mcp_server.apps.tables.values import Column, shown, stored
from nextcloud_mcp_server.errors import InvalidInput, NotFound, TooLarge
from nextcloud_mcp_server.formats import ical_time
from nextcloud_mcp_server.nextcloud import file_errors, memory_permit, outcome
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.outcome import NEW, Part
from nextcloud_mcp_server.nextcloud.spelling import folded, has_words
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

tables = Toolset("tables")

_CHUNK = 500
_SEARCHED_ROWS = 5_000
#: A longer condition would be compared with thousands of cells.
_LONGEST_WANTED = 10_000
_COMPARISON = re.compile(r"(<=|>=|!=|<|>)(.+)")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne,
}  # fmt: skip

Values = Annotated[dict[str, Any], Field(description="Column name → value; choices by label; null clears.")]


@tables.tool("Show tables", read_only=True, aliases={"nc_tables_list_tables": {}}, long=True)
@require_provisioning("tables:read")
async def nc_tables_get_table(
    nc: Account,
    table_id: Annotated[Id | None, Field(description="Show this one.")] = None,
    *,
    query: Annotated[str, Field(description="Only rows with these words.")] = "",
    where: Annotated[
        dict[str, Any] | None,
        Field(description='Column name → value; text by a part, numbers and dates also as ">=5".'),
    ] = None,
    row_id: Annotated[Id | None, Field(description="Only this row, with its long texts.")] = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
    progress: Progress,
) -> TableList | TablePage:
    """List the tables, or show one: its columns, and its rows in pages by cursor."""
    if table_id is None:
        if query or where or row_id is not None:
            raise InvalidInput(
                "'query', 'where' and 'row_id' are about the rows of a table: send table_id, too."
            )
        listing = pagination.Listing(cursor)
        found, cursor = listing.page(await nc.client(TablesClient).list_tables())
        return TableList(tables=found, cursor=cursor)
    listing = pagination.Listing(cursor, table_id, query, sorted((where or {}).items(), key=str))
    start = listing.start
    client = nc.client(TablesClient)
    table, columns = await client.table(table_id), await client.columns(table_id)
    if row_id is not None:
        row = await client.row(row_id)
        if row.table_id != table_id:
            raise NotFound(f"That row is not in this table but in the one with the id {row.table_id}.")
        one = results.row(row, columns, whole=True)
        return results.page(table, columns, [one], total=1)
    tests = _tests(columns, query, where or {})
    searched = None
    if tests:
        await memory_permit.take(nc.uid)
        found, searched = await _search(nc, table, lambda row: all(test(row) for test in tests), progress)
        total, part = len(found), found[start : start + limit]
    else:
        total = table.rows
        part = await client.rows(table_id, limit=limit, offset=start, total=total)
    rows = pagination.fit([results.row(row, columns) for row in part])
    # Fewer rows than were asked for are the last ones, whatever the count says.
    seen = start + len(part)
    end = seen if not tests and len(part) < limit else max(total, seen)
    cursor = listing.after(len(rows), end)
    return results.page(table, columns, rows, total=total, searched=searched, cursor=cursor)


@tables.tool("Add a row")
@require_provisioning("tables:write")
async def nc_tables_create_row(nc: Account, table_id: Id, values: Values) -> RowValues:
    """Add a row to a table; nc_tables_get_table says which columns it has and what they take."""
    columns = await nc.client(TablesClient).columns(table_id)
    sent = _stored(columns, values, whole=True)
    made = await nc.client(TablesClient).create(table_id, sent)
    return await _read_again(nc, made, columns, sent)


@tables.tool("Change a row", destructive=True)
@require_provisioning("tables:write")
async def nc_tables_update_row(nc: Account, row_id: Id, values: Values, *, etag: str) -> RowValues:
    """Change only the given cells of a row."""
    row = await nc.client(TablesClient).current(row_id, etag)
    columns = await nc.client(TablesClient).columns(row.table_id)
    sent = _stored(columns, values, whole=False)
    return await _read_again(nc, await nc.client(TablesClient).update(row, sent), columns, sent, before=row)


@tables.tool("Delete a row", destructive=True)
@require_provisioning("tables:write")
async def nc_tables_delete_row(nc: Account, row_id: Id, *, etag: str) -> RowDeleted:
    """Delete a row for good: there is no trash; the answer repeats its values."""
    row = await nc.client(TablesClient).current(row_id, etag)
    columns = await nc.client(TablesClient).columns(row.table_id)
    await nc.client(TablesClient).delete(row_id)
    before = results.row(row, columns)
    return RowDeleted(
        deleted=row.id,
        undo="Tables has no trash, so this cannot be undone."
        + ("" if before.truncated else " nc_tables_create_row makes a new row of the values given here."),
        values=None if before.truncated else before.values,
    )


async def _read_again(
    nc: Account,
    answered: Row,
    columns: Sequence[Column],
    sent: Mapping[str, object],
    *,
    before: Row | None = None,
) -> RowValues:
    """Fetch a written row again and compare it: Tables answers with what was sent, not what it stored."""
    try:
        row = await nc.client(TablesClient).row(answered.id)
    except file_errors.NOT_SEEN as error:
        note = f"It is written, but it could not be read afterwards, so what is stored is not known. {error}"
        return results.row(answered, columns).model_copy(update={"note": note})
    called = results.names(columns)
    parts = [
        Part(
            called[column.id],
            shown(column, sent[column.id]),
            shown(column, row.values.get(column.id)),
            NEW if before is None else shown(column, before.values.get(column.id)),
        )
        for column in columns
        if column.id in sent
    ]
    note = outcome.compare("Tables", parts)
    return results.row(row, columns).model_copy(update={"note": note})


async def _search(
    nc: Account, table: Table, matches: Callable[[Row], bool], progress: Progress
) -> tuple[list[Row], int | None]:
    """Filter the rows here, since the API cannot; the second value is None where all were searched."""
    found: list[Row] = []
    seen, limit = 0, _CHUNK
    with HeldBytes(nc.uid) as held:
        while seen < _SEARCHED_ROWS:
            try:
                rows = await nc.client(TablesClient).rows(
                    table.id, limit=limit, offset=seen, total=table.rows
                )
            except TooLarge:
                # Few rows may have many columns, and long texts.
                if limit == 1:
                    break
                limit = max(1, limit // 8)
                continue
            for number in await aside(partial(_matching, rows, matches), uid=nc.uid):
                if not held.take(rows[number].size):
                    return found, seen + number
                found.append(rows[number])
            if len(rows) < limit:
                return found, None
            # Of these rows only those that were counted are kept.
            memory_permit.dropped()
            seen += len(rows)
            limit = min(limit, _SEARCHED_ROWS - seen)
            await progress.report(seen, max(seen, table.rows), f"Looked at {seen} of {table.rows} rows")
    return found, seen


def _matching(rows: Sequence[Row], matches: Callable[[Row], bool]) -> list[int]:
    return [number for number, row in enumerate(rows) if matches(row)]


def _column(columns: Sequence[Column], name: str) -> Column:
    """Find a column by the name that nc_tables_get_table returns, in any letter case."""
    called = results.names(columns)
    for wanted, form in ((name, str), (folded(name), folded)):
        found = [column for column in columns if form(called[column.id]) == wanted]
        if len(found) == 1:
            return found[0]
    known = ", ".join(f"“{one}”" for one in called.values())
    raise InvalidInput(f"The table has no column “{name[:100]}”. Its columns are: {known or 'none'}.")


def _stored(columns: Sequence[Column], values: Mapping[str, object], *, whole: bool) -> dict[str, object]:
    """Convert values by name to stored values by id; `whole` is for a new row."""
    if not values:
        raise InvalidInput("'values' is empty: send at least one column with its value.")
    if len(values) > len(columns):
        raise InvalidInput("'values' has more values than the table has columns: name each column once.")
    found = {(column := _column(columns, name)).id: stored(column, value) for name, value in values.items()}
    missing = [
        column.title
        for column in columns
        if column.mandatory and (found.get(column.id) in (None, []) if whole or column.id in found else False)
    ]
    if missing:
        raise InvalidInput(f"'{missing[0]}' is mandatory: send a value for it.")
    return found


def _tests(columns: Sequence[Column], query: str, where: Mapping[str, object]) -> list[Callable[[Row], bool]]:
    """Return the conditions that a row must meet.

    Raises:
      InvalidInput: A column is named more than once, in several spellings.
    """
    if len(where) > len(columns):
        raise InvalidInput("'where' has more conditions than the table has columns: name each column once.")
    if any(isinstance(wanted, str) and len(wanted) > _LONGEST_WANTED for wanted in where.values()):
        raise InvalidInput(f"A condition in 'where' cannot be longer than {_LONGEST_WANTED:,} characters.")
    tests = [_test(_column(columns, name), wanted) for name, wanted in where.items()]
    if query.split():

        def is_found(row: Row) -> bool:
            return has_words(
                query, *(str(shown(column, row.values.get(column.id)) or "") for column in columns)
            )

        tests.append(is_found)
    return tests


def _test(column: Column, wanted: object) -> Callable[[Row], bool]:
    compared = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
    if compared is not None and column.type in ("number", "datetime"):
        return _compared(column, compared[1], compared[2])
    if column.type == "number":
        return _compared(column, "==", str(wanted))

    one_of = folded(str(wanted))
    equal = folded(_clock_text(column, str(wanted)))

    def is_it(row: Row) -> bool:
        value = shown(column, row.values.get(column.id))
        if isinstance(value, list):
            return one_of in [folded(str(one)) for one in cast("list[object]", value)]
        if isinstance(value, str):
            return equal in folded(value) if column.type in ("text", "datetime") else equal == folded(value)
        return value == wanted or (value is None and wanted in ("", False))

    return is_it


def _clock_text(column: Column, text: str) -> str:
    """Return a time for comparison as Tables stores it: local time without a zone."""
    if column.type != "datetime":
        return text
    if ical_time.offset(text) is not None:
        raise InvalidInput(
            f"'{column.title}' holds times without a zone: compare it with one, such as 2026-12-24 18:30."
        )
    return text.replace("T", " ")


def _compared(column: Column, sign: str, text: str) -> Callable[[Row], bool]:
    """Return a comparison: of numbers as numbers, of dates as texts."""
    bound: object = _clock_text(column, text.strip())
    if column.type == "number":
        try:
            bound = float(text)
        except ValueError:
            raise InvalidInput(f"'{column.title}' is compared with a number, such as \">=5\".") from None

    def is_beyond(row: Row) -> bool:
        value = shown(column, row.values.get(column.id))
        usable = isinstance(value, int | float) if column.type == "number" else isinstance(value, str)
        return usable and _OPERATORS[sign](value, bound)

    return is_beyond
