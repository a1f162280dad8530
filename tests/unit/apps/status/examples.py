"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    return {"nc_status_get_status": {"person": "bob"}, "nc_status_set_status": {"status": "away"}}
