"""Earlier versions of one user's files, over WebDAV."""

from datetime import datetime
from typing import Final, Literal

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools.result import Result

_PROPERTIES: Final = (
    "d:getcontentlength", "d:getlastmodified", "nc:version-label", "nc:version-author",
)  # fmt: skip
_NONE_KEPT: Final = "This Nextcloud keeps no versions of that file; perhaps their app is switched off."


class VersionRow(Result):
    """A version of a file; `current` marks what the file holds now."""

    version_id: str
    modified: datetime | None = None
    size: int | None = None
    author: str | None = None
    label: str | None = None
    current: Literal[True] | None = None

    def compared(self, now: Entry) -> "VersionRow":
        """Mark it if it is what the file holds now."""
        is_now = (self.modified, self.size) == (now.modified_at, now.size)
        return self.model_copy(update={"current": True}) if is_now else self


class VersionsClient(AppClient):
    """Lists the versions of files and restores them."""

    def __init__(self, http: NextcloudHttp) -> None:
        super().__init__(http)
        self._restore = dav.Tree.of("versions", http.uid, "restore")

    async def list_versions(
        self, file_id: str, *, limit: int, after: Position | None = None
    ) -> tuple[list[VersionRow], int, bool]:
        """Fetch one page of versions, newest first; return also the total and if there are more.

        Raises:
          NotFound: This Nextcloud keeps none.
        """
        tree = self._tree(file_id)
        window = TopK[VersionRow](position, limit=limit, after=after)
        body, depth, gone = dav.propfind(_PROPERTIES), {"Depth": "1"}, {404: _NONE_KEPT}
        async with entries.ask(
            self._http, "PROPFIND", tree, body=body, headers=depth, sentences=gone
        ) as found:
            async for segments, response in found:
                if len(segments) == 1:
                    window.offer(_version(segments[0], response))
        page, more = window.page()
        return page, window.total, more

    async def restore(self, path: str, file_id: str, version_id: str) -> None:
        """Restore an earlier version of the file at a path; the current content becomes a version.

        Raises:
          NotFound: It has no such version.
          Forbidden: The file is read-only.
        """
        segments = dav.split(version_id)
        if len(segments) != 1:
            raise errors.InvalidInput("That is not a version_id: take one from nc_files_list_versions.")
        # Nextcloud uses only the folder of the target; nothing exists at that name.
        headers = {"Destination": f"{self._http.base}{self._restore.url(('target',))}"}
        gone = f"{quoted(path)} has no version {quoted(version_id)}: see nc_files_list_versions."
        with file_errors.in_doubt(path):
            await self._http.request(
                "MOVE", self._tree(file_id).url(segments), headers=headers, sentences={404: gone}
            )

    def _tree(self, file_id: str) -> dav.Tree:
        return dav.Tree.of("versions", self._http.uid, "versions", file_id)


def position(version: VersionRow) -> Position:
    """Return the position of a version in a list, at which a later page continues."""
    at = version.modified
    return Position.of(-int(at.timestamp()) if at else 0, version.version_id)


def _version(version_id: str, response: entries.DavResponse) -> VersionRow:
    return VersionRow(
        version_id=version_id,
        modified=entries.http_date(response.text("d:getlastmodified")),
        size=entries.number(response.text("d:getcontentlength")),
        author=response.text("nc:version-author") or None,
        label=response.text("nc:version-label") or None,
    )
