"""Tools for the earlier versions of a file."""

from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.versions.client import VersionRow, VersionsClient, position
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.version import Version
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

history = Toolset("history")


class VersionPage(Result):
    """A page of a file's versions, newest first; `etag` is that of the file now."""

    path: str
    etag: str
    items: list[VersionRow]
    total: int
    cursor: str | None = None


class RestoredVersion(Result):
    """What the file holds again."""

    path: str
    etag: str | None = None
    size: int | None = None
    undo: str


@history.tool("List the versions of a file", read_only=True)
@require_provisioning("files:read")
async def nc_files_list_versions(
    nc: Account, path: str, *, limit: Annotated[int, Field(ge=1, le=200)] = 50, cursor: str | None = None
) -> VersionPage:
    """List what a file held before, newest first, with the etag and version_id that restoring asks for."""
    entry, file_id = await _file(nc, path)
    after = pagination.unseal(cursor, "versions", entry.path)
    found, total, more = await nc.client(VersionsClient).list_versions(file_id, limit=limit, after=after)
    rows = pagination.fit([version.compared(entry) for version in found])
    more = more or len(rows) < len(found)
    return VersionPage(
        path=entry.path,
        etag=str(entry.version),
        items=rows,
        total=total,
        cursor=pagination.seal(position(found[len(rows) - 1]), "versions", entry.path) if more else None,
    )


@history.tool("Restore a version of a file", destructive=True)
@require_provisioning("files:write")
async def nc_files_restore_version(
    nc: Account, path: str, *, version_id: TextId, etag: str
) -> RestoredVersion:
    """Let a file hold an earlier version again; what it holds now becomes a version itself."""
    before, file_id = await _file(nc, path)
    if not Version.parse(etag).agrees_with(before.version):
        raise file_errors.changed(before.path, str(before.version))
    await nc.client(VersionsClient).restore(before.path, file_id, version_id)
    undo = f"To undo, call nc_files_restore_version with version_id {before.version.seconds} and "
    try:
        after = await nc.files.info(before.path)
    except file_errors.NOT_SEEN:
        undo += "the etag of nc_files_get_info: the version is restored, but could not be looked at."
        return RestoredVersion(path=before.path, undo=undo)
    return RestoredVersion(
        path=after.path, etag=str(after.version), size=after.size, undo=f"{undo}this etag."
    )


async def _file(nc: Account, path: str) -> tuple[Entry, str]:
    """Fetch a file's entry and its id."""
    entry, details = await nc.files.details(path)
    if entry.is_folder:
        raise InvalidInput(f"{quoted(entry.path)} is a folder: only files have versions.")
    return entry, details.file_id
