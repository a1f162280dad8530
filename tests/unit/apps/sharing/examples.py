"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call

PATH = {"path": "/Documents/Welcome.md"}


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    return {
        "nc_sharing_list_shares": {"received": True},
        "nc_sharing_share_item": {**PATH, "person": "bob"},
        "nc_sharing_create_link": PATH,
        "nc_sharing_update_share": {"share_id": "1", "etag": "e", "note": "x"},
        "nc_sharing_delete_share": {"share_id": "1", "etag": "e"},
    }


async def working(nc: Account, tool: str, _: dict[str, Any]) -> dict[str, Any]:
    if tool not in ("nc_sharing_update_share", "nc_sharing_delete_share"):
        return {}
    made = await call(nc, "nc_sharing_create_link", **PATH)
    return {"share_id": made.share_id, "etag": made.etag}
