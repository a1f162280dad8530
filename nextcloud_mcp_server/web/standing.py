"""Notes which sessions have their stream open: over HTTP, a session hears on that alone of what it did not ask for."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.protocol.audience import Audience

_OK = 200


class StandingStreams:
    """Around the MCP endpoint. Whether a stream may be opened is decided within: only one that was, counts."""

    def __init__(self, app: ASGIApp, *, audience: Audience, mcp_path: str) -> None:
        self._app = app
        self._audience = audience
        self._mcp_path = mcp_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on every request, and watch how those for the stream of a session are answered."""
        key = self._asked_for(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        opened = False

        async def tell(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] == _OK:
                opened = True
                self._audience.stream_opened(key)
            await send(message)

        try:
            await self._app(scope, receive, tell)
        finally:
            if opened:
                self._audience.stream_closed(key)

    def _asked_for(self, scope: Scope) -> str | None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != self._mcp_path:
            return None
        return Headers(scope=scope).get("mcp-session-id")
