"""One user's files, over WebDAV."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import byte_range, dav, entries, file_errors, paths, sign_in_page
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.entries import Details, Entry
from nextcloud_mcp_server.nextcloud.file_order import PLACES, Order
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK, cut
from nextcloud_mcp_server.nextcloud.version import Version

#: Each missing parent costs a request, so a path with thousands of them is refused.
_MAX_NEW_LEVELS: Final = 64
#: The etag that PROPFIND reports for a reserved upload name when nothing is there.
_NO_ETAG: Final = '""'


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the direct children of a folder."""

    folder: Entry
    entries: list[Entry]
    total: int
    more: bool


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write."""

    path: str
    version: Version
    created: bool


class FilesClient:
    """Reads and changes one user's files."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._tree = dav.Tree.of("files", http.uid)

    async def list_folder(
        self, path: str = "/", *, order: Order = "name", limit: int = 100, after: Position | None = None
    ) -> Listing:
        """Fetch one page of the direct children of a folder; one request, however large the folder.

        Raises:
          NotFound: No such folder.
          InvalidInput: It is a file.
        """
        wanted = dav.split(path)
        window = TopK[Entry](PLACES[order], limit=limit, after=after)
        depth = len(wanted) + 1
        folder: Entry | None = None
        async with self._propfind(wanted, entries.ROW, depth="1") as found:
            async for segments, response in found:
                # Some versions of Nextcloud (31.0.8) return grandchildren as well.
                if len(segments) == depth and dav.same(segments[:-1], wanted):
                    window.offer(entries.entry_of(segments, response))
                elif dav.same(segments, wanted):
                    folder = entries.entry_of(segments, response)
        if folder is None:
            raise file_errors.not_what_was_asked(path)
        if not folder.is_folder:
            raise errors.InvalidInput(f"{quoted(path)} is a file: read it with nc_files_read_file.")
        page, more = window.page()
        return Listing(folder, page, window.total, more)

    async def info(self, path: str) -> Entry:
        """Fetch the properties of a list row for one file or folder.

        Raises:
          NotFound: No such file or folder.
        """
        return entries.entry_of(*await self._one(dav.split(path), entries.STATE))

    async def details(self, path: str) -> tuple[Entry, Details]:
        """Fetch all properties of one file or folder.

        Raises:
          NotFound: No such file or folder.
        """
        segments, response = await self._one(await self._looked_at(dav.split(path)), entries.DETAILS)
        return entries.entry_of(segments, response), entries.details_of(response)

    async def read(self, path: str, *, offset: int = 0, length: int) -> byte_range.Chunk:
        """Fetch at most `length` bytes from byte `offset` on.

        A second request is sent for an empty file, for an unknown size, and when the response may be a sign-in page.

        Raises:
          NotFound: No such file.
          NotNextcloud: The response is a web page of something before Nextcloud.
          InvalidInput: It is a folder, or it ends before `offset`.
        """
        segments = await self._looked_at(paths.existing(path))
        shown = dav.join(segments)
        sentences = {404: file_errors.missing(shown), 416: f"{quoted(shown)} ends before byte {offset}."}
        headers = {"Range": f"bytes={offset}-{offset + length - 1}", "Accept": "*/*"}
        try:
            async with self._http.stream(
                "GET", self._tree.url(segments), headers=headers, sentences=sentences
            ) as response:
                suspicious = sign_in_page.is_possible(response)
                chunk = await byte_range.take(response, shown, offset=offset, length=length)
        except errors.OutOfRange:
            # An empty file has no first byte, so a range request is refused.
            entry = await self.info(path) if offset == 0 else None
            if entry is None or entry.size:
                raise
            return byte_range.Chunk(shown, b"", 0, 0, entry.content_type, entry.version)
        if suspicious and chunk.data:
            sign_in_page.refuse(shown, chunk.version, await self.info(shown))
        if chunk.total is None:
            # A part of a file of unknown length (RFC 9110 §14.4); even a short part need not be the last one.
            return replace(chunk, total=(await self.info(shown)).size)
        return chunk

    async def write(self, path: str, data: bytes, *, version: str | None = None) -> Written:
        """Create a file, or overwrite it if it is still in this version; overwriting takes two requests.

        Raises:
          AlreadyExists: The name is taken, and no version was given.
          EtagMismatch: It changed since it was read.
          NotFound: The parent folder, or the file to overwrite, does not exist.
          InvalidName: Nextcloud rejects the name.
        """
        segments = paths.new(path)
        shown = dav.join(segments)
        if version is None:
            headers = {"If-None-Match": "*"}
        else:
            headers = await self._unchanged(segments, version)
        sentences = {
            404: file_errors.no_folder_for(shown),
            409: f"{quoted(shown)} is a folder, or its own folder does not exist.",
            507: f"Nextcloud did not store {quoted(shown)}{{reason}}.",
        }
        response = await self._put(segments, data, headers, sentences=sentences)
        etag = etags.of(response.headers)
        seen = None if etag else await self._glimpse(segments)
        version_now = seen.version if seen else Version(etag, len(data))
        return Written(shown, version_now, created=version is None)

    async def _put(
        self, segments: dav.Segments, data: bytes, headers: dict[str, str], *, sentences: dict[int, str]
    ) -> httpx2.Response:
        sent = {**headers, "Content-Type": "application/octet-stream"}
        shown = dav.join(segments)
        try:
            with file_errors.in_doubt(shown):
                return await self._http.request(
                    "PUT", self._tree.url(segments), headers=sent, content=data, sentences=sentences
                )
        except errors.AlreadyExists as error:
            raise file_errors.taken(shown) from error
        except errors.EtagMismatch as error:
            raise file_errors.changed(shown, error.current_etag) from error
        except errors.StorageFull as error:
            if error.has_numbers:
                raise
            # Nextcloud answers 507 for forbidden kinds of files as well, so the quota is fetched.
            raise errors.StorageFull(f"{error} {await self.room(segments[:-1], len(data))}") from error

    async def room(self, folder: dav.Segments, needed: int) -> str:
        """Return a sentence that says whether the quota is too small for `needed` bytes in a folder."""
        try:
            _, details = await self.details(dav.join(folder))
        except file_errors.NOT_SEEN:
            return "Its quota could not be looked at."
        left = details.quota_available
        if left is not None and 0 <= left < needed:
            return f"It needs {needed} bytes and the quota leaves {left}: free some space first."
        return "The quota is not the reason; the administrator may not allow this file here."

    async def create_folder(self, path: str) -> bool:
        """Create a folder and its missing parents; return False when it existed already.

        Raises:
          AlreadyExists: A file has that name.
          InvalidName: Nextcloud rejects the name.
        """
        segments = paths.new(path)
        if len(segments) > _MAX_NEW_LEVELS:
            raise errors.InvalidInput(
                f"That is more than {_MAX_NEW_LEVELS} folders deep: choose a shorter path."
            )
        try:
            return await self._mkcol(segments)
        except errors.AlreadyExists:
            raise
        except errors.Conflict:
            return await self._mkcols(segments)

    async def _mkcols(self, segments: dav.Segments) -> bool:
        """Create one folder after the other; an error says which of them exist now."""
        made, created = "", False
        for depth in range(1, len(segments) + 1):
            try:
                created = await self._mkcol(segments[:depth])
            except errors.NextcloudError as error:
                if not made:
                    raise
                raise type(error)(f"Only a part was done: {quoted(made)} was created. {error}") from None
            made = dav.join(segments[:depth]) if created else made
        return created

    async def _mkcol(self, segments: dav.Segments) -> bool:
        shown = dav.join(segments)
        try:
            with file_errors.in_doubt(shown):
                await self._http.request("MKCOL", self._tree.url(segments))
        except errors.AlreadyExists:
            if not (await self.info(shown)).is_folder:
                raise errors.AlreadyExists(
                    f"A file called {quoted(shown)} is there already: choose another name."
                ) from None
            return False
        return True

    async def move(self, source: str, target: str, *, overwrite: str | None = None) -> Entry | None:
        """Move or rename, and fetch the result; `overwrite` is the version of the target.

        Raises:
          AlreadyExists: The target's name is taken, and no version of it was given.
          EtagMismatch: The target changed since it was read.
          NotFound: No such source.
          Conflict: The target's parent folder does not exist.
          InvalidName: Nextcloud rejects the target's name.
        """
        return await self._glimpse(await self._transfer("MOVE", source, target, overwrite))

    async def move_into(self, folder: str, source: str) -> str:
        """Move something into a folder, keeping its name; one request; return the new path.

        Raises:
          Everything that `move` raises.
        """
        name = paths.existing(source)[-1]
        return dav.join(await self._transfer("MOVE", source, dav.join((*dav.split(folder), name))))

    async def copy(self, source: str, target: str, *, overwrite: str | None = None) -> Entry | None:
        """Copy, and fetch the result; `overwrite` and errors as in `move`."""
        return await self._glimpse(await self._transfer("COPY", source, target, overwrite))

    async def _transfer(
        self, method: str, source: str, target: str, overwrite: str | None = None
    ) -> dav.Segments:
        old, new = await self._looked_at(paths.existing(source)), paths.new(target)
        if dav.same(old, new[: len(old)]):
            raise errors.InvalidInput("The target is the source itself or lies inside it: choose another.")
        headers = {"Destination": f"{self._http.base}{self._tree.url(new)}", "Overwrite": "F"}
        if overwrite is not None:
            await self._unchanged(new, overwrite, only_files=True)
            headers["Overwrite"] = "T"
        shown = dav.join(new)
        sentences = {
            404: file_errors.missing(dav.join(old)),
            409: file_errors.no_folder_for(shown),
        }
        try:
            with file_errors.in_doubt(shown):
                await self._http.request(method, self._tree.url(old), headers=headers, sentences=sentences)
        except errors.AlreadyExists as error:
            raise file_errors.in_the_way(shown, old[-1]) from error
        return new

    async def delete(self, path: str, *, version: str | None = None) -> str:
        """Move to the trash, only in `version` if one is given; return the path.

        Raises:
          NotFound: No such file or folder.
          EtagMismatch: It changed since it was read.
        """
        segments = await self._looked_at(paths.existing(path))
        shown = dav.join(segments)
        headers = {} if version is None else await self._unchanged(segments, version)
        sentences = {404: file_errors.missing(shown)}
        try:
            with file_errors.in_doubt(shown):
                await self._http.request(
                    "DELETE", self._tree.url(segments), headers=headers, sentences=sentences
                )
        except errors.EtagMismatch as error:
            raise file_errors.changed(shown, error.current_etag) from error
        return shown

    async def holds(self, path: str, file_id: str) -> bool:
        """Tell whether the file with this id is at a path now; False also when that cannot be checked."""
        try:
            _, details = await self.details(path)
        except (errors.InvalidInput, *file_errors.NOT_SEEN):
            return False
        return bool(file_id) and details.file_id == file_id

    async def search(self, query: Query, *, limit: int, first: int = 0) -> tuple[list[Entry], bool]:
        """Find files and folders, newest first, from result `first` on; also return whether there are more.

        Raises:
          NotFound: The folder to search in does not exist.
        """
        query.check()
        inside = dav.split(query.folder)
        body = dav.search(
            scope="/".join((self._tree.scope, *inside)),
            properties=entries.ROW,
            conditions=query.conditions(),
            limit=limit + 1,
            first=first,
        )
        rows: list[Entry] = []
        try:
            async with entries.ask(
                self._http, "SEARCH", self._tree, body=body, url=f"{dav.SERVICE}/"
            ) as found:
                rows = [entries.entry_of(*each) async for each in found]
        except (errors.NotFound, errors.InvalidName) as error:
            if not inside:
                raise
            raise errors.NotFound(f"There is no folder {quoted(query.folder)} to search in.") from error
        return cut(rows, limit)

    async def _looked_at(self, segments: dav.Segments) -> dav.Segments:
        """Check first that a reserved upload name exists, since Nextcloud always answers as if it did.

        Reading such a name returns a transient error, and deleting it succeeds, even where nothing is there.
        """
        if segments and dav.is_kept(segments[-1]):
            await self.info(dav.join(segments))
        return segments

    async def _unchanged(
        self, segments: dav.Segments, word: str, *, only_files: bool = False
    ) -> dict[str, str]:
        """Check that the resource is still in version `word`; return the header for a conditional write."""
        expected, shown = Version.parse(word), dav.join(segments)
        entry = await self.info(shown)
        if only_files and entry.is_folder:
            raise errors.InvalidInput(f"{quoted(shown)} is a folder, and folders are never overwritten.")
        if not expected.agrees_with(entry.version):
            raise file_errors.changed(shown, str(entry.version))
        return {"If-Match": etags.quote(entry.etag)} if entry.etag else {}

    async def _glimpse(self, segments: dav.Segments) -> Entry | None:
        """Fetch the result of a change; an error here is ignored, since the change has succeeded."""
        try:
            return await self.info(dav.join(segments))
        except file_errors.NOT_SEEN:
            return None

    async def _one(self, segments: dav.Segments, properties: tuple[str, ...]) -> entries.Located:
        async with self._propfind(segments, properties, depth="0") as found:
            async for located, response in found:
                if not dav.same(located, segments):
                    continue
                if response.text("d:getetag") == _NO_ETAG and dav.is_kept(located[-1]):
                    raise errors.NotFound(file_errors.missing(dav.join(segments)))
                return located, response
        raise file_errors.not_what_was_asked(dav.join(segments))

    def _propfind(
        self, segments: dav.Segments, properties: tuple[str, ...], *, depth: str
    ) -> AbstractAsyncContextManager[AsyncGenerator[entries.Located]]:
        return entries.ask(
            self._http,
            "PROPFIND",
            self._tree,
            segments,
            body=dav.propfind(properties),
            # Omit missing properties (RFC 7240 §4.2): in a list these would double its size.
            headers={"Depth": depth, "Prefer": "return=minimal"},
            sentences={404: file_errors.missing(dav.join(segments))},
        )
