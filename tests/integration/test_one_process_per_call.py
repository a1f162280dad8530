"""Clients that start a server over stdio for each call: what one process asked, the next one finds out about.

So do langchain-mcp-adapters (`get_tools`), llama-index, mcporter and the Inspector's `--cli`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID, personal
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import load
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.integration.personal_app import link_in
from tests.integration.stdio_app import LIST, URL, StdioApp, link, shows_notes

OLD = ["2025-06-18", "2025-03-26", "2024-11-05"]


async def call(stdio_app: StdioApp, *, kill: bool = False, **client: Any) -> dict[str, Any]:  # noqa: ANN401 - of `lines`
    """Start a server, call once, and end it: as clients do, or as a crash does."""
    async with stdio_app.lines(**client) as lines:
        answer = await lines.call(LIST)
        await (lines.kill() if kill else lines.leave())
    return answer


async def end(stdio_app: StdioApp, state: ElicitationState) -> None:
    """End the open consent request, as another process does."""
    ahead = LIFETIME if state is ElicitationState.EXPIRED else timedelta()
    settings = load(nextcloud_host=stdio_app.nextcloud_url, data_dir=stdio_app.data_dir)
    async with open_database(settings, clock=lambda: datetime.now(UTC) + ahead) as database:
        if ahead:
            assert await database.elicitations.expire_due()
            return
        found = await database.elicitations.find_active(
            principal=personal(str(NextcloudUrl.parse(stdio_app.nextcloud_url))),
            client_id=PERSONAL_CLIENT_ID,
            kind="direct",
        )
        assert found is not None
        assert await database.elicitations.finish(found.id, state)


@pytest.mark.parametrize(
    "client",
    [{}, {"kill": True}, {"modern": True}, {"capabilities": URL}],
    ids=["text", "killed", "2026-07-28", "2025-11-25"],
)
async def test_the_process_after_the_approval_gives_the_result(
    stdio_app: StdioApp, client: dict[str, Any]
) -> None:
    async with stdio_app.person() as alice:
        asked = await call(stdio_app, **client)
        await alice.allow(link(asked))
        result = await call(stdio_app, **client)

    assert shows_notes(result)
    assert stdio_app.polls.count(200) == 1
    assert len(stdio_app.sandbox.state.app_passwords) == 1


async def test_the_same_link_is_given_while_it_works(stdio_app: StdioApp) -> None:
    links = {link(await call(stdio_app)) for _ in range(3)}

    assert len(links) == 1
    assert len(stdio_app.sandbox.state.login_flows) == 1


@pytest.mark.parametrize("state", [ElicitationState.DECLINED, ElicitationState.EXPIRED])
async def test_after_a_request_has_ended_the_next_process_gives_a_new_link_that_works(
    stdio_app: StdioApp, state: ElicitationState
) -> None:
    before = link(await call(stdio_app))
    await end(stdio_app, state)
    async with stdio_app.person() as alice:
        after = link(await call(stdio_app))
        await alice.allow(after)
        result = await call(stdio_app)

    assert after != before
    assert shows_notes(result)


async def test_a_link_that_was_granted_after_its_request_ended_is_not_given_again(
    stdio_app: StdioApp,
) -> None:
    before = link(await call(stdio_app))
    async with stdio_app.person() as alice:
        await alice.allow(before)
        await end(stdio_app, ElicitationState.DECLINED)
        after = link(await call(stdio_app))

    assert after != before


@pytest.mark.parametrize("version", OLD)
async def test_a_version_before_2025_11_25_gets_text_though_it_declares_elicitation(
    stdio_app: StdioApp, version: str
) -> None:
    async with stdio_app.person() as alice:
        asked = await call(stdio_app, capabilities=URL, version=version)
        await alice.allow(link_in(asked["result"]["content"][0]["text"]))
        result = await call(stdio_app, capabilities=URL, version=version)

    assert asked["result"]["isError"] is True
    assert "error" not in asked
    assert "Shopping list" in str(result)
