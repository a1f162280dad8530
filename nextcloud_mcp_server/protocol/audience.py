"""Who hears of changes: the sessions and the streams of each user, and of no one else.

A handshake-era client hears on its session, a client of 2026-07-28 on the streams that it opened
(`subscriptions/listen`). All of one user's are told together, whichever client they belong to.
No session hears that a list has changed which it has not asked for: some clients end the connection after one call,
and a notification that comes then costs them its answer (modelcontextprotocol/python-sdk issue 1960). Streams hear of
what they name (2026-07-28, basic/utilities/subscriptions), which the SDK sees to.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from nextcloud_mcp_server.protocol import wire

#: Sessions of one user that are told at most; the oldest are forgotten first.
MAX_SESSIONS = 100

#: A client that does not read what it is sent is not waited for any longer.
SEND_SECONDS = 5.0

#: Where a connection keeps its session.
_KEY = "audience"

Listener = Callable[[ServerEvent], None]

#: What tells that a list has changed.
ListChanged = type[ToolsListChanged] | type[PromptsListChanged] | type[ResourcesListChanged]


def _nobody() -> None:
    """Stand where no one wants to know."""


@dataclass(eq=False, slots=True)
class Session:
    """A handshake-era client that is connected.

    `uris` are the resources it wants to hear of; `lists` are those it has asked for.
    """

    key: str
    connection: Connection
    uris: Collection[str] = ()
    lists: set[ListChanged] = field(default_factory=set[ListChanged])


class Audience:
    """Tells each user's clients what has changed for this user."""

    def __init__(
        self,
        owner: Callable[[ServerRequestContext[Any, Any]], Hashable],
        *,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self.owner = owner
        self._send_seconds = send_seconds
        self._sessions: dict[Hashable, dict[str, Session]] = {}
        self._streams: dict[Hashable, dict[object, Listener]] = {}
        # Counted: the next stream of a session may open before the end of the last is noted.
        self._consent_status = Counter[str]()
        #: Told that a session can hear something again.
        self.on_stream: Callable[[], None] = _nobody

    def join(self, ctx: ServerRequestContext[Any, Any], listed: ListChanged | None = None) -> Session | None:
        """Let the session of a request hear of changes until it ends; None where there is no session.

        `listed`: the request asked for a list, so the session hears of changes to this list too.
        """
        key, owner = wire.session_key(ctx), self.owner(ctx)
        if key is None:
            return None
        connection = wire.connection(ctx)
        # Kept there, and its end noted once: a session that was forgotten for others comes back as it was.
        session: Session | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = Session(key, connection)
            connection.exit_stack.callback(self._leave, owner, key, session)
        sessions = self._sessions.setdefault(owner, {})
        if sessions.get(key) is not session:
            sessions[key] = session
            while len(sessions) > MAX_SESSIONS:
                del sessions[next(iter(sessions))]
        if listed is not None:
            session.lists.add(listed)
        return session

    def stream_opened(self, key: str) -> None:
        """Note that a session over HTTP has opened the stream (`GET`) on which it hears."""
        self._consent_status[key] += 1
        self.on_stream()

    def stream_closed(self, key: str) -> None:
        """Note that it is closed; the client may open it again, or may have gone for good."""
        self._consent_status -= Counter([key])

    def attends(self, session: Session) -> bool:
        """Tell whether what is told to a session gets anywhere now."""
        return session.key == wire.STDIO or session.key in self._consent_status

    def bus(self, owner: Hashable) -> "Bus":
        """Give the streams of one user something to listen to."""
        return Bus(self, owner)

    async def tell(self, owner: Hashable, *events: ServerEvent) -> None:
        """Tell the clients of one user."""
        for listener in list(self._streams.get(owner, {}).values()):
            for event in events:
                listener(event)
        async with anyio.create_task_group() as group:
            for session in self._sessions.get(owner, {}).values():
                group.start_soon(partial(self.send, session, *events))

    def listen(self, owner: Hashable, listener: Listener) -> Callable[[], None]:
        """Let a stream hear of changes until what this returns is called."""
        token = object()
        self._streams.setdefault(owner, {})[token] = listener

        def leave() -> None:
            streams = self._streams.get(owner, {})
            streams.pop(token, None)
            if not streams:
                self._streams.pop(owner, None)

        return leave

    def _leave(self, owner: Hashable, key: str, session: Session) -> None:
        sessions = self._sessions.get(owner, {})
        if sessions.get(key) is session:
            del sessions[key]
        if not sessions:
            self._sessions.pop(owner, None)

    async def send(self, session: Session, *events: ServerEvent) -> None:
        """Tell one session what it asked for, if it still reads."""
        connection = session.connection
        with anyio.move_on_after(self._send_seconds):
            for event in events:
                if isinstance(event, ResourceUpdated):
                    if event.uri in session.uris:
                        await connection.send_resource_updated(event.uri)
                elif type(event) in session.lists:
                    await _SEND[type(event)](connection)


#: The notification about each list.
_SEND: Mapping[ListChanged, Callable[[Connection], Awaitable[None]]] = {
    ToolsListChanged: Connection.send_tool_list_changed,
    PromptsListChanged: Connection.send_prompt_list_changed,
    ResourcesListChanged: Connection.send_resource_list_changed,
}


@dataclass(frozen=True, slots=True)
class Bus:
    """One user's side of the audience, in the form of the SDK's `SubscriptionBus`."""

    audience: Audience
    owner: Hashable

    async def publish(self, event: ServerEvent) -> None:
        """Tell the user's clients."""
        await self.audience.tell(self.owner, event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Let a stream listen."""
        return self.audience.listen(self.owner, listener)
