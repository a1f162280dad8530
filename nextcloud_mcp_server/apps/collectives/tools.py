"""Tools for the Collectives app."""

from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.apps.collectives.client import FIRST_PAGE, Collective, CollectivesClient, Page
from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.documents.charset import Charset
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.byte_range import Chunk
from nextcloud_mcp_server.nextcloud.files import Written
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.named import having_words
from nextcloud_mcp_server.tools import file_text, pagination
from nextcloud_mcp_server.tools.file_text import charset_of
from nextcloud_mcp_server.tools.result import Document, Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

collectives = Toolset("collectives")

_LIMIT = file_text.MAX_TEXT_BYTES


class PageList(Result):
    """The person's collectives, or pages of one; `total` counts those that were found."""

    collectives: list[Collective] | None = None
    pages: list[Page] | None = None
    total: int
    cursor: str | None = None


class PageText(Document):
    """A page's text, or a part of it; `path` and `etag` are what changing it as a file asks for."""

    id: Id
    title: str
    path: str
    etag: str
    offset: int
    next_offset: int | None = None
    note: str | None = None


class PageMade(Result):
    """A page that was made, under the title that Collectives gave it."""

    id: Id
    title: str
    path: str
    etag: str | None = None
    note: str | None = None


@collectives.tool("List pages", read_only=True)
@require_provisioning("collectives:read")
async def nc_collectives_list_pages(
    nc: Account,
    collective_id: Id | None = None,
    *,
    query: Annotated[str, Field(description="Words of the title.")] = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> PageList:
    """List the person's collectives, or the pages of one; go on with cursor."""
    listing = pagination.Listing(cursor, collective_id, query)
    client = nc.client(CollectivesClient)
    if collective_id is None:
        named = await having_words(
            query, await client.list_collectives(), lambda one: (one.name,), uid=nc.uid
        )
        collectives, cursor = listing.page(named, limit)
        return PageList(collectives=collectives, total=len(named), cursor=cursor)
    titled = await having_words(
        query, await client.pages(collective_id), lambda one: (one.title,), uid=nc.uid
    )
    pages, cursor = listing.page(titled, limit)
    return PageList(pages=pages, total=len(titled), cursor=cursor)


@collectives.tool("Read a page", read_only=True)
@require_provisioning("collectives:read")
async def nc_collectives_get_page(
    nc: Account,
    collective_id: Id,
    page_id: Id,
    *,
    offset: Annotated[int, Field(ge=0, le=2**53)] = 0,
) -> PageText:
    """Read a page's Markdown; go on at next_offset, and change it with nc_files_edit_file by its path and etag."""
    page = await nc.client(CollectivesClient).page(collective_id, page_id)
    length = max(_LIMIT + file_text.LOOKAHEAD, charset.SAMPLE_BYTES)
    chunk = await nc.files.read(page.path, offset=offset, length=length)
    return _page_text(page, chunk, await charset_of(nc, chunk) or charset.UTF8)


@collectives.tool("Create a page")
@require_provisioning("collectives:write")
async def nc_collectives_create_page(
    nc: Account,
    collective_id: Id,
    title: str,
    *,
    content: Annotated[str, Field(description="Markdown.")] = "",
    parent_id: Annotated[Id, Field(description="The page it goes below; 0 = the first page.")] = FIRST_PAGE,
) -> PageMade:
    """Create a page in a collective; every user in it sees the page."""
    if not title.strip():
        raise InvalidInput("'title' is empty: every page has one.")
    page = await nc.client(CollectivesClient).create(collective_id, parent_id, title.strip())
    try:
        written = await _fill(nc, page, content)
    except file_errors.OF_ACCESS:
        raise
    except NextcloudError as error:
        note = (
            f"The page is made and empty{file_errors.perhaps(error)}, but its text could not be written: {error} "
            "Write it as a file."
        )
        return PageMade(id=page.id, title=page.title, path=page.path, note=note)
    return PageMade(
        id=page.id,
        title=page.title,
        path=page.path,
        etag=None if written is None else str(written.version),
        note=None if page.title == title.strip() else "Collectives changed the title.",
    )


async def _fill(nc: Account, page: Page, content: str) -> Written | None:
    """Write the text of a page that is still empty."""
    if not content:
        return None
    empty = await nc.files.info(page.path)
    return await nc.files.write(page.path, content.encode(), version=str(empty.version))


def _page_text(page: Page, chunk: Chunk, found: Charset) -> PageText:
    part = file_text.page(chunk.data, limit=_LIMIT, offset=chunk.offset, is_last=chunk.is_last, charset=found)
    more = not chunk.is_last or part.end < len(chunk.data)
    return PageText(
        content=part.text,
        id=page.id,
        title=page.title,
        path=page.path,
        etag=str(chunk.version),
        offset=chunk.offset + part.start,
        next_offset=chunk.offset + part.end if more else None,
        note=None if part.exact else f"Bytes that are not {found.label} are shown as \ufffd.",
    )
