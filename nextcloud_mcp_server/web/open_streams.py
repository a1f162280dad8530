"""Tracks which sessions have their stream open: over HTTP, only there a session gets notifications."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier

_OK = 200


class OpenStreamTracker:
    """Wraps the MCP endpoint, and counts the streams that the application has opened.

    This server's events have no ids and are not stored for a replay, so a client that names its last event gets
    a stream that begins now (2025-11-25, basic/transports, resumability: a server may replay).
    """

    def __init__(self, app: ASGIApp, *, change_notifier: ChangeNotifier) -> None:
        self._app = app
        self._change_notifier = change_notifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on every request, and watch the answers to those for the stream of a session."""
        if scope["method"] != "GET":
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
                self._change_notifier.stream_opened(key)
            await send(message)

        try:
            await self._app(scope, receive, tell)
        finally:
            if opened:
                self._change_notifier.stream_closed(key)


def _without_last_event(scope: Scope) -> Scope:
    # Without stored events the SDK does not answer a request with this header, which the server turns into a 500.
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["last-event-id"]
    return {**scope, "headers": headers.raw}
