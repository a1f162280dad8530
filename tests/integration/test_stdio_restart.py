"""Servers over stdio are killed, and several run at once; nothing that was asked or granted is lost."""

from typing import Any

import anyio
import pytest

from tests.integration.personal_app import until
from tests.integration.stdio_app import (
    DRAFT,
    LIST,
    URL,
    Lines,
    StdioApp,
    call_until_connected,
    link,
    shows_notes,
)


@pytest.mark.parametrize("capabilities", [URL, DRAFT, {}], ids=["2025-11-25", "draft", "text"])
async def test_a_server_killed_while_it_waits_gives_the_same_link_when_it_is_back(
    stdio_app: StdioApp, capabilities: dict[str, Any]
) -> None:
    async with stdio_app.lines(capabilities) as client:
        before = await client.call(LIST)
        await client.send("tools/call", {"name": LIST, "arguments": {}})
        await until(lambda: len(stdio_app.polls) > 0)
        await client.kill()

    async with stdio_app.person() as alice, stdio_app.lines(capabilities) as client:
        after = await client.call(LIST)
        await alice.allow(link(before))
        result = await call_until_connected(client)

    assert link(after) == link(before)
    assert shows_notes(result)
    assert len(stdio_app.sandbox.state.app_passwords) == 1


async def test_a_2026_retry_goes_through_on_a_server_that_was_killed_in_between(stdio_app: StdioApp) -> None:
    retry: dict[str, Any] = {"name": LIST, "arguments": {}}
    async with stdio_app.lines(URL, modern=True) as client:
        asked = await client.call(LIST)
        retry |= {
            "inputResponses": {"provision": {"action": "accept"}},
            "requestState": asked["result"]["requestState"],
        }
        await client.send("tools/call", retry)
        await until(lambda: len(stdio_app.polls) > 0)
        await client.kill()

    async with stdio_app.person() as alice, stdio_app.lines(URL, modern=True) as client:
        waiting = await client.send("tools/call", retry)
        await alice.allow(link(asked))
        result = await client.answer(waiting)

    assert shows_notes(result)
    assert len(stdio_app.sandbox.state.app_passwords) == 1


@pytest.mark.parametrize("capabilities", [URL, DRAFT, {}], ids=["2025-11-25", "draft", "text"])
async def test_access_granted_while_no_server_ran_is_picked_up(
    stdio_app: StdioApp, capabilities: dict[str, Any]
) -> None:
    async with stdio_app.lines(capabilities) as client:
        url = link(await client.call(LIST))
        await client.kill()
    async with stdio_app.person() as alice:
        await alice.allow(url)

    async with stdio_app.lines(capabilities) as client:
        first = await client.call(LIST)
        result = await call_until_connected(client)

    assert shows_notes(first) or link(first) == url
    assert shows_notes(result)
    assert len(stdio_app.sandbox.state.app_passwords) == 1


async def test_two_processes_of_one_person_share_one_consent_request_and_one_poller(
    stdio_app: StdioApp,
) -> None:
    async with stdio_app.person() as alice, stdio_app.lines(URL) as first, stdio_app.lines(DRAFT) as second:
        url = link(await first.call(LIST))
        again = link(await second.call(LIST))
        held = await first.send("tools/call", {"name": LIST, "arguments": {}})
        started_at, seen = anyio.current_time(), len(stdio_app.polls)
        await until(lambda: len(stdio_app.polls) >= seen + 7)
        took = anyio.current_time() - started_at
        await alice.allow(url)
        results = [await first.answer(held), await second.call(LIST)]

    assert again == url
    # One poller asks about every second and at most every 0.8 s; two would have asked twice as often.
    assert took > 4.2
    assert stdio_app.polls.count(200) == 1
    assert [result for result in results if not shows_notes(result)] == []
    assert len(stdio_app.sandbox.state.app_passwords) == 1


async def test_two_processes_that_ask_at_the_same_moment_give_the_same_link(stdio_app: StdioApp) -> None:
    urls: list[str] = []

    async def ask(client: Lines) -> None:
        urls.append(link(await client.call(LIST)))

    async with stdio_app.lines() as first, stdio_app.lines() as second, anyio.create_task_group() as group:
        group.start_soon(ask, first)
        group.start_soon(ask, second)

    assert len(urls) == 2
    assert urls[0] == urls[1]
