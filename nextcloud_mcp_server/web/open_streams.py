"""Notes which sessions have their stream open: over HTTP, a session hears on that alone of what it did not ask for."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.protocol.audience import Audience

_OK = 200


class OpenStreamTracker:
    """Around the MCP endpoint. Whether a stream may be opened is decided within: only one that was, counts.

    Events of ours have no ids and nothing is kept to be replayed, so a client that names its last event
    gets a stream that goes on from now (2025-11-25, basic/transports, resumability: a server may replay).
    """

    def __init__(self, app: ASGIApp, *, audience: Audience, mcp_path: str) -> None:
        self._app = app
        self._audience = audience
        self._mcp_path = mcp_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on every request, and watch how those for the stream of a session are answered."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != self._mcp_path:
            await self._app(scope, receive, send)
            return
        scope = _without_last_event(scope)
        key = Headers(scope=scope).get("mcp-session-id")
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


def _without_last_event(scope: Scope) -> Scope:
    # The SDK answers nothing at all to it where no events are stored, which the server makes a 500 of.
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["last-event-id"]
    return {**scope, "headers": headers.raw}
