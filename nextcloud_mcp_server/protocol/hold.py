"""Holds a call while its consent request is open, and sends progress to a client that asks for it."""

from typing import Any

import anyio
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.telemetry import metrics

#: The interval of progress notifications to a waiting client.
PROGRESS_SECONDS = 3.0

WAITING = "Waiting for you to open the link and finish in the browser"

#: The call itself reports its progress from 1 on, and progress must increase with every notification (MCP,
#: basic/utilities/progress): the progress of the hold stays below 1.
_STEP = 0.001


def wants_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the client sent a progress token with this request."""
    return bool(ctx.meta and ctx.meta.get("progress_token") is not None)


async def hold(
    ctx: ServerRequestContext[Any, Any],
    pending: Pending,
    elicitation_id: str,
    *,
    until: float,
    progress_seconds: float = PROGRESS_SECONDS,
) -> bool:
    """Wait until a consent request has ended, or until a time of the event loop; return whether it has."""
    metrics.HELD_CALLS.add()
    try:
        return await _hold(ctx, pending, elicitation_id, until=until, progress_seconds=progress_seconds)
    finally:
        metrics.HELD_CALLS.add(value=-1)


async def _hold(
    ctx: ServerRequestContext[Any, Any],
    pending: Pending,
    elicitation_id: str,
    *,
    until: float,
    progress_seconds: float,
) -> bool:
    reports = 0
    while True:
        left = max(until - anyio.current_time(), 0.0)
        if wants_progress(ctx):
            reports += 1
            await ctx.session.report_progress(reports * _STEP, message=WAITING)
        seconds = min(left, progress_seconds)
        if await pending.wait(elicitation_id, seconds=seconds):
            return True
        if left <= progress_seconds:
            return False
