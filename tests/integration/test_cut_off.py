"""A call that is under way when the server stops is answered: what happened, and what to do next."""

from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient, WireClient
from tests.integration.personal_app import PersonalApp, until

CALL: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}


@pytest.mark.parametrize("client_of", [HandshakeClient, StatelessClient])
async def test_a_call_that_the_stop_cuts_off_ends_with_an_error_that_says_to_send_it_again(
    personal_app: PersonalApp, client_of: type[WireClient]
) -> None:
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")
    personal_app.sandbox.faults.slow(600, area="notes", times=1)
    (slow,) = personal_app.sandbox.faults.active
    answers: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {personal_app.secret}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        client = client_of(http, f"{personal_app.url}/mcp", capabilities={})
        await client.open()

        async def call() -> None:
            answers.append(await client.request("tools/call", CALL))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: slow.times == 0)
            await personal_app.stop()
        personal_app.sandbox.faults.clear()
        await personal_app.start()
        again = client_of(http, f"{personal_app.url}/mcp", capabilities={})
        await again.open()
        result = await again.request("tools/call", CALL)

    assert answers[0]["error"]["code"] == -32603
    assert "Send it again in a few seconds" in answers[0]["error"]["message"]
    assert "Shopping list" in str(result["result"])
