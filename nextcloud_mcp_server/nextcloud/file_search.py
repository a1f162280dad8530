"""Finds one user's files by attributes, tags or content."""

from typing import Final, NamedTuple

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud.capabilities import CapabilitiesClient
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.file_query import Query
from nextcloud_mcp_server.nextcloud.files import FilesClient
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.search import Hit, Place, Provider, SearchClient
from nextcloud_mcp_server.nextcloud.tags import TagsClient
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.nextcloud.user_cache import UserCache

_FULL_TEXT: Final = "fulltextsearch"
#: Full-text hits per request; constant, because the app counts its pages in this number.
_HITS: Final = 25
#: Pages of hits fetched for one result, when other conditions drop most of them.
_PAGES: Final = 4
#: The name of the end-to-end encryption app among the capabilities (its Capabilities.php).
_ENCRYPTION: Final = "end-to-end-encryption"
#: Folders checked for encryption, the newest first.
_FOLDERS: Final = 500


class Found(NamedTuple):
    """A result, and the position at which to continue after it."""

    entry: Entry
    position: Position


class Finding(NamedTuple):
    """A page of results; `rest` is the position after the page, None at the end."""

    found: list[Found]
    rest: Position | None


class FileSearch:
    """Searches with the method that a query needs: Nextcloud has several."""

    def __init__(
        self,
        http: NextcloudHttp,
        *,
        files: FilesClient,
        tags: TagsClient,
        search: SearchClient,
        cache: UserCache,
    ) -> None:
        self._http = http
        self._tree = dav.Tree.of("files", http.uid)
        self._files = files
        self._tags = tags
        self._search = search
        self._cache = cache

    async def encrypted(self, folder: str) -> list[str]:
        """Return the outermost end-to-end encrypted folders that a search of a folder covers.

        Sends no request where Nextcloud recently had no app for them; folders that cannot be read are left out.
        """
        try:
            if not await self._cache.fact("encryption", self._encrypts):
                return []
            if dav.split(folder) and not (await self._files.info(folder)).is_folder:
                return []
            rows, _ = await self._files.search(Query(folder=folder, kind="folder"), limit=_FOLDERS)
        except errors.Forbidden:
            # Nextcloud gives this answer for the encrypted folder itself.
            return [dav.join(dav.split(folder))]
        except file_errors.NOT_SEEN:
            return []
        locked = {row.segments for row in rows if row.encrypted}
        outer = [one for one in locked if not any(one[:length] in locked for length in range(len(one)))]
        return sorted(map(dav.join, outer))

    async def _encrypts(self) -> bool:
        return _ENCRYPTION in (await CapabilitiesClient(self._http).get()).apps

    async def find(self, query: Query, *, limit: int, after: Position | None = None) -> Finding:
        """Find files and folders: newest first; for content, best match first.

        Raises:
          InvalidInput: There is no condition, or a combination that cannot be searched.
          NotFound: There is no such folder or tag, or this Nextcloud does not index content.
        """
        query.check()
        if query.content:
            return await self._by_content(query, query.content, limit, after.number if after else 0)
        if query.tag:
            return await self._by_tag(query, query.tag, limit, after)
        first = after.number if after else 0
        rows, more = await self._files.search(query, limit=limit, first=first)
        found = [Found(row, Position.of(first + number, "")) for number, row in enumerate(rows, 1)]
        return Finding(found, found[-1].position if more else None)

    async def _by_tag(self, query: Query, name: str, limit: int, after: Position | None) -> Finding:
        """Fetch all files with the tag; filter and sort here, because Nextcloud does not."""
        tag = await self._tags.find_tag(name)
        window = TopK[Entry](_newest_first, limit=limit, after=after)
        asked = entries.ask(
            self._http,
            "REPORT",
            self._tree,
            dav.split(query.folder),
            body=dav.filter_files(entries.ROW, tag_id=tag.tag_id),
            sentences={404: f"There is no folder {quoted(query.folder)} to search in."},
        )
        async with asked as found:
            async for located in found:
                entry = entries.entry_of(*located)
                if query.matches(entry):
                    window.offer(entry)
        page, more = window.page()
        rows = [Found(entry, _newest_first(entry)) for entry in page]
        return Finding(rows, rows[-1].position if more else None)

    async def _by_content(self, query: Query, words: str, limit: int, first: int) -> Finding:
        """Fetch hits from the index and look up each entry: a hit has little more than the path."""
        provider = await self._full_text()
        rows: list[Found] = []
        for _ in range(_PAGES):
            start = first - first % _HITS
            page = await self._search.search(provider, words, limit=_HITS, at=Place(start or None))
            seen = await self._looked_at(page.hits[first - start :])
            for entry in seen:
                first += 1
                if entry is not None and query.matches(entry):
                    rows.append(Found(entry, Position.of(first, "")))
                if len(rows) == limit:
                    return Finding(rows, Position.of(first, ""))
            if page.rest is None:
                return Finding(rows, None)
        return Finding(rows, Position.of(first, ""))

    async def _full_text(self) -> Provider:
        found = next((one for one in await self._search.providers() if one.id == _FULL_TEXT), None)
        if found is None:
            raise errors.NotFound(
                "This Nextcloud cannot search in the text of files: its app for full text search is not "
                "installed. Search by name, kind, date or tag, and read what is found."
            )
        return found

    async def _looked_at(self, hits: list[Hit]) -> list[Entry | None]:
        """Fetch the entries of hits; None for a hit that is no file, or was deleted after indexing."""
        seen: list[Entry | None] = [None] * len(hits)
        refused: list[errors.NextcloudError] = []

        async def look(number: int, path: str) -> None:
            try:
                seen[number] = await self._files.info(path)
            except (errors.InvalidInput, errors.NotFound):
                return
            except errors.NextcloudError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            for number, hit in enumerate(hits):
                if hit.path is not None:
                    group.start_soon(look, number, hit.path)
        if refused:
            raise refused[0]
        return seen


def _newest_first(entry: Entry) -> Position:
    return Position.of(-(entry.version.seconds or 0), entry.path)
