"""The News app (API 1.3): feeds, folders and articles.

All models follow `docs/development/api/api-v1-3.md` and the controllers, mappers and `toAPI` of version 28.7.0, and
were observed on a server whose feeds had been inserted into its tables. Articles are returned newest first by their
ids, always with their bodies. No route returns a single article, so the one before the next id is requested.

An article has results of its own: a list shows little of it, and its text is a document.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id, number
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools.result import Count, Result
from nextcloud_mcp_server.tools.untrusted_text import Line, cleaned, line

_BASE: Final = "/index.php/apps/news/api/v1-3"
_NO_ARTICLE: Final = (
    "There is no such article; News also deletes old ones. "
    "Call nc_news_read_articles without article_id for those there are."
)
_SENTENCES: Final = {404: _NO_ARTICLE}

#: The kinds of lists, in the numbers of `ListType`.
_FEED, _FOLDER, _STARRED, _ALL = range(4)

#: The folder id of a feed without a folder.
NO_FOLDER: Final = "0"
_LONGEST_ADDRESS: Final = 1_000

Mark = Literal["read", "unread", "star", "unstar"]


def address(url: str | None) -> str | None:
    """Return a URL, or None for one that would fill the page; a part of it would be useless."""
    return line(url, _LONGEST_ADDRESS) if url and len(url) <= _LONGEST_ADDRESS else None


def _no_folder(value: object) -> object:
    return None if value in (0, NO_FOLDER) else value


class Folder(Result):
    """A folder of feeds."""

    id: Id
    name: Line


class Feed(Result):
    """A feed; `failed_updates` counts how often in a row News could not fetch it."""

    id: Id
    title: Line
    url: Annotated[str | None, cleaned(address)] = None
    folder_id: Annotated[Id | None, BeforeValidator(_no_folder)] = Field(
        default=None, validation_alias="folderId"
    )
    unread: int | None = Field(default=None, validation_alias="unreadCount")
    failed_updates: Count = Field(default=None, validation_alias="updateErrorCount")


class Feeds(Answer):
    """All feeds, and the number of starred articles."""

    feeds: list[Feed]
    starred: int | None = Field(default=None, validation_alias="starredCount")


class ListedArticle(Answer):
    """An article in a list; title, author and URLs are as the feed wrote them.

    News sends the texts as well. They are not kept: one page of them takes more than 100 MB of memory.
    """

    id: Id
    feed_id: Id = Field(validation_alias="feedId")
    title: str | None = None
    author: str | None = None
    url: str | None = None
    published_at: int | None = Field(default=None, validation_alias="pubDate")
    enclosure: str | None = Field(default=None, validation_alias="enclosureLink")
    unread: bool | None = None
    starred: bool | None = None


class Article(ListedArticle):
    """One article with its text."""

    body: str | None = None


class _Folders(Answer):
    folders: list[Folder]


class _Listed(Answer):
    items: list[ListedArticle]


class _Articles(Answer):
    items: list[Article]


class NewsClient(AppClient):
    """Reads one user's feeds, and marks articles."""

    async def folders(self) -> list[Folder]:
        """Fetch all folders."""
        return (await self._request("GET", f"{_BASE}/folders", _Folders)).folders

    async def feeds(self) -> Feeds:
        """Fetch all feeds."""
        return await self._request("GET", f"{_BASE}/feeds", Feeds)

    async def articles(
        self,
        *,
        limit: int,
        before: int = 0,
        feed_id: Id | None = None,
        folder_id: Id | None = None,
        starred: bool = False,
        unread: bool = False,
    ) -> list[ListedArticle]:
        """Fetch articles with ids below `before`, highest first; of one feed or folder, or starred ones.

        News does not support `starred` together with `unread`.
        """
        kind, of = _ALL, "0"
        if feed_id is not None:
            kind, of = _FEED, feed_id
        elif folder_id is not None:
            kind, of = _FOLDER, folder_id
        elif starred:
            kind = _STARRED
        params = _page(kind, of, limit=limit, before=before, unread=unread)
        found = (await self._request("GET", f"{_BASE}/items", _Listed, params=params)).items
        return cut([one for one in found if not before or number(one.id) < before], limit).rows

    async def article(self, article_id: Id) -> Article:
        """Fetch one article.

        Raises:
            NotFound: No such article.
        """
        params = _page(_ALL, "0", limit=1, before=number(article_id) + 1)
        found = (await self._request("GET", f"{_BASE}/items", _Articles, params=params)).items
        article = next((one for one in found if one.id == article_id), None)
        if article is None:
            raise errors.NotFound(_NO_ARTICLE)
        return article

    async def mark(self, article_ids: Sequence[Id], mark: Mark) -> None:
        """Mark articles. Among several, News ignores missing ones.

        Raises:
          NotFound: The only article does not exist.
        """
        if len(article_ids) == 1:
            await self._http.request("POST", f"{_BASE}/items/{article_ids[0]}/{mark}", sentences=_SENTENCES)
        else:
            sent = {"itemIds": [number(one) for one in article_ids]}
            await self._http.request("POST", f"{_BASE}/items/{mark}/multiple", json=sent)


def _page(kind: int, of: str, *, limit: int, before: int, unread: bool = False) -> dict[str, str | int]:
    """Return the parameters that ask for a page of a list."""
    return {
        "type": kind,
        "id": of,
        "getRead": "false" if unread else "true",
        "batchSize": limit,
        "offset": before,
    }
