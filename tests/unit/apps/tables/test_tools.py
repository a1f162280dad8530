import json
from typing import Any

import anyio
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tables.tools import tables
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.tables.store import StoredTable, TableStore
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import ProgressLog, account_in, call_in, call_with

OPTIONS = [{"id": 1, "label": "Red"}, {"id": 2, "label": "Blue"}]
COLUMNS = (
    {"title": "Name", "type": "text", "subtype": "line", "mandatory": True, "textMaxLength": 40_000},
    {"title": "Text", "type": "text", "subtype": "rich"},
    {"title": "Link", "type": "text", "subtype": "link", "textAllowedPattern": "url,files"},
    {"title": "Count", "type": "number", "numberMin": 0, "numberMax": 10},
    {"title": "Free", "type": "number"},
    {"title": "Stars", "type": "number", "subtype": "stars"},
    {"title": "Done %", "type": "number", "subtype": "progress"},
    {"title": "Colour", "type": "selection", "selectionOptions": OPTIONS, "description": "Paint."},
    {"title": "Colours", "type": "selection", "subtype": "multi", "selectionOptions": OPTIONS},
    {"title": "Ok", "type": "selection", "subtype": "check"},
    {"title": "When", "type": "datetime"},
    {"title": "Day", "type": "datetime", "subtype": "date"},
    {"title": "At", "type": "datetime", "subtype": "time"},
    {"title": "Who", "type": "usergroup"},
    {"title": "New", "type": "hologram"},
)
FULL = {
    "name": "one", "Text": "# long", "Link": "https://a.museum/x", "Count": 3, "Free": 2.5, "Stars": 5, "Done %": 100,
    "Colour": "red", "Colours": ["Blue", "red"], "Ok": True, "When": "2026-12-24T18:30", "Day": "2026-12-24",
    "At": "18:30", "Who": ["alice", "group:team"],
}  # fmt: skip


class Impatient(ProgressLog):
    """Cancels the call at its first report."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        super().__init__()
        self._scope = scope

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        await super().report(done, total, message)
        self._scope.cancel()


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


@pytest.fixture
def table(sandbox: Sandbox) -> StoredTable:
    store = sandbox.state.store(TableStore)
    made = store.add("All kinds", "", "alice", "2026-11-27 21:15:29")
    for fields in COLUMNS:
        store.add_column(made, dict(fields), "2026-11-27 21:15:29")
    return made


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(tables, account, f"nc_tables_{tool}", **arguments)


async def inventory(account: Account) -> Any:  # noqa: ANN401 - a table
    return next(one for one in (await call(account, "list_tables")).tables if one.title == "Inventory")


async def test_a_table_is_shown_with_its_columns_and_values_by_name(alice: Account) -> None:
    listed = await inventory(alice)

    shown = await call(alice, "get_table", table_id=listed.id)

    assert (listed.rows, listed.columns, listed.owner, listed.readonly) == (3, 4, "alice", None)
    assert [column.model_dump(exclude_none=True) for column in shown.columns] == [
        {"name": "Item", "type": "text-line", "mandatory": True},
        {"name": "Count", "type": "number", "minimum": 0, "maximum": 100},
        {"name": "Place", "type": "selection", "choices": ["Office", "Cellar"]},
        {"name": "Checked", "type": "selection-check"},
    ]
    assert shown.rows[0].values == {"Item": "Chairs", "Count": 12, "Place": "Office", "Checked": True}
    assert (shown.total, shown.cursor) == (3, None)


async def test_values_of_every_kind_come_back_as_they_were_given(alice: Account, table: StoredTable) -> None:
    made = await call(alice, "create_row", table_id=table.id, values=FULL)

    [row] = (await call(alice, "get_table", table_id=table.id)).rows
    cleared: dict[str, object] = {name: None for name in FULL if name != "name"}
    cleared["Colours"] = []
    emptied = await call(
        alice,
        "update_row",
        row_id=row.id,
        etag=row.etag,
        values=cleared,
    )

    assert row == made
    assert row.values == {
        **{name: value for name, value in FULL.items() if name != "name"},
        "Name": "one", "Colour": "Red", "Colours": ["Red", "Blue"], "When": "2026-12-24 18:30",
    }  # fmt: skip
    numbers = dict.fromkeys(("Count", "Free", "Stars", "Done %"), 0)
    assert emptied.values == {"Name": "one", "Ok": False, **numbers}
    assert "'Count' is 0 instead of empty; " in emptied.note
    assert "'Ok' is false instead of empty" in emptied.note


async def test_only_the_given_cells_change_and_a_stale_row_is_not_touched(alice: Account) -> None:
    listed = await inventory(alice)
    row = (await call(alice, "get_table", table_id=listed.id)).rows[0]

    changed = await call(alice, "update_row", row_id=row.id, etag=row.etag, values={"count": 13})
    for tool, more in (("update_row", {"values": {"Count": 1}}), ("delete_row", {})):
        with pytest.raises(errors.EtagMismatch, match="again, look at what has changed"):
            await call(alice, tool, row_id=row.id, etag=row.etag, **more)
    gone = await call(alice, "delete_row", row_id=row.id, etag=changed.etag)

    assert changed.values == row.values | {"Count": 13}
    assert (gone.deleted, gone.values) == (row.id, changed.values)
    assert "cannot be undone" in gone.undo
    assert (await inventory(alice)).rows == 2
    with pytest.raises(errors.NotFound, match="no such row"):
        await call(alice, "delete_row", row_id=row.id, etag=changed.etag)


@pytest.mark.parametrize(
    ("search", "names"),
    [
        ({"query": "CHAIRS office"}, ["Chairs"]),
        ({"where": {"Item": "a"}}, ["Chairs", "Lamps"]),
        ({"where": {"place": "Cellar"}}, ["Boxes"]),
        ({"where": {"Place": "Cell"}}, []),
        ({"where": {"Checked": True}}, ["Chairs"]),
        ({"where": {"Checked": False}}, ["Lamps", "Boxes", "Empty"]),
        ({"where": {"Count": 7}}, ["Lamps"]),
        ({"where": {"Count": "12"}}, ["Chairs"]),
        ({"where": {"Count": ">= 12"}}, ["Chairs", "Boxes"]),
        ({"where": {"Count": "<12", "Item": "lamps"}}, ["Lamps"]),
        ({"where": {"Place": ""}}, ["Empty"]),
    ],
)
async def test_rows_are_found_by_words_and_by_columns(
    alice: Account, sandbox: Sandbox, search: dict[str, Any], names: list[str]
) -> None:
    listed = await inventory(alice)
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    sandbox.state.store(TableStore).add_row(store, {next(iter(store.columns)): "Empty"})

    found = await call(alice, "get_table", table_id=listed.id, **search)

    assert [row.values["Item"] for row in found.rows] == names
    assert found.total == len(names)


async def test_dates_are_compared_and_lists_are_looked_into(alice: Account, table: StoredTable) -> None:
    await call(alice, "create_row", table_id=table.id, values=FULL)
    search = {"When": ">2026-12-24T12:00", "Colours": "blue", "Day": "2026-12", "Who": "group:team"}

    found = await call(alice, "get_table", table_id=table.id, where=search)
    none = await call(alice, "get_table", table_id=table.id, where={"Day": "<2026-12-24"})

    assert ([row.values["Name"] for row in found.rows], none.rows) == (["one"], [])


async def test_following_the_cursor_gives_every_row_once(alice: Account, sandbox: Sandbox) -> None:
    listed = await inventory(alice)
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    item = next(iter(store.columns))
    for number in range(600):
        sandbox.state.store(TableStore).add_row(store, {item: f"{number} {'x' * 5000}"})

    for search in ({}, {"where": {"Item": "xx"}}):
        seen: list[str] = []
        cursor = None
        while True:
            page = await call(alice, "get_table", table_id=listed.id, limit=200, cursor=cursor, **search)
            assert answer.result(page)
            seen += [row.id for row in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) == page.total == 600 + 3 * (not search)

    whole = await call(alice, "get_table", table_id=listed.id, row_id=seen[-1])
    assert (len(whole.rows[0].values["Item"]), whole.rows[0].truncated) == (5004, None)
    gone = await call(alice, "delete_row", row_id=seen[-1], etag=whole.rows[0].etag)
    assert gone.values is None


async def test_a_search_says_how_far_it_is_and_ends_somewhere(alice: Account, sandbox: Sandbox) -> None:
    listed, told = await inventory(alice), ProgressLog()
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    for _ in range(5100):
        sandbox.state.store(TableStore).add_row(store, {})

    found = await call_with(
        {"progress": told}, tables, alice, "nc_tables_get_table", table_id=listed.id, query="nothing"
    )

    assert (found.searched, found.total) == (5000, 0)
    assert [done for done, _, _ in told.reports] == list(range(500, 5001, 500))
    assert told.reports[0] == (500, 5103, "Looked at 500 of 5103 rows")


async def test_a_search_in_long_rows_asks_for_fewer_of_them_at_once(alice: Account, sandbox: Sandbox) -> None:
    """500 rows of 26 KB are more than a response may hold; the search failed and could not ask for less."""
    listed = await inventory(alice)
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    item = next(iter(store.columns))
    for number in range(500):
        sandbox.state.store(TableStore).add_row(store, {item: f"row {number} {'x' * 26_000}"})

    found = await call(alice, "get_table", table_id=listed.id, query="row 499")

    assert found.total == 1
    assert found.searched is None


async def test_a_search_ends_before_a_row_that_is_longer_than_a_response(
    alice: Account, sandbox: Sandbox
) -> None:
    listed = await inventory(alice)
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    item = next(iter(store.columns))
    sandbox.state.store(TableStore).add_row(store, {item: "x" * 13_000_000})

    found = await call(alice, "get_table", table_id=listed.id, query="Lamps")

    assert [row.values["Item"] for row in found.rows] == ["Lamps"]
    assert found.searched == 3


async def test_a_search_that_is_cancelled_asks_for_no_further_rows(alice: Account, sandbox: Sandbox) -> None:
    listed = await inventory(alice)
    store = sandbox.state.store(TableStore).tables[int(listed.id)]
    for _ in range(2000):
        sandbox.state.store(TableStore).add_row(store, {})
    sandbox.requests.clear()

    with anyio.CancelScope() as scope:
        await call_with(
            {"progress": Impatient(scope)},
            tables,
            alice,
            "nc_tables_get_table",
            table_id=listed.id,
            query="nothing",
        )

    assert scope.cancelled_caught
    assert [each.path.endswith("/rows") for each in sandbox.requests.records].count(True) == 1


async def test_columns_of_one_title_are_told_apart(
    alice: Account, table: StoredTable, sandbox: Sandbox
) -> None:
    twin = sandbox.state.store(TableStore).add_column(
        table, {"title": "Name", "type": "text", "subtype": "line"}, ""
    )
    first = next(iter(table.columns))

    row = await call(
        alice, "create_row", table_id=table.id, values={f"Name #{first}": "a", f"name #{twin.id}": "b"}
    )

    assert row.values == {f"Name #{first}": "a", f"Name #{twin.id}": "b"}
    with pytest.raises(errors.InvalidInput, match=f"no column “Name”.*“Name #{twin.id}”"):
        await call(alice, "create_row", table_id=table.id, values={"Name": "a"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "'values' is empty"),
        ({"Text": "x"}, "'Name' is mandatory"),
        ({"name": "x" * 40_001}, "longer than 40000"),
        ({"name": 1}, "'Name' must be text"),
        ({"Count": 11}, "at least 0 and at most 10"),
        ({"Count": "3"}, "must be a number"),
        ({"Stars": 6}, "from 0 to 5"),
        ({"Done %": True}, "from 0 to 100"),
        ({"Colour": "green"}, "no choice “green”.*“Red”, “Blue”"),
        ({"Colours": "red"}, "must be a list"),
        ({"Ok": "yes"}, "must be true or false"),
        ({"When": "2026-12-24T18:30Z"}, "without a zone"),
        ({"When": "soon"}, "without a zone"),
        ({"Day": "24.12.2026"}, "such as 2026-12-24"),
        ({"At": "6pm"}, "such as 18:30"),
        ({"Link": "javascript:x"}, "https://example.org"),
        ({"Who": [1]}, "list of user ids"),
        ({"New": "x"}, "hologram, which can only be read"),
        ({"name": "bad\0"}, "NUL"),
    ],
)
async def test_what_the_app_would_store_as_nothing_is_refused(
    alice: Account, table: StoredTable, values: dict[str, object], words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, "create_row", table_id=table.id, values=values)

    assert table.rows == {}


async def test_a_column_cannot_be_named_again_and_again_in_other_letters(alice: Account) -> None:
    listed = await inventory(alice)
    spellings = {
        f"{'I' if n & 1 else 'i'}{'T' if n & 2 else 't'}{'E' if n & 4 else 'e'}m": "a" for n in range(8)
    }

    with pytest.raises(errors.InvalidInput, match="name each column once"):
        await call(alice, "get_table", table_id=listed.id, where=spellings)


async def test_a_mandatory_cell_cannot_be_cleared(alice: Account) -> None:
    listed = await inventory(alice)
    row = (await call(alice, "get_table", table_id=listed.id)).rows[0]

    with pytest.raises(errors.InvalidInput, match="'Item' is mandatory"):
        await call(alice, "update_row", row_id=row.id, etag=row.etag, values={"Item": None})
    with pytest.raises(errors.InvalidInput, match="compared with a number"):
        await call(alice, "get_table", table_id=listed.id, where={"Count": ">many"})


async def test_what_is_stored_oddly_is_shown_as_it_is(
    alice: Account, table: StoredTable, sandbox: Sandbox
) -> None:
    by_title = {column.fields["title"]: number for number, column in table.columns.items()}
    odd = {"Colour": 9, "Colours": "x", "Link": "https://old", "Who": [1, {"id": "t", "type": "?"}], "Ok": 1}
    sandbox.state.store(TableStore).add_row(table, {by_title[name]: value for name, value in odd.items()})
    sandbox.state.store(TableStore).add_row(
        table, {by_title["Link"]: json.dumps({"title": "no value"}), by_title["Who"]: "x"}
    )

    rows = (await call(alice, "get_table", table_id=table.id)).rows

    assert rows[0].values == {**odd, "Who": [1, "t"], "Ok": True}
    assert rows[1].values == {"Link": '{"title": "no value"}', "Who": "x"}


async def test_a_table_of_another_user_is_not_there_and_the_app_is_not_said_to_be_missing(
    sandbox: Sandbox,
) -> None:
    listed = await inventory(account_in(sandbox))

    with pytest.raises(errors.NotFound, match="no such table"):
        await call(account_in(sandbox, "bob"), "get_table", table_id=listed.id)


async def test_a_row_of_another_table_is_not_shown_as_one_of_this(alice: Account, table: StoredTable) -> None:
    listed = await inventory(alice)
    row = (await call(alice, "get_table", table_id=listed.id)).rows[0]

    with pytest.raises(errors.NotFound, match=f"id {listed.id}"):
        await call(alice, "get_table", table_id=table.id, row_id=row.id)


async def test_tables_beyond_a_result_wait_for_the_next_page(alice: Account, sandbox: Sandbox) -> None:
    for number in range(400):
        sandbox.state.store(TableStore).add(f"{number} {'t' * 100}", "", "alice", "")

    page = await call(alice, "list_tables")
    rest = await call(alice, "list_tables", cursor=page.cursor)

    assert answer.result(page)
    assert len(page.tables) + len(rest.tables) == 401


@pytest.mark.parametrize("wanted", [">2026-12-24T12:00Z", "2026-12-24T18:30:00+01:00"])
async def test_a_time_with_an_offset_is_not_compared_with_times_that_have_no_zone(
    alice: Account, table: StoredTable, wanted: str
) -> None:
    await call(alice, "create_row", table_id=table.id, values={"Name": "x", "When": "2026-12-24T18:30"})

    found = await call(alice, "get_table", table_id=table.id, where={"When": "2026-12-24T18:30"})

    assert len(found.rows) == 1
    with pytest.raises(errors.InvalidInput, match="'When' holds times without a zone"):
        await call(alice, "get_table", table_id=table.id, where={"When": wanted})


async def test_a_number_that_cannot_be_emptied_is_said_to_be_0(alice: Account, table: StoredTable) -> None:
    """Tables stores null, and reads it as 0 from then on."""
    made = await call(alice, "create_row", table_id=table.id, values={"Name": "one", "Free": None})
    [row] = (await call(alice, "get_table", table_id=table.id)).rows

    assert made.note == "Tables did not store all of it as it was sent: 'Free' is 0 instead of empty."
    assert (made.values, made.etag) == (row.values, row.etag)
    assert made.values["Free"] == 0


async def test_a_link_that_its_column_does_not_allow_is_said_to_be_missing(
    alice: Account, sandbox: Sandbox
) -> None:
    store = sandbox.state.store(TableStore)
    files_only = {"title": "Link", "type": "text", "subtype": "link", "textAllowedPattern": "files"}
    made = store.add("Links", "", "alice", "2026-11-27 21:15:29")
    for fields in (COLUMNS[0], files_only):
        store.add_column(made, dict(fields), "2026-11-27 21:15:29")
    link, said = {"Link": "https://a.example"}, "'Link' is empty instead of “https://a.example”"

    row = await call(alice, "create_row", table_id=made.id, values={"Name": "one", **link})
    with pytest.raises(errors.ServerFault, match=f"changed nothing: {said}"):
        await call(alice, "update_row", row_id=row.id, etag=row.etag, values=link)

    assert row.values == {"Name": "one"}
    assert row.note == f"Tables did not store all of it as it was sent: {said}."


async def test_a_row_that_cannot_be_read_afterwards_is_written(
    alice: Account, sandbox: Sandbox, table: StoredTable
) -> None:
    # The columns and the new row get through.
    sandbox.faults.status(423, times=9, after=2)

    made = await call(alice, "create_row", table_id=table.id, values={"Name": "one"})

    assert made.values == {"Name": "one"}
    assert made.note.startswith(
        "It is written, but it could not be read afterwards, so what is stored is not "
    )
    assert len(table.rows) == 1


async def test_more_values_than_columns_and_conditions_of_megabytes_are_refused(
    alice: Account, table: StoredTable
) -> None:
    values = {f"n{'a' * number}me": "x" for number in range(100)}

    with pytest.raises(errors.InvalidInput, match="more values than the table has columns"):
        await call(alice, "create_row", table_id=table.id, values=values)
    with pytest.raises(errors.InvalidInput, match="cannot be longer than 10,000 characters"):
        await call(alice, "get_table", table_id=table.id, where={"name": "é" * 1_000_000})
