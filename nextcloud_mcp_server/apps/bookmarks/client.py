"""The Bookmarks app (API 2, as in the code of version 16.2.6).

Creating a bookmark whose address is there already overwrites its title and description, and takes it out of the
trash. An answer to a query holds the whole text of each archived page, so pages of it are small. There are no etags.
A change is not done in one: what it cannot store, such as the same tag twice, ends it after the old tags were removed.
A change to folders of which none exists deletes the bookmark, and not into the trash.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import Field, model_validator

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import state_etag
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id, TextId, number
from nextcloud_mcp_server.tools.result import Result

_BASE: Final = "/index.php/apps/bookmarks/public/rest/v2"
_TOP: Final = -1
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
_NO_ADDRESS: Final = (
    "Bookmarks cannot read the address{reason}. Correct 'url': it must be a whole one, as in a browser."
)
_GONE: Final = (
    "Bookmarks has no longer any of these folders, and deleted the bookmark with the change. "
    "nc_bookmarks_save_bookmark with its url, title, description and tags, without bookmark_id, saves it again."
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
        data = cast("dict[str, Any]", value)
        # `url` is empty where the target is a script.
        fields = {
            **data,
            "url": data.get("target") or data.get("url"),
            "description": data.get("description") or None,
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


class _Saved(Answer):
    #: None where the change deleted the bookmark.
    item: Bookmark | None


class _Folder(Answer):
    id: Id
    children: list["_Folder"] = Field(default_factory=list["_Folder"])


class _Folders(Answer):
    data: list[_Folder]


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

    async def check(
        self, url: str | None, folders: Sequence[int] | None, bookmark_id: Id | None = None
    ) -> None:
        """Check that no bookmark but `bookmark_id` has an address, and that folders exist; None is not checked.

        Raises:
          AlreadyExists: Another bookmark has the address; one in the trash does not count.
          InvalidName: It is no address.
          NotFound: One of the folders does not exist, or is in the trash.
        """
        there = await self._query({"url": url, "limit": 1}, _NO_ADDRESS) if url else ()
        if others := [one.id for one in there if one.id != bookmark_id]:
            raise errors.AlreadyExists(
                f"That address is saved already, as the bookmark {others[0]}. Call nc_bookmarks_find_bookmarks for "
                "its etag, then change it with its bookmark_id."
            )
        wanted = set(folders or ()) - {_TOP}
        if wanted and (missing := sorted(wanted - await self._folders())):
            raise errors.NotFound(_NO_FOLDER.format(reason=f" as {', '.join(map(str, missing))}"))

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

    async def _folders(self) -> set[int]:
        """Fetch the ids of the folders below the top one; those in the trash do not count."""
        found, left = set[int](), (await self._request("GET", f"{_BASE}/folder", _Folders)).data
        while left:
            one = left.pop()
            found.add(number(one.id))
            left += one.children
        return found

    async def _save(self, method: str, path: str, fields: Mapping[str, object]) -> Bookmark:
        sentences = {400: _REFUSED, 403: _REFUSED, 404: _NO_BOOKMARK}
        path = f"{_BASE}/bookmark{path}"
        bookmark = (await self._request(method, path, _Saved, json=dict(fields), sentences=sentences)).item
        if bookmark is None:
            raise errors.NotFound(_GONE)
        return bookmark

    async def _query(self, params: Mapping[str, str | int], refused: str = _NO_FOLDER) -> list[Bookmark]:
        sentences = {400: refused}
        return (
            await self._request("GET", f"{_BASE}/bookmark", _Many, params=params, sentences=sentences)
        ).data
