"""Inspector 2.12 (`mcpdo`) gets through one consent, in both eras and over both transports."""

from typing import Any

import anyio
import pytest

from nextcloud_mcp_server.sandbox.person import Person
from tests.conformance.mcpdo import Mcpdo
from tests.integration.personal_app import PersonalApp, link_in
from tests.integration.stdio_app import StdioApp

LIST = "nc_notes_list_notes"
HERE = ("--connection", "here")


async def connect_http(mcpdo: Mcpdo, personal_app: PersonalApp, era: str) -> dict[str, Any]:
    target = ["--transport", "http", "--server-url", f"{personal_app.url}/mcp"]
    secret = ["--header", f"Authorization: Bearer {personal_app.secret}"]
    return await mcpdo("connect", *HERE, *target, *secret, "--era", era, "--elicit", "url")


async def answered(mcpdo: Mcpdo, pending: dict[str, Any], alice: Person) -> dict[str, Any]:
    """Say that the page is done while alice is still on it."""
    answers: list[dict[str, Any]] = []

    async def respond() -> None:
        answers.append(await mcpdo("elicitation/respond", *HERE, pending["elicitationId"], "--done"))

    async with anyio.create_task_group() as group:
        group.start_soon(respond)
        await alice.allow(pending["url"])
    return answers[0]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_inspector_goes_through_a_consent_over_http(
    mcpdo: Mcpdo, personal_app: PersonalApp, era: str
) -> None:
    connected = await connect_http(mcpdo, personal_app, era)
    listed = await mcpdo("tools/list", *HERE)
    asked = await mcpdo("tools/call", *HERE, LIST)
    pending = asked["elicitationPending"]
    async with personal_app.person() as alice:
        result = await answered(mcpdo, pending, alice)

    assert connected["protocolEra"] == era
    assert LIST in [tool["name"] for tool in listed["tools"]]
    assert (pending["mode"], pending["toolName"]) == ("url", LIST)
    assert pending["url"].startswith(f"{personal_app.url}/oauth/provision?elicitationId=")
    assert "Shopping list" in str(result)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_inspector_goes_through_a_consent_over_stdio(
    mcpdo: Mcpdo, stdio_app: StdioApp, era: str
) -> None:
    environment = [f"{name}={value}" for name, value in stdio_app.environment.items() if name in OURS]
    given = [part for variable in environment for part in ("-e", variable)]
    command = stdio_app.command("serve", "--transport", "stdio")
    connected = await mcpdo("connect", *HERE, "--era", era, "--elicit", "url", *given, "--", *command)
    asked = await mcpdo("tools/call", *HERE, LIST)
    pending = asked["elicitationPending"]
    async with stdio_app.person() as alice:
        result = await answered(mcpdo, pending, alice)

    assert connected["protocolEra"] == era
    assert pending["url"].startswith(f"{stdio_app.nextcloud_url}/login/v2/flow/")
    assert "Shopping list" in str(result)


OURS = ("CONSENT_PAGE", "DATA_DIR", "NEXTCLOUD_HOST", "PYTHONPATH")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_restart_while_inspector_waits_loses_nothing(
    mcpdo: Mcpdo, personal_app: PersonalApp, era: str
) -> None:
    await connect_http(mcpdo, personal_app, era)
    pending = (await mcpdo("tools/call", *HERE, LIST))["elicitationPending"]
    await personal_app.stop()
    await personal_app.start()
    async with personal_app.person() as alice:
        await alice.allow(pending["url"])
        await mcpdo("elicitation/respond", *HERE, pending["elicitationId"], "--done")
        result = await mcpdo("tools/call", *HERE, LIST)

    assert "Shopping list" in str(result)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_inspector_without_elicitation_is_told_in_words(
    mcpdo: Mcpdo, personal_app: PersonalApp, era: str
) -> None:
    target = ["--transport", "http", "--server-url", f"{personal_app.url}/mcp"]
    secret = ["--header", f"Authorization: Bearer {personal_app.secret}"]
    await mcpdo("connect", *HERE, *target, *secret, "--era", era, "--elicit", "off")
    told = await mcpdo("tools/call", *HERE, LIST)
    async with personal_app.person() as alice:
        await alice.allow(link_in(told["content"][0]["text"]))
    result = await mcpdo("tools/call", *HERE, LIST)

    assert told["isError"] is True
    assert "Shopping list" in str(result)
