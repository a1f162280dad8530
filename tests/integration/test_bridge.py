"""The bridge in front of this server: consent in the browser, in every dialect, seen by chat clients of every kind."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.bridge_app import BridgeApp, open_bridge
from tests.integration.personal_app import PersonalApp
from tests.integration.stdio_app import LIST, shows_notes

pytestmark = pytest.mark.process

WITH_PROGRESS = {"name": LIST, "arguments": {}, "_meta": {"progressToken": "p"}}


@asynccontextmanager
async def bridged(app: PersonalApp, *arguments: str, **options: Any) -> AsyncGenerator[BridgeApp]:  # noqa: ANN401 - passed on
    header = f"--header=Authorization=Bearer {app.secret}"
    async with open_bridge(app.data_dir, f"{app.url}/mcp", header, *arguments, **options) as bridge:
        yield bridge


@pytest.mark.parametrize(
    ("dialect", "options"),
    [
        ("auto", {"version": "2024-11-05"}),
        ("auto", {"version": "2025-06-18"}),
        ("2025-11-25", {"version": "2025-11-25"}),
        ("2025-11-25", {"version": "2025-03-26"}),
        ("auto", {"modern": True}),
    ],
    ids=["track-2024", "track-2025", "error", "error-for-an-older-client", "input-required"],
)
async def test_a_client_without_elicitation_sees_one_slow_success(
    personal_app: PersonalApp, dialect: str, options: dict[str, Any]
) -> None:
    await personal_app.stop()
    await personal_app.start(elicitation_dialect=dialect)
    async with personal_app.person() as alice, bridged(personal_app, **options) as bridge:
        call = await bridge.chat.send("tools/call", WITH_PROGRESS)
        await bridge.consent(alice)
        answer = await bridge.chat.answer(call)

    assert shows_notes(answer)
    waiting = [one["params"] for one in bridge.chat.notices if one["method"] == "notifications/progress"]
    assert waiting
    assert "Cancel the call to stop" in waiting[0]["message"]
    counts = [one["progress"] for one in waiting]
    assert counts == sorted(set(counts))
    assert len(bridge.links) == 1


async def test_a_server_that_asks_in_text_alone_is_passed_on(personal_app: PersonalApp) -> None:
    """It gives the link to the model at once; only links of an elicitation are opened."""
    await personal_app.stop()
    await personal_app.start(elicitation_dialect="text")
    async with bridged(personal_app) as bridge:
        answer = await bridge.chat.call(LIST)

    assert answer["result"]["isError"]
    assert bridge.links == []


async def test_without_a_browser_the_call_ends_at_once_with_the_link(personal_app: PersonalApp) -> None:
    async with personal_app.person() as alice, bridged(personal_app, show="--no-browser") as bridge:
        answer = await bridge.chat.call(LIST)
        assert answer["result"]["isError"]
        text = answer["result"]["content"][0]["text"]
        await alice.allow(text.split("\n\n")[1])
        again = await bridge.chat.call(LIST)

    assert shows_notes(again)


async def test_parallel_calls_share_one_page(personal_app: PersonalApp) -> None:
    async with personal_app.person() as alice, bridged(personal_app) as bridge:
        ids = [await bridge.chat.send("tools/call", WITH_PROGRESS) for _ in range(4)]
        await bridge.consent(alice)
        answers = [await bridge.chat.answer(id_) for id_ in ids]

    assert all(shows_notes(answer) for answer in answers)
    assert len(bridge.links) == 1
