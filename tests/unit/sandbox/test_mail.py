from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

BASE = "/ocs/v2.php/apps/mail"
OCS = {"OCS-APIRequest": "true", "Accept": "application/json"}


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice, nobody = connect(sandbox, auth=("alice", "alice")), connect(sandbox)
    bob = connect(sandbox, auth=("bob", "bob"))

    answers = [
        await nobody.get(f"{BASE}/account/list", headers=OCS),
        await alice.get(f"{BASE}/nothing", headers=OCS),
        await bob.get(f"{BASE}/ocs/mailboxes", headers=OCS, params={"accountId": 1}),
        await bob.get(f"{BASE}/ocs/mailboxes/1/messages", headers=OCS),
        await bob.get(f"{BASE}/ocs/mailboxes/9/messages", headers=OCS),
        await bob.get(f"{BASE}/message/1", headers=OCS),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 404, 500, 403, 404]


async def test_without_a_limit_mail_gives_one_message(connect: Callable[..., httpx2.AsyncClient]) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))

    found = (await alice.get(f"{BASE}/ocs/mailboxes/1/messages", headers=OCS)).json()["ocs"]["data"]

    assert [message["subject"] for message in found] == ["Invoice 4711"]
