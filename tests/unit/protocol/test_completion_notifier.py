from collections.abc import Sequence
from typing import Any

import pytest

from nextcloud_mcp_server.protocol import completion_notifier as module
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier, NotifiedSession
from nextcloud_mcp_server.protocol.pending import Pending
from tests.sdk_request import Channel, request

URL: dict[str, Any] = {"elicitation": {"url": {}}}


def link(notifier: CompletionNotifier, session: str) -> str | None:
    notified = notifier.last_link(request(session=session))
    return notified.elicitation_id if notified else None


async def nothing(elicitation_ids: Sequence[str]) -> list[str]:
    raise NotImplementedError


async def test_exactly_the_sessions_that_were_told_hear_how_it_ended() -> None:
    pending = Pending(nothing)
    notifier = CompletionNotifier(pending)
    notified, other, stateless = Channel(), Channel(), Channel()
    notifier.record_link(request(session="a", channel=notified, capabilities=URL), "one")
    notifier.record_link(request(session="b", channel=other, capabilities=URL), "two")
    notifier.record_link(request(version="2026-07-28", channel=stateless), "one")

    await pending.finish("one")

    assert notified.sent == [("notifications/elicitation/complete", {"elicitationId": "one"})]
    assert other.sent == stateless.sent == []


@pytest.mark.parametrize(
    ("capabilities", "hears"),
    [
        (URL, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"form": {}}}, False),
        ({"elicitation": {}}, False),
        ({"extensions": {wire.EXTENSION_ID: {}}}, False),
        ({}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize("session", ["over HTTP", None])
async def test_only_a_client_that_declares_url_elicitation_hears_how_it_ended(
    capabilities: dict[str, Any] | None, session: str | None, *, hears: bool
) -> None:
    pending, channel = Pending(nothing), Channel()
    ctx = request(session=session, channel=channel, capabilities=capabilities)
    CompletionNotifier(pending).record_link(ctx, "one")

    await pending.finish("one")

    assert bool(channel.sent) == hears


async def test_a_session_is_known_by_what_it_was_told_last_until_it_is_forgotten() -> None:
    notifier = CompletionNotifier(Pending(nothing))
    notifier.record_link(request(session="a"), "one")
    notifier.record_link(request(session="a"), "two")

    assert link(notifier, "a") == "two"
    assert link(notifier, "b") is None
    notifier.forget(request(session="a"))
    assert link(notifier, "a") is None


async def test_of_too_many_sessions_the_oldest_are_forgotten() -> None:
    notifier = CompletionNotifier(Pending(nothing))
    for number in range(module.MAX_NOTIFIED + 1):
        notifier.record_link(request(session=f"s{number}"), "one")

    assert link(notifier, "s0") is None
    assert link(notifier, "s1") == "one"


async def test_a_client_without_a_session_is_known_by_its_stand_in_and_without_one_by_nothing() -> None:
    notifier = CompletionNotifier(Pending(nothing))
    modern = request(version="2026-07-28")
    notifier.record_link(modern, "one", stand_in="alice")
    notifier.record_link(modern, "two")

    assert notifier.last_link(modern, stand_in="alice") == NotifiedSession(None, "one")
    assert notifier.last_link(modern, stand_in="bob") is None
    assert notifier.last_link(modern) is None
