"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    page = (await call(nc, "nc_collectives_list_pages", collective_id=1)).pages[-1].id
    return {
        "nc_collectives_list_pages": {"collective_id": 1},
        "nc_collectives_get_page": {"collective_id": 1, "page_id": page},
        "nc_collectives_create_page": {"collective_id": 1, "title": "x"},
    }
