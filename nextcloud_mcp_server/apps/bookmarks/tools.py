"""Tools for the Bookmarks app."""

import re
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.apps.bookmarks.client import Bookmark, BookmarksClient
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError, NotFound
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.ids import Id, TextId
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

bookmarks = Toolset("bookmarks")

#: Bookmarks answers with the texts of the archived pages, too.
_PAGE: Final = 20
_FOLDER: Final = re.compile(r"-1|[0-9]{1,18}")
#: Bookmarks takes any other text for a host and puts http:// before it, after the address was looked up.
_ADDRESS: Final = re.compile(r"(?:https?|s?ftp|file)://\S+", re.IGNORECASE)
_LONGEST_TAG: Final = 255
#: In bytes. Bookmarks cuts longer ones without a word.
_LONGEST_TEXT: Final = 1024

Folders = Annotated[list[TextId] | None, Field(description="The whole list.")]


class BookmarkPage(Result):
    """Bookmarks, the last changed first."""

    bookmarks: list[Bookmark]
    cursor: str | None = None


class BookmarkSaved(Bookmark):
    """A bookmark as it is now."""

    created: bool


class BookmarkDeleted(Result):
    """What a deleted bookmark held, and how to bring it back."""

    bookmark: Bookmark
    undo: str
    note: str | None = None


@bookmarks.tool("Find bookmarks", read_only=True)
@require_provisioning("bookmarks:read")
async def nc_bookmarks_find_bookmarks(
    nc: Account,
    *,
    query: Annotated[str, Field(description="Words of the address, title, text or tags.")] = "",
    tags: list[str] | None = None,
    folder: Annotated[TextId | None, Field(description="-1 is the top one.")] = None,
    cursor: str | None = None,
) -> BookmarkPage:
    """Find the person's bookmarks, or list them, with the etag a change needs; go on with cursor."""
    filters = (query, tags, folder)
    start = pagination.Listing(cursor, *filters).start
    page, skipped = divmod(start, _PAGE)
    found = await nc.client(BookmarksClient).find(
        words=query.split(),
        tags=tags or (),
        folder=None if folder is None else str(_folder(folder)),
        limit=_PAGE,
        page=page,
    )
    rows = pagination.fit(found[skipped:])
    more = len(found) == _PAGE or skipped + len(rows) < len(found)
    following = pagination.seal(Position.of(start + len(rows), ""), *filters) if rows and more else None
    return BookmarkPage(bookmarks=rows, cursor=following)


@bookmarks.tool("Save a bookmark", destructive=True, repeatable=True)
@require_provisioning("bookmarks:write")
async def nc_bookmarks_save_bookmark(
    nc: Account,
    *,
    bookmark_id: Annotated[Id | None, Field(description="To change one; with its etag.")] = None,
    etag: str | None = None,
    url: str | None = None,
    title: str | None = None,
    description: Annotated[str | None, Empty("takes it off")] = None,
    tags: Annotated[list[str] | None, Field(description="The whole list.")] = None,
    folders: Folders = None,
) -> BookmarkSaved:
    """Save an address as a bookmark, or change only the given parts of one."""
    if url and not _ADDRESS.fullmatch(url):
        raise InvalidInput(
            "'url' must be a whole address without spaces, such as https://example.org/page. "
            "Bookmarks takes http, https, ftp, sftp and file."
        )
    if folders is not None and not folders:
        raise InvalidInput("'folders' is empty, which would delete the bookmark; -1 is the top folder.")
    into = None if folders is None else list(dict.fromkeys(map(_folder, folders)))
    kept = None if tags is None else _tags(tags)
    for name, text in (("title", title), ("description", description)):
        if len((text or "").encode()) > _LONGEST_TEXT:
            raise InvalidInput(
                f"'{name}' is longer than the {_LONGEST_TEXT} bytes that Bookmarks keeps. Shorten it."
            )
    given = {"url": url, "title": title, "description": description, "tags": kept, "folders": into}
    fields: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    client = nc.client(BookmarksClient)
    if bookmark_id is None:
        if not url or etag is not None:
            raise InvalidInput(
                "Send a 'url' to save a bookmark, or the bookmark_id with its etag to change one."
            )
        await client.check(url, into)
        return await _created(client, fields)
    if etag is None or not fields:
        raise InvalidInput("Send the 'etag' that nc_bookmarks_find_bookmarks answers, and what to change.")
    await client.check(url, into, bookmark_id)
    await client.current(bookmark_id, etag)
    return _saved(await client.update(bookmark_id, fields), created=False)


@bookmarks.tool("Delete a bookmark", destructive=True)
@require_provisioning("bookmarks:write")
async def nc_bookmarks_delete_bookmark(nc: Account, bookmark_id: Id, *, etag: str) -> BookmarkDeleted:
    """Delete a bookmark from all its folders; the answer says how to bring it back."""
    client = nc.client(BookmarksClient)
    bookmark = await client.current(bookmark_id, etag)
    if not bookmark.folders:
        raise NotFound("That bookmark is in the trash of Bookmarks already.")
    undo = "nc_bookmarks_save_bookmark with this url, title, description, tags and folders brings it back."
    for place, folder in enumerate(bookmark.folders):
        try:
            await client.trash(bookmark, folder)
        except NextcloudError as error:
            if place == 0 or isinstance(error, file_errors.OF_ACCESS):
                raise
            left = ", ".join(bookmark.folders[place:])
            note = f"It is gone from some folders, but not from {left}{file_errors.perhaps(error)}: {error}"
            return BookmarkDeleted(bookmark=bookmark, undo=undo, note=note)
    return BookmarkDeleted(bookmark=bookmark, undo=undo)


async def _created(client: BookmarksClient, fields: dict[str, object]) -> BookmarkSaved:
    """Create a bookmark whose address is not there yet; Bookmarks would change the one that has it."""
    if "title" in fields:
        # With both, Nextcloud does not have to open the page before it answers.
        fields = {"description": "", **fields}
    return _saved(await client.create(fields), created=True)


def _saved(bookmark: Bookmark, *, created: bool) -> BookmarkSaved:
    return BookmarkSaved.model_construct(**dict(bookmark), created=created)


def _tags(tags: list[str]) -> list[str]:
    """Trim tags as Bookmarks does, which fails on one that is there twice or too long after removing the others."""
    trimmed = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if any(len(tag) > _LONGEST_TAG for tag in trimmed):
        raise InvalidInput(f"A tag must have at most {_LONGEST_TAG} characters.")
    return trimmed


def _folder(text: str) -> int:
    if _FOLDER.fullmatch(text) is None:
        raise InvalidInput('A folder is a number as nc_bookmarks_find_bookmarks answers it, such as "-1".')
    return int(text)
