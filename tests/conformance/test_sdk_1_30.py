"""The SDK's client of the handshake era, version 1.30, in an environment of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.old_client import LIST, of, played
from tests.integration.computer import Computer
from tests.integration.world import World


async def over_http(world: World, python: Path, **plan: object) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {world.secret}"}
    events: list[dict[str, Any]] = []
    async with world.person() as alice:
        async for event in played(python, {"server": f"{world.url}/mcp", "headers": headers, **plan}):
            if event["event"] == "asked" and not any(one["event"] == "asked" for one in events):
                world.visit(alice.allow, event["url"])
            events.append(event)
    return events


async def over_stdio(computer: Computer, python: Path, **plan: object) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    server = computer.command("serve", "--transport", "stdio")
    async with computer.person() as alice:
        async for event in played(python, {"server": server, "env": computer.environment, **plan}):
            if event["event"] == "asked" and not any(one["event"] == "asked" for one in events):
                computer.visit(alice.allow, event["url"])
            events.append(event)
    return events


@pytest.mark.parametrize(("elicitation", "how"), [(True, -32042), (False, "text")])
async def test_version_1_30_goes_through_a_consent_over_http(
    world: World, python_1_30: Path, elicitation: object, how: object
) -> None:
    events = await over_http(world, python_1_30, elicitation=elicitation)

    assert events[0]["version"] == "2025-11-25"
    assert LIST in events[0]["tools"]
    assert of(events, "asked")[0]["how"] == how
    assert len({event["url"] for event in of(events, "asked")}) == 1
    assert "Shopping list" in of(events, "result")[0]["text"]


@pytest.mark.parametrize(("elicitation", "how"), [(True, -32042), (False, "text")])
async def test_version_1_30_goes_through_a_consent_over_stdio(
    computer: Computer, python_1_30: Path, elicitation: object, how: object
) -> None:
    events = await over_stdio(computer, python_1_30, elicitation=elicitation)

    assert events[0]["version"] == "2025-11-25"
    assert of(events, "asked")[0]["how"] == how
    assert len({event["url"] for event in of(events, "asked")}) == 1
    assert "Shopping list" in of(events, "result")[0]["text"]


async def test_version_1_30_is_asked_during_the_call_that_requests_access(
    world: World, python_1_30: Path
) -> None:
    events = await over_http(world, python_1_30, tool="request_nextcloud_access")

    assert of(events, "asked")[0]["how"] == "request"
    assert "notifications/elicitation/complete" in [event["method"] for event in of(events, "notice")]
    assert "alice" in of(events, "result")[0]["text"]


async def test_a_restart_between_two_starts_of_version_1_30_loses_nothing(
    world: World, python_1_30: Path
) -> None:
    headers = {"Authorization": f"Bearer {world.secret}"}
    plan: dict[str, object] = {"server": f"{world.url}/mcp", "headers": headers, "rounds": 1}
    before = [event async for event in played(python_1_30, plan)]
    await world.stop()
    await world.start()
    events = await over_http(world, python_1_30)

    assert of(events, "asked")[0]["url"] == of(before, "asked")[0]["url"]
    assert "Shopping list" in of(events, "result")[0]["text"]
    assert len(world.sandbox.state.app_passwords) == 1
