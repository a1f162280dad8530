"""Who waits for which browser visit, and how they learn that it is finished.

A visit can be finished by this process (`finish`) or by another one that shares the database, so
while anybody waits one loop reads the states of all awaited visits once a second.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0


#: Lists those of the given visits that are final or gone.
Finished = Callable[[Sequence[str]], Awaitable[list[str]]]


class Pending:
    """The waiters of one process."""

    def __init__(self, finished: Finished) -> None:
        self._finished = finished
        self._events: dict[str, anyio.Event] = {}
        self._watched: dict[str, float] = {}
        self._work = anyio.Event()
        self._listeners: list[Callable[[str], Awaitable[None]]] = []

    def on_finish(self, listener: Callable[[str], Awaitable[None]]) -> None:
        """Call `listener` with the id of each watched visit that ends."""
        self._listeners.append(listener)

    def watch(self, elicitation_id: str, *, seconds: float) -> None:
        """Keep an eye on a visit for at most `seconds`, though no call is waiting for it."""
        until = anyio.current_time() + seconds
        self._watched[elicitation_id] = max(until, self._watched.get(elicitation_id, until))
        self._events.setdefault(elicitation_id, anyio.Event())
        self._work.set()

    async def wait(self, elicitation_id: str, *, seconds: float) -> bool:
        """Hold a call until its visit is finished, for at most `seconds`; tell whether it is.

        A client's retry loop does not pause between rounds, so a server that answers "not yet" at
        once makes it open the same page over and over.
        """
        self.watch(elicitation_id, seconds=seconds)
        event = self._events[elicitation_id]
        with anyio.move_on_after(seconds):
            await event.wait()
        return event.is_set()

    async def finish(self, elicitation_id: str) -> None:
        """Wake everybody who waits for this visit."""
        self._watched.pop(elicitation_id, None)
        event = self._events.pop(elicitation_id, None)
        if event is None:
            return
        event.set()
        for listener in self._listeners:
            await listener(elicitation_id)

    async def run(self) -> None:
        """Watch for visits that other processes finish; runs as long as the server."""
        while True:
            await self._work.wait()
            await anyio.sleep(POLL_SECONDS)
            self._forget_overdue()
            if not self._watched:
                self._work = anyio.Event()
                continue
            try:
                for elicitation_id in await self._finished(list(self._watched)):
                    await self.finish(elicitation_id)
            except Exception:  # a supervisor: a database that is busy once must not end the server
                logger.exception("the awaited visits could not be looked up; trying again")

    def _forget_overdue(self) -> None:
        now = anyio.current_time()
        for elicitation_id in [key for key, until in self._watched.items() if until < now]:
            del self._watched[elicitation_id]
            self._events.pop(elicitation_id, None)
