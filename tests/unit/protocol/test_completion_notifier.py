import gc
from collections.abc import Sequence
from typing import Any
from weakref import ref

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


async def test_neither_a_request_nor_a_session_that_ended_stays_in_memory() -> None:
    pending = Pending(nothing)
    notifier = CompletionNotifier(pending)
    ctx = request(session="a", capabilities=URL)
    notifier.record_link(ctx, "one")
    connection, request_session = wire.connection(ctx), ref(ctx.session)
    del ctx
    gc.collect()
    assert request_session() is None

    await connection.exit_stack.aclose()
    ended = ref(connection)
    del connection
    gc.collect()

    assert ended() is None
    assert link(notifier, "a") == "one"
    await pending.finish("one")


async def test_the_end_of_a_session_leaves_the_link_of_its_successor_alone() -> None:
    pending, channel = Pending(nothing), Channel()
    notifier = CompletionNotifier(pending)
    first = request(session="a", capabilities=URL)
    notifier.record_link(first, "one")
    notifier.record_link(first, "two")
    notifier.record_link(request(session="a", channel=channel, capabilities=URL), "three")

    await wire.connection(first).exit_stack.aclose()
    await pending.finish("three")

    assert [method for method, _ in channel.sent] == ["notifications/elicitation/complete"]


async def test_a_session_that_is_forgotten_may_end() -> None:
    notifier = CompletionNotifier(Pending(nothing))
    ctx = request(session="a")
    notifier.record_link(ctx, "one")
    notifier.forget(ctx)

    await wire.connection(ctx).exit_stack.aclose()

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
