"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call

PATH = {"path": "/Documents/Welcome.md"}


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    return {
        "nc_files_list_versions": PATH,
        "nc_files_restore_version": {**PATH, "version_id": "1", "etag": "e"},
    }


async def working(nc: Account, tool: str, _: dict[str, Any]) -> dict[str, Any]:
    if tool != "nc_files_restore_version":
        return {}
    etag = (await call(nc, "nc_files_get_info", **PATH)).etag
    etag = (await call(nc, "nc_files_write_file", **PATH, content="x", etag=etag)).etag
    versions = await call(nc, "nc_files_list_versions", **PATH)
    return {"version_id": versions.items[-1].version_id, "etag": etag}
