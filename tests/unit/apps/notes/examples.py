"""Valid arguments for the tools, for the tests of every tool."""

import base64
from typing import Any, Final

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call

#: An image of one pixel.
PNG: Final = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    note = (await call(nc, "nc_notes_list_notes")).notes[0].id
    return {
        "nc_notes_search_notes": {"query": "milk"},
        "nc_notes_get_note": {"note_id": note},
        "nc_notes_create_note": {"title": "x"},
        "nc_notes_update_note": {"note_id": note, "title": "x"},
        "nc_notes_append_content": {"note_id": note, "content": "x"},
        "nc_notes_edit_note": {"note_id": note, "old_text": "e", "new_text": "x"},
        "nc_notes_delete_note": {"note_id": note},
        "nc_notes_get_attachment": {"note_id": note, "path": "x.png"},
    }


async def working(nc: Account, tool: str, given: dict[str, Any]) -> dict[str, Any]:
    if tool == "nc_notes_edit_note":
        return {"old_text": (await call(nc, "nc_notes_get_note", note_id=given["note_id"])).content}
    if tool == "nc_notes_get_attachment":
        folder = f".attachments.{given['note_id']}"
        await nc.files.create_folder(f"/Notes/{folder}")
        await nc.files.write(f"/Notes/{folder}/x.png", PNG)
        return {"path": f"{folder}/x.png"}
    return {}
