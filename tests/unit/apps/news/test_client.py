import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.news.client import NewsClient
from tests.dav_fakes import Network, http_over, network

ITEMS = "/index.php/apps/news/api/v1-3/items"


def client(*answers: httpx2.Response) -> tuple[NewsClient, Network]:
    net = network(*answers)
    return NewsClient(http_over(net)), net


def items(*numbers: int) -> httpx2.Response:
    return httpx2.Response(200, json={"items": [{"id": number, "feedId": 1} for number in numbers]})


async def test_one_article_is_found_right_before_the_next_id() -> None:
    news, net = client(items(7), items(5), items())

    found = await news.article("7")
    for _ in range(2):
        with pytest.raises(errors.NotFound, match="no such article"):
            await news.article("7")

    assert (found.id, found.title, found.body) == ("7", None, None)
    assert dict(net.seen[0].url.params) == {
        "type": "3", "id": "0", "getRead": "true", "batchSize": "1", "offset": "8",
    }  # fmt: skip


async def test_each_list_is_asked_for_by_its_number() -> None:
    news, net = client(*(items() for _ in range(4)))

    await news.articles(limit=5, feed_id="9", unread=True)
    await news.articles(limit=5, folder_id="0")
    await news.articles(limit=5, starred=True)
    await news.articles(limit=5, before=3)

    asked = [(params["type"], params["id"], params["getRead"]) for params in map(_params, net.seen)]
    assert asked == [("0", "9", "false"), ("1", "0", "true"), ("2", "0", "true"), ("3", "0", "true")]


async def test_what_the_documentation_shows_is_read_and_so_is_less() -> None:
    documented = {"id": 39, "url": "http://a.example/feed", "title": "A", "folderId": 4, "unreadCount": 9}
    news, _ = client(
        httpx2.Response(200, json={"feeds": [documented, {"id": 40}], "starredCount": 2}),
        httpx2.Response(200, json={"folders": [{"id": 4, "name": "Media"}]}),
    )

    found, folders = await news.feeds(), await news.folders()

    assert [(feed.id, feed.title, feed.folder_id, feed.unread) for feed in found.feeds] == [
        ("39", "A", "4", 9),
        ("40", "", None, None),
    ]
    assert ([folder.name for folder in folders], found.starred) == (["Media"], 2)


async def test_one_article_is_marked_by_its_address_and_several_together() -> None:
    news, net = client(*(httpx2.Response(200, json=[]) for _ in range(2)), httpx2.Response(404, json={}))

    await news.mark(["7"], "star")
    await news.mark(["7", "8"], "unread")
    with pytest.raises(errors.NotFound, match="nc_news_read_articles"):
        await news.mark(["9"], "read")

    assert [request.url.path for request in net.seen] == [
        f"{ITEMS}/7/star",
        f"{ITEMS}/unread/multiple",
        f"{ITEMS}/9/read",
    ]
    assert net.seen[1].content == b'{"itemIds":[7,8]}'


def _params(request: httpx2.Request) -> dict[str, str]:
    return dict(request.url.params)
