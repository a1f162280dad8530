import anyio
import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError


async def test_a_2026_client_opens_one_page_and_its_waiting_call_goes_through(world, asked) -> None:
    async with world.person() as alice, world.client(elicitation_callback=(ask := asked(alice.allow))) as client:
        result = await client.call_tool("nc_notes_list_notes", {})

    assert not result.is_error
    assert [note["title"] for note in result.structured_content["notes"]][0] == "Shopping list"
    assert len(ask.urls) == 1
