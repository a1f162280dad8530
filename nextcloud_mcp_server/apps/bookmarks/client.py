"""The Bookmarks app (API 2, as in the code of version 16.2.6).

Creating a bookmark whose address is there already overwrites its title and description, and takes it out of the
trash. An answer to a query holds the whole text of each archived page, so pages of it are small. There are no etags.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import Field, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import state_etag
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id, TextId
from nextcloud_mcp_server.tools.result import Result

_BASE: Final = "/index.php/apps/bookmarks/public/rest/v2"
_NO_BOOKMARK: Final = (
    "There is no such bookmark, or the person may not change it. "
    "Call nc_bookmarks_find_bookmarks for the ones there are."
)
_IN_TRASH: Final = (
    "That bookmark is in the trash of Bookmarks. "
    "nc_bookmarks_save_bookmark with its url, without bookmark_id and etag, brings it back."
)
_NO_FOLDER: Final = (
    "Bookmarks has no such folder{reason}. nc_bookmarks_find_bookmarks shows the folders there are."
)
_REFUSED: Final = (
    "Bookmarks did not save it{reason}. The address needs a scheme such as https://, no other bookmark may have it, "
    "and the folders must exist."
)


class Bookmark(Result):
    """A bookmark; the folder -1 is the top one."""

    id: Id
    url: str
    title: str
    #: A hash of its values.
    etag: str
    description: str | None = None
    tags: list[str] = Field(default_factory=list[str])
    folders: list[TextId] = Field(default_factory=list[TextId])

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        told = cast("dict[str, Any]", value)
        # `url` is empty where the target is a script.
        fields = {
            **told,
            "url": told.get("target") or told.get("url"),
            "description": told.get("description") or None,
        }
        state = [
            sorted(map(str, cast("list[object]", kept)))
            if isinstance(kept := fields.get(name), list)
            else kept
            for name in ("url", "title", "description", "tags", "folders")
        ]
        return {**fields, "etag": state_etag.of(state)}


class _One(Answer):
    item: Bookmark


class _Many(Answer):
    data: list[Bookmark]


class BookmarksClient(AppClient):
    """Reads and writes one user's bookmarks."""

    async def find(
        self,
        *,
        words: Sequence[str] = (),
        tags: Sequence[str] = (),
        folder: str | None = None,
        limit: int,
        page: int = 0,
    ) -> list[Bookmark]:
        """Fetch a page of the bookmarks with all these words and tags, the last changed first."""
        found = {f"search[{place}]": word for place, word in enumerate(words)}
        found |= {f"tags[{place}]": tag for place, tag in enumerate(tags)}
        if folder is not None:
            found["folder"] = folder
        return await self._query({**found, "conjunction": "and", "limit": limit, "page": page})

    async def by_url(self, url: str) -> Bookmark | None:
        """Fetch the bookmark with an address; one in the trash does not count."""
        return next(iter(await self._query({"url": url, "limit": 1})), None)

    async def current(self, bookmark_id: Id, if_match: str) -> Bookmark:
        """Fetch a bookmark and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
          NotFound: It is not there, or was moved to the trash since it was read.
        """
        path = f"{_BASE}/bookmark/{bookmark_id}"
        bookmark = (await self._request("GET", path, _One, sentences={404: _NO_BOOKMARK})).item
        try:
            state_etag.require(if_match, bookmark.etag)
        except errors.EtagMismatch:
            if bookmark.folders:
                raise
            # Its etag changed with its deletion, and no query finds it to be read again.
            raise errors.NotFound(_IN_TRASH) from None
        return bookmark

    async def create(self, fields: Mapping[str, object]) -> Bookmark:
        """Create a bookmark; Nextcloud looks up the title of the page if none is given."""
        return await self._save("POST", "", fields)

    async def update(self, bookmark_id: Id, fields: Mapping[str, object]) -> Bookmark:
        """Set the given fields and keep the others."""
        return await self._save("PUT", f"/{bookmark_id}", fields)

    async def trash(self, bookmark: Bookmark, folder: str) -> None:
        """Move a bookmark that was just read from a folder to the trash."""
        await self._http.request(
            "DELETE", f"{_BASE}/folder/{folder}/bookmarks/{bookmark.id}", sentences={400: _NO_BOOKMARK}
        )

    async def _save(self, method: str, path: str, fields: Mapping[str, object]) -> Bookmark:
        sentences = {400: _REFUSED, 403: _REFUSED, 404: _NO_BOOKMARK}
        path = f"{_BASE}/bookmark{path}"
        return (await self._request(method, path, _One, json=dict(fields), sentences=sentences)).item

    async def _query(self, params: Mapping[str, str | int]) -> list[Bookmark]:
        return (
            await self._request("GET", f"{_BASE}/bookmark", _Many, params=params, sentences={400: _NO_FOLDER})
        ).data
