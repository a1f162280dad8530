import json

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.tables.client import Row, Table, TablesClient
from tests.dav_fakes import Network, http_over, network, recorded


def client(*answers: httpx2.Response) -> tuple[TablesClient, Network]:
    net = network(*answers)
    return TablesClient(http_over(net)), net


async def test_an_unknown_table_is_no_missing_app() -> None:
    tables, _ = client(recorded("tables/table_get_404"))

    with pytest.raises(errors.NotFound, match="no such table"):
        await tables.table("9999")


async def test_the_reason_of_a_refused_value_is_told() -> None:
    tables, net = client(recorded("tables/row_create_out_of_range"))

    with pytest.raises(errors.InvalidName, match="exceeds maximum allowed value of 10"):
        await tables.create("2", {"6": 99})

    assert json.loads(net.seen[0].content) == {"data": {"6": 99}}


async def test_rows_are_asked_for_in_parts() -> None:
    tables, net = client(recorded("tables/rows_list_limit"))

    [row] = await tables.rows("2", limit=1, offset=0)

    assert row.values == {"5": "row äöü", "6": 3}
    assert dict(net.seen[0].url.params) == {"limit": "1", "offset": "0"}


def test_an_etag_knows_the_values_and_nothing_else() -> None:
    row = Row.model_validate(json.loads(recorded("tables/row_get").content))
    other = row.model_copy(update={"id": 9})

    assert row.etag == other.etag
    assert row.etag != Row.model_validate(json.loads(recorded("tables/row_create").content)).etag


@pytest.mark.parametrize(
    ("rights", "readonly"),
    [(None, None), ({}, True), ({"create": True}, None), ({"delete": True}, None)],
)
@pytest.mark.parametrize("shared", [None, True])
def test_a_table_that_may_only_be_read_says_so(
    *, rights: dict[str, bool] | None, readonly: bool | None, shared: bool | None
) -> None:
    table = Table.model_validate({
        "id": 1, "title": "t", "onSharePermissions": rights, "isShared": shared,
    })  # fmt: skip

    assert table.readonly is readonly


async def test_ones_own_table_can_be_written_although_tables_2_forbids_it_as_a_share() -> None:
    tables, _ = client(recorded("newer_apps/tables2_tables_list"))

    [own] = await tables.list_tables()

    rights = json.loads(recorded("newer_apps/tables2_tables_list").content)[0]["onSharePermissions"]
    assert not any(rights[right] for right in ("create", "update", "delete"))
    assert own.readonly is None
