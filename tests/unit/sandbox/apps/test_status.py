from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox

API = "/ocs/v2.php/apps/user_status/api/v1"


async def test_a_status_is_answered_as_the_code_of_the_app_says(
    connect: Callable[..., httpx2.AsyncClient],
) -> None:
    alice = connect(Sandbox.demo(), auth=("alice", "alice"))
    headers = {"OCS-APIRequest": "true", "Accept": "application/json"}

    async def put(what: str, **fields: object) -> httpx2.Response:
        return await alice.put(f"{API}/user_status/{what}", json=fields, headers=headers)

    refused = [
        await alice.get(f"{API}/user_status", headers=headers),
        await alice.get(f"{API}/statuses/alice", headers=headers),
        await alice.post(f"{API}/statuses", headers=headers),
        await put("status", statusType="gone"),
        await put("message/predefined", messageId="nonsense"),
        await put("message/custom", message="x" * 81),
    ]
    every = (await alice.get(f"{API}/statuses", headers=headers)).json()["ocs"]["data"]

    assert [answer.status_code for answer in refused] == [404, 404, 404, 400, 400, 400]
    assert [(one["userId"], one["status"]) for one in every] == [("bob", "busy")]
