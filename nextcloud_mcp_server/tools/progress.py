"""The injected parameter with which a long tool call reports its progress."""

from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context

from nextcloud_mcp_server.nextcloud.sanitize import escape_hidden
from nextcloud_mcp_server.protocol import work
from nextcloud_mcp_server.tools.consent_links import neutralise_links


@dataclass(frozen=True, slots=True)
class Progress:
    """Sends the progress of a call to the client, if that requested it (`progressToken`); a task has it as its message.

    A body that reports progress can also be cancelled: when an `await` in it raises the cancellation, nothing may be
    left half done.
    """

    context: Context[Any, Any]

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report that `done` of `total`, in any unit, is done; both may only grow.

        `message` may quote a name: links and hidden characters in it are treated as in a result.
        """
        if message is not None:
            message = escape_hidden(neutralise_links(message))
        if not work.report(message):
            await self.context.report_progress(done, total, message)
