"""The outermost layer: paths, sessions, maintenance mode, faults and the request log."""

from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.faults import STREAMED_KEY, Area, FaultStatus, LostAnswer
from nextcloud_mcp_server.sandbox.faulty import faulty_reply
from nextcloud_mcp_server.sandbox.identity import (
    COOKIE_PROBE,
    IDENTITY_KEY,
    PROBED_KEY,
    SESSION_KEY,
    Identity,
)
from nextcloud_mcp_server.sandbox.node import INSTANCE_ID
from nextcloud_mcp_server.sandbox.reply import page, web_server_page
from nextcloud_mcp_server.sandbox.request_log import RequestLog, RequestRecord
from nextcloud_mcp_server.sandbox.state import Session

CONTROL_PATH = "/__sandbox/"

# The web server hands these to PHP itself, so they work without pretty URLs.
_OWN_SCRIPTS = ("/remote.php/", "/ocs/", "/status.php", "/public.php/")


class Frontend:
    """Wraps the routes. Every request gets a session, and its cookies beat Authorization."""

    def __init__(self, app: ASGIApp, *, context: Context, log: RequestLog) -> None:
        self._app = app
        self._context = context
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith(CONTROL_PATH):
            await self._app(scope, receive, send)
            return
        local = self._local_path(scope["path"])
        if isinstance(local, HTTPStatus):
            await web_server_page(local)(scope, receive, send)
            return
        area = _area_of(local)
        inner = {
            **scope,
            "root_path": self._context.base_path,
            "path": f"{self._context.base_path}{local}",
        }
        request = Request(inner, receive)
        faults = self._context.faults.hits(area, request.method)
        for fault in faults:
            await anyio.sleep(fault.seconds)
        status: FaultStatus | None = next((fault.status for fault in faults if fault.kind == "status"), None)
        known = self._known_session(request)
        inner[STREAMED_KEY] = any(fault.kind == "streamed" for fault in faults)
        inner[SESSION_KEY] = known or self._context.state.new_session()
        lost = any(fault.kind == "lost_body" for fault in faults)
        recorded = _RecordedResponse(
            send, inner, known=known, cookie_path=self._context.base_path or "/", lost=lost
        )
        answer = self._refuse(request, local, area, status) or self._app
        try:
            await answer(inner, receive, recorded.send)
        finally:
            self._remember(request, recorded.status)
        if lost:
            # The head promises a byte that never comes, so the connection has to break.
            head = [(b"content-length", b"1")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            raise LostAnswer("The connection broke before the answer arrived.")

    def _local_path(self, path: str) -> str | HTTPStatus:
        """Remove the base path, or return the web server's error."""
        base = self._context.base_path
        if "\0" in path:
            return HTTPStatus.BAD_REQUEST
        if "\n" in path or not (path == base or path.startswith(f"{base}/")):
            return HTTPStatus.NOT_FOUND
        local = path.removeprefix(base) or "/"
        if local == "/index.php" or local.startswith("/index.php/"):
            return local.removeprefix("/index.php") or "/"
        reachable = self._context.pretty_urls or local == "/" or local.startswith(_OWN_SCRIPTS)
        return local if reachable else HTTPStatus.NOT_FOUND

    def _refuse(
        self, request: Request, local: str, area: Area, status: FaultStatus | None
    ) -> Response | None:
        state, profile = self._context.state, self._context.profile
        if local == "/status.php":
            return None
        if state.trusted_domains is not None and request.url.hostname not in state.trusted_domains:
            return page("Untrusted domain", "<h1>Access through untrusted domain</h1>", status=400)
        if status is not None:
            return faulty_reply(request, area, status, profile)
        return faulty_reply(request, area, 503, profile) if state.maintenance else None

    def _known_session(self, request: Request) -> Session | None:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load("; ".join(request.headers.getlist("Cookie")))
        except CookieError:
            return None
        return (
            self._context.state.sessions.get(cookies[INSTANCE_ID].value) if INSTANCE_ID in cookies else None
        )

    def _remember(self, request: Request, status: int) -> None:
        found = request.scope.get(IDENTITY_KEY)
        identity = found if isinstance(found, Identity) else None
        scheme = request.headers.get("Authorization", "").partition(" ")[0].lower()
        self._log.add(
            RequestRecord(
                method=request.method,
                path=request.scope["path"],
                query=request.url.query,
                user=identity.user.uid if identity else None,
                auth=identity.kind if identity else scheme or "none",
                status=status,
            )
        )


class _RecordedResponse:
    """Watches an answer on its way out: notes the status, adds cookies, or holds it back."""

    def __init__(
        self, forward: Send, scope: Scope, *, known: Session | None, cookie_path: str, lost: bool
    ) -> None:
        self.status = 0
        self._forward = forward
        self._scope = scope
        self._known = known
        self._cookie_path = cookie_path
        self._lost = lost

    async def send(self, message: Message) -> None:
        """Pass one message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            session: Session = self._scope[SESSION_KEY]
            if session is not self._known:
                self._add_cookies(MutableHeaders(scope=message), session)
            if self._scope.get(PROBED_KEY):
                MutableHeaders(scope=message).append("Set-Cookie", f"{COOKIE_PROBE}=test; Max-Age=3600")
        if not self._lost:
            await self._forward(message)

    def _add_cookies(self, headers: MutableHeaders, session: Session) -> None:
        tail = f"path={self._cookie_path}; HttpOnly; SameSite="
        headers.append("Set-Cookie", f"oc_sessionPassphrase={session.id[::-1]}; {tail}Lax")
        headers.append("Set-Cookie", f"nc_sameSiteCookielax=true; {tail}lax")
        headers.append("Set-Cookie", f"nc_sameSiteCookiestrict=true; {tail}strict")
        headers.append("Set-Cookie", f"{INSTANCE_ID}={session.id}; {tail}Lax")


def _area_of(local: str) -> Area:
    if local.startswith("/apps/notes/"):
        return "notes"
    if local.startswith("/remote.php/"):
        return "dav"
    if local.startswith("/ocs/"):
        return "ocs"
    if local.startswith("/apps/oauth2/api/"):
        return "oauth2"
    return "login" if local.startswith("/login") else "other"
