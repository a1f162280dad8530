"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    found = (await call(nc, "search", query="kestrel")).results[0].id
    return {"search": {"query": "e"}, "fetch": {"id": found}}
