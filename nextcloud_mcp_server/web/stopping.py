"""Stops a server over HTTP in steps, so that no call is lost that another replica, or this one, can still answer.

1. At the signal `/readyz` answers 503, and the server serves for `drain_seconds`: a load balancer that asks there sends
   new requests to other servers.
2. The port is closed, and a moment later each idle connection: requests that have arrived are read until then.
   Requests that are under way have `LAST_CALLS_SECONDS` to end.
3. uvicorn stops: streams end, and what is still under way is cut off.

A second signal ends all of this at once.
"""

import logging
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import anyio
import uvicorn

logger = logging.getLogger(__name__)

#: How long calls may take that are under way when the port is closed.
LAST_CALLS_SECONDS: Final = 3.0
#: How long what is left may take then, such as a stream whose client does not notice its end.
LAST_STREAMS_SECONDS: Final = 1
_LOOK_SECONDS: Final = 0.1


class StopState:
    """Tells whether the server has begun to stop, and counts the streams without an end, for which it does not wait."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.streams = 0

    @contextmanager
    def stream(self) -> Generator[None]:
        """Count a request as a stream until the context ends."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1


class StoppingServer(uvicorn.Server):
    """Calls `listening` as soon as connections are accepted, and `stopped` when the last request is answered.

    After that a signal ends the process at once, and runs nothing that waits for the end of `serve`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        stop_state: StopState,
        *,
        listening: Callable[[], None],
        stopped: Callable[[], None],
        drain_seconds: float,
        last_calls_seconds: float,
    ) -> None:
        super().__init__(config)
        self._stop_state = stop_state
        self._listening = listening
        self._stopped = stopped
        self._drain_seconds = drain_seconds
        self._last_calls_seconds = last_calls_seconds
        self._closes_at: float | None = None
        self._is_closed = self._is_idle_closed = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as the base class has it
        """Begin to stop; at a second signal stop at once.

        The base class's method is not called: sse-starlette replaces it, and then ends the streams of calls too.
        """
        # uvicorn raises them again after the end, so that the process ends as by the signal.
        self._captured_signals.append(sig)
        if self._stop_state.is_stopping:
            self.should_exit = self.force_exit = True
            # It would log the traces of what the second signal breaks off.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._stop_state.is_stopping = True

    async def on_tick(self, counter: int) -> bool:
        """Go on with the stop, several times a second; return whether uvicorn shall stop."""
        if self._stop_state.is_stopping and not self.should_exit:
            self._go_on()
        return await super().on_tick(counter)

    def _go_on(self) -> None:
        now = time.monotonic()
        if self._closes_at is None:
            self._closes_at = now + self._drain_seconds
            if self._drain_seconds:
                logger.info(
                    "told to stop: /readyz answers 503, the port is closed in %s s", self._drain_seconds
                )
        if now < self._closes_at:
            return
        if not self._is_closed:
            self._is_closed = True
            for server in self.servers:
                server.close()
            return
        if not self._is_idle_closed:
            self._is_idle_closed = True
            for connection in list(self.server_state.connections):
                connection.shutdown()
        under_way = len(self.server_state.tasks) - self._stop_state.streams
        if under_way <= 0 or now >= self._closes_at + self._last_calls_seconds:
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was asked, close the connections, and say so."""
        self._stop_state.is_stopping = True
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_at_second_signal, group.cancel_scope)
            await super().shutdown(sockets)
            group.cancel_scope.cancel()
        self._stopped()

    async def _end_at_second_signal(self, scope: anyio.CancelScope) -> None:
        while not self.force_exit:  # noqa: ASYNC110 - a signal handler can wake nobody
            await anyio.sleep(_LOOK_SECONDS)
        for connection in list(self.server_state.connections):
            if (transport := getattr(connection, "transport", None)) is not None:
                transport.abort()
        scope.cancel()
