"""Mode `oidc` with an identity provider that others wrote: the whole journey, and its bad days."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from nextcloud_mcp_server.auth.scopes import SCOPES
from tests.integration.mcp_client import REGISTERED, AuthorizingClient
from tests.integration.oidc_app import OidcApp
from tests.integration.oidc_provider import login_client, mcp_client, open_oidc_provider, signing_key
from tests.integration.personal_app import Asked

LIST = "nc_notes_list_notes"
SECRET = "s" * 32

Elicit = Callable[[Any, ElicitRequestParams], Awaitable[ElicitResult]]


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


def provider(oidc_app: OidcApp, *keys: dict[str, Any], issuer: str = "") -> AbstractAsyncContextManager[str]:
    """Run the identity provider, at the address of the one before when that is given."""
    sign_in = f"{oidc_app.url}/oauth/callback/sign-in"
    return open_oidc_provider(
        [mcp_client("assistant", REGISTERED), login_client("us", SECRET, [sign_in])],
        resources=[f"{oidc_app.url}/mcp"],
        scopes=list(SCOPES),
        keys=keys,
        port=urlsplit(issuer).port or 0,
    )


async def call(oidc_app: OidcApp, mcp_client: AuthorizingClient, elicit: Elicit) -> CallToolResult:
    async with (
        mcp_client.http(f"{oidc_app.url}/mcp") as http,
        oidc_app.client_over(http, elicitation_callback=elicit) as client,
    ):
        return await client.call_tool(LIST, {})


async def link(oidc_app: OidcApp, mcp_client: AuthorizingClient) -> str:
    async with (
        mcp_client.http(f"{oidc_app.url}/mcp") as http,
        oidc_app.client_over(http, mode="legacy", elicitation_callback=unused) as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool(LIST, {})
    return UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url


async def test_two_people_of_another_users_identity_provider_read_their_own_notes(oidc_app: OidcApp) -> None:
    async with provider(oidc_app) as issuer, oidc_app.person("alice") as alice, oidc_app.person("bob") as bob:
        await oidc_app.restart(oidc_issuer=issuer, oidc_client_secret=SECRET)
        hers = await call(oidc_app, AuthorizingClient(alice), Asked(oidc_app).by(alice.consent))
        his = await call(oidc_app, AuthorizingClient(bob), Asked(oidc_app).by(bob.consent))

    assert "Shopping list" in str(hers.structured_content)
    assert "Garage code" in str(his.structured_content)


async def test_a_consent_request_survives_a_provider_that_restarts_with_another_key(
    oidc_app: OidcApp,
) -> None:
    old, new = signing_key("old"), signing_key("new")
    async with oidc_app.person("alice") as alice:
        mcp_client = AuthorizingClient(alice)
        async with provider(oidc_app, old) as issuer:
            await oidc_app.restart(oidc_issuer=issuer, oidc_client_secret=SECRET)
            url = await link(oidc_app, mcp_client)
        while_down = await link(oidc_app, mcp_client)
        async with provider(oidc_app, new, old, issuer=issuer):
            await alice.consent(url)
            kept = await call(oidc_app, mcp_client, unused)
            mcp_client.tokens = None
            renewed = await call(oidc_app, mcp_client, unused)

    assert while_down == url
    assert "Shopping list" in str(kept.structured_content)
    assert kept.structured_content == renewed.structured_content
    assert len(mcp_client.asked) == 2
