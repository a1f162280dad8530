"""Feeds of the sandbox."""

from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

Fields = dict[str, Any]


@dataclass(slots=True)
class StoredArticle:
    """One article, as a feed brought it."""

    id: int
    feed_id: int
    title: str
    body: str
    published_at: int
    author: str = ""
    url: str = ""
    enclosure: str | None = None
    unread: bool = True
    starred: bool = False

    def document(self) -> Fields:
        """Write the article as `Item::toAPI` does."""
        return {
            "id": self.id,
            "guid": self.url,
            "guidHash": _hash(self.url),
            "url": self.url,
            "title": self.title,
            "author": self.author,
            "pubDate": self.published_at,
            "updatedDate": None,
            "body": self.body,
            "enclosureMime": None if self.enclosure is None else "audio/mpeg",
            "enclosureLink": self.enclosure,
            "mediaThumbnail": None,
            "mediaDescription": None,
            "feedId": self.feed_id,
            "unread": self.unread,
            "starred": self.starred,
            "filtered": False,
            "lastModified": self.published_at,
            "rtl": False,
            "fingerprint": _hash(self.title + self.url + self.body),
            "contentHash": _hash(self.title + self.url + self.body + self.author),
        }


@dataclass(slots=True)
class StoredFeeds:
    """The subscriptions of one user: folders by id, feeds, and their articles in the order of arrival."""

    folders: dict[int, str] = field(default_factory=dict[int, str])
    feeds: list[Fields] = field(default_factory=list[Fields])
    articles: list[StoredArticle] = field(default_factory=list[StoredArticle])

    def follow(self, title: str, url: str, folder_id: int | None = None, *, failures: int = 0) -> int:
        """Add a feed."""
        number = len(self.feeds) + 1
        self.feeds.append(
            {
                "id": number,
                "url": url,
                "title": title,
                "faviconLink": None,
                "added": 1_795_000_000,
                "folderId": folder_id,
                "unreadCount": 0,
                "ordering": 0,
                "link": url,
                "pinned": False,
                "updateErrorCount": failures,
                "lastUpdateError": "",
                "items": [],
                "nextUpdateTime": None,
            }
        )
        return number

    def add(self, feed_id: int, title: str, body: str, published_at: int, **more: Any) -> StoredArticle:  # noqa: ANN401 - fields of the article
        """Add an article to a feed."""
        made = StoredArticle(len(self.articles) + 1, feed_id, title, body, published_at, **more)
        self.articles.append(made)
        return made


def _hash(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


class FeedStore(dict[str, StoredFeeds]):
    """The feeds of each user, by uid."""
