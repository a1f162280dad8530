from collections.abc import AsyncGenerator, Sequence

import anyio
import pytest
from anyio.abc import TaskGroup

from nextcloud_mcp_server.protocol import pending as module
from nextcloud_mcp_server.protocol.pending import Pending


class Elsewhere:
    """Visits as another process finishes them."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.asked: list[list[str]] = []

    async def __call__(self, elicitation_ids: Sequence[str]) -> list[str]:
        self.asked.append(list(elicitation_ids))
        return [one for one in elicitation_ids if one in self.done]


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_a_waiter_is_woken_as_soon_as_the_visit_is_finished(group: TaskGroup) -> None:
    pending = Pending(Elsewhere())
    group.start_soon(lambda: _finish_when_watched(pending))

    with anyio.fail_after(20):
        assert await pending.wait("one", seconds=60)


async def _finish_when_watched(pending: Pending) -> None:
    await anyio.lowlevel.checkpoint()
    await pending.finish("one")


async def test_a_wait_ends_at_its_limit() -> None:
    assert not await Pending(Elsewhere()).wait("one", seconds=0.01)


async def test_a_visit_that_another_process_finished_is_noticed(group: TaskGroup) -> None:
    elsewhere = Elsewhere()
    elsewhere.done.add("one")
    pending = Pending(elsewhere)
    group.start_soon(pending.run)

    with anyio.fail_after(20):
        assert await pending.wait("one", seconds=60)


async def test_many_waiters_cost_one_look_a_second(group: TaskGroup) -> None:
    elsewhere = Elsewhere()
    pending = Pending(elsewhere)
    group.start_soon(pending.run)
    async with anyio.create_task_group() as waiters:
        for number in range(50):
            waiters.start_soon(lambda n=number: pending.wait(f"v{n}", seconds=60))
        await anyio.lowlevel.checkpoint()
        elsewhere.done.update(f"v{n}" for n in range(50))

    assert len(elsewhere.asked) <= 2


async def test_nobody_asks_while_nobody_waits(group: TaskGroup) -> None:
    elsewhere = Elsewhere()
    pending = Pending(elsewhere)
    pending.watch("one", seconds=-1)
    group.start_soon(pending.run)

    await anyio.sleep(module.POLL_SECONDS * 1.5)

    assert elsewhere.asked == []


async def test_listeners_hear_of_watched_visits_only() -> None:
    pending = Pending(Elsewhere())
    heard: list[str] = []

    async def listen(elicitation_id: str) -> None:
        heard.append(elicitation_id)

    pending.on_finish(listen)
    pending.watch("one", seconds=60)

    await pending.finish("one")
    await pending.finish("one")
    await pending.finish("other")

    assert heard == ["one"]


async def test_a_look_that_fails_is_repeated_and_ends_nothing(
    group: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [OSError("busy")]

    async def look(elicitation_ids: Sequence[str]) -> list[str]:
        if failures:
            raise failures.pop()
        return list(elicitation_ids)

    pending = Pending(look)
    group.start_soon(pending.run)

    with anyio.fail_after(10):
        assert await pending.wait("one", seconds=60)

    assert "could not be looked up" in caplog.text
