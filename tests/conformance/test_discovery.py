"""The SDK's client, told our address alone, finds the identity provider, gets tokens, and reads notes."""

import pytest
from mcp.client.client import Client
from mcp.shared.auth import OAuthToken
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.mcp_client import REGISTERED, AuthorizingClient
from tests.integration.oidc_app import EVERYTHING, OidcApp
from tests.integration.personal_app import Asked

LIST, CREATE = "nc_notes_list_notes", "nc_notes_create_note"
OFFLINE = {"offline_access"}


async def unused(context: object, params: ElicitRequestParams) -> ElicitResult:
    raise NotImplementedError


async def call_after_consent(client: Client, person: Person, tool: str) -> CallToolResult:
    """Call as a client of 2025-11-25: the consent is asked for by an error, and the call made again."""
    with pytest.raises(MCPError) as caught:
        await client.call_tool(tool, {})
    await person.consent(UrlElicitationRequiredError.from_error(caught.value.error).elicitations[0].url)
    return await client.call_tool(tool, {})


async def test_a_2026_client_gets_from_a_refusal_to_the_notes(oidc_app: OidcApp) -> None:
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    async with oidc_app.person("alice") as alice:
        mcp_client, asked = AuthorizingClient(alice), Asked(oidc_app).by(alice.consent)
        async with (
            mcp_client.http(f"{oidc_app.url}/mcp") as http,
            oidc_app.client_over(http, elicitation_callback=asked) as client,
        ):
            version = client.session.protocol_version
            result = await client.call_tool(LIST, {})

    assert version == "2026-07-28"
    assert "Shopping list" in str(result.structured_content)
    assert mcp_client.scopes == [set(EVERYTHING.split()) | OFFLINE]
    assert len(asked.urls) == 1


async def test_a_2025_client_gets_from_a_refusal_to_the_notes(oidc_app: OidcApp) -> None:
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    async with oidc_app.person("bob") as bob:
        mcp_client = AuthorizingClient(bob)
        async with (
            mcp_client.http(f"{oidc_app.url}/mcp") as http,
            oidc_app.client_over(http, mode="legacy", elicitation_callback=unused) as client,
        ):
            version = client.session.protocol_version
            result = await call_after_consent(client, bob, LIST)

    assert version == "2025-11-25"
    assert "Garage code" in str(result.structured_content)
    assert mcp_client.scopes == [set(EVERYTHING.split()) | OFFLINE]


async def test_a_client_with_a_token_for_reading_gets_itself_one_for_writing(oidc_app: OidcApp) -> None:
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    narrow = OAuthToken(access_token=oidc_app.token("alice", scope="notes:read"), scope="notes:read")
    async with oidc_app.person("alice") as alice:
        mcp_client, asked = AuthorizingClient(alice, tokens=narrow), Asked(oidc_app).by(alice.consent)
        async with (
            mcp_client.http(f"{oidc_app.url}/mcp") as http,
            oidc_app.client_over(http, elicitation_callback=asked) as client,
        ):
            await client.call_tool(LIST, {})
            made = await client.call_tool(CREATE, {"title": "Plans"})
            shown = {tool.name for tool in (await client.list_tools()).tools}

    assert not made.is_error, made.content
    assert mcp_client.scopes == [{"notes:read", "notes:write"} | OFFLINE]
    assert CREATE in shown
    assert len(asked.urls) == 2


async def test_where_tokens_need_none_of_our_scopes_a_client_asks_for_none(oidc_app: OidcApp) -> None:
    await oidc_app.restart(token_scopes="ignore")
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    async with oidc_app.person("alice") as alice:
        mcp_client, asked = AuthorizingClient(alice), Asked(oidc_app).by(alice.consent)
        async with (
            mcp_client.http(f"{oidc_app.url}/mcp") as http,
            oidc_app.client_over(http, elicitation_callback=asked) as client,
        ):
            made = await client.call_tool(CREATE, {"title": "Plans"})

    assert not made.is_error, made.content
    assert mcp_client.scopes == [{"openid"} | OFFLINE]
