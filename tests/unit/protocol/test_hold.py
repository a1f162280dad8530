from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.protocol.hold import hold, wants_progress
from nextcloud_mcp_server.protocol.pending import Pending
from tests.sdk_request import Channel, request

STEP = 0.02


async def open_still(elicitation_ids: Sequence[str]) -> list[str]:
    raise NotImplementedError


def asking(channel: Channel) -> ServerRequestContext[Any, Any]:
    """Make a request that carries a progress token."""
    return request(channel=channel, meta={"progress_token": "p"})


@pytest.mark.parametrize("token", ["p", 0, ""])
def test_a_client_that_sends_any_token_wants_progress(token: object) -> None:
    assert wants_progress(request(meta={"progress_token": token}))
    assert not wants_progress(request(meta={}))
    assert not wants_progress(request())


async def test_a_hold_ends_at_its_time_without_a_word_to_a_client_that_asked_for_none() -> None:
    channel, started_at = Channel(), anyio.current_time()

    ended = await hold(request(channel=channel), Pending(open_still), "one", until=started_at + 3 * STEP)

    assert not ended
    assert anyio.current_time() - started_at >= 3 * STEP
    assert channel.progressed == []


async def test_a_client_that_asked_hears_more_progress_each_time_and_less_than_the_work_reports() -> None:
    channel = Channel()

    await hold(
        asking(channel),
        Pending(open_still),
        "one",
        until=anyio.current_time() + 5 * STEP,
        progress_seconds=STEP,
    )

    values = [progress for progress, _, _ in channel.progressed]
    assert len(values) >= 3
    assert values == sorted(set(values))
    assert all(0 < value < 1 for value in values)
    assert all(total is None and message for _, total, message in channel.progressed)


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_hold_ends_with_its_consent_request(after: int) -> None:
    pending = Pending(open_still)

    async def finish() -> None:
        await anyio.sleep(after * STEP)
        await pending.finish("one")

    ended = False
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(finish)
            ended = await hold(
                asking(Channel()), pending, "one", until=anyio.current_time() + 600, progress_seconds=STEP
            )

    assert ended


async def test_a_hold_whose_time_is_over_already_ends_at_once() -> None:
    with anyio.fail_after(60):
        ended = await hold(request(), Pending(open_still), "one", until=anyio.current_time() - 1)

    assert not ended
