"""The injected parameter with which a long tool call reports its progress."""

from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context


@dataclass(frozen=True, slots=True)
class Progress:
    """Sends the progress of a call to the client, if that requested it (`progressToken`).

    A body that reports progress can also be cancelled: when an `await` in it raises the cancellation, nothing may be
    left half done.
    """

    context: Context[Any, Any]

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report that `done` of `total`, in any unit, is done; both may only grow."""
        await self.context.report_progress(done, total, message)
