from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/ocs/v2.php/apps/forms/api/v3/forms"
OCS = {"OCS-APIRequest": "true", "Accept": "application/json"}


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice, nobody = connect(sandbox, auth=("alice", "alice")), connect(sandbox)

    answers = [
        await nobody.get(BASE, headers=OCS),
        await alice.get(f"{BASE}/1/nothing", headers=OCS),
        await alice.patch(f"{BASE}/1/questions", headers=OCS, json={}),
        await alice.get(f"{BASE}/2", headers=OCS),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 404, 404]


async def test_a_user_that_guesses_ids_is_throttled(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    bob = connect(sandbox, auth=("bob", "bob"))

    for number in range(2, 13):
        await bob.get(f"{BASE}/{number}", headers=OCS)

    alice = connect(sandbox, auth=("alice", "alice"))
    assert (await alice.get(f"{BASE}/1", headers=OCS)).status_code == 429
    assert (await alice.get(BASE, headers=OCS)).status_code == 200
