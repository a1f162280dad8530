"""Mode `oidc` where the identity provider's own tokens open Nextcloud, through its app `user_oidc`."""

from datetime import timedelta
from typing import Any

from mcp_types import CallToolResult

from tests.integration.oidc_app import OidcApp, disconnect
from tests.integration.personal_app import Asked

LIST = "nc_notes_list_notes"
INSTEAD: dict[str, Any] = {
    "grant_provider": "oidc_refresh",
    "nextcloud_resource": "nextcloud",
    "nextcloud_oauth_client_id": None,
    "nextcloud_oauth_client_secret": None,
}


def titles(result: CallToolResult) -> set[str]:
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content or {}
    return {note["title"] for note in content["notes"]}


def register(oidc_app: OidcApp) -> None:
    oidc_app.sandbox.state.check_bearer = oidc_app.issuer.uid_of
    callback = f"{oidc_app.url}/oauth/callback"
    oidc_app.issuer.add_client(
        "us", redirect_uris=[f"{callback}/sign-in", f"{callback}/nextcloud"], secret="issuer-secret"
    )


async def test_two_people_consent_at_the_identity_provider_and_read_their_own_notes(
    oidc_app: OidcApp,
) -> None:
    await oidc_app.restart(**INSTEAD)
    async with oidc_app.person("alice") as alice, oidc_app.person("bob") as bob:
        register(oidc_app)
        alices, bobs = Asked(oidc_app).by(alice.consent), Asked(oidc_app).by(bob.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=alices) as hers:
            her_notes = titles(await hers.call_tool(LIST, {}))
        async with oidc_app.client(oidc_app.token("bob"), elicitation_callback=bobs) as his:
            his_notes = titles(await his.call_tool(LIST, {}))
        oidc_app.clock.ahead += timedelta(hours=5)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=alices) as hers:
            later = titles(await hers.call_tool(LIST, {}))

    assert her_notes == later
    assert her_notes.isdisjoint(his_notes)
    assert len(set(alices.urls)) == len(set(bobs.urls)) == 1


async def test_a_disconnect_ends_the_grant_at_the_identity_provider(oidc_app: OidcApp) -> None:
    await oidc_app.restart(**INSTEAD)
    async with oidc_app.person("alice") as alice:
        register(oidc_app)
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
            await client.call_tool(LIST, {})
            at_nextcloud = await disconnect(oidc_app, "alice")

    assert at_nextcloud
    families = list(oidc_app.issuer.state.refresh_tokens.values())
    assert families
    assert all(one.ended for one in families)
