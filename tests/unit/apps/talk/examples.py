"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    talk = {"conversation": "officemove"}
    return {
        "nc_talk_list_messages": talk,
        "nc_talk_send_message": {**talk, "message": "x"},
        "nc_talk_set_reaction": {**talk, "message_id": 1, "emoji": "x"},
    }


async def working(nc: Account, tool: str, given: dict[str, Any]) -> dict[str, Any]:
    if tool != "nc_talk_set_reaction":
        return {}
    newest = (await call(nc, "nc_talk_list_messages", conversation=given["conversation"])).items[0]
    return {"message_id": newest.id, "emoji": "\N{THUMBS UP SIGN}"}
