"""Tools for the trash; `files` adds them to its toolset."""

from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.trash import position
from nextcloud_mcp_server.tools import note_pictures, pagination
from nextcloud_mcp_server.tools.file_results import Restored, TrashPage, TrashRow
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

trash = Toolset("files")


@trash.tool("List the trash", read_only=True)
@require_provisioning("files:read")
async def nc_files_list_trash(
    nc: Account, *, limit: Annotated[int, Field(ge=1, le=200)] = 50, cursor: str | None = None
) -> TrashPage:
    """List deleted files and folders, last deleted first, with the trash_id that restores them."""
    after = pagination.unseal(cursor, "trash")
    found, total, more = await nc.trash.list_items(limit=limit, after=after)
    rows = pagination.fit([TrashRow.of(entry) for entry in found])
    more = more or len(rows) < len(found)
    return TrashPage(
        items=rows,
        total=total,
        cursor=pagination.seal(position(found[len(rows) - 1]), "trash") if more else None,
    )


@trash.tool("Restore from the trash", repeatable=True)
@require_provisioning("files:write")
async def nc_files_restore_trash(nc: Account, trash_id: TextId) -> Restored:
    """Put a deleted file or folder back where it was; a note's pictures come with it."""
    entry = await nc.trash.restore(trash_id)
    pictures = await note_pictures.bring_back(nc, entry)
    if await nc.files.holds(entry.original_path, entry.file_id):
        return Restored(path=entry.original_path, note=pictures)
    elsewhere = (
        "It is restored, but perhaps elsewhere: Nextcloud uses the top folder when the old folder is "
        "gone, and another name when the old one is taken. Find it with nc_files_search_items."
    )
    return Restored(path=entry.original_path, note=" ".join(filter(None, (elsewhere, pictures))))
