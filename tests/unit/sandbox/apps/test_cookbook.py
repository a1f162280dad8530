from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/index.php/apps/cookbook/api/v1"


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice, nobody = connect(sandbox, auth=("alice", "alice")), connect(sandbox)
    top = sandbox.state.users["alice"].files.get("/Documents").file_id

    answers = [
        await nobody.get(f"{BASE}/recipes"),
        await alice.get(f"{BASE}/nothing"),
        await alice.delete(f"{BASE}/recipes"),
        await alice.post(f"{BASE}/recipes", json={"description": "x"}),
        await alice.get(f"{BASE}/recipes/{top}"),
        await alice.delete(f"{BASE}/recipes/{top}"),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 405, 422, 404, 200]
    assert sandbox.state.users["alice"].files.find("/Documents") is not None


async def test_a_put_without_an_id_makes_another_recipe(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice = connect(sandbox, auth=("alice", "alice"))
    first = (await alice.post(f"{BASE}/recipes", json={"name": "First"})).json()

    second = (await alice.put(f"{BASE}/recipes/{first}", json={"name": "Second"})).json()
    renamed = (await alice.put(f"{BASE}/recipes/{first}", json={"name": "Third", "id": first})).json()

    assert second != first == renamed
    names = [stub["name"] for stub in (await alice.get(f"{BASE}/search/second, THIRD")).json()]
    assert names == ["Second", "Third"]
