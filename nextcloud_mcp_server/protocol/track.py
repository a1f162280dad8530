"""`elicitation/track` of SEP-1036's draft: a request that is answered when the consent has ended."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

import anyio
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams
from pydantic import Field

from nextcloud_mcp_server.auth.consent.policy import IF_STOPPED, NOT_CONFIRMED
from nextcloud_mcp_server.protocol.hold import WAITING
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.wire import EXTENSION_ID

TIMED_OUT = -32000

#: The interval of progress notifications to a waiting client.
PROGRESS_SECONDS = 5.0

_TIMED_OUT = f"Elicitation timed out - user did not complete authorization. {IF_STOPPED}"

#: The last progress notification of a consent that was given.
COMPLETED = "Complete!"
_OPEN = frozenset({"pending", "opened"})


class ConsentStatus(Protocol):
    """The status of one consent request."""

    @property
    def state(self) -> str:
        """`pending`, `opened`, `complete`, `declined`, `failed` or `expired`."""
        ...

    @property
    def error(self) -> str | None:
        """One sentence for a failed request."""
        ...


#: Reads the caller's own consent request; None for one that is unknown or another caller's.
ReadOwn = Callable[[ServerRequestContext[Any, Any], str], Awaitable[ConsentStatus | None]]


class TrackParams(RequestParams):
    """`elicitationId` as in the error's data; `timeout` in seconds, at most this server's own."""

    elicitation_id: str
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Track(Extension):
    """Handles `elicitation/track` in every protocol version."""

    identifier = EXTENSION_ID

    def __init__(
        self,
        read_own: ReadOwn,
        pending: Pending,
        *,
        timeout_seconds: float,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._read_own = read_own
        self._pending = pending
        self._timeout_seconds = timeout_seconds
        self._progress_seconds = progress_seconds

    def methods(self) -> list[MethodBinding]:
        """Bind the method."""
        return [MethodBinding("elicitation/track", TrackParams, self._track)]

    async def _track(self, ctx: ServerRequestContext[Any, Any], params: TrackParams) -> HandlerResult:
        elicitation_id = _canonical(params.elicitation_id)
        started_at, progress = anyio.current_time(), 0.0
        seconds = min(params.timeout or self._timeout_seconds, self._timeout_seconds)
        answer = await self._answer(ctx, elicitation_id)
        while answer is None:
            waited = anyio.current_time() - started_at
            left = seconds - waited
            if left <= 0:
                raise MCPError(TIMED_OUT, _TIMED_OUT)
            # Progress must increase with every notification (MCP, basic/utilities/progress).
            progress = max(round(waited, 3), progress + 0.001)
            await ctx.session.report_progress(progress, seconds, WAITING)
            # `Pending` reads the states for all waiters in one query, so a waiter reads nothing before it is
            # woken.
            ended = await self._pending.wait(elicitation_id, seconds=min(self._progress_seconds, left))
            answer = await self._answer(ctx, elicitation_id) if ended else None
        if answer["status"] == "complete":
            # The last progress is the total, so that a bar is full before the answer closes it.
            await ctx.session.report_progress(max(seconds, progress + 0.001), seconds, COMPLETED)
        return answer

    async def _answer(
        self, ctx: ServerRequestContext[Any, Any], elicitation_id: str
    ) -> dict[str, Any] | None:
        consent_status = await self._read_own(ctx, elicitation_id) if elicitation_id else None
        if consent_status is None:
            # Unknown and malformed ids and those of other callers get the same answer, so that ids cannot be
            # probed.
            raise MCPError(INVALID_PARAMS, "No such elicitation")
        return _answer(consent_status)


def _answer(consent_status: ConsentStatus) -> dict[str, Any] | None:
    if consent_status.state in _OPEN:
        return None
    if consent_status.state == "complete":
        return {"status": "complete"}
    if consent_status.state == "declined":
        return {"status": "declined"}
    return {"status": "failed", "error": consent_status.error or NOT_CONFIRMED}


def _canonical(elicitation_id: str) -> str:
    try:
        return elicitation_id if str(uuid.UUID(elicitation_id)) == elicitation_id else ""
    except ValueError:
        return ""
