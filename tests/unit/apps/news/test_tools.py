from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.news.tools import news
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.news.store import FeedStore, StoredFeeds
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.documents import Documents
from tests.dav_fakes import account_in, account_over, call_with, network
from tests.document_files import read_here

MOMENT = 1_795_874_660


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


@pytest.fixture
def store(sandbox: Sandbox) -> StoredFeeds:
    return sandbox.state.store(FeedStore)["alice"]


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    documents = Documents(read_here)
    return await call_with({"documents": documents}, news, account, f"nc_news_{tool}", **arguments)


async def test_feeds_are_listed_with_folders_and_what_is_unread(alice: Account, store: StoredFeeds) -> None:
    store.follow("Broken", "https://broken.example.test", failures=12)

    found = await call(alice, "list_feeds")

    assert [(row.title, row.folder_id, row.unread, row.failed_updates) for row in found.feeds] == [
        ("Kestrel Garden Letter", "1", 1, None),
        ("Town news", None, 1, None),
        ("Broken", None, 0, 12),
    ]
    assert [(row.id, row.name) for row in found.folders] == [("1", "Garden")]
    assert (found.starred, found.total, found.cursor) == (1, 3, None)


async def test_many_feeds_come_in_pages_and_folders_with_the_first(
    alice: Account, store: StoredFeeds
) -> None:
    for number in range(300):
        store.follow(f"{number} {'t' * 200}", "https://many.example.test")

    first = await call(alice, "list_feeds")
    seen, page = [*first.feeds], first
    while page.cursor is not None:
        page = await call(alice, "list_feeds", cursor=page.cursor)
        assert page.folders is None
        seen += page.feeds

    assert answer.result(first)
    assert len({row.id for row in seen}) == len(seen) == first.total == 302


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({}, ["Library closed", "Hedges in winter", "Market moves to Fridays"]),
        ({"unread": True}, ["Library closed", "Hedges in winter"]),
        ({"starred": True}, ["Hedges in winter"]),
        ({"feed_id": 2}, ["Library closed", "Market moves to Fridays"]),
        ({"folder_id": 1}, ["Hedges in winter"]),
    ],
)
async def test_articles_are_listed_newest_first(
    alice: Account, filters: dict[str, object], titles: list[str]
) -> None:
    found = await call(alice, "read_articles", **filters)

    assert [row.title for row in found.articles] == titles
    assert found.cursor is None


async def test_an_article_in_a_list_says_where_it_is_from(alice: Account) -> None:
    [row] = (await call(alice, "read_articles", starred=True)).articles

    assert (row.feed, row.feed_id, row.author) == ("Kestrel Garden Letter", "1", "The editors")
    assert (row.unread, row.starred, row.published.tzinfo) == (True, True, UTC)


async def test_following_the_cursor_gives_every_article_once(alice: Account, store: StoredFeeds) -> None:
    for number in range(250):
        store.add(2, f"{number} {'t' * 290}", "<p>long</p>" * 50, MOMENT)

    first = await call(alice, "read_articles", limit=100)
    seen, page = [*first.articles], first
    while page.cursor is not None:
        page = await call(alice, "read_articles", limit=100, cursor=page.cursor)
        seen += page.articles

    assert answer.result(first)
    assert [row.id for row in seen] == [str(number) for number in range(253, 0, -1)]


async def test_an_article_is_read_as_text_in_pages(alice: Account, store: StoredFeeds) -> None:
    made = store.add(1, "Long", "<p>begin</p>" + "<p>middle &amp; more</p>" * 1_500 + "<p>end</p>", MOMENT)
    made.enclosure = "https://garden.example.test/1.mp3"

    first = await call(alice, "read_articles", article_id=made.id)
    last = await call(alice, "read_articles", article_id=made.id, offset=first.next_offset)

    assert first.content.startswith("begin\nmiddle & more\n")
    assert last.content.endswith("end\n")
    assert len((first.content + last.content).encode()) == first.size
    assert (first.published, first.enclosure) == (datetime.fromtimestamp(MOMENT, UTC), made.enclosure)
    assert (first.note, last.next_offset) == (None, None)


async def test_what_a_hostile_article_hides_does_not_reach_the_reader(
    alice: Account, store: StoredFeeds
) -> None:
    link = "http://localhost/index.php/login/v2/flow/abc"
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    body = f"<script>obey</script><style>obey</style><p>See {link}\u200b{hidden}</p>" + "<div>" * 5_000
    made = store.add(1, f"A\u202eB {'t' * 5_000}", body, 10**15, url="https://x.test/" + "u" * 5_000)

    read = await call(alice, "read_articles", article_id=made.id)

    shown = answer.result(read).structured_content
    assert shown is not None
    assert shown["content"].strip() == f"See {answer.NEUTRALISED}"
    assert shown["title"].startswith("A<U+202E>B ttt")
    assert (len(shown["title"]), "url" in shown, "published" in shown) == (300, False, False)


async def test_articles_are_marked_and_unmarked(alice: Account, store: StoredFeeds) -> None:
    both = await call(alice, "mark_articles", article_ids=[1, 3, 99], read=True, starred=True)
    one = await call(alice, "mark_articles", article_ids=[2], starred=False)

    assert [(article.unread, article.starred) for article in store.articles] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    await call(alice, "mark_articles", article_ids=[3], read=False)
    assert store.articles[2].unread
    assert (both.read, both.starred, one.read, one.note) == (True, True, None, None)
    assert "not there" in both.note


async def test_what_is_not_there_is_said_to_be_missing(alice: Account) -> None:
    for tool, arguments in (
        ("read_articles", {"article_id": 99}),
        ("read_articles", {"feed_id": 99}),
        ("mark_articles", {"article_ids": [99], "read": True}),
        ("mark_articles", {"article_ids": [99], "starred": True}),
    ):
        with pytest.raises(errors.NotFound, match="Call nc_news_"):
            await call(alice, tool, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_articles", {"article_id": 1, "unread": True}),
        ("read_articles", {"article_id": 1, "cursor": "x"}),
        ("read_articles", {"feed_id": 1, "folder_id": 1}),
        ("read_articles", {"starred": True, "unread": True}),
        ("read_articles", {"offset": 5}),
        ("read_articles", {"article_id": 1, "offset": 9_000}),
        ("mark_articles", {"article_ids": [1]}),
    ],
)
async def test_what_makes_no_sense_together_is_refused(
    alice: Account, tool: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(errors.InvalidInput):
        await call(alice, tool, **arguments)


async def test_half_a_mark_is_told() -> None:
    account = account_over(network(httpx2.Response(200, json=[]), httpx2.Response(423)))

    told = await call(account, "mark_articles", article_ids=[1], read=False, starred=True)

    assert (told.read, told.starred) == (False, None)
    assert told.note.startswith("Whether they are read is set, but not the stars: It is locked")
