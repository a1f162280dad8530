"""The server for many users may stop at any moment of a consent request; nothing that was asked or granted is
lost."""

from pathlib import Path

import pytest

from tests.integration.oidc_app import OidcApp, open_oidc_app

LIST = "nc_notes_list_notes"

#: The addresses that the browser comes to, one after the other.
STOPS = ("/oauth/callback/sign-in", "/oauth/callback/nextcloud", "/oauth/confirm", "/oauth/done")


async def link(oidc_app: OidcApp, token: str) -> str:
    async with oidc_app.raw(token, capabilities={"elicitation": {"url": {}}}) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    url: str = answer["error"]["data"]["elicitations"][0]["url"]
    return url


async def consent_with_restarts(oidc_app: OidcApp) -> list[str]:
    """Restart before each address, and list them all; then read the notes."""
    token = oidc_app.token("alice")
    addresses = [await link(oidc_app, token)]
    await oidc_app.restart()
    assert await link(oidc_app, token) == addresses[0]
    async with oidc_app.person("alice") as alice:
        for stop in STOPS:
            addresses.append(await alice.sign_in(addresses[-1], until=f"{oidc_app.url}{stop}"))
            await oidc_app.restart()
        await alice.consent(addresses[-1])
    async with oidc_app.raw(token) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    assert "Shopping list" in str(answer["result"]["structuredContent"])
    return addresses


@pytest.mark.parametrize("oidc_app", [{"hold_seconds": 0}], indirect=True)
async def test_a_consent_request_goes_on_after_a_restart_before_each_of_its_steps(oidc_app: OidcApp) -> None:
    addresses = await consent_with_restarts(oidc_app)

    assert len(set(addresses)) == 5
    assert len(oidc_app.sandbox.state.oauth_grants) == 1


async def test_a_consent_request_goes_on_after_restarts_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    url = postgres_url.replace("postgresql:", "postgresql+asyncpg:")
    async with open_oidc_app(tmp_path, hold_seconds=0, database_url=url) as oidc_app:
        addresses = await consent_with_restarts(oidc_app)

        assert len(set(addresses)) == 5
        assert len(oidc_app.sandbox.state.oauth_grants) == 1
