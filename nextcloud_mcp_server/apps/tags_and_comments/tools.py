"""Tools for tags, favourites and comments of files.

A tag has a model of its own for results: `nextcloud` does not import `tools`, and a file search needs tags, too.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from nextcloud_mcp_server.apps.tags_and_comments.comments import MAX_CHARACTERS, CommentRow, CommentsClient
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import file_errors, outcome
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside_for
from nextcloud_mcp_server.nextcloud.outcome import Part
from nextcloud_mcp_server.nextcloud.tags import Marked, Tag, is_among
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

#: More at once would be a bulk change, and each costs a request.
_MOST_TAGS = 20

Tags = Annotated[list[str] | None, Field(max_length=_MOST_TAGS)]

labels = Toolset("labels")


class TagRow(Result):
    """A tag; `fixed` ones only administrators give and take."""

    name: str
    fixed: Literal[True] | None = None

    @classmethod
    def of(cls, tag: Tag) -> "TagRow":
        """Build from a tag."""
        return cls(name=tag.name, fixed=None if tag.assignable else True)


class TagPage(Result):
    """A page of tags by name; go on with `cursor`."""

    path: str | None = None
    items: list[TagRow]
    total: int
    cursor: str | None = None


class Labelled(Result):
    """What a file is marked with now; `failed` names what of the change did not happen."""

    path: str
    tags: list[str] | None = None
    favorite: bool | None = None
    failed: list[str] | None = None
    note: str | None = None


class CommentPage(Result):
    """A page of comments, newest first; go on with `cursor`."""

    path: str
    items: list[CommentRow]
    cursor: str | None = None


class Commented(Result):
    """What was said, and to whom it shows."""

    path: str
    note: str


@labels.tool("List tags", read_only=True)
@require_provisioning("files:read")
async def nc_files_list_tags(
    nc: Account,
    *,
    path: str | None = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 200,
    cursor: str | None = None,
) -> TagPage:
    """List the tags that exist, or with path those of one file or folder."""
    after = pagination.unseal(cursor, "tags", path)
    if path is None:
        shown, tags = None, await nc.tags.all_tags()
    else:
        entry, details = await nc.files.details(path)
        shown, tags = entry.path, await nc.tags.tags_of(details.file_id)
    found, more = await aside_for(tags, partial(_page, tags, limit=limit, after=after), uid=nc.uid)
    rows = pagination.fit([TagRow.of(tag) for tag in found])
    more = more or len(rows) < len(found)
    return TagPage(
        path=shown,
        items=rows,
        total=len(tags),
        cursor=pagination.seal(_position(found[len(rows) - 1]), "tags", path) if more else None,
    )


def _page(tags: Sequence[Tag], *, limit: int, after: Position | None) -> tuple[list[Tag], bool]:
    window = TopK[Tag](_position, limit=limit, after=after)
    for tag in tags:
        window.offer(tag)
    return window.page()


def _position(tag: Tag) -> Position:
    return Position.of(0, tag.name)


@labels.tool("Tag or mark as favorite", repeatable=True)
@require_provisioning("files:write")
async def nc_files_set_labels(
    nc: Account,
    path: str,
    *,
    add_tags: Tags = None,
    remove_tags: Tags = None,
    favorite: bool | None = None,
) -> Labelled:
    """Put tags on a file or folder (new ones are made), take them off, or set its favorite mark.

    Every user who can see the file sees its tags; the favorite mark is the person's own.
    """
    if not add_tags and not remove_tags and favorite is None:
        raise InvalidInput("Say what to change: add_tags, remove_tags or favorite.")
    entry, details = await nc.files.details(path)
    item = Marked(entry.path, details.file_id, details.permissions)
    failed = await nc.tags.change(item, add=add_tags or (), remove=remove_tags or (), favourite=favorite)
    try:
        now, marks = await nc.files.details(entry.path)
    except file_errors.NOT_SEEN:
        note = "All else is done, but the file could not be looked at afterwards: see nc_files_get_info."
        return Labelled(path=entry.path, failed=failed or None, note=note)
    parts = [
        Part(f"tag {name}", wanted, is_among(name, marks.tags), is_among(name, details.tags))
        for wanted, names in ((True, add_tags), (False, remove_tags))
        for name in names or ()
    ]
    if favorite is not None:
        parts.append(Part("favorite", favorite, now.favourite, entry.favourite))
    # Failures are reported already.
    note = None if failed else outcome.compare("Nextcloud", parts)
    return Labelled(
        path=now.path, tags=list(marks.tags), favorite=now.favourite, failed=failed or None, note=note
    )


@labels.tool("List comments", read_only=True)
@require_provisioning("files:read")
async def nc_files_list_comments(
    nc: Account, path: str, *, limit: Annotated[int, Field(ge=1, le=100)] = 30, cursor: str | None = None
) -> CommentPage:
    """List what people said about a file or folder, newest first; unread ones stay unread."""
    after = pagination.unseal(cursor, "comments", path, least=0)
    first, before = (0, None) if after is None else (after.number, untrusted.integer(after.name))
    if after is not None and after.name and before is None:
        raise pagination.of_another_list()
    entry, details = await nc.files.details(path)
    found, more = await nc.client(CommentsClient).list_comments(
        details.file_id, limit=limit, first=first, before=before
    )
    rows = pagination.fit(found)
    more = more or len(rows) < len(found)
    last = found[len(rows) - 1].number if rows else before
    # New comments have moved the others down: these are fetched again and recognized by their ids.
    following = Position.of(first + (len(rows) or limit), "" if last is None else str(last))
    return CommentPage(
        path=entry.path, items=rows, cursor=pagination.seal(following, "comments", path) if more else None
    )


@labels.tool("Comment on a file", reaches_others=True)
@require_provisioning("files:write")
async def nc_files_add_comment(
    nc: Account, path: str, *, text: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
) -> Commented:
    """Say something about a file or folder in the person's name, to all who can see it."""
    entry, details = await nc.files.details(path)
    await nc.client(CommentsClient).add(entry.path, details.file_id, text)
    return Commented(
        path=entry.path, note="All who can see it can read this; only Nextcloud itself can delete it."
    )
