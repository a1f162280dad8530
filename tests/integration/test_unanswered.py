"""Questions that no user answered: the consent request stays open, and the model gets its link in text."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from nextcloud_mcp_server.protocol import wire
from tests.integration.personal_app import Action, Asked, PersonalApp, link_in
from tests.integration.test_journey import DECLINED, LIST, OPENS, asked_of, text, titles, unused

REQUEST = "request_nextcloud_access"
CANCELLED = "The question was closed without an answer, so nothing is decided, and the link still works."
INSTANT = "The client declined at once, before the user can have read the question, so nothing is decided"

#: What a client does by itself: no one sees the question.
by_itself = pytest.mark.parametrize(("action", "why"), [("cancel", CANCELLED), ("decline", INSTANT)])


@pytest.fixture
async def brief(personal_app: PersonalApp) -> PersonalApp:
    """Hold no call for longer than the least."""
    await personal_app.stop()
    await personal_app.start(hold_seconds=0)
    return personal_app


async def is_open(url: str) -> bool:
    async with httpx2.AsyncClient() as browser:
        return (await browser.get(url)).status_code == 200


@by_itself
@pytest.mark.parametrize("way", [("auto", LIST), ("auto", REQUEST), ("legacy", REQUEST)])
async def test_a_client_that_answers_by_itself_gets_the_link_in_text_and_the_link_stays(
    brief: PersonalApp, asked: Asked, way: tuple[str, str], action: Action, why: str
) -> None:
    (mode, tool), answering = way, asked.by(None, action=action)
    async with brief.person() as alice, brief.client(mode=mode, elicitation_callback=answering) as client:
        told = [await client.call_tool(tool, {}) for _ in range(3)]
        still_open = await is_open(asked.urls[0])
        await alice.allow(link_in(text(told[-1])))
        result = await client.call_tool(LIST, {})

    assert why in text(told[0])
    assert all(one.is_error for one in told)
    assert {link_in(text(one)) for one in told} == set(asked.urls)
    # Once it is known that no one sees it, it is not asked again.
    assert len(asked.urls) == 1
    assert still_open
    assert "Shopping list" in titles(result)


@pytest.mark.parametrize("seconds", [0, 1.5])
async def test_a_dismissal_is_one_however_long_the_question_was_shown(
    brief: PersonalApp, asked: Asked, seconds: float
) -> None:
    dismissing = asked.by(None, action="cancel", after=10 * seconds)
    async with brief.client(elicitation_callback=dismissing) as client:
        told = await client.call_tool(LIST, {})

    assert text(told).startswith(CANCELLED)
    assert await is_open(link_in(text(told)))


@pytest.mark.parametrize(("mode", "tool"), [("auto", LIST), ("auto", REQUEST), ("legacy", REQUEST)])
async def test_a_decline_that_took_a_user_s_time_ends_the_request_and_says_where_to_go_on(
    personal_app: PersonalApp, asked: Asked, mode: str, tool: str
) -> None:
    declining = asked.by(None, action="decline", after=2.1)
    async with personal_app.client(mode=mode, elicitation_callback=declining) as client:
        told = await client.call_tool(tool, {})
        still_open = await is_open(asked.urls[0])
        await client.call_tool(tool, {})

    assert text(told) == DECLINED
    assert not still_open
    assert len(set(asked.urls)) == 2


async def test_after_an_unanswered_32042_the_next_call_answers_in_text(brief: PersonalApp) -> None:
    async with brief.person() as alice, brief.client(mode="legacy", elicitation_callback=unused) as client:
        error = await asked_of(client)
        told = [await client.call_tool(LIST, {}) for _ in range(2)]
        await alice.allow(error.url)
        result = await client.call_tool(LIST, {})

    assert {link_in(text(one)) for one in told} == {error.url}
    assert "Shopping list" in titles(result)


async def test_after_an_untracked_32000_the_next_call_answers_in_text(brief: PersonalApp) -> None:
    async with brief.raw(draft=True) as client:
        error = await client.request("tools/call", {"name": LIST, "arguments": {}})
        told = await client.request("tools/call", {"name": LIST, "arguments": {}})

    assert error["error"]["code"] == -32000
    url = error["error"]["data"]["elicitations"][0]["url"]
    assert link_in(told["result"]["content"][0]["text"]) == url


async def test_the_next_consent_request_is_asked_in_the_client_s_own_form_again(
    brief: PersonalApp, asked: Asked
) -> None:
    answering = asked.by(None, action="cancel")
    async with brief.person() as alice, brief.client(elicitation_callback=answering) as client:
        told = await client.call_tool(LIST, {})
        await alice.allow(link_in(text(told)))
        await client.call_tool("revoke_nextcloud_access", {})
        await client.call_tool(LIST, {})

    assert len(set(asked.urls)) == 2


async def test_the_question_of_another_client_is_not_affected(brief: PersonalApp, asked: Asked) -> None:
    async with brief.client(elicitation_callback=asked.by(None, action="cancel")) as first:
        told = await first.call_tool(LIST, {})
    async with brief.client(mode="legacy", elicitation_callback=unused) as second:
        error = await asked_of(second)

    assert error.url == link_in(text(told))


async def test_a_client_that_never_answers_gets_the_link_in_time_and_its_question_is_cancelled(
    personal_app: PersonalApp, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled: list[str] = []

    async def never(_: object, params: ElicitRequestParams) -> ElicitResult:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(str(getattr(params, "url", "")))
        raise AssertionError

    await personal_app.stop()
    await personal_app.start(hold_seconds=2)
    async with personal_app.client(mode="legacy", elicitation_callback=never) as client:
        started_at = anyio.current_time()
        with anyio.fail_after(60):
            told = [await client.call_tool(REQUEST, {}) for _ in range(2)]
        took = anyio.current_time() - started_at

    # One hold for each call, and the second call asks no more.
    assert took > 3.5
    assert text(told[0]).startswith("The client did not show the question, or not in time.")
    assert cancelled == [link_in(text(told[0]))]
    assert "a client did not show the consent page (no answer came in time)" in caplog.text


async def test_a_consent_request_that_is_declined_on_the_page_ends_the_waiting_request(
    personal_app: PersonalApp, asked: Asked
) -> None:
    async with (
        personal_app.person() as alice,
        personal_app.client(mode="legacy", elicitation_callback=asked.by(alice.decline)) as client,
    ):
        told = await client.call_tool(REQUEST, {})

    assert text(told) == DECLINED


async def test_a_consent_request_that_takes_longer_than_the_hold_leaves_the_link_in_text(
    brief: PersonalApp, asked: Asked
) -> None:
    async with brief.client(mode="legacy", elicitation_callback=asked.by(None)) as client:
        told = await client.call_tool(REQUEST, {})

    assert text(told).startswith("The user has not finished in the browser yet, and the link still works.")
    assert await is_open(link_in(text(told)))


async def heard(
    personal_app: PersonalApp, call: Callable[[Client], Awaitable[CallToolResult]]
) -> tuple[float, str]:
    """Call twice, and measure the second: the held one."""
    async with personal_app.client(mode="legacy") as client:
        await client.call_tool(LIST, {})
        started_at = anyio.current_time()
        told = await call(client)
        return anyio.current_time() - started_at, text(told)


async def test_only_a_client_that_asks_for_progress_is_held_longer_in_text_and_hears_it(
    personal_app: PersonalApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    async def see(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    monkeypatch.setattr(wire, "TEXT_HOLD_SECONDS", 0.1)
    await personal_app.stop()
    await personal_app.start(hold_seconds=30)
    quiet = await heard(personal_app, lambda client: client.call_tool(LIST, {}))
    await personal_app.stop()
    await personal_app.start(hold_seconds=2)
    with_progress = await heard(
        personal_app, lambda client: client.call_tool(LIST, {}, progress_callback=see)
    )

    assert quiet[0] < 30
    assert with_progress[0] >= 2
    assert seen
    assert OPENS in quiet[1]
    assert OPENS in with_progress[1]


def test_the_hold_in_text_ends_before_a_time_limit_of_five_seconds() -> None:
    assert wire.TEXT_HOLD_SECONDS <= 4


@pytest.mark.parametrize(
    "call",
    [
        partial(Client.call_tool, name=LIST, arguments={}),
        partial(Client.read_resource, uri="nc://files/Readme.md"),
    ],
)
async def test_the_link_of_a_tool_and_of_a_resource_is_followed_by_a_line_of_text(
    brief: PersonalApp, call: Callable[..., Any]
) -> None:
    said: list[str] = []
    async with brief.client(mode="legacy", elicitation_callback=unused) as client:
        for _ in range(3):
            try:
                said.append(text(await call(client)))
            except MCPError as error:
                said.append(error.error.message)

    assert len({link_in(one) for one in said}) == 1
