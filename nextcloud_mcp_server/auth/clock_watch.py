"""Notices that the machine's clock jumped: until it is right, tokens and consent requests expire at wrong times."""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import anyio

logger = logging.getLogger(__name__)

#: Corrections of the time service are much smaller.
JUMP: Final = timedelta(minutes=5)
LOOK_SECONDS: Final = 60.0


def running_seconds() -> float:
    """Return a time that no correction changes, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClockWatch:
    """Compares the clock with the time that has passed."""

    def __init__(
        self, clock: Callable[[], datetime], *, running: Callable[[], float] = running_seconds
    ) -> None:
        self._clock = clock
        self._running = running
        self._began = self._start()

    async def run(self, *, seconds: float = LOOK_SECONDS) -> None:
        """Look periodically as long as the server runs."""
        while True:
            self.look()
            await anyio.sleep(seconds)

    def look(self) -> None:
        """Log a jump since the last look."""
        began = self._start()
        jump, self._began = began - self._began, began
        if abs(jump) >= JUMP:
            logger.warning(
                "the clock of this machine jumped by %+.0f s, to %s. What it says may have expired since; what a wrong "
                "clock put off is taken up when it is right. No restart is needed.",
                jump.total_seconds(),
                self._clock().isoformat(timespec="seconds"),
            )

    def _start(self) -> datetime:
        return self._clock() - timedelta(seconds=self._running())
