"""Version 1.30 of the SDK, told our address alone, finds the identity provider, gets tokens, and reads notes."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.conformance.old_client import of, played
from tests.integration.mcp_client import CALLBACK, REGISTERED
from tests.integration.oidc_app import EVERYTHING, OidcApp


async def discovering(
    oidc_app: OidcApp, python: Path, *, token: dict[str, str] | None = None, **plan: object
) -> list[dict[str, Any]]:
    """Let it find its way, and alice go wherever she is sent."""
    oidc_app.issuer.add_client("assistant", redirect_uris=[REGISTERED])
    oauth = {"client_id": "assistant", "redirect_uri": CALLBACK, "token": token}
    given = {"server": f"{oidc_app.url}/mcp", "oauth": oauth, **plan}
    events: list[dict[str, Any]] = []
    async with oidc_app.person("alice") as alice:
        go = partial(alice.sign_in, until=CALLBACK)
        async for event in played(python, given, authorize=go):
            if event["event"] == "asked" and not of(events, "asked"):
                oidc_app.consent_request(alice.consent, event["url"])
            events.append(event)
    return events


def scopes(events: list[dict[str, Any]]) -> list[set[str]]:
    """List what it asked the identity provider for, each time."""
    urls: list[str] = [one["url"] for one in of(events, "authorize")]
    return [set(parse_qs(urlsplit(url).query)["scope"][0].split()) for url in urls]


async def test_version_1_30_gets_from_a_refusal_to_the_notes(oidc_app: OidcApp, python_1_30: Path) -> None:
    events = await discovering(oidc_app, python_1_30)

    assert of(events, "open")[0]["version"] == "2025-11-25"
    assert scopes(events) == [set(EVERYTHING.split())]
    assert of(events, "asked")[0]["how"] == -32042
    assert "Shopping list" in of(events, "result")[0]["text"]


async def test_version_1_30_with_a_token_for_reading_gets_itself_one_for_writing(
    oidc_app: OidcApp, python_1_30: Path
) -> None:
    token = {"access_token": oidc_app.token("alice", scope="notes:read"), "scope": "notes:read"}

    events = await discovering(
        oidc_app, python_1_30, token=token, tool="nc_notes_create_note", arguments={"title": "Plans"}
    )

    assert scopes(events) == [{"notes:read", "notes:write"}]
    assert "Plans" in of(events, "result")[0]["text"]
