"""The health checks: `/healthz` says that the process lives, `/readyz` that it can work."""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.telemetry import metrics
from nextcloud_mcp_server.web.stopping import StopState

logger = logging.getLogger(__name__)

#: A part that answers later counts as failed: health checks give up after a few seconds.
MOST_SECONDS = 3.0
#: How long a result holds, so that nobody can use the check to send many requests to Nextcloud.
_KEPT_SECONDS = 5.0
#: Between two tries for the metric, where nobody asks `/readyz`.
_MEASURED_SECONDS = 30.0
_UNAVAILABLE = 503
_AGAIN: Final = {"Retry-After": f"{_KEPT_SECONDS:.0f}"}

#: Tries one part; raises a `NextcloudMcpError` if it cannot be used now.
Try = Callable[[], Awaitable[None]]


async def healthz(_request: Request) -> JSONResponse:
    """Answer at once, without asking the database or Nextcloud: a restart would not fix those."""
    return JSONResponse({"status": "ok"})


class Readiness:
    """Tries all parts that a call needs; requests that come meanwhile share the result.

    The answer names the parts, and no address or reason: anybody may ask. The log has the reason.
    """

    def __init__(
        self,
        parts: Mapping[str, Try],
        stop_state: StopState,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = dict(parts)
        self._stop_state = stop_state
        self._monotonic = monotonic
        self._trying = anyio.Lock()
        self._tried_at: float | None = None
        self._failing: dict[str, str] = {}

    async def readyz(self, _request: Request) -> JSONResponse:
        """Answer 200 if every part can be used, else 503 with the names of those that fail.

        A server that is about to stop tries nothing: new requests belong elsewhere.
        """
        if self._stop_state.is_stopping:
            return JSONResponse({"status": "stopping"}, _UNAVAILABLE, _AGAIN)
        failing = await self.failing()
        body = {
            "status": "not ready" if failing else "ready",
            "parts": {name: "fails" if name in failing else "ok" for name in self._parts},
        }
        if not failing:
            return JSONResponse(body)
        return JSONResponse(body, _UNAVAILABLE, _AGAIN)

    async def failing(self) -> Mapping[str, str]:
        """Return the parts that cannot be used, with the reason."""
        async with self._trying:
            now = self._monotonic()
            if self._tried_at is None or now >= self._tried_at + _KEPT_SECONDS:
                found = await self._try_all()
                self._tell(found)
                self._failing, self._tried_at = found, self._monotonic()
            return self._failing

    @asynccontextmanager
    async def measured(self) -> AsyncGenerator[None]:
        """Keep the metric up to date until the context ends, where metrics are exported."""
        async with anyio.create_task_group() as group:
            if metrics.are_exported():
                group.start_soon(self._measure)
            yield
            group.cancel_scope.cancel()

    async def _measure(self) -> None:
        while True:
            try:
                await self.failing()
            except Exception:  # a supervisor: a fault of one try must not end the server
                logger.exception("it could not be tried whether the server is ready; trying again")
            await anyio.sleep(_MEASURED_SECONDS)

    async def _try_all(self) -> dict[str, str]:
        found: dict[str, str] = {}

        async def run(name: str, attempt: Try) -> None:
            reason = f"it did not answer within {MOST_SECONDS:.0f} s."
            with anyio.move_on_after(MOST_SECONDS):
                try:
                    await attempt()
                except NextcloudMcpError as error:
                    reason = str(error)
                else:
                    return
            found[name] = reason

        async with anyio.create_task_group() as group:
            for name, attempt in self._parts.items():
                group.start_soon(run, name, attempt)
        for name in self._parts:
            metrics.READY.set(name, value=0 if name in found else 1)
        return found

    def _tell(self, found: Mapping[str, str]) -> None:
        """Log what changed."""
        for name, reason in found.items():
            if name not in self._failing:
                logger.warning("not ready, %s: %s", name, reason)
        for name in self._failing.keys() - found.keys():
            logger.warning("ready again: %s", name)
