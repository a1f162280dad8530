"""What the connection tools are told of an access that ends while they look at it."""

from typing import Any, cast

from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools.access import Access
from tests.auth_fixtures import CALLER, Process, ProcessHost


async def test_an_access_that_ended_since_it_was_looked_at_is_none_and_no_question(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    nothing = cast("Any", None)
    access = Access(cast("Any", process), CALLER, wire.Form.TEXT, nothing, nothing, until=0)
    before = await access.connection()
    await process.accounts.disconnect(CALLER)

    server = await access.server()

    assert before.connected
    assert server is None
