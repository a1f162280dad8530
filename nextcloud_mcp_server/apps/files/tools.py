"""Tools for files: list and search; the others are in `read`, `write` and `trash`."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.apps.files.read import reading
from nextcloud_mcp_server.apps.files.trash import trash
from nextcloud_mcp_server.apps.files.write import writing
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.entries import Details
from nextcloud_mcp_server.nextcloud.file_order import Order, position
from nextcloud_mcp_server.nextcloud.file_query import Kind, Query
from nextcloud_mcp_server.nextcloud.sanitize import cited
from nextcloud_mcp_server.tools import file_words, pagination, time_argument
from nextcloud_mcp_server.tools.file_results import (
    NO_ETAG,
    FolderPage,
    FoundPage,
    ItemInfo,
    Quota,
    Row,
    kind,
    shown_as,
)
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

_UNLIMITED: Final = -3

files = Toolset("files")


@files.tool("List a folder", read_only=True)
@require_provisioning("files:read")
async def nc_files_list_folder(
    nc: Account,
    path: str = "/",
    *,
    sort: Order = "name",
    limit: Annotated[int, Field(ge=1, le=500)] = 100,
    cursor: str | None = None,
) -> FolderPage:
    """List what is directly in a folder (folders first, newest first or largest first).

    For more pages pass cursor.
    """
    after = pagination.unseal(cursor, "folder", path, sort)
    listing = await nc.files.list_folder(path, order=sort, limit=limit, after=after)
    rows = [Row.of(entry, in_folder=True) for entry in listing.entries]
    rows = pagination.fit(rows, most=sum(row.most_bytes for row in rows))
    more = listing.more or len(rows) < len(listing.entries)
    return FolderPage(
        path=listing.folder.path,
        items=rows,
        total=listing.total,
        cursor=pagination.seal(position(listing.entries[len(rows) - 1], sort), "folder", path, sort)
        if more
        else None,
    )


@files.tool("Look at a file or folder", read_only=True)
@require_provisioning("files:read")
async def nc_files_get_info(nc: Account, path: str) -> ItemInfo:
    """Tell size, type, etag, permissions, owner, shares, tags, and for folders the quota."""
    entry, details = await nc.files.details(path)
    return ItemInfo(
        path=entry.path,
        type=kind(entry),
        size=entry.size,
        modified=entry.modified_at,
        etag=str(entry.version),
        permissions=file_words.permissions(details.permissions),
        owner=details.owner or None,
        shared_with_me=True if "S" in details.permissions else None,
        shared_by=file_words.shares(details.share_types) or None,
        shared_with=list(details.shared_with[:_LISTED]) or None,
        tags=list(details.tags[:_LISTED]) or None,
        favorite=entry.favourite,
        encrypted=True if entry.encrypted else None,
        folders_inside=details.folders_inside,
        files_inside=details.files_inside,
        quota=_quota(details) if entry.is_folder else None,
        shown_as=shown_as(entry.path),
        note=_ENCRYPTED if entry.encrypted else None if entry.etag else NO_ETAG,
    )


_ENCRYPTED: Final = (
    "End-to-end encrypted: Nextcloud opens it to its owner's own apps alone, and searches nothing in it."
)
#: The maximum number of users and tags returned; a folder may be shared with thousands.
_LISTED: Final = 50


def _quota(details: Details) -> Quota:
    available = details.quota_available
    return Quota(
        used=details.quota_used,
        available=available if available is not None and available >= 0 else None,
        unlimited=True if available == _UNLIMITED else None,
    )


@files.tool("Search files", read_only=True, long=True)
@require_provisioning("files:read")
async def nc_files_search_items(
    nc: Account,
    *,
    name: Annotated[str | None, Field(max_length=250, description="Part of the name.")] = None,
    kind: Kind | None = None,
    folder: str = "/",
    min_size: Annotated[int | None, Field(ge=0)] = None,
    max_size: Annotated[int | None, Field(ge=0)] = None,
    modified_after: Annotated[str | None, Field(description="ISO 8601.")] = None,
    modified_before: str | None = None,
    favorite: bool = False,
    tag: str | None = None,
    content: Annotated[
        str | None, Field(description="Words in the text, where Nextcloud indexes it.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> FoundPage:
    """Find files and folders below a folder by name, kind, size, date, favorites, tag or content; newest first."""
    query = Query(
        folder=folder,
        name=name,
        kind=kind,
        min_size=min_size,
        max_size=max_size,
        modified_after=await _moment(nc, "modified_after", modified_after),
        modified_before=await _moment(nc, "modified_before", modified_before),
        favourite=favorite,
        tag=tag,
        content=content,
    )
    after = pagination.unseal(cursor, "search", query)
    found, rest = await nc.file_search.find(query, limit=limit, after=after)
    rows = pagination.fit([Row.of(each.entry, in_folder=False) for each in found])
    following = found[len(rows) - 1].position if len(rows) < len(found) else rest
    return FoundPage(
        items=rows,
        cursor=pagination.seal(following, "search", query) if following is not None else None,
        # Applies to all pages, so it is on the first.
        note=_left_out(await nc.file_search.encrypted(folder)) if after is None else None,
    )


def _left_out(locked: list[str]) -> str | None:
    """Return a sentence that names the folders that could not be searched; None without any."""
    if not locked:
        return None
    more = f" and {len(locked) - _LISTED} more" if locked[_LISTED:] else ""
    return f"End-to-end encrypted, so not searched inside: {', '.join(map(cited, locked[:_LISTED]))}{more}."


async def _moment(nc: Account, name: str, text: str | None) -> datetime | None:
    return None if text is None else await time_argument.read(nc, name, text)


files.tools[2:2] = reading.tools
files.tools += [*writing.tools, *trash.tools]
