"""The server may stop at any moment of a consent; nothing that was asked or granted is lost."""

import httpx2
import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import ElicitRequestParams, ElicitResult

from tests.integration.personal_app import Asked, PersonalApp, until

LIST = "nc_notes_list_notes"


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def ask(personal_app: PersonalApp) -> str:
    async with personal_app.client(mode="legacy", elicitation_callback=unused) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
    return UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url


async def test_a_2026_retry_goes_through_on_a_server_restarted_in_between(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async def restarting(url: str) -> None:
        await alice.allow(url)

    async def elicit(context: object, params: ElicitRequestParams) -> ElicitResult:
        await personal_app.stop()
        await personal_app.start()
        return await asked(context, params)

    async with personal_app.person() as alice:
        asked.by(restarting)
        async with personal_app.client(elicitation_callback=elicit) as client:
            result = await client.call_tool(LIST, {})

    assert not result.is_error
    assert len(asked.urls) == 1


async def test_after_a_restart_the_same_link_is_given_and_still_works(personal_app: PersonalApp) -> None:
    before = await ask(personal_app)
    await personal_app.stop()
    await personal_app.start()

    after = await ask(personal_app)
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=unused) as client,
    ):
        await alice.allow(before)
        result = await client.call_tool(LIST, {})

    assert after == before
    assert not result.is_error


async def test_access_granted_while_the_server_was_down_is_picked_up(personal_app: PersonalApp) -> None:
    url = await ask(personal_app)
    async with personal_app.person() as alice:
        nextcloud = await alice.allow(url, stop_at_nextcloud=True)
        await personal_app.stop()
        await alice.allow(nextcloud.url)
    await personal_app.start()

    async with personal_app.client(mode="legacy", elicitation_callback=unused) as client:
        try:
            result = await client.call_tool(LIST, {})
        except MCPError as told:
            wanted = UrlElicitationRequiredError.from_error(told.error).elicitations[0]
            assert wanted.url == url
            result = await client.call_tool(LIST, {})

    assert not result.is_error
    assert len(personal_app.sandbox.state.app_passwords) == 1


async def test_a_consent_request_that_expired_is_refused_and_what_nextcloud_gives_late_is_deleted_there(
    personal_app: PersonalApp,
) -> None:
    url = await ask(personal_app)
    async with personal_app.person() as alice:
        nextcloud = await alice.allow(url, stop_at_nextcloud=True)
        personal_app.clock.ahead += personal_app.lifetime
        await alice.allow(nextcloud.url)
        assert personal_app.sandbox.state.app_passwords
        await until(lambda: not personal_app.sandbox.state.app_passwords)
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(url)

    assert page.status_code == 404
    assert await ask(personal_app) != url


async def test_503_at_nextcloud_never_costs_the_connection(personal_app: PersonalApp, asked: Asked) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool(LIST, {})
        personal_app.sandbox.faults.status(503, area="all")
        refused = await client.call_tool(LIST, {})
        personal_app.sandbox.faults.clear()
        result = await client.call_tool(LIST, {})

    assert refused.is_error
    assert not result.is_error
    assert len(asked.urls) == 1
