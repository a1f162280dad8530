"""The sessions and streams that clients hold open at the MCP endpoint, and how those of a user end."""

from collections.abc import Callable

from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.session_limiter import SessionLimiter
from nextcloud_mcp_server.web.stream_expiry import OpenStreams


class OpenConnections:
    """The open streams, and the sessions of the application that was passed to `limit_sessions`."""

    def __init__(self) -> None:
        self.streams = OpenStreams()
        self._sessions: SessionLimiter | None = None

    def limit_sessions(self, app: ASGIApp) -> SessionLimiter:
        """Wrap the MCP endpoint in the limits of sessions."""
        self._sessions = SessionLimiter(app)
        return self._sessions

    async def end(self, meant: Callable[[Bearer], bool]) -> None:
        """End the streams and sessions whose token matches a predicate."""
        self.streams.end(meant)
        if self._sessions is not None:
            await self._sessions.end(meant)

    async def end_of(self, principals: frozenset[Principal]) -> None:
        """End all streams and sessions of these principals."""
        await self.end(lambda bearer: bearer.principal in principals)
