"""The server may stop at any moment of a consent; nothing that was asked or granted is lost."""

import httpx2
import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import ElicitRequestParams, ElicitResult

from tests.integration.world import Asked, World, until

LIST = "nc_notes_list_notes"


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def ask(world: World) -> str:
    async with world.client(mode="legacy", elicitation_callback=unused) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
    return UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url


async def test_a_2026_retry_goes_through_on_a_server_restarted_in_between(world: World, asked: Asked) -> None:
    async def restarting(url: str) -> None:
        await alice.allow(url)

    async def elicit(context: object, params: ElicitRequestParams) -> ElicitResult:
        await world.stop()
        await world.start()
        return await asked(context, params)

    async with world.person() as alice:
        asked.by(restarting)
        async with world.client(elicitation_callback=elicit) as client:
            result = await client.call_tool(LIST, {})

    assert not result.is_error
    assert len(asked.urls) == 1


async def test_after_a_restart_the_same_link_is_given_and_still_works(world: World) -> None:
    before = await ask(world)
    await world.stop()
    await world.start()

    after = await ask(world)
    async with world.person() as alice, world.client(mode="legacy", elicitation_callback=unused) as client:
        await alice.allow(before)
        result = await client.call_tool(LIST, {})

    assert after == before
    assert not result.is_error


async def test_access_granted_while_the_server_was_down_is_picked_up(world: World) -> None:
    url = await ask(world)
    async with world.person() as alice:
        nextcloud = await alice.allow(url, stop_at_nextcloud=True)
        await world.stop()
        await alice.allow(nextcloud.url)
    await world.start()

    async with world.client(mode="legacy", elicitation_callback=unused) as client:
        try:
            result = await client.call_tool(LIST, {})
        except MCPError as told:
            wanted = UrlElicitationRequiredError.from_error(told.error).elicitations[0]
            assert wanted.url == url
            result = await client.call_tool(LIST, {})

    assert not result.is_error
    assert len(world.sandbox.state.app_passwords) == 1


async def test_a_visit_that_expired_is_refused_and_what_nextcloud_gives_late_is_deleted_there(
    world: World,
) -> None:
    url = await ask(world)
    async with world.person() as alice:
        nextcloud = await alice.allow(url, stop_at_nextcloud=True)
        world.clock.ahead += world.lifetime
        await alice.allow(nextcloud.url)
        assert world.sandbox.state.app_passwords
        await until(lambda: not world.sandbox.state.app_passwords)
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(url)

    assert page.status_code == 404
    assert await ask(world) != url


async def test_503_at_nextcloud_never_costs_the_connection(world: World, asked: Asked) -> None:
    async with world.person() as alice, world.client(elicitation_callback=asked.by(alice.allow)) as client:
        await client.call_tool(LIST, {})
        world.sandbox.faults.status(503, area="all")
        refused = await client.call_tool(LIST, {})
        world.sandbox.faults.clear()
        result = await client.call_tool(LIST, {})

    assert refused.is_error
    assert not result.is_error
    assert len(asked.urls) == 1
