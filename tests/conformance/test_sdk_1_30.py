"""The SDK's client of the handshake era, version 1.30, in an environment of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.old_client import LIST, of, played
from tests.integration.personal_app import PersonalApp
from tests.integration.stdio_app import StdioApp


async def over_http(personal_app: PersonalApp, python: Path, **plan: object) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {personal_app.secret}"}
    events: list[dict[str, Any]] = []
    async with personal_app.person() as alice:
        async for event in played(python, {"server": f"{personal_app.url}/mcp", "headers": headers, **plan}):
            if event["event"] == "asked" and not any(one["event"] == "asked" for one in events):
                personal_app.consent_request(alice.allow, event["url"])
            events.append(event)
    return events


async def over_stdio(stdio_app: StdioApp, python: Path, **plan: object) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    server = stdio_app.command("serve", "--transport", "stdio")
    async with stdio_app.person() as alice:
        async for event in played(python, {"server": server, "env": stdio_app.environment, **plan}):
            if event["event"] == "asked" and not any(one["event"] == "asked" for one in events):
                stdio_app.consent_request(alice.allow, event["url"])
            events.append(event)
    return events


@pytest.mark.parametrize(("elicitation", "how"), [(True, -32042), (False, "text")])
async def test_version_1_30_goes_through_a_consent_over_http(
    personal_app: PersonalApp, python_1_30: Path, elicitation: object, how: object
) -> None:
    events = await over_http(personal_app, python_1_30, elicitation=elicitation)

    assert events[0]["version"] == "2025-11-25"
    assert LIST in events[0]["tools"]
    assert of(events, "asked")[0]["how"] == how
    assert len({event["url"] for event in of(events, "asked")}) == 1
    assert "Shopping list" in of(events, "result")[0]["text"]


@pytest.mark.parametrize(("elicitation", "how"), [(True, -32042), (False, "text")])
async def test_version_1_30_goes_through_a_consent_over_stdio(
    stdio_app: StdioApp, python_1_30: Path, elicitation: object, how: object
) -> None:
    events = await over_stdio(stdio_app, python_1_30, elicitation=elicitation)

    assert events[0]["version"] == "2025-11-25"
    assert of(events, "asked")[0]["how"] == how
    assert len({event["url"] for event in of(events, "asked")}) == 1
    assert "Shopping list" in of(events, "result")[0]["text"]


async def test_version_1_30_is_asked_during_the_call_that_requests_access(
    personal_app: PersonalApp, python_1_30: Path
) -> None:
    events = await over_http(personal_app, python_1_30, tool="request_nextcloud_access")

    assert of(events, "asked")[0]["how"] == "request"
    assert "notifications/elicitation/complete" in [event["method"] for event in of(events, "notice")]
    assert "alice" in of(events, "result")[0]["text"]


async def test_a_restart_between_two_starts_of_version_1_30_loses_nothing(
    personal_app: PersonalApp, python_1_30: Path
) -> None:
    headers = {"Authorization": f"Bearer {personal_app.secret}"}
    plan: dict[str, object] = {"server": f"{personal_app.url}/mcp", "headers": headers, "rounds": 1}
    before = [event async for event in played(python_1_30, plan)]
    await personal_app.stop()
    await personal_app.start()
    events = await over_http(personal_app, python_1_30)

    assert of(events, "asked")[0]["url"] == of(before, "asked")[0]["url"]
    assert "Shopping list" in of(events, "result")[0]["text"]
    assert len(personal_app.sandbox.state.app_passwords) == 1
