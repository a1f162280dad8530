"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    one = (await call(nc, "nc_bookmarks_find_bookmarks")).bookmarks[0]
    return {
        "nc_bookmarks_save_bookmark": {"bookmark_id": one.id, "etag": one.etag, "title": "x"},
        "nc_bookmarks_delete_bookmark": {"bookmark_id": one.id, "etag": one.etag},
    }
