from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/ocs/v2.php/apps/collectives/api/v1.0/collectives"
OCS = {"OCS-APIRequest": "true", "Accept": "application/json"}


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice, bob = connect(sandbox, auth=("alice", "alice")), connect(sandbox, auth=("bob", "bob"))
    nobody = connect(sandbox)

    answers = [
        await nobody.get(BASE, headers=OCS),
        await nobody.get(f"{BASE}/1/pages", headers=OCS),
        await bob.get(f"{BASE}/1/pages", headers=OCS),
        await alice.get(f"{BASE}/1/pages/1", headers=OCS),
        await alice.get(f"{BASE}/1/nothing", headers=OCS),
    ]

    assert [answer.status_code for answer in answers] == [401, 401, 404, 404, 404]


async def test_a_page_with_others_below_it_becomes_a_folder(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo()
    alice = connect(sandbox, auth=("alice", "alice"))
    pages = (await alice.get(f"{BASE}/1/pages", headers=OCS)).json()["ocs"]["data"]["pages"]
    hedges = next(page for page in pages if page["title"] == "Hedges")
    path = f"{BASE}/1/pages/{hedges['id']}"

    made = [
        (await alice.post(path, headers=OCS, json={"title": title})).json()["ocs"]["data"]["page"]
        for title in ("Roses: red?", "Roses red", "...")
    ]

    above = (await alice.get(path, headers=OCS)).json()["ocs"]["data"]["page"]
    assert [page["title"] for page in made] == ["Roses red", "Roses red (2)", "New Page"]
    assert {page["parentId"] for page in made} == {hedges["id"]}
    assert (above["title"], above["fileName"], above["filePath"]) == ("Hedges", "Readme.md", "Hedges")
    listed = (await alice.get(f"{BASE}/1/pages", headers=OCS)).json()["ocs"]["data"]["pages"]
    assert len(listed) == len(pages) + 3


async def test_the_pages_of_a_collective_in_the_trash_are_gone(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))
    await alice.delete(f"{BASE}/1", headers=OCS)

    pages = await alice.get(f"{BASE}/1/pages", headers=OCS)
    for_good = await alice.delete(f"{BASE}/trash/1", headers=OCS)

    assert (pages.status_code, for_good.status_code) == (404, 200)
    assert pages.json()["ocs"]["meta"]["message"] == "Collective not found: 1"


async def test_a_page_below_page_0_is_made_and_answered_as_if_it_was_not(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))

    made = await alice.post(f"{BASE}/1/pages/0", headers=OCS, json={"title": "Roses"})
    pages = (await alice.get(f"{BASE}/1/pages", headers=OCS)).json()["ocs"]["data"]["pages"]

    assert (made.status_code, made.json()["ocs"]["meta"]["message"]) == (404, "File not found: 0")
    assert "Roses" in [page["title"] for page in pages]
