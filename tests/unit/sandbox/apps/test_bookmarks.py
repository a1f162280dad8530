"""The answers of the Bookmarks app that its code (16.2.6) has, and that no tool of ours asks for."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/index.php/apps/bookmarks/public/rest/v2"
HEADERS = {"OCS-APIRequest": "true"}


@pytest.fixture
async def alice() -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=Sandbox.demo().app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", auth=("alice", "alice"), headers=HEADERS
    ) as http:
        yield http


async def rows(http: httpx2.AsyncClient, **params: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get(f"{BASE}/bookmark", params=params)).json()["data"]
    return found


async def test_one_page_holds_all_where_that_is_asked_for_and_any_word_will_do(
    alice: httpx2.AsyncClient,
) -> None:
    assert len(await rows(alice, page="-1")) == 2
    assert len(await rows(alice, limit="1", page="1")) == 1
    assert [one["id"] for one in await rows(alice, **{"search[]": "hedges"})] == [2]


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://Movers.example.test", None),
        ("https://movers.example.test:443", None),
        ("new.test/x", "http://new.test/x"),
        ("https://New.test", "https://new.test/"),
        ("http://New.test:80/x", "http://new.test/x"),
        ("http://new.test:443/x", "http://new.test:443/x"),
        ("ftp://new.test:80/x", "ftp://new.test:80/x"),
    ],
)
async def test_an_address_is_written_as_browsers_write_it(
    alice: httpx2.AsyncClient, url: str, stored: str | None
) -> None:
    made = (await alice.post(f"{BASE}/bookmark", json={"url": url})).json()["item"]

    if stored is None:
        # The one that was there: with its title, and changed without a question.
        assert (made["id"], made["title"]) == (1, "Movers")
    else:
        assert (made["url"], made["title"], made["folders"]) == (stored, "", [-1])


@pytest.mark.parametrize(
    ("method", "path", "sent", "refused"),
    [
        ("POST", "bookmark", {"url": "https://"}, (400, ["Invalid URL"])),
        ("POST", "bookmark", {"url": "https://x.test", "folders": [9]}, (400, ["Could not add bookmark"])),
        ("GET", "bookmark/9", {}, (404, ["Not found"])),
        ("PUT", "bookmark/9", {"title": "x"}, (404, ["Could not edit bookmark"])),
        ("PUT", "bookmark/1", {"folders": [9]}, (403, ["Insufficient permissions"])),
        (
            "PUT",
            "bookmark/1",
            {"url": "https://garden.example.test/hedges"},
            (400, ["Bookmark already exists"]),
        ),
        ("PUT", "bookmark/1", {"url": "no-scheme"}, (400, ["Invald URL"])),
        ("DELETE", "folder/9/bookmarks/1", {}, (400, ["Not found"])),
        ("DELETE", "folder/-1/bookmarks/9", {}, (400, ["Not found"])),
        ("POST", "folder/-1/bookmarks/9/undelete", {}, (403, ["Unauthorized"])),
    ],
)
async def test_what_is_refused_is_said_in_the_words_of_the_app(
    alice: httpx2.AsyncClient, method: str, path: str, sent: dict[str, object], refused: tuple[int, list[str]]
) -> None:
    answer = await alice.request(method, f"{BASE}/{path}", json=sent)

    assert (answer.status_code, answer.json()["data"]) == refused
    assert answer.json()["status"] == "error"


async def test_the_trash_of_a_folder_gives_back_what_it_took(alice: httpx2.AsyncClient) -> None:
    await alice.delete(f"{BASE}/folder/-1/bookmarks/1")
    gone = await rows(alice)
    await alice.post(f"{BASE}/folder/-1/bookmarks/1/undelete")

    assert ([one["id"] for one in gone], [one["id"] for one in await rows(alice)]) == ([2], [1, 2])


async def test_deleting_for_good_needs_no_bookmark(alice: httpx2.AsyncClient) -> None:
    answers = [await alice.delete(f"{BASE}/bookmark/1") for _ in range(2)]

    assert [answer.json() for answer in answers] == [{"status": "success"}] * 2
    assert [one["id"] for one in await rows(alice)] == [2]


@pytest.mark.parametrize(("method", "path"), [("PUT", "folder/-1/bookmarks/1"), ("GET", "elsewhere")])
async def test_what_the_app_does_not_have_is_no_route(
    alice: httpx2.AsyncClient, method: str, path: str
) -> None:
    assert (await alice.request(method, f"{BASE}/{path}")).status_code in (404, 405)


async def test_it_asks_for_a_sign_in() -> None:
    transport = httpx2.ASGITransport(app=Sandbox.demo().app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
        assert (await http.get(f"{BASE}/bookmark")).status_code == 401
