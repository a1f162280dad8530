"""Tells a chat client that a call waits for the user, and how to end that."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio

from nextcloud_mcp_server.bridge.envelope import Message, as_object

#: The interval of progress notifications; some clients end a call that is silent for longer.
BEAT_SECONDS = 5.0

Notify = Callable[[str, Message], Awaitable[None]]


@asynccontextmanager
async def beside(
    action: Callable[..., Coroutine[Any, Any, None]], *arguments: object
) -> AsyncGenerator[None]:
    """Run something for as long as the block runs; what the block raises is raised as it is, in no group."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(action, *arguments)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class Progress:
    """The progress of one call, as its chat client sees it: it only ever increases.

    The remote server counts for each repetition of a call anew, and the bridge counts while it waits.
    """

    def __init__(self, params: Message | None, notify: Notify) -> None:
        token = as_object((params or {}).get("_meta")).get("progressToken")
        self.token = token if isinstance(token, int | str) and not isinstance(token, bool) else None
        self._notify = notify
        self._last: float | None = None
        self._waited = False
        #: Whether the call runs, and so does not wait for the user any more.
        self._runs = False

    async def pass_on(self, params: Message) -> None:
        """Send the server's own progress on; it stays as it is if the bridge has reported none."""
        given = params.get("progress")
        if self._waited and isinstance(given, int | float):
            # The total is the server's, and would be less than what was reported already.
            params = {key: value for key, value in params.items() if key != "total"}
            params["progress"] = given = (self._last or 0.0) + 0.001
        if isinstance(given, int | float):
            self._last = float(given)
        await self._notify("notifications/progress", params)

    async def say(self, message: str, seconds: float) -> None:
        """Report that the call waits, if its client wants to know of progress."""
        if self.token is None:
            return
        self._waited = True
        self._last = max(round(seconds, 3), (self._last or 0.0) + 0.001)
        await self._notify(
            "notifications/progress",
            {"progressToken": self.token, "progress": self._last, "message": message},
        )

    @asynccontextmanager
    async def waiting(
        self, host: str, limit_seconds: float, *, beat_seconds: float = BEAT_SECONDS
    ) -> AsyncGenerator[None]:
        """Report again and again while the block waits for the user."""
        async with beside(self._beat, host, limit_seconds, beat_seconds):
            yield

    async def _beat(self, host: str, limit_seconds: float, beat_seconds: float) -> None:
        started_at = anyio.current_time()
        while True:
            waited = anyio.current_time() - started_at
            left = max(0, round(limit_seconds - waited))
            if not self._runs:
                await self.say(
                    f"Waiting for you in the browser, at {host}. Cancel the call to stop; "
                    f"it ends by itself in {left} s.",
                    waited,
                )
            await anyio.sleep(beat_seconds)

    @asynccontextmanager
    async def running(
        self, words: Callable[[], str], *, beat_seconds: float = BEAT_SECONDS
    ) -> AsyncGenerator[None]:
        """Report again and again what the call does while the block waits for its task."""
        self._runs = True
        try:
            async with beside(self._tell, words, beat_seconds):
                yield
        finally:
            self._runs = False

    async def _tell(self, words: Callable[[], str], beat_seconds: float) -> None:
        started_at = anyio.current_time()
        while True:
            await self.say(words(), anyio.current_time() - started_at)
            await anyio.sleep(beat_seconds)
