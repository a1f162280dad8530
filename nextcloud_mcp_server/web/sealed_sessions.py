"""Sessions of handshake-era clients that outlive their process: another replica, or the next start, takes them up.

| request with a session id | answer |
|---|---|
| of a session that is open here | the SDK's |
| sealed by us for this user and client, not open here | the session is opened again, then the SDK's |
| made up, of another user or client, too old, or ended | 404, as the specification says |

A session is opened again by a repetition of the client's `initialize`, whose parameters are in the id. What a
client told or asked for later is not: resources that it subscribed to, and the lists it has seen.
"""

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    AuthorizationContext,
    authorization_context,
)
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import DEFAULT_MAX_SESSIONS, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.records import SESSION_LIFETIME, Principal
from nextcloud_mcp_server.web.exchanges import MESSAGE
from nextcloud_mcp_server.web.session_ids import Beginning, Owner, SessionIds

if TYPE_CHECKING:
    # The type only: SQLAlchemy is imported when the database is opened.
    from nextcloud_mcp_server.storage.ended_sessions import EndedSessionRepository

logger = logging.getLogger(__name__)

#: The key of the ASGI scope of a DELETE that frees memory: its session is closed here, and can be taken up again.
ONLY_HERE: Final = "nextcloud_mcp_server.only_here"

#: The key of the ASGI scope under which a function counts a session that the request takes up, however it is answered.
COUNT_TAKEN_UP: Final = "nextcloud_mcp_server.count_taken_up"

#: A session that ended at another replica takes no request here after this time.
LOOK_SECONDS: Final = 5.0
#: Its stream is open here for so long, if its client sends no request here.
STREAM_SECONDS: Final = 30.0

#: How many sessions one query is about.
_AT_ONCE = 200

_RETRY_AFTER_SECONDS = 5
_FULL = "Too many open sessions"

#: The id of the session that the request of this task begins.
_next_id: ContextVar[str | None] = ContextVar("next_session_id", default=None)


class SealedSessions(StreamableHTTPSessionManager):
    """The SDK's sessions, with ids by which every replica can open them again.

    `ids` returns None while there are no keys, as in a single-user server that is not connected yet.
    """

    def __init__(
        self,
        app: Server[Any],
        *,
        ids: Callable[[], SessionIds | None],
        ended: Callable[[], Awaitable["EndedSessionRepository"]],
        look_seconds: float = LOOK_SECONDS,
        stream_seconds: float = STREAM_SECONDS,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
    ) -> None:
        # `guard` checks Host and Origin on every route, so the SDK need not check them on one.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        super().__init__(app, security_settings=security, max_sessions=max_sessions)
        self._ids = ids
        self._ended = ended
        self._look_seconds = look_seconds
        self._stream_seconds = stream_seconds
        self._looked_at: dict[str, float] = {}
        self._opening: dict[str, anyio.Event] = {}
        self._ending: set[str] = set()

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve sessions, and close those that end at other replicas."""
        async with super().run(), anyio.create_task_group() as group:
            group.start_soon(self._close_ended)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a handshake-era client."""
        named, owner = Headers(scope=scope).get(MCP_SESSION_ID_HEADER), _owner(_context(scope))
        ids = self._ids()
        if ids is None:
            await super()._handle_stateful_request(scope, receive, send)
        elif named is None:
            with _next(ids.new(owner, _initialize_of(scope))):
                await super()._handle_stateful_request(scope, receive, send)
        elif (beginning := ids.open(named, owner)) is None:
            # Open here under an id that was too long to seal, or unknown.
            await super()._handle_stateful_request(scope, receive, send)
        else:
            answer = await self._known(named, owner, beginning, scope)
            await (answer or super()._handle_stateful_request)(scope, receive, send)

    async def _known(
        self, session_id: str, owner: Owner, beginning: Beginning, scope: Scope
    ) -> Response | None:
        """Open a session that is not open here; return an answer if the SDK should give none."""
        await self._opened(session_id)
        if scope["method"] == "DELETE":
            return await self._end(session_id, owner, beginning, only_here=ONLY_HERE in scope)
        is_open = session_id in self._server_instances
        refusal = await self._look(session_id, owner, beginning, is_open=is_open)
        if is_open or refusal is not None:
            return refusal
        refusal = await self._open_again(session_id, beginning, scope)
        # An end that began after the first look found nothing to close.
        return refusal or await self._look(session_id, owner, beginning, is_open=False)

    async def _look(
        self, session_id: str, owner: Owner, beginning: Beginning, *, is_open: bool
    ) -> Response | None:
        """Close a session that ended, and return the answer; without a database only an open one goes on."""
        try:
            if await self._is_ended(session_id, owner, beginning, is_open=is_open):
                await self._close(session_id)
                return _not_found()
        except StorageError as error:
            if not is_open:
                await self._close(session_id)
                return _unavailable(str(error))
            logger.warning("a session goes on, though it may have ended at another replica: %s", error)
        return None

    async def _end(self, session_id: str, owner: Owner, beginning: Beginning, *, only_here: bool) -> Response:
        """Close a session, and with it its streams; unless `only_here`, no replica opens it again."""
        is_open = session_id in self._server_instances
        # A request that comes before the database knows must not open it again.
        self._ending.add(session_id)
        try:
            await self._close(session_id)
            if not only_here:
                ended = await self._ended()
                if not is_open and await ended.is_ended(
                    session_id, owner.principal, begun_at=beginning.begun_at
                ):
                    return _not_found()
                await ended.end(session_id, expires_at=beginning.begun_at + SESSION_LIFETIME)
        except StorageError as error:
            return _unavailable(str(error))
        finally:
            self._ending.discard(session_id)
        return Response()

    async def _is_ended(self, session_id: str, owner: Owner, beginning: Beginning, *, is_open: bool) -> bool:
        """Tell whether a session ended; for one that is open here the last answer holds for a while."""
        if session_id in self._ending:
            return True
        now = anyio.current_time()
        if is_open and now < self._looked_at.setdefault(session_id, now) + self._look_seconds:
            return False
        if is_open:
            self._looked_at[session_id] = now
        return await (await self._ended()).is_ended(session_id, owner.principal, begun_at=beginning.begun_at)

    async def _close_ended(self) -> None:
        """Look from time to time which open sessions ended at other replicas, and close them with their streams."""
        while True:
            await anyio.sleep(self._stream_seconds)
            open_here = list(self._server_instances)
            for start in range(0, len(open_here), _AT_ONCE):
                try:
                    await self._close_ended_of(open_here[start : start + _AT_ONCE])
                except StorageError as error:
                    logger.warning("sessions that ended at other replicas may go on here: %s", error)
                except Exception:  # a supervisor: a look that fails must not end all sessions
                    logger.exception("sessions that ended at other replicas may go on here")

    async def _close_ended_of(self, session_ids: Sequence[str]) -> None:
        ids = self._ids()
        if ids is None:
            return
        sealed = list[tuple[str, Principal, datetime]]()
        for session_id in session_ids:
            owner = _owner(self._session_owners.get(session_id))
            if (beginning := ids.open(session_id, owner)) is not None:
                sealed.append((session_id, owner.principal, beginning.begun_at))
        if sealed:
            for session_id in await (await self._ended()).ended_of(sealed):
                await self._close(session_id)

    async def _opened(self, session_id: str) -> None:
        """Wait while another request opens this session."""
        while (opening := self._opening.get(session_id)) is not None:
            await opening.wait()

    async def _open_again(self, session_id: str, beginning: Beginning, scope: Scope) -> Response | None:
        """Begin a session once more with its client's parameters; return a refusal if there is no room."""
        await self._opened(session_id)
        if session_id in self._server_instances:
            return None
        self._opening[session_id] = anyio.Event()
        try:
            with _next(session_id):
                transport = self._admit_session(_context(scope))
            if transport is None:
                return _unavailable(_FULL)
            initialize = _request(scope, session_id, method="initialize", id=0, params=beginning.params)
            await self._serve_opening_request(transport, *initialize)
            await transport.handle_request(*_request(scope, session_id, method="notifications/initialized"))
        finally:
            self._opening.pop(session_id).set()
        count: Callable[[str], Awaitable[None]] | None = scope.get(COUNT_TAKEN_UP)
        if count is not None and session_id in self._server_instances:
            await count(session_id)
        return None

    async def _close(self, session_id: str) -> None:
        transport = self._server_instances.get(session_id)
        if transport is not None:
            await self._discard_session(session_id, transport)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Register a session under the id of its beginning."""
        transport, given = super()._admit_session(requestor), _next_id.get()
        if transport is None or given is None:
            return transport
        made = cast("str", transport.mcp_session_id)
        transport.mcp_session_id = given
        self._server_instances[given] = self._server_instances.pop(made)
        if made in self._session_owners:
            self._session_owners[given] = self._session_owners.pop(made)
        return transport

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        """Forget a session; the late end of one that was opened again meanwhile leaves its successor open."""
        if self._server_instances.get(session_id, transport) is transport:
            self._looked_at.pop(session_id, None)
            await super()._discard_session(session_id, transport)
        elif not transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await transport.terminate()


@contextmanager
def _next(session_id: str | None) -> Generator[None]:
    """Let the session that the block begins have this id."""
    token = _next_id.set(session_id)
    try:
        yield
    finally:
        _next_id.reset(token)


def _context(scope: Scope) -> AuthorizationContext | None:
    user = scope.get("user")
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def _owner(context: AuthorizationContext | None) -> Owner:
    if context is None:
        return Owner(Principal("", ""), "")
    return Owner(Principal(context["issuer"] or "", context["subject"] or ""), context["client_id"])


def _initialize_of(scope: Scope) -> object:
    """Return the parameters of a request that begins a session; None of any other."""
    message = scope.get(MESSAGE)
    fields = cast("Mapping[str, object]", message if isinstance(message, Mapping) else {})
    return fields.get("params") if fields.get("method") == "initialize" else None


def _request(scope: Scope, session_id: str, **message: object) -> tuple[Scope, Receive, Send]:
    """Build a request of the same user and client, whose answer goes nowhere."""
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        MCP_SESSION_ID_HEADER: session_id,
    }
    own = {name: value for name, value in scope.items() if name != MESSAGE}
    left = [json.dumps({"jsonrpc": "2.0", **message}).encode()]

    async def receive() -> Message:
        if not left:
            # The client is not gone.
            await anyio.sleep_forever()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def send(_: Message) -> None:
        return

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {**own, "method": "POST", "headers": raw}, receive, send


def _not_found() -> Response:
    return _error(404, INVALID_REQUEST, "Session not found")


def _unavailable(message: str) -> Response:
    response = _error(503, INTERNAL_ERROR, message)
    response.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS)
    return response


def _error(status: int, code: int, message: str) -> JSONResponse:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(body, status)
