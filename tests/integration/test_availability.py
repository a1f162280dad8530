"""What each of two people sees of one server, whose Nextcloud has not the same apps for both."""

from typing import Any

from mcp.client.client import Client
from mcp_types import ResourceTemplateReference

from tests.integration.crowd import Crowd
from tests.town import connect, move_in

NAMES = ("carol", "dave")
STATUS = "check_provisioning_status"
LIST = "nc_notes_list_notes"
TEMPLATE = "nc://notes/{id}"


async def seen(client: Client) -> dict[str, set[str]]:
    """List all that is offered of notes."""
    return {
        "tools": {one.name for one in (await client.list_tools()).tools if "_notes_" in one.name},
        "prompts": {one.name for one in (await client.list_prompts()).prompts} & {"tidy_note"},
        "templates": {one.uri_template for one in (await client.list_resource_templates()).resource_templates}
        & {TEMPLATE},
    }


async def people(crowd: Crowd) -> None:
    """Let two people be connected; for one of them their Nextcloud has no notes."""
    for name in NAMES:
        move_in(crowd.sandbox, crowd.issuer, name)
    crowd.sandbox.state.users["dave"].denied_apps = frozenset({"notes"})
    assert crowd.parts is not None
    database = (await crowd.parts.core.get()).database
    await connect(NAMES, database, crowd.sandbox, crowd.issuer, crowd.nextcloud_url)


async def test_two_people_of_one_server_see_what_their_nextcloud_has_for_each(crowd: Crowd) -> None:
    await people(crowd)
    offered: dict[str, Any] = {}
    async with (
        crowd.client(crowd.token("carol")) as hers,
        crowd.client(crowd.token("dave")) as his,
    ):
        unknown = await seen(his)
        for name, client in (("carol", hers), ("dave", his)):
            await client.call_tool(STATUS, {})
            offered[name] = await seen(client)
        refused = await his.call_tool(LIST, {})
        completed = await his.complete(
            ResourceTemplateReference(uri=TEMPLATE), {"name": "id", "value": "Note"}
        )
        listed = await hers.call_tool(LIST, {})

    assert unknown == offered["carol"]
    assert offered["dave"] == {"tools": set(), "prompts": set(), "templates": set()}
    assert refused.is_error
    assert getattr(refused.content[0], "text", "") == (
        "This Nextcloud does not have the app 'notes', or not for this person; its administrator can install it "
        "or allow it to them. Do not retry before that."
    )
    assert completed.completion.values == []
    assert not listed.is_error


async def test_a_call_that_finds_nothing_because_the_app_is_missing_says_so(crowd: Crowd) -> None:
    await people(crowd)
    async with crowd.client(crowd.token("dave")) as his:
        refused = await his.call_tool("nc_notes_get_note", {"note_id": 99999})

    assert "does not have the app 'notes'" in getattr(refused.content[0], "text", "")
