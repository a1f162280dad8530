"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    table = (await call(nc, "nc_tables_list_tables")).tables[0].id
    row = (await call(nc, "nc_tables_get_table", table_id=table)).rows[0]
    return {
        "nc_tables_get_table": {"table_id": table},
        "nc_tables_create_row": {"table_id": table, "values": {"Item": "x"}},
        "nc_tables_update_row": {"row_id": row.id, "values": {"Item": "x"}, "etag": row.etag},
        "nc_tables_delete_row": {"row_id": row.id, "etag": row.etag},
    }
