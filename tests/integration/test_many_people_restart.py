"""The server for many people may stop at any moment of a visit; nothing that was asked or granted is lost."""

from pathlib import Path

import pytest

from tests.integration.crowd import Crowd, open_crowd

LIST = "nc_notes_list_notes"

#: The addresses that the browser comes to, one after the other.
STOPS = ("/oauth/callback/sign-in", "/oauth/callback/nextcloud", "/oauth/confirm", "/oauth/done")


async def link(crowd: Crowd, token: str) -> str:
    async with crowd.raw(token, capabilities={"elicitation": {"url": {}}}) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    url: str = answer["error"]["data"]["elicitations"][0]["url"]
    return url


async def visit_with_restarts(crowd: Crowd) -> list[str]:
    """Restart before each address, and list them all; then read the notes."""
    token = crowd.token("alice")
    addresses = [await link(crowd, token)]
    await crowd.restart()
    assert await link(crowd, token) == addresses[0]
    async with crowd.person("alice") as alice:
        for stop in STOPS:
            addresses.append(await alice.sign_in(addresses[-1], until=f"{crowd.url}{stop}"))
            await crowd.restart()
        await alice.consent(addresses[-1])
    async with crowd.raw(token) as client:
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
    assert "Shopping list" in str(answer["result"]["structuredContent"])
    return addresses


@pytest.mark.parametrize("crowd", [{"hold_seconds": 0}], indirect=True)
async def test_a_visit_goes_on_after_a_restart_before_each_of_its_steps(crowd: Crowd) -> None:
    addresses = await visit_with_restarts(crowd)

    assert len(set(addresses)) == 5
    assert len(crowd.sandbox.state.oauth_grants) == 1


async def test_a_visit_goes_on_after_restarts_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    url = postgres_url.replace("postgresql:", "postgresql+asyncpg:")
    async with open_crowd(tmp_path, hold_seconds=0, database_url=url) as crowd:
        addresses = await visit_with_restarts(crowd)

        assert len(set(addresses)) == 5
        assert len(crowd.sandbox.state.oauth_grants) == 1
