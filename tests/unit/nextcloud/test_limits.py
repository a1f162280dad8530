"""Apps that pay no heed to a limit: what they answer is cut, and the next page goes on right behind it."""

import json
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.apps.deck.client import DeckClient
from nextcloud_mcp_server.apps.news.client import NewsClient
from nextcloud_mcp_server.apps.tables.client import TablesClient
from nextcloud_mcp_server.apps.talk.client import TalkClient
from tests.dav_fakes import account_over

MOMENT = "2026-11-28T12:00:00+00:00"


def article(number: int) -> dict[str, Any]:
    return {"id": number, "title": "t", "feedId": 1}


def message(number: int) -> dict[str, Any]:
    return {"id": number, "actorType": "users", "timestamp": 1, "message": "m", "messageParameters": []}


def answering(body: object) -> Any:  # noqa: ANN401 - a handler
    def handler(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=httpx2.ByteStream(json.dumps(body).encode()))

    return handler


async def test_talk_messages_are_cut_and_go_on_behind_the_last() -> None:
    talk = account_over(answering({"ocs": {"data": [message(n) for n in range(9, 0, -1)]}})).client(
        TalkClient
    )

    first = await talk.history("abcd1234", limit=4)
    second = await talk.history("abcd1234", limit=4, before=first.before)
    third = await talk.history("abcd1234", limit=4, before=second.before)

    assert [[int(one.id) for one in page.messages] for page in (first, second, third)] == [
        [9, 8, 7, 6], [5, 4, 3, 2], [1],
    ]  # fmt: skip
    assert third.before is None


async def test_news_articles_are_cut_and_go_on_behind_the_last() -> None:
    news = account_over(answering({"items": [article(n) for n in range(9, 0, -1)]})).client(NewsClient)

    first = await news.articles(limit=4)
    second = await news.articles(limit=4, before=int(first[-1].id))

    assert [[int(one.id) for one in page] for page in (first, second)] == [[9, 8, 7, 6], [5, 4, 3, 2]]


async def test_comments_on_a_card_are_cut() -> None:
    comments = [{"id": n, "message": str(n), "creationDateTime": MOMENT} for n in range(9)]

    found = (
        await account_over(answering({"ocs": {"data": comments}}))
        .client(DeckClient)
        .comments("1", limit=4, offset=0)
    )

    assert [int(one.text) for one in found] == [0, 1, 2, 3]


@pytest.mark.parametrize(("offset", "ids"), [(0, [0, 1, 2, 3]), (4, [4, 5, 6, 7]), (8, [8])])
async def test_rows_of_a_table_are_cut_where_the_page_was_asked_for(offset: int, ids: list[int]) -> None:
    rows: list[dict[str, object]] = [{"id": n, "tableId": 1, "data": []} for n in range(9)]

    found = (
        await account_over(answering(rows)).client(TablesClient).rows("1", limit=4, offset=offset, total=9)
    )

    assert [int(one.id) for one in found] == ids
