"""What each of two people sees of one server, whose Nextcloud has not the same apps for both."""

from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import ResourceTemplateReference

from nextcloud_mcp_server.sandbox.faults import FaultStatus
from tests.integration.crowd import Crowd
from tests.integration.world import World, until
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
    """B70."""
    await people(crowd)
    offered: dict[str, Any] = {}
    async with (
        crowd.client(crowd.token("carol")) as hers,
        crowd.client(crowd.token("dave")) as his,
    ):
        at_first = await seen(his)
        for name, client in (("carol", hers), ("dave", his)):
            await client.call_tool(STATUS, {})
            offered[name] = await seen(client)
        refused = await his.call_tool(LIST, {})
        completed = await his.complete(
            ResourceTemplateReference(uri=TEMPLATE), {"name": "id", "value": "Note"}
        )
        listed = await hers.call_tool(LIST, {})

    assert offered["carol"]["templates"]
    assert at_first == offered["dave"] == {"tools": set(), "prompts": set(), "templates": set()}
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


MENU = "core/navigation/apps"
SILENT = {"collectives", "mail", "news"}


async def operator(world: World, **overrides: object) -> None:
    """Let alice be connected, with these settings."""
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice", **overrides)
    world.sandbox.requests.clear()


async def apps_listed(client: Client) -> set[str]:
    """Name the apps, of those that say nothing of themselves, whose tools are listed."""
    tools = [one.name for one in (await client.list_tools()).tools]
    return {app for app in SILENT if any(name.startswith(f"nc_{app}_") for name in tools)}


def menus(world: World) -> list[int]:
    """List how the menu was answered each time."""
    return [one.status for one in world.sandbox.requests.records if one.path.endswith(MENU)]


async def test_apps_that_say_nothing_of_themselves_are_looked_for_in_the_menu(world: World) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(getattr(message, "method", None))

    await operator(world, toolsets="all")
    alice = world.sandbox.state.users["alice"]
    async with world.client(mode="legacy", message_handler=listen) as client:
        with_all = await apps_listed(client)
        alice.denied_apps = frozenset({"news"})
        status = (await client.call_tool(STATUS, {})).structured_content
        await until(lambda: "notifications/tools/list_changed" in heard)
        without = await apps_listed(client)
        refused = await client.call_tool("nc_news_list_feeds", {})
        heard.clear()
        alice.denied_apps = frozenset({"mail"})
        again = (await client.call_tool(STATUS, {})).structured_content
        await until(lambda: "notifications/tools/list_changed" in heard)
        without_mail = await apps_listed(client)
        read = await client.call_tool("nc_news_list_feeds", {})

    assert with_all == SILENT
    assert without == SILENT - {"news"}
    assert SILENT & set(status["apps"]) == without
    assert "does not have the app 'news'" in getattr(refused.content[0], "text", "")
    assert without_mail == SILENT - {"mail"}
    assert SILENT & set(again["apps"]) == without_mail
    assert not read.is_error


async def test_the_menu_is_asked_for_beside_a_call_and_again_with_its_etag(world: World) -> None:
    await operator(world, toolsets="news")
    world.sandbox.state.users["alice"].denied_apps = frozenset({"news"})
    async with world.client() as client:
        await client.call_tool("nc_news_list_feeds", {})
        await until(lambda: bool(menus(world)))
        await client.call_tool(STATUS, {})
        listed = await apps_listed(client)

    assert listed == set()
    assert menus(world) == [200, 304]


@pytest.mark.parametrize("status", [503, 429])
async def test_a_menu_that_is_not_answered_hides_nothing(world: World, status: FaultStatus) -> None:
    await operator(world, toolsets="notes,news")
    # The account is asked for first, then the capabilities.
    world.sandbox.faults.status(status, area="ocs", after=2)
    async with world.client() as client:
        answered = (await client.call_tool(STATUS, {})).structured_content
        listed = await apps_listed(client)

    assert menus(world) == [status]
    assert "notes" in answered["apps"]
    assert listed == {"news"}


async def test_an_access_that_only_the_menu_refuses_is_used_on(world: World) -> None:
    """One route's refusal does not end an access that another route accepts."""
    await operator(world, toolsets="notes,news")
    world.sandbox.faults.status(401, area="ocs", after=2)
    async with world.client() as client:
        first = await client.call_tool(LIST, {})
        await until(lambda: bool(menus(world)))
        again = [await client.call_tool(LIST, {}) for _ in range(3)]

    assert not first.is_error
    assert set(menus(world)) == {401}
    assert not any(answer.is_error for answer in again)


async def test_where_no_toolset_needs_it_the_menu_is_not_asked_for(world: World) -> None:
    await operator(world)
    async with world.client() as client:
        await client.call_tool(LIST, {})
        await client.call_tool(STATUS, {})
        await until(lambda: any("capabilities" in one.path for one in world.sandbox.requests.records))

    assert menus(world) == []
