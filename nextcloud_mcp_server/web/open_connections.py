"""The sessions and streams that clients hold open at the MCP endpoint, their tasks, and how those of a user end."""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.session_limiter import SessionLimiter
from nextcloud_mcp_server.web.stream_expiry import OpenStreams

#: Tells whether what was begun with a token is meant.
Meant = Callable[[Bearer], bool]


class OpenConnections:
    """The open streams, and the sessions of the application that was passed to `limit_sessions`.

    `end_tasks` ends the tasks that were begun with a token; the server sets it.
    """

    def __init__(self) -> None:
        self.streams = OpenStreams()
        self._sessions: SessionLimiter | None = None
        self.end_tasks: Callable[[Meant], Awaitable[None]] | None = None

    def limit_sessions(self, app: ASGIApp) -> SessionLimiter:
        """Wrap the MCP endpoint in the limits of sessions."""
        self._sessions = SessionLimiter(app)
        return self._sessions

    async def end(self, meant: Meant) -> None:
        """End the streams, tasks and sessions whose token matches a predicate."""
        self.streams.end(meant)
        if self.end_tasks is not None:
            await self.end_tasks(meant)
        if self._sessions is not None:
            await self._sessions.end(meant)

    async def end_of(self, principals: frozenset[Principal]) -> None:
        """End all streams, tasks and sessions of these principals."""
        await self.end(lambda bearer: bearer.principal in principals)
