"""What a client sees of the tools: what the operator, the request and the user's Nextcloud allow."""

from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult

from tests.integration.personal_app import Asked, PersonalApp, until

CONNECTION = {"request_nextcloud_access", "check_provisioning_status", "revoke_nextcloud_access"}


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def test_the_default_is_24_tools_of_which_none_names_a_user_or_a_host(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.client() as client:
        tools = (await client.list_tools()).tools

    assert len(tools) == 24
    for tool in tools:
        assert not {"user", "user_id", "uid", "host", "url"} & set(tool.input_schema["properties"])
        assert tool.title
        assert tool.annotations is not None
        assert tool.annotations.title
        assert tool.annotations.read_only_hint is not None
        assert tool.output_schema is None


async def test_the_operator_chooses_toolsets_and_leaves_out_single_tools(personal_app: PersonalApp) -> None:
    await personal_app.stop()
    await personal_app.start(toolsets="notes", exclude_tools="nc_notes_delete_note")
    async with personal_app.client() as client:
        listed = await names(client)

    assert {name for name in listed if not name.startswith("nc_notes_")} == CONNECTION
    assert "nc_notes_get_note" in listed
    assert "nc_notes_delete_note" not in listed


async def test_read_only_leaves_no_writing_tool_and_offers_no_writing_permission(
    personal_app: PersonalApp, asked: Asked
) -> None:
    await personal_app.stop()
    await personal_app.start(read_only=True)
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        tools = (await client.list_tools()).tools
        status = await client.call_tool("request_nextcloud_access", {})

    assert all(
        (tool.annotations and tool.annotations.read_only_hint) or tool.name in CONNECTION for tool in tools
    )
    assert status.structured_content["permissions"] == ["files:read", "notes:read"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_output_schemas_are_of_objects_and_listed_in_both_eras(
    personal_app: PersonalApp, mode: str
) -> None:
    await personal_app.stop()
    await personal_app.start(toolsets="all", output_schemas=True)
    async with personal_app.client(mode=mode) as client:
        tools = (await client.list_tools()).tools

    assert len(tools) > 80
    for tool in tools:
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_templates_and_prompts_have_titles_and_icons(
    personal_app: PersonalApp, mode: str
) -> None:
    async with personal_app.client(mode=mode) as client:
        server = client.server_info
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts

    for one in (server, *templates, *prompts):
        assert one is not None
        assert one.title
        assert [icon.theme for icon in one.icons or ()] == ["light", "dark"]


@pytest.mark.parametrize(
    ("headers", "seen", "hidden"),
    [
        ({"X-MCP-Toolsets": "notes"}, "nc_notes_get_note", "nc_files_read_file"),
        ({"X-MCP-Toolsets": "all"}, "nc_files_read_file", None),
        ({"X-MCP-Readonly": "true"}, "nc_files_read_file", "nc_files_write_file"),
    ],
)
async def test_a_request_can_narrow_its_tools_by_headers(
    personal_app: PersonalApp, headers: dict[str, str], seen: str, hidden: str | None
) -> None:
    async with personal_app.client(headers=headers) as client:
        listed = await names(client)

    assert seen in listed
    assert listed >= CONNECTION
    assert hidden not in listed


async def test_a_tool_left_out_by_headers_cannot_be_called(personal_app: PersonalApp) -> None:
    async with personal_app.client(headers={"X-MCP-Toolsets": "notes"}) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("nc_files_read_file", {"path": "Readme.md"})

    assert refused.value.error.code == -32602


async def test_headers_never_widen_what_the_operator_allows(personal_app: PersonalApp) -> None:
    await personal_app.stop()
    await personal_app.start(toolsets="notes", read_only=True)
    async with personal_app.client(headers={"X-MCP-Toolsets": "all", "X-MCP-Readonly": "false"}) as client:
        listed = await names(client)

    assert "nc_files_read_file" not in listed
    assert "nc_notes_create_note" not in listed


async def test_both_handshakes_say_that_urls_can_be_elicited_and_lists_change(
    personal_app: PersonalApp,
) -> None:
    async with personal_app.client(mode="legacy") as client:
        legacy = client.server_capabilities
    async with personal_app.client() as client:
        modern = client.server_capabilities

    for capabilities in (legacy, modern):
        dumped: dict[str, Any] = capabilities.model_dump(by_alias=True, exclude_none=True)
        assert dumped["tools"]["listChanged"] is True
    async with personal_app.raw() as raw:
        initialized = await raw.open()
    assert initialized["capabilities"]["elicitation"] == {"url": {}}
    assert "io.github.nextcloud-mcp-server/elicitation-track" in initialized["capabilities"]["extensions"]


@pytest.mark.parametrize("personal_app", [{"apps": {"files", "dav", "files_trashbin"}}], indirect=True)
async def test_tools_of_an_app_that_is_missing_disappear_once_that_is_known(
    personal_app: PersonalApp, asked: Asked
) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        heard.append(message)

    async with (
        personal_app.person() as alice,
        personal_app.client(
            mode="legacy", elicitation_callback=asked.by(alice.allow), message_handler=listen
        ) as client,
    ):
        before = await names(client)
        await client.call_tool("request_nextcloud_access", {})
        await client.call_tool("nc_files_list_folder", {})
        await until(lambda: any("list_changed" in str(getattr(one, "method", "")) for one in heard))
        after = await names(client)
        refused = await client.call_tool("nc_notes_list_notes", {})

    assert before - after == {name for name in before if name.startswith("nc_notes_")}
    assert refused.is_error
    assert "does not have the app 'notes'" in str(refused.content)
