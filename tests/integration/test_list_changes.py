"""Who hears that a list has changed: the sessions that asked for this list, over HTTP and over stdio."""

from typing import Any

import anyio
import pytest

from nextcloud_mcp_server.protocol import availability
from tests.integration.computer import Computer
from tests.integration.world import World, until

STATUS = "check_provisioning_status"
WITHOUT_NOTES = frozenset({"notes"})
#: The notifications of MCP 2025-11-25 (server/tools, server/prompts, server/resources).
TOLD = {
    "": [],
    "tools/list": ["notifications/tools/list_changed"],
    "prompts/list": ["notifications/prompts/list_changed"],
    "resources/templates/list": ["notifications/resources/list_changed"],
}


def operator(computer: Computer) -> None:
    computer.settings |= {"NEXTCLOUD_USERNAME": "alice", "NEXTCLOUD_APP_PASSWORD": "alice"}


def changes(notices: list[dict[str, Any]]) -> list[str]:
    return [one["method"] for one in notices if "list_changed" in one["method"]]


@pytest.mark.parametrize("asked_for", TOLD)
async def test_over_stdio_a_session_hears_of_the_list_it_asked_for_alone(
    computer: Computer, asked_for: str
) -> None:
    operator(computer)
    async with computer.lines() as client:
        if asked_for:
            await client.request(asked_for, {})
        await client.call(STATUS)
        computer.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.call(STATUS)
        await client.request("ping", {})

    # Where a server starts slowly, what the Nextcloud has comes after the list, and is one change more.
    assert set(changes(client.notices)) == set(TOLD[asked_for])


async def test_over_stdio_a_2026_client_that_does_not_listen_hears_nothing(computer: Computer) -> None:
    operator(computer)
    async with computer.lines(modern=True) as client:
        for method in ("tools/list", "prompts/list", "resources/list"):
            await client.request(method, {})
        await client.call(STATUS)
        computer.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.call(STATUS)
        listed = await client.request("tools/list", {})

    assert client.notices == []
    assert "nc_notes_get_note" not in {tool["name"] for tool in listed["result"]["tools"]}


@pytest.mark.parametrize("asked_for", TOLD)
async def test_over_http_a_session_hears_of_the_list_it_asked_for_alone(world: World, asked_for: str) -> None:
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice")
    async with world.raw() as client, world.raw() as witness, anyio.create_task_group() as group:
        for each in (client, witness):
            await group.start(each.listen)
        await witness.request("tools/list", {})
        if asked_for:
            await client.request(asked_for, {})
        await client.request("tools/call", {"name": STATUS, "arguments": {}})
        world.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.request("tools/call", {"name": STATUS, "arguments": {}})
        # All of a person's sessions are told together.
        await until(
            lambda: bool(changes(witness.notices)) and len(changes(client.notices)) >= bool(asked_for)
        )
        group.cancel_scope.cancel()

    assert changes(witness.notices) == TOLD["tools/list"]
    assert changes(client.notices) == TOLD[asked_for]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_changes_no_list_of_the_connection_it_came_on(
    world: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The set of tools must not vary as a side effect of other requests on the connection (2026-07-28)."""
    monkeypatch.setattr(availability, "LIST_SECONDS", 60)
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice")
    world.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
    lists: list[list[str]] = []
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(message)

    async with world.client(mode=mode, message_handler=listen) as client:
        for _ in range(2):
            # The SDK's client keeps lists for as long as they say; one by one they are asked for again.
            lists.append([tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools])
            await client.call_tool("nc_files_list_folder", {})

    assert lists[0] == lists[1]
    assert "nc_notes_get_note" not in lists[0]
    assert heard == []


async def hints(world: World) -> list[tuple[int | None, str | None]]:
    async with world.client() as client:
        lists = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.list_resources(),
        ]
    return [(one.ttl_ms, one.cache_scope) for one in lists]


async def test_lists_say_how_long_they_may_be_kept_and_for_whom(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "LIST_SECONDS", 60)
    before_access = await hints(world)
    await world.stop()
    await world.start(nextcloud_username="alice", nextcloud_app_password="alice")

    assert before_access == [(0, "private")] * 4
    assert await hints(world) == [
        (300_000, "private"),
        (300_000, "private"),
        (300_000, "private"),
        (60_000, "private"),
    ]
