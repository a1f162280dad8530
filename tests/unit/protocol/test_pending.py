import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.protocol import pending as module
from nextcloud_mcp_server.protocol.pending import Pending

#: What is known before the first look without an announcement was announced.
HOURS = 10_000.0


class Elsewhere:
    """Consent requests as another process finishes them."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.asked: list[list[str]] = []

    async def __call__(self, elicitation_ids: Sequence[str]) -> list[str]:
        self.asked.append(list(elicitation_ids))
        return [one for one in elicitation_ids if one in self.done]


class Notifier:
    """The database that passes announcements on, until it is lost."""

    def __init__(self) -> None:
        self.listened = anyio.Event()
        self.said = anyio.Event()
        self.lost = False
        self.gone = False
        self.tries = 0

    def say(self) -> None:
        self.said.set()

    def lose(self, *, for_good: bool) -> None:
        self.listened, self.lost, self.gone = anyio.Event(), True, for_good
        self.said.set()

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[AsyncGenerator[None]]:
        self.tries += 1
        if self.gone:
            raise StorageError("PostgreSQL cannot be used.")
        self.lost, self.said = False, anyio.Event()
        self.listened.set()
        yield self._notifications()

    async def _notifications(self) -> AsyncGenerator[None]:
        while True:
            await self.said.wait()
            if self.lost:
                raise StorageError("The connection is lost.")
            self.said = anyio.Event()
            yield


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_a_waiter_is_woken_as_soon_as_the_consent_request_is_finished(group: TaskGroup) -> None:
    pending = Pending(Elsewhere())
    group.start_soon(lambda: _finish_when_watched(pending))

    with anyio.fail_after(60):
        assert await pending.wait("one", seconds=60)


async def _finish_when_watched(pending: Pending) -> None:
    await anyio.lowlevel.checkpoint()
    await pending.finish("one")


async def test_all_who_wait_for_one_consent_request_are_woken() -> None:
    pending = Pending(Elsewhere())
    woken: list[bool] = []

    async def wait() -> None:
        woken.append(await pending.wait("one", seconds=60))

    async with anyio.create_task_group() as waiters:
        waiters.start_soon(wait)
        waiters.start_soon(wait)
        waiters.start_soon(lambda: _finish_when_watched(pending))

    assert woken == [True, True]


async def test_a_wait_ends_at_its_limit() -> None:
    assert not await Pending(Elsewhere()).wait("one", seconds=0.01)


async def test_a_consent_request_that_another_process_finished_is_noticed(group: TaskGroup) -> None:
    elsewhere = Elsewhere()
    elsewhere.done.add("one")
    pending = Pending(elsewhere)
    group.start_soon(pending.run)

    with anyio.fail_after(60):
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


async def test_the_database_is_not_read_while_no_call_waits(group: TaskGroup) -> None:
    elsewhere = Elsewhere()
    pending = Pending(elsewhere)
    pending.watch("one", seconds=-1)
    group.start_soon(pending.run)

    await anyio.sleep(module.POLL_SECONDS * 1.5)

    assert elsewhere.asked == []


async def test_listeners_hear_of_watched_consent_requests_only() -> None:
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

    with anyio.fail_after(60):
        assert await pending.wait("one", seconds=60)

    assert "could not be looked up" in caplog.text


async def test_a_database_that_is_away_is_named_once_and_again_after_it_was_back(
    group: TaskGroup, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    answers: list[list[str] | None] = [None, None, None, [], None, None, ["one"]]

    async def look(_: Sequence[str]) -> list[str]:
        if (answer := answers.pop(0)) is None:
            raise StorageError("PostgreSQL cannot be used.")
        return answer

    pending = Pending(look)
    group.start_soon(pending.run)

    with anyio.fail_after(60):
        assert await pending.wait("one", seconds=60)

    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warned] == [
        "awaited consent requests cannot be looked up; trying again: PostgreSQL cannot be used."
    ] * 2


class Waiter:
    """A user who waits for the consent request `one`, in a process that hears announcements."""

    def __init__(self, group: TaskGroup) -> None:
        self.elsewhere = Elsewhere()
        self.notifier = Notifier()
        self.pending = Pending(self.elsewhere, listening_poll_seconds=HOURS)
        self.woken = anyio.Event()
        group.start_soon(self.pending.run)
        group.start_soon(lambda: self.pending.listen(self.notifier.listen, pause_seconds=0))
        group.start_soon(self._wait)

    async def _wait(self) -> None:
        await self.notifier.listened.wait()
        assert await self.pending.wait("one", seconds=60)
        self.woken.set()

    async def looked(self) -> None:
        """Wait until the process has looked, and has nothing more to look at for now."""
        while not self.elsewhere.asked:
            await anyio.lowlevel.checkpoint()
        self.elsewhere.asked.clear()


async def test_an_announcement_is_followed_by_a_look_at_once(group: TaskGroup) -> None:
    waiter = Waiter(group)
    with anyio.fail_after(60):
        await waiter.looked()
        waiter.elsewhere.done.add("one")

        waiter.notifier.say()

        await waiter.woken.wait()
    assert waiter.woken.is_set()


async def test_a_notification_of_another_consent_request_wakes_no_call(group: TaskGroup) -> None:
    waiter = Waiter(group)
    with anyio.fail_after(60):
        await waiter.looked()

        waiter.notifier.say()

        await waiter.looked()
    assert not waiter.woken.is_set()


async def test_a_request_that_ended_unheard_is_looked_up_when_listening_works_again(
    group: TaskGroup,
) -> None:
    waiter = Waiter(group)
    with anyio.fail_after(60):
        await waiter.looked()
        waiter.elsewhere.done.add("one")

        waiter.notifier.lose(for_good=False)

        await waiter.notifier.listened.wait()
        await waiter.woken.wait()
    assert waiter.woken.is_set()


async def test_without_announcements_consent_requests_are_looked_up_once_a_second_and_the_log_says_so_once(
    group: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    waiter = Waiter(group)
    with anyio.fail_after(60):
        await waiter.looked()
        waiter.notifier.lose(for_good=True)
        while waiter.notifier.tries < 3:
            await anyio.lowlevel.checkpoint()
        await waiter.looked()

        waiter.elsewhere.done.add("one")

        await waiter.woken.wait()
    assert [record.getMessage() for record in caplog.records] == [
        "The connection is lost. Awaited consent requests are looked up once a second until it is back."
    ]
