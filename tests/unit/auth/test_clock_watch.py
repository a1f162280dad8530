from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import pytest

from nextcloud_mcp_server.auth.clock_watch import ClockWatch, running_seconds

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Machine:
    """A clock that may be wrong, and the time that has passed."""

    def __init__(self) -> None:
        self.passed, self.wrong = 0.0, timedelta()

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.passed) + self.wrong

    def running(self) -> float:
        return self.passed


def test_a_jump_and_its_correction_are_named_once_each(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    watch = ClockWatch(machine.clock, running=machine.running)

    for wrong in (timedelta(), timedelta(days=1), timedelta(days=1), timedelta()):
        machine.passed, machine.wrong = machine.passed + 60, wrong
        watch.look()

    assert [message.partition(". ")[0] for message in caplog.messages] == [
        "the clock of this machine jumped by +86400 s, to 2026-12-01T12:02:00+00:00",
        "the clock of this machine jumped by -86400 s, to 2026-11-30T12:04:00+00:00",
    ]


def test_small_corrections_and_the_sleep_of_the_machine_are_no_jumps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    watch = ClockWatch(machine.clock, running=machine.running)

    machine.passed, machine.wrong = 86_400.0, timedelta(seconds=30)
    watch.look()

    assert caplog.messages == []


async def test_it_looks_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    watch = ClockWatch(machine.clock, running=machine.running)

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: watch.run(seconds=0))
        machine.wrong = timedelta(days=-1)
        with anyio.fail_after(60):
            while not caplog.messages:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert "jumped by -86400 s" in caplog.messages[0]


def test_the_time_that_has_passed_only_grows() -> None:
    assert running_seconds() <= running_seconds()
