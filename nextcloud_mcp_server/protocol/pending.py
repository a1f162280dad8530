"""The calls that wait for a consent request, and how they learn that it is finished.

A consent request can be finished by this process (`finish`) or by another one that shares the database. So
while calls wait, one loop reads the states of all awaited consent requests: at once when another process sends
a notification, where the database supports that (`listen`), else once a second.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio

from nextcloud_mcp_server.errors import StorageError

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
#: While notifications are received; some endings cause none, such as an expiry.
LISTENING_POLL_SECONDS = 10.0
RECONNECT_SECONDS = 3.0

#: Yields the notifications of other processes that some consent request has ended; raises StorageError when they
#: cannot be received (any more).
Listen = Callable[[], AbstractAsyncContextManager[AsyncIterator[None]]]

#: Returns those of the given consent requests that are final or deleted.
Finished = Callable[[Sequence[str]], Awaitable[list[str]]]


class Pending:
    """The waiting calls of one process."""

    def __init__(self, finished: Finished, *, listening_poll_seconds: float = LISTENING_POLL_SECONDS) -> None:
        self._finished = finished
        self._listening_poll_seconds = listening_poll_seconds
        self._events: dict[str, anyio.Event] = {}
        self._watched: dict[str, float] = {}
        self._work = anyio.Event()
        self._hint = anyio.Event()
        self._hears = False
        self._fails = False
        self._listeners: list[Callable[[str], Awaitable[None]]] = []

    def on_finish(self, listener: Callable[[str], Awaitable[None]]) -> None:
        """Call `listener` with the id of each watched consent request that ends."""
        self._listeners.append(listener)

    def watch(self, elicitation_id: str, *, seconds: float) -> None:
        """Watch a consent request for at most `seconds`, even if no call waits for it."""
        until = anyio.current_time() + seconds
        self._watched[elicitation_id] = max(until, self._watched.get(elicitation_id, until))
        if elicitation_id not in self._events:
            self._events[elicitation_id] = anyio.Event()
            if self._hears:
                # Its notification may have come before it was watched.
                self._hint.set()
        self._work.set()

    async def wait(self, elicitation_id: str, *, seconds: float) -> bool:
        """Hold a call until its consent request is finished, for at most `seconds`; return whether it is.

        A client's retry loop does not pause between rounds, so a server that answers "not yet" at once makes it
        open the same page over and over.
        """
        self.watch(elicitation_id, seconds=seconds)
        event = self._events[elicitation_id]
        with anyio.move_on_after(seconds):
            await event.wait()
        return event.is_set()

    async def finish(self, elicitation_id: str) -> None:
        """Wake all calls that wait for this consent request."""
        self._watched.pop(elicitation_id, None)
        event = self._events.pop(elicitation_id, None)
        if event is None:
            return
        event.set()
        for listener in self._listeners:
            await listener(elicitation_id)

    async def run(self) -> None:
        """Watch for consent requests that other processes finish, as long as the server runs."""
        while True:
            await self._work.wait()
            with anyio.move_on_after(self._listening_poll_seconds if self._hears else POLL_SECONDS):
                await self._hint.wait()
            self._hint = anyio.Event()
            self._forget_overdue()
            if not self._watched:
                self._work = anyio.Event()
                continue
            try:
                for elicitation_id in await self._finished(list(self._watched)):
                    await self.finish(elicitation_id)
            except StorageError as error:
                # Once a second, so the log has it once.
                level = logging.DEBUG if self._fails else logging.WARNING
                logger.log(level, "awaited consent requests cannot be looked up; trying again: %s", error)
                self._fails = True
            except Exception:  # a supervisor: a fault must not end the server
                logger.exception("awaited consent requests could not be looked up; trying again")
            else:
                self._fails = False

    async def listen(self, listen: Listen, *, pause_seconds: float = RECONNECT_SECONDS) -> None:
        """Look up the consent requests at each notification, as long as the server runs.

        While notifications cannot be received, the consent requests are looked up once a second, and listening
        is retried.
        """
        while True:
            try:
                async with listen() as notifications:
                    self._hears = True
                    # Consent requests that ended before the connection was open caused no notification here.
                    self._hint.set()
                    async for _ in notifications:
                        self._hint.set()
            except StorageError as error:
                logger.log(
                    logging.WARNING if self._hears else logging.DEBUG,
                    "%s Awaited consent requests are looked up once a second until it is back.",
                    error,
                )
            finally:
                self._hears = False
                self._hint.set()
            await anyio.sleep(pause_seconds)

    def _forget_overdue(self) -> None:
        now = anyio.current_time()
        for elicitation_id in [key for key, until in self._watched.items() if until < now]:
            del self._watched[elicitation_id]
            self._events.pop(elicitation_id, None)
