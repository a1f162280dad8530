"""Tells a chat client that a call waits for the user, and how to end that."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from nextcloud_mcp_server.bridge.envelope import Message, as_object

#: The interval of progress notifications; some clients end a call that is silent for longer.
BEAT_SECONDS = 5.0

Notify = Callable[[str, Message], Awaitable[None]]


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
        async with anyio.create_task_group() as group:
            group.start_soon(self._beat, host, limit_seconds, beat_seconds)
            yield
            group.cancel_scope.cancel()

    async def _beat(self, host: str, limit_seconds: float, beat_seconds: float) -> None:
        started_at = anyio.current_time()
        while True:
            waited = anyio.current_time() - started_at
            left = max(0, round(limit_seconds - waited))
            await self.say(
                f"Waiting for you in the browser, at {host}. Cancel the call to stop; it ends by itself in {left} s.",
                waited,
            )
            await anyio.sleep(beat_seconds)
