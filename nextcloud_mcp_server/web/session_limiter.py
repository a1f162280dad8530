"""Limits the sessions of one user and one client: a new one ends the oldest idle one.

Clients (of 2025-11-25) open sessions and rarely end them. Each takes memory until it has been idle for half an
hour, and the transport has room for a fixed number; without a limit per user, one token could take all of them.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.web.caller import BearerUser
from nextcloud_mcp_server.web.sealed_sessions import COUNT_TAKEN_UP, ONLY_HERE

MOST_OF_PERSON = 50
MOST_OF_CLIENT = 25

#: Fewer than the transport takes, so that there is always room for the next one.
MOST_OF_ALL = 9_000

_SESSION = "mcp-session-id"
#: The keys that a request to end a session copies from the one that opened it.
_OF_ADDRESS = (
    "type",
    "asgi",
    "http_version",
    "scheme",
    "server",
    "client",
    "root_path",
    "path",
    "raw_path",
    "query_string",
)


@dataclass(eq=False, slots=True)
class _Session:
    id: str
    user: BearerUser
    scope: Scope
    in_use: int = 0

    def is_of(self, user: BearerUser, *, client: bool) -> bool:
        """Tell whether the session belongs to the same user, and with `client` to the same client."""
        mine, other = self.user.bearer, user.bearer
        return mine.principal == other.principal and (not client or mine.client_id == other.client_id)

    @contextmanager
    def used(self) -> Generator[None]:
        """Count a request as long as the block runs."""
        self.in_use += 1
        try:
            yield
        finally:
            self.in_use -= 1


class SessionLimiter:
    """Wraps the MCP endpoint, inside the layer that verifies tokens; tracks opened and used sessions."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        most_of_person: int = MOST_OF_PERSON,
        most_of_client: int = MOST_OF_CLIENT,
        most_of_all: int = MOST_OF_ALL,
    ) -> None:
        self._app = app
        self._most_of_person = most_of_person
        self._most_of_client = most_of_client
        self._most_of_all = most_of_all
        # In the order of their last use.
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._by_person: dict[object, OrderedDict[str, _Session]] = {}

    async def end(self, meant: Callable[[Bearer], bool]) -> None:
        """End the sessions whose token matches a predicate."""
        for session in [each for each in self._sessions.values() if meant(each.user.bearer)]:
            await self._end(session)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; after it opened a session, end those beyond the limits."""
        user = scope.get("user")
        if scope["type"] != "http" or not isinstance(user, BearerUser):
            await self._app(scope, receive, send)
            return
        named = Headers(scope=scope).get(_SESSION)
        session = self._sessions.get(named or "")
        if session is not None and session.is_of(user, client=True):
            await self._use(session, scope, receive, send)
        elif session is None and scope["method"] != "DELETE":
            await self._open(user, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _use(self, session: _Session, scope: Scope, receive: Receive, send: Send) -> None:
        gone, ends = False, scope["method"] == "DELETE"

        async def watch(message: Message) -> None:
            nonlocal gone
            if message["type"] == "http.response.start":
                status: int = message["status"]
                gone = status == HTTPStatus.NOT_FOUND or (ends and status < HTTPStatus.BAD_REQUEST)
            await send(message)

        self._sessions.move_to_end(session.id)
        self._by_person[session.user.bearer.principal].move_to_end(session.id)
        try:
            with session.used():
                await self._app(scope, receive, watch)
        finally:
            if gone:
                self._forget(session)

    async def _open(self, user: BearerUser, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that may open a session: a new one, or one that this process does not know."""
        with ExitStack() as stack:

            async def count(session_id: str) -> None:
                stack.enter_context(self._opened(session_id, user, scope).used())
                await self._make_room(user)

            async def watch(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
                    opened = Headers(raw=message["headers"]).get(_SESSION)
                    if opened is not None:
                        await count(opened)
                await send(message)

            # A session that is taken up stays open, even if the request itself is then refused.
            await self._app({**scope, COUNT_TAKEN_UP: count}, receive, watch)

    def _opened(self, session_id: str, user: BearerUser, scope: Scope) -> _Session:
        """Record a session, unless a request at the same time did."""
        session = self._sessions.get(session_id)
        if session is None:
            session = _Session(session_id, user, {name: scope[name] for name in _OF_ADDRESS if name in scope})
            self._sessions[session_id] = session
            self._by_person.setdefault(user.bearer.principal, OrderedDict())[session_id] = session
        return session

    async def _make_room(self, user: BearerUser) -> None:
        mine = self._by_person[user.bearer.principal]
        of_client = [session for session in mine.values() if session.is_of(user, client=True)]
        if len(of_client) > self._most_of_client:
            await self._close(_oldest_idle(of_client))
        elif len(mine) > self._most_of_person:
            await self._close(_oldest_idle(mine.values()))
        elif len(self._sessions) > self._most_of_all:
            await self._close(_oldest_idle(self._sessions.values()))

    async def _close(self, session: _Session) -> None:
        """Close a session to make room: an idle one can be taken up again, here or at the replica that uses it.

        One in use ends for good: its client would open its streams again at once, and so close another one.
        """
        await self._end(session, only_here=not session.in_use)

    async def _end(self, session: _Session, *, only_here: bool = False) -> None:
        """End a session by a DELETE request, as its own client does; its streams end with it."""
        self._forget(session)
        ending: Scope = {
            **session.scope,
            "method": "DELETE",
            "headers": [(_SESSION.encode(), session.id.encode()), (b"accept", b"application/json")],
            "user": session.user,
        }
        if only_here:
            ending[ONLY_HERE] = True
        await self._app(ending, _nothing, _nowhere)

    def _forget(self, session: _Session) -> None:
        person = session.user.bearer.principal
        self._sessions.pop(session.id, None)
        mine = self._by_person.get(person, OrderedDict())
        mine.pop(session.id, None)
        if not mine:
            self._by_person.pop(person, None)


def _oldest_idle(sessions: Iterable[_Session]) -> _Session:
    """Return the session with the oldest use; one in use only if all are."""
    # The last one is the new session, which needs the room.
    *listed, _ = sessions
    return next((session for session in listed if not session.in_use), listed[0])


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nowhere(_: Message) -> None:
    return
