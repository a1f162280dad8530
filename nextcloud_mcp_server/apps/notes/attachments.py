"""Finds a file that the text of a note refers to."""

from urllib.parse import parse_qs, urlsplit

from nextcloud_mcp_server.apps.notes.client import Attachment, NotesClient
from nextcloud_mcp_server.errors import NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools.note_pictures import names


async def find(nc: Account, note_id: Id, written: str) -> tuple[str, Attachment]:
    """Fetch a file that a note's text refers to; return also the path at which it was found.

    Raises:
      NotFound: The note has no such file.
      InvalidInput: The name leads out of the note's folder.
    """
    old = parse_qs(urlsplit(written).query).get("imageFileName") if written.startswith("text://") else None
    # The Text app wrote this form up to version 24.
    paths = names(f".attachments.{note_id}/{old[0]}") if old else names(written)
    for path in paths[:-1]:
        try:
            return path, await nc.client(NotesClient).attachment(note_id, path)
        except NotFound:
            continue
    return paths[-1], await nc.client(NotesClient).attachment(note_id, paths[-1])
