"""Files as resources: `nc://files/Documents/plan.md`."""

from collections.abc import Collection

from nextcloud_mcp_server.documents import charset, kinds
from nextcloud_mcp_server.errors import InvalidInput, NotFound, TooLarge
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.byte_range import Chunk
from nextcloud_mcp_server.nextcloud.file_order import position
from nextcloud_mcp_server.resources import kind as resource
from nextcloud_mcp_server.resources.kind import About, Contents, Listed, Marks, Page, Reader, Typed
from nextcloud_mcp_server.tools import pagination

_PAGE = 100
#: The maximum number of files in the top folder that are watched for additions and removals.
_WATCHED = 1000
_TOO_LARGE = "The file is too large for one resource; nc_files_read_file reads it in parts."


class Files:
    """The kind of files, by path. Those in the top folder are listed; completion leads to the others."""

    about = About(
        "files",
        template="nc://files/{+path}",
        name="file",
        title="File",
        description="A file, by its path; of a PDF, Office or other document its text.",
        mime_type=None,
        action="nc_files_read_file",
        listing="nc_files_list_folder",
    )

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List the files of the top folder; a page with only folders is empty."""
        after = pagination.unseal(cursor, "resources")
        listing = await nc.files.list_folder("/", limit=_PAGE, after=after)
        rows = [
            Listed(
                uri=self.about.uri(entry.path.lstrip("/")),
                name=entry.name,
                mime_type=entry.content_type or "application/octet-stream",
                size=entry.size,
                modified=entry.modified_at,
            )
            for entry in listing.entries
            if not entry.is_folder
        ]
        last = listing.entries[-1] if listing.entries and listing.more else None
        return Page(rows, pagination.seal(position(last, "name"), "resources") if last else None)

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:
        """Return a whole file: the text of a document, text unchanged, and anything else as bytes."""
        if kind := kinds.by_name(value):
            return await _document(nc, value, kind, reader)
        return await _shown(nc, value, await nc.files.read(value, length=resource.MAX_BYTES), reader)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the etag of the top folder, which covers all below it; look further if it changed."""
        top = await nc.watch.etag("files", "/")
        same = before if before and before.state == top != "" else Marks({})
        each = {value: same.each[value] for value in values if value in same.each}
        each |= await nc.watch.etags("files", [value for value in values if value not in each])
        listed = same.listing
        if listing and listed is None:
            found = await nc.files.list_folder("/", limit=_WATCHED)
            listed = resource.fingerprint(entry.name for entry in found.entries if not entry.is_folder)
        return Marks(each, listed if listing else None, top)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """List the entries of the typed folder that begin with the rest; folders end in a slash."""
        folder, _, start = typed.value.rpartition("/")
        try:
            listing = await nc.files.list_folder(folder or "/", limit=1000)
        except (NotFound, InvalidInput):
            return []
        return [
            entry.path.lstrip("/") + ("/" if entry.is_folder else "")
            for entry in listing.entries
            if entry.name.casefold().startswith(start.casefold())
        ]


async def _shown(nc: Account, path: str, chunk: Chunk, reader: Reader) -> Contents:
    """Return a file as text, document or bytes, according to its content."""
    if kind := kinds.by_content(chunk.content_type, chunk.data):
        return await _document(nc, path, kind, reader)
    if not chunk.is_last:
        raise TooLarge(_TOO_LARGE)
    mime_type = chunk.content_type.partition(";")[0].strip() or "application/octet-stream"
    found = charset.of_file(chunk.data)
    if found is None:
        return Contents(chunk.data, mime_type)
    return resource.whole(found.decode(chunk.data), mime_type, too_large=_TOO_LARGE)


async def _document(nc: Account, path: str, kind: kinds.Kind, reader: Reader) -> Contents:
    """Return the text of a document, as nc_files_read_file does."""
    found = await reader.documents.text(nc, path, kind, reader.progress)
    if found.extract is None or not found.readable:
        raise InvalidInput(found.note)
    return resource.whole(found.extract.text.decode(), "text/plain", too_large=_TOO_LARGE)
