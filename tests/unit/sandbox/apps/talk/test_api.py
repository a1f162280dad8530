from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.talk.store import TalkStore

API = "/ocs/v2.php/apps/spreed/api"


async def test_talk_answers_as_its_documentation_says(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice = connect(sandbox, auth=("alice", "alice"))
    alice.headers.update({"OCS-APIRequest": "true", "Accept": "application/json"})
    chat, talk = f"{API}/v1/chat/officemove", sandbox.state.store(TalkStore)

    refused = [
        await alice.get(f"{API}/v4/nothing"),
        await alice.post(chat, json={"message": " "}),
        await alice.post(chat, json={"message": "x" * 32_001}),
        await alice.get(chat, params={"lookIntoFuture": 0, "noStatusUpdate": 1, "lastKnownMessageId": 1}),
    ]
    errors = [answer.json()["ocs"]["data"] for answer in refused[1:3]]
    sent = await alice.post(chat, json={"message": "x", "referenceId": "abc"})

    assert [answer.status_code for answer in refused] == [404, 400, 413, 304]
    assert errors == [{"error": "message"}] * 2
    assert sent.json()["ocs"]["meta"]["statuscode"] == sent.status_code == 201
    assert sent.json()["ocs"]["data"]["referenceId"] == "abc"
    assert talk.seen_online == set()


async def test_a_client_that_asks_carelessly_leaves_traces(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    sandbox = Sandbox.demo()
    alice = connect(sandbox, auth=("alice", "alice"))
    alice.headers.update({"OCS-APIRequest": "true", "Accept": "application/json"})
    talk = sandbox.state.store(TalkStore)

    await alice.get(f"{API}/v4/room")
    listed = set(talk.seen_online)
    talk.seen_online.clear()
    await alice.get(f"{API}/v1/chat/officemove", params={"lookIntoFuture": 1, "lastKnownMessageId": 3})

    assert listed == talk.seen_online == {"alice"}
    assert talk.rooms["officemove"].read == {"alice": 3}
