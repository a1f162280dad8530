"""Tools that change files; `files` adds them to its toolset."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.apps.files import edit, moves
from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.errors import EtagMismatch, InvalidInput
from nextcloud_mcp_server.nextcloud import file_errors, memory_permit
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.version import Version
from nextcloud_mcp_server.tools import note_pictures
from nextcloud_mcp_server.tools.file_content import Encoding, TargetEtag, decoded
from nextcloud_mcp_server.tools.file_results import Changed, Deleted, Moved
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

#: Larger texts are not edited through a model; the file is in memory twice, before and after.
MAX_EDITED_BYTES: Final = 4_194_304

#: The bytes at the start of a file to be overwritten from which its encoding is detected.
_HEAD_BYTES: Final = 65_536

Etag = Annotated[str | None, Field(description="As reading answered it.")]

Sources = Annotated[list[str], Field(min_length=1, max_length=moves.MOST)]

writing = Toolset("files")


@writing.tool("Write a file", destructive=True, repeatable=True)
@require_provisioning("files:write")
async def nc_files_write_file(
    nc: Account,
    path: str,
    *,
    content: str,
    encoding: Encoding = "text",
    etag: Etag = None,
) -> Changed:
    """Create a file; to overwrite one, pass the etag that reading it answered."""
    note = await _other_encoding(nc, path, content) if etag is not None and encoding == "text" else None
    written = await nc.files.write(path, decoded(content, encoding), version=etag)
    changed = Changed.by_writing(written)
    return changed.model_copy(update={"note": " ".join(filter(None, (changed.note, note))) or None})


async def _other_encoding(nc: Account, path: str, content: str) -> str | None:
    """Return a warning if the text to be overwritten has another encoding than the new one."""
    try:
        chunk = await nc.files.read(path, length=_HEAD_BYTES)
    except (*file_errors.NOT_SEEN, InvalidInput):
        # The write reports errors in its own words.
        return None
    found = charset.detect(chunk.data, whole=chunk.is_last) if chunk.data else None
    if found is None or found.bom + content.encode(found.codec, "replace") == content.encode():
        return None
    return (
        f"The file was {found.label} and is UTF-8 now; a program that expects the former may show it wrongly. "
        "nc_files_edit_file keeps the encoding."
    )


@writing.tool("Edit a file", destructive=True)
@require_provisioning("files:write")
async def nc_files_edit_file(
    nc: Account, path: str, *, old_text: str, new_text: str, replace_all: bool = False, etag: Etag = None
) -> Changed:
    """Replace an exact passage of a text file, which must be there once (or set replace_all).

    The file keeps its encoding and line ends.
    """
    return await _edited(
        nc, path, etag, partial(edit.Text.replace, old=old_text, new=new_text, every=replace_all)
    )


async def _edited(
    nc: Account, path: str, etag: str | None, replace: Callable[[edit.Text], tuple[bytes, int]]
) -> Changed:
    await memory_permit.take(nc.uid)
    chunk = await nc.files.read(path, length=MAX_EDITED_BYTES + 1)
    if len(chunk.data) > MAX_EDITED_BYTES or not chunk.is_last:
        raise InvalidInput(f"The file is larger than {MAX_EDITED_BYTES} bytes, too large to edit here.")
    if etag is not None and not Version.parse(etag).agrees_with(chunk.version):
        raise EtagMismatch(
            "The file changed since it was read. Read it again, look at what has changed, and pass the etag that "
            "this read answers.",
            current_etag=str(chunk.version),
        )
    edited, count = await aside(lambda: replace(edit.Text.of(chunk.data)), uid=nc.uid, size=len(chunk.data))
    written = await nc.files.write(path, edited, version=str(chunk.version))
    return Changed.by_writing(written, replaced=count)


@writing.tool("Create a folder", repeatable=True)
@require_provisioning("files:write")
async def nc_files_create_folder(nc: Account, path: str) -> Changed:
    """Create a folder, with the folders above it that are missing."""
    created = await nc.files.create_folder(path)
    return Changed(path=path.strip("/"), created=created)


@writing.tool("Move or rename", destructive=True, repeatable=True, long=True)
@require_provisioning("files:write")
async def nc_files_move_item(
    nc: Account,
    *,
    source: str | Sources,
    destination: str,
    overwrite_etag: TargetEtag = None,
    progress: Progress,
) -> Changed | Moved:
    """Move or rename a file or folder; destination is the full new path.

    With a list of sources, destination is the folder they go into.
    """
    if isinstance(source, list):
        if overwrite_etag is not None:
            raise InvalidInput("Several things are never moved over others: leave out 'overwrite_etag'.")
        return await moves.move_all(nc, source, destination, progress)
    entry = await nc.files.move(source, destination, overwrite=overwrite_etag)
    changed = Changed.by_transfer(destination.strip("/"), entry)
    stayed = await note_pictures.after_move(nc, source, destination)
    return changed.model_copy(update={"note": " ".join(filter(None, (changed.note, stayed))) or None})


@writing.tool("Copy", destructive=True, repeatable=True, long=True)
@require_provisioning("files:write")
async def nc_files_copy_item(
    nc: Account, *, source: str, destination: str, overwrite_etag: TargetEtag = None
) -> Changed:
    """Copy a file or folder; destination is the full path of the copy."""
    entry = await nc.files.copy(source, destination, overwrite=overwrite_etag)
    return Changed.by_transfer(destination.strip("/"), entry)


@writing.tool("Delete", destructive=True)
@require_provisioning("files:write")
async def nc_files_delete_item(nc: Account, path: str, *, etag: Etag = None) -> Deleted:
    """Delete a file or folder to the trash; the answer tells how to undo it."""
    deleted = await nc.files.delete(path, version=etag)
    entry = await nc.trash.find_deleted(deleted)
    if entry is None:
        undo = "It was not found in the trash: see nc_files_list_trash. What others shared is only let go."
        return Deleted(path=deleted, undo=undo)
    return Deleted(
        path=deleted,
        trash_id=entry.trash_id,
        undo="To undo, call nc_files_restore_trash with this trash_id.",
    )
