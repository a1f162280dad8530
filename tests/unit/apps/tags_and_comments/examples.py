"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    path = "/Documents/Welcome.md"
    return {
        "nc_files_set_labels": {"path": path, "favorite": True},
        "nc_files_list_comments": {"path": path},
        "nc_files_add_comment": {"path": path, "text": "x"},
    }
