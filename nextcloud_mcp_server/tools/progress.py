"""What the body of a tool that takes its time gets beside the account: a way to say how far it is."""

from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context


@dataclass(frozen=True, slots=True)
class Progress:
    """Tells the client how far a call is, if the client asked to be told (`progressToken`).

    A body that reports is also one that can be cancelled: it must leave nothing half done behind when
    an `await` in it raises the cancellation.
    """

    context: Context[Any, Any]

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say that `done` of `total`, in any unit, is done; both only ever grow."""
        await self.context.report_progress(done, total, message)
