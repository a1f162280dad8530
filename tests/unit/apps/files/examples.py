"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call

PATH = {"path": "/Documents/Welcome.md"}


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    return {
        "nc_files_get_info": PATH,
        "nc_files_read_file": PATH,
        "nc_files_delete_item": PATH,
        "nc_files_list_folder": PATH,
        "nc_files_search_items": {"name": "e"},
        "nc_files_write_file": {"path": "/new.txt", "content": "x"},
        "nc_files_edit_file": {**PATH, "old_text": "e", "new_text": "x", "replace_all": True},
        "nc_files_create_folder": {"path": "/a/b"},
        "nc_files_move_item": {"source": PATH["path"], "destination": "/x.md"},
        "nc_files_copy_item": {"source": PATH["path"], "destination": "/x.md"},
        "nc_files_restore_trash": {"trash_id": "x.d1"},
    }


async def working(nc: Account, tool: str, _: dict[str, Any]) -> dict[str, Any]:
    if tool == "nc_files_list_folder":
        return {"path": "/"}
    if tool == "nc_files_restore_trash":
        return {"trash_id": (await call(nc, "nc_files_delete_item", **PATH)).trash_id}
    return {}
