from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/index.php/apps/news/api/v1-3"


async def test_only_signed_in_users_are_answered_each_with_their_own_feeds(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo()
    bob, nobody = connect(sandbox, auth=("bob", "bob")), connect(sandbox)

    answers = [
        await nobody.get(f"{BASE}/feeds"),
        await bob.get(f"{BASE}/nothing"),
        await bob.post(f"{BASE}/items/1/read"),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 404]
    assert (await bob.get(f"{BASE}/feeds")).json() == {"starredCount": 0, "feeds": []}


async def test_all_articles_come_without_a_size_and_stars_are_not_combined(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))

    everything = (await alice.get(f"{BASE}/items")).json()
    combined = (await alice.get(f"{BASE}/items", params={"type": 2, "getRead": "false"})).json()

    assert [item["id"] for item in everything["items"]] == [3, 2, 1]
    assert list(combined) == ["message"]


async def test_several_marked_articles_are_answered_otherwise_than_one(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))

    one = await alice.post(f"{BASE}/items/1/read")
    several = await alice.post(f"{BASE}/items/read/multiple", json={"itemIds": [1, 99]})

    assert (one.json(), several.json()) == ([], None)
