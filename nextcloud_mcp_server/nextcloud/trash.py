"""One user's trash, over WebDAV."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK

_PROPERTIES: Final = (
    "d:resourcetype", "oc:size", "oc:fileid", "nc:trashbin-original-location", "nc:trashbin-deletion-time",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """A deleted file or folder that can be restored."""

    trash_id: str
    original_path: str
    deleted_at: datetime
    is_folder: bool
    size: int | None
    file_id: str


class TrashClient:
    """Lists and restores one user's trash."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._tree = dav.Tree.of("trashbin", http.uid, "trash")
        self._restore = dav.Tree.of("trashbin", http.uid, "restore")

    async def list_items(
        self, *, limit: int, after: Position | None = None
    ) -> tuple[list[TrashEntry], int, bool]:
        """Fetch one page of the trash, last deleted first; return also the total and if there are more."""
        window = TopK[TrashEntry](position, limit=limit, after=after)
        await self._fill(window)
        page, more = window.page()
        return page, window.total, more

    async def find_deleted(self, path: str) -> TrashEntry | None:
        """Find what was last deleted at this path; None also when the trash cannot be read.

        Called after a deletion, so an error here must not look like a failed deletion.
        """
        wanted = dav.split(path)
        window = TopK[TrashEntry](position, limit=1, after=None)
        try:
            await self._fill(window, only=wanted)
        except file_errors.NOT_SEEN:
            return None
        return next(iter(window.page()[0]), None)

    async def _fill(self, window: TopK[TrashEntry], *, only: dav.Segments | None = None) -> None:
        off = "This Nextcloud has no trash: its app for deleted files is switched off."
        async with self._propfind((), depth="1", missing=off) as found:
            async for segments, response in found:
                if len(segments) == 1:
                    entry = _entry(segments[0], response)
                    if only is None or dav.same(_parts(entry.original_path), only):
                        window.offer(entry)

    async def restore(self, trash_id: str) -> TrashEntry:
        """Restore something to its former place and return it; two requests.

        Nextcloud restores to the top folder when the former one is gone, and under another name when the former one
        is taken.

        Raises:
          NotFound: Nothing in the trash has that id.
        """
        segments = dav.split(trash_id)
        if len(segments) != 1:
            raise errors.InvalidInput("That is not a trash id: take one from nc_files_list_trash.")
        gone = f"Nothing in the trash has the id {quoted(trash_id)}: see nc_files_list_trash."
        entry = await self._find(segments, gone)
        # Every name in the restore folder counts as taken, so `Overwrite: F` is always refused. Without it nothing
        # is overwritten either: a name that is taken gets "(restored)".
        headers = {"Destination": f"{self._http.base}{self._restore.url(segments)}"}
        with file_errors.in_doubt(entry.original_path):
            await self._http.request("MOVE", self._tree.url(segments), headers=headers, sentences={404: gone})
        return entry

    async def _find(self, segments: dav.Segments, gone: str) -> TrashEntry:
        async with self._propfind(segments, depth="0", missing=gone) as found:
            async for located, response in found:
                if dav.same(located, segments):
                    return _entry(located[0], response)
        raise errors.NotFound(gone)

    def _propfind(
        self, segments: dav.Segments, *, depth: str, missing: str
    ) -> AbstractAsyncContextManager[AsyncGenerator[entries.Located]]:
        return entries.ask(
            self._http,
            "PROPFIND",
            self._tree,
            segments,
            body=dav.propfind(_PROPERTIES),
            headers={"Depth": depth},
            sentences={404: missing},
        )


def position(entry: TrashEntry) -> Position:
    """Return the position of an entry in a list of the trash, at which a later page continues."""
    return Position.of(-int(entry.deleted_at.timestamp()), entry.trash_id)


def _entry(trash_id: str, response: entries.DavResponse) -> TrashEntry:
    seconds = entries.number(response.text("nc:trashbin-deletion-time")) or 0
    return TrashEntry(
        trash_id=trash_id,
        original_path=response.text("nc:trashbin-original-location"),
        deleted_at=timestamp.moment(seconds),
        is_folder=response.has_inner("d:resourcetype", "d:collection"),
        size=entries.number(response.text("oc:size")),
        file_id=response.text("oc:fileid"),
    )


def _parts(path: str) -> dav.Segments:
    return tuple(part for part in path.split("/") if part)
