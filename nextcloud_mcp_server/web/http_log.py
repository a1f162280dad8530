"""Logs each HTTP request of a browser or program in one line: method, path, status, time; never a query or a body."""

import logging
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server import logs

logger = logging.getLogger(__name__)

_LONGEST_PATH = 100
#: A client makes up methods, too, of up to 64 KB.
_LONGEST_METHOD = 20
#: What browsers and health checks fetch over and over, or beside pages.
_MINOR = ("/healthz", "/readyz", "/static/", "/favicon.ico", "/oauth/waiting")
_REFUSED = 400


class HttpLog:
    """Wraps the whole application. What the MCP endpoint answers is logged by `protocol.mcp_log`, refusals here."""

    def __init__(self, app: ASGIApp, *, mcp_path: str) -> None:
        self._app = app
        self._mcp_path = mcp_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application under an id that all lines of the request share."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started_at = 0, monotonic()

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = logs.request_id.set(logs.new_request_id())
        try:
            await self._app(scope, receive, send_noting)
        finally:
            self._log(scope, status, monotonic() - started_at)
            logs.request_id.reset(token)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        path: str = scope["path"]
        good = 0 < status < _REFUSED
        if good and path.rstrip("/") == self._mcp_path:
            return
        level = logging.DEBUG if good and path.startswith(_MINOR) else logging.INFO
        fields = {
            "method": scope["method"][:_LONGEST_METHOD],
            "path": path[:_LONGEST_PATH],
            "status": status or "no answer",
        }
        logger.log(level, "http", extra={**fields, "ms": round(seconds * 1000)})
