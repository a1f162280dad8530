"""Declares the app news of the sandbox."""

from nextcloud_mcp_server.sandbox.apps.news.api import NewsApi
from nextcloud_mcp_server.sandbox.apps.news.store import FeedStore, StoredFeeds
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.state import State

_DAY_SECONDS = 86_400
_ALICE_ARTICLES = (
    ("Market moves to Fridays", "<p>From December on the market is on <b>Fridays</b>.</p>"),
    ("Hedges in winter", "<h2>Cut them now</h2><ul><li>Not below 5 °C</li><li>Leave the berries</li></ul>"),
    ("Library closed", "<p>It is closed until the 8th.</p>"),
)


def _add_feeds(state: State) -> None:
    """Let alice follow two feeds."""
    store, now = StoredFeeds(folders={1: "Garden"}), int(state.clock().timestamp())
    garden = store.follow("Kestrel Garden Letter", "https://garden.example.test/feed.xml", 1)
    town = store.follow("Town news", "https://town.example.test/rss")
    for days, (feed, title, body) in enumerate(
        ((town, *_ALICE_ARTICLES[0]), (garden, *_ALICE_ARTICLES[1]), (town, *_ALICE_ARTICLES[2])), start=-3
    ):
        made = store.add(feed, title, body, now + days * _DAY_SECONDS, author="The editors")
        made.url = f"https://example.test/articles/{made.id}"
    store.articles[0].unread = False
    store.articles[1].starred = True
    state.store(FeedStore)["alice"] = store


app = SandboxApp("news", api=NewsApi, menu=("News", 100), seed=_add_feeds)
