"""What clients hold open at the MCP endpoint, sessions and streams, and how all of one party ends at once."""

from collections.abc import Callable

from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.session_limiter import SessionLimiter
from nextcloud_mcp_server.web.stream_expiry import OpenStreams


class OpenConnections:
    """The open streams, and the sessions of the application that `limit_sessions` was given."""

    def __init__(self) -> None:
        self.streams = OpenStreams()
        self._sessions: SessionLimiter | None = None

    def limit_sessions(self, app: ASGIApp) -> SessionLimiter:
        """Put the limits of sessions around the MCP endpoint."""
        self._sessions = SessionLimiter(app)
        return self._sessions

    async def end(self, meant: Callable[[Bearer], bool]) -> None:
        """End the streams and sessions that were opened with the tokens that are meant."""
        self.streams.end(meant)
        if self._sessions is not None:
            await self._sessions.end(meant)

    async def end_of(self, principals: frozenset[Principal]) -> None:
        """End everything that these principals have open."""
        await self.end(lambda bearer: bearer.principal in principals)
