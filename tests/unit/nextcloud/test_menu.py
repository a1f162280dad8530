import httpx2
import pytest

from nextcloud_mcp_server.errors import TooLarge
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.menu import Menu, MenuClient
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

# As 32.0.1 answers; the second names its entry differently, and an entry of a link has no app.
ITEMS = [
    {
        "id": "notes",
        "order": 10,
        "href": "/apps/notes/",
        "type": "link",
        "name": "Notes",
        "app": "notes",
        "unread": 0,
    },
    {
        "id": "news-reader",
        "order": 100,
        "href": "/apps/news/",
        "type": "link",
        "name": "Nouvelles",
        "app": "news",
    },
    {
        "id": "external_index1",
        "order": 80,
        "href": "https://example.org",
        "type": "link",
        "name": "Elsewhere",
    },
]


async def test_the_apps_of_the_menu_are_read_by_both_their_names_and_again_only_when_it_changed() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if request.headers.get("If-None-Match") == '"m1"':
            return httpx2.Response(304, headers={"ETag": '"m1"'})
        return httpx2.Response(200, headers={"ETag": '"m1"'}, json={"ocs": {"meta": {}, "data": ITEMS}})

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    client = MenuClient(NextcloudHttp(pool, NextcloudUrl.parse("https://h"), uid="alice"))

    first = await client.changed(None)
    again = await client.changed("m1")
    other = await client.changed("m0")

    assert first == Menu(frozenset({"notes", "news", "news-reader", "external_index1"}), "m1")
    assert again is None
    assert other == first
    assert {str(each.url) for each in asked} == {"https://h/ocs/v2.php/core/navigation/apps?format=json"}


async def test_a_menu_of_megabytes_is_refused() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b" " * 2_097_153))
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=transport)

    with pytest.raises(TooLarge):
        await MenuClient(NextcloudHttp(pool, NextcloudUrl.parse("https://h"), uid="alice")).changed(None)
