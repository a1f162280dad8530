"""Who hears that a list has changed: the sessions that asked for this list, over HTTP and over stdio."""

from typing import Any

import anyio
import pytest

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

    assert changes(client.notices) == TOLD[asked_for]


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


@pytest.mark.parametrize("modern", [False, True])
async def test_a_call_changes_no_list_of_the_connection_it_came_on(
    computer: Computer, *, modern: bool
) -> None:
    """The set of tools must not vary as a side effect of other requests on the connection (2026-07-28)."""
    operator(computer)
    computer.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
    lists: list[list[str]] = []
    async with computer.lines(modern=modern) as client:
        for _ in range(2):
            listed = await client.request("tools/list", {})
            lists.append([tool["name"] for tool in listed["result"]["tools"]])
            await client.call("nc_files_list_folder")

    assert lists[0] == lists[1]
    assert "nc_notes_get_note" not in lists[0]
    assert client.notices == []


async def test_lists_say_how_long_they_may_be_kept_and_for_whom(world: World) -> None:
    async with world.client() as client:
        lists = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.list_resources(),
        ]

    hints = [(one.ttl_ms, one.cache_scope) for one in lists]
    assert hints == [(300_000, "private"), (300_000, "private"), (300_000, "private"), (60_000, "private")]
