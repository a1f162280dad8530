from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore

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


async def test_subject_and_text_asked_for_together_are_in_vain_where_no_text_has_it(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))

    found = [
        (
            await alice.get(
                f"{BASE}/ocs/mailboxes/1/messages", headers=OCS, params={"filter": words, "limit": 9}
            )
        ).json()
        for words in ("subject:4711", "subject:4711 body:4712", "subject:4711 body:boxes")
    ]

    assert [len(one["ocs"]["data"]) for one in found] == [1, 0, 2]


async def test_of_several_signatures_the_last_one_is_cut_off(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo()
    mail = sandbox.state.store(MailStore)
    made = mail.add(mail.mailboxes[0], "Two", ("", "bob@example.test"), 1, "One\n-- \nTwo\n-- \nThree\n")
    alice = connect(sandbox, auth=("alice", "alice"))

    read = (await alice.get(f"{BASE}/message/{made.id}", headers=OCS)).json()["ocs"]["data"]

    assert (read["body"], read["signature"]) == ("One\n-- \r\nTwo\n", "Three\n")
