"""Mode `oidc` with an identity provider that others wrote: the whole journey, and its bad days."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from nextcloud_mcp_server.auth.scopes import SCOPES
from tests.integration.assistant import REGISTERED, Assistant
from tests.integration.crowd import Crowd
from tests.integration.oidc_provider import login_client, mcp_client, open_oidc_provider, signing_key
from tests.integration.world import Asked

LIST = "nc_notes_list_notes"
SECRET = "s" * 32

Elicit = Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


def provider(crowd: Crowd, *keys: dict[str, Any], issuer: str = "") -> AbstractAsyncContextManager[str]:
    """Run the identity provider, at the address of the one before when that is given."""
    sign_in = f"{crowd.url}/oauth/callback/sign-in"
    return open_oidc_provider(
        [mcp_client("assistant", REGISTERED), login_client("us", SECRET, [sign_in])],
        resources=[f"{crowd.url}/mcp"],
        scopes=list(SCOPES),
        keys=keys,
        port=urlsplit(issuer).port or 0,
    )


async def call(crowd: Crowd, assistant: Assistant, elicit: Elicit) -> CallToolResult:
    async with (
        assistant.http(f"{crowd.url}/mcp") as http,
        crowd.client_over(http, elicitation_callback=elicit) as client,
    ):
        return await client.call_tool(LIST, {})


async def link(crowd: Crowd, assistant: Assistant) -> str:
    async with (
        assistant.http(f"{crowd.url}/mcp") as http,
        crowd.client_over(http, mode="legacy", elicitation_callback=unused) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
    return UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url


async def test_two_people_of_somebody_elses_identity_provider_read_their_own_notes(crowd: Crowd) -> None:
    async with provider(crowd) as issuer, crowd.person("alice") as alice, crowd.person("bob") as bob:
        await crowd.restart(oidc_issuer=issuer, oidc_client_secret=SECRET)
        hers = await call(crowd, Assistant(alice), Asked(crowd).by(alice.consent))
        his = await call(crowd, Assistant(bob), Asked(crowd).by(bob.consent))

    assert "Shopping list" in str(hers.structured_content)
    assert "Garage code" in str(his.structured_content)


async def test_a_visit_survives_a_provider_that_restarts_with_another_key(crowd: Crowd) -> None:
    old, new = signing_key("old"), signing_key("new")
    async with crowd.person("alice") as alice:
        assistant = Assistant(alice)
        async with provider(crowd, old) as issuer:
            await crowd.restart(oidc_issuer=issuer, oidc_client_secret=SECRET)
            url = await link(crowd, assistant)
        while_down = await link(crowd, assistant)
        async with provider(crowd, new, old, issuer=issuer):
            await alice.consent(url)
            kept = await call(crowd, assistant, unused)
            assistant.tokens = None
            renewed = await call(crowd, assistant, unused)

    assert while_down == url
    assert "Shopping list" in str(kept.structured_content)
    assert kept.structured_content == renewed.structured_content
    assert len(assistant.asked) == 2
