"""Who hears that a list has changed: the sessions that asked for this list, over HTTP and over stdio."""

from typing import Any

import anyio
import pytest

from nextcloud_mcp_server.protocol import availability
from tests.integration.personal_app import PersonalApp, until
from tests.integration.stdio_app import StdioApp

STATUS = "check_provisioning_status"
WITHOUT_NOTES = frozenset({"notes"})
#: The notifications of MCP 2025-11-25 (server/tools, server/prompts, server/resources).
TOLD = {
    "": [],
    "tools/list": ["notifications/tools/list_changed"],
    "prompts/list": ["notifications/prompts/list_changed"],
    "resources/templates/list": ["notifications/resources/list_changed"],
}


def operator(stdio_app: StdioApp) -> None:
    stdio_app.settings |= {"NEXTCLOUD_USERNAME": "alice", "NEXTCLOUD_APP_PASSWORD": "alice"}


def changes(notices: list[dict[str, Any]]) -> list[str]:
    return [one["method"] for one in notices if "list_changed" in one["method"]]


@pytest.mark.parametrize("asked_for", TOLD)
async def test_over_stdio_a_session_hears_of_the_list_it_asked_for_alone(
    stdio_app: StdioApp, asked_for: str
) -> None:
    operator(stdio_app)
    async with stdio_app.lines() as client:
        if asked_for:
            await client.request(asked_for, {})
        await client.call(STATUS)
        stdio_app.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.call(STATUS)
        await client.request("ping", {})

    # Where a server starts slowly, what the Nextcloud has comes after the list, and is one change more.
    assert set(changes(client.notices)) == set(TOLD[asked_for])


async def test_over_stdio_a_2026_client_that_does_not_listen_hears_nothing(stdio_app: StdioApp) -> None:
    operator(stdio_app)
    async with stdio_app.lines(modern=True) as client:
        for method in ("tools/list", "prompts/list", "resources/list"):
            await client.request(method, {})
        await client.call(STATUS)
        stdio_app.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.call(STATUS)
        listed = await client.request("tools/list", {})

    assert client.notices == []
    assert "nc_notes_get_note" not in {tool["name"] for tool in listed["result"]["tools"]}


@pytest.mark.parametrize("asked_for", TOLD)
async def test_over_http_a_session_hears_of_the_list_it_asked_for_alone(
    personal_app: PersonalApp, asked_for: str
) -> None:
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")
    async with (
        personal_app.raw() as client,
        personal_app.raw() as witness,
        anyio.create_task_group() as group,
    ):
        for each in (client, witness):
            await group.start(each.listen)
        await witness.request("tools/list", {})
        if asked_for:
            await client.request(asked_for, {})
        await client.request("tools/call", {"name": STATUS, "arguments": {}})
        personal_app.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
        await client.request("tools/call", {"name": STATUS, "arguments": {}})
        # All of a user's sessions are told together.
        await until(
            lambda: bool(changes(witness.notices)) and len(changes(client.notices)) >= bool(asked_for)
        )
        group.cancel_scope.cancel()

    assert changes(witness.notices) == TOLD["tools/list"]
    assert changes(client.notices) == TOLD[asked_for]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_changes_no_list_of_the_connection_it_came_on(
    personal_app: PersonalApp, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The set of tools must not vary as a side effect of other requests on the connection (2026-07-28)."""
    monkeypatch.setattr(availability, "LIST_SECONDS", 60)
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")
    personal_app.sandbox.state.users["alice"].denied_apps = WITHOUT_NOTES
    lists: list[list[str]] = []
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(message)

    async with personal_app.client(mode=mode, message_handler=listen) as client:
        for _ in range(2):
            # The SDK's client keeps lists for as long as they say; one by one they are asked for again.
            lists.append([tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools])
            await client.call_tool("nc_files_list_folder", {})

    assert lists[0] == lists[1]
    assert "nc_notes_get_note" not in lists[0]
    assert heard == []


async def hints(personal_app: PersonalApp) -> list[tuple[int | None, str | None]]:
    async with personal_app.client() as client:
        lists = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.list_resources(),
        ]
    return [(one.ttl_ms, one.cache_scope) for one in lists]


async def test_lists_say_how_long_they_may_be_kept_and_for_whom(
    personal_app: PersonalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "LIST_SECONDS", 60)
    before_access = await hints(personal_app)
    await personal_app.stop()
    await personal_app.start(nextcloud_username="alice", nextcloud_app_password="alice")

    assert before_access == [(0, "private")] * 4
    assert await hints(personal_app) == [
        (300_000, "private"),
        (300_000, "private"),
        (300_000, "private"),
        (60_000, "private"),
    ]
