"""Sends each user's sessions and streams the notifications of changes for that user.

A handshake-era client is notified on its session, a client of 2026-07-28 on the streams that it opened
(`subscriptions/listen`). All sessions and streams of a user are notified together, of whichever client.

A session is only notified of changes to a list that it has requested: some clients end the connection after one
call, and a notification that comes then costs them its answer (modelcontextprotocol/python-sdk issue 1960).
Streams are notified of what they name (2026-07-28, basic/utilities/subscriptions); the SDK handles that. A change
of which not every client may know is sent to those alone that may: `tell` asks for each caller.
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

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.protocol import wire

#: Sessions of one user that are notified at most; the oldest are dropped first.
MAX_SESSIONS = 100

#: How long sending to a client may take that does not read.
SEND_SECONDS = 5.0

#: The key under which a connection's state holds its session.
_KEY = "notified-session"

Listener = Callable[[ServerEvent], None]

#: The events that report that a list has changed.
ListChanged = type[ToolsListChanged] | type[PromptsListChanged] | type[ResourcesListChanged]


def _nobody() -> None:
    """Do nothing: the default where no callback is set."""


def _every_client(_: Caller | None) -> bool:
    """Return True: the default for a change of which every client of the user may know."""
    return True


@dataclass(eq=False, slots=True)
class Session:
    """A connected handshake-era client.

    `uris` are the resources it subscribed to; `lists` are those it has requested. `caller` is that of its newest
    request for a list or a subscription.
    """

    key: str
    connection: Connection
    caller: Caller | None = None
    uris: Collection[str] = ()
    lists: set[ListChanged] = field(default_factory=set[ListChanged])


class ChangeNotifier:
    """Notifies each user's clients of changes for this user.

    `owner` returns the user of a request, `caller` also their client and what its token covers.
    """

    def __init__(
        self,
        owner: Callable[[ServerRequestContext[Any, Any]], Hashable],
        *,
        caller: Callable[[ServerRequestContext[Any, Any]], Caller] | None = None,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self.owner = owner
        self._caller = caller
        self._send_seconds = send_seconds
        self._sessions: dict[Hashable, dict[str, Session]] = {}
        self._streams: dict[Hashable, dict[object, tuple[Caller | None, Listener]]] = {}
        # Counted, since the next stream of a session may open before the end of the last one is recorded.
        self._consent_status = Counter[str]()
        #: Called when a session can be notified again.
        self.on_stream: Callable[[], None] = _nobody

    def join(self, ctx: ServerRequestContext[Any, Any], listed: ListChanged | None = None) -> Session | None:
        """Notify the session of a request until it ends; return None if there is no session.

        With `listed` the request asked for a list, so the session is also notified of changes to this list.
        """
        key, owner = wire.session_key(ctx), self.owner(ctx)
        if key is None:
            return None
        connection = wire.connection(ctx)
        # Stored in the connection, with one callback for its end: a session that was dropped for others keeps its
        # state.
        session: Session | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = Session(key, connection)
            connection.exit_stack.callback(self._leave, owner, key, session)
        session.caller = self._caller(ctx) if self._caller else None
        sessions = self._sessions.setdefault(owner, {})
        if sessions.get(key) is not session:
            sessions[key] = session
            while len(sessions) > MAX_SESSIONS:
                del sessions[next(iter(sessions))]
        if listed is not None:
            session.lists.add(listed)
        return session

    def stream_opened(self, key: str) -> None:
        """Record that a session over HTTP has opened the stream (`GET`) for its notifications."""
        self._consent_status[key] += 1
        self.on_stream()

    def stream_closed(self, key: str) -> None:
        """Record that the stream is closed; the client may open it again, or be gone for good."""
        self._consent_status -= Counter([key])

    def attends(self, session: Session) -> bool:
        """Tell whether a notification reaches a session now."""
        return session.key == wire.STDIO or session.key in self._consent_status

    def bus(self, owner: Hashable, caller: Caller | None = None) -> "Bus":
        """Return the bus to which the streams of one user, or of one caller, can subscribe."""
        return Bus(self, owner, caller)

    def callers(self, owner: Hashable) -> frozenset[Caller]:
        """Return the callers of the sessions and streams of one user."""
        sessions = (session.caller for session in self._sessions.get(owner, {}).values())
        streams = (caller for caller, _ in self._streams.get(owner, {}).values())
        return frozenset(caller for caller in (*sessions, *streams) if caller is not None)

    async def tell(
        self, owner: Hashable, *events: ServerEvent, to: Callable[[Caller | None], bool] = _every_client
    ) -> None:
        """Send events to the clients of one user; with `to` only to the callers for which it returns True."""
        for caller, listener in list(self._streams.get(owner, {}).values()):
            for event in events if to(caller) else ():
                listener(event)
        async with anyio.create_task_group() as group:
            for session in self._sessions.get(owner, {}).values():
                if to(session.caller):
                    group.start_soon(partial(self.send, session, *events))

    def listen(
        self, owner: Hashable, listener: Listener, *, caller: Caller | None = None
    ) -> Callable[[], None]:
        """Send changes to a stream until the returned function is called."""
        token = object()
        self._streams.setdefault(owner, {})[token] = caller, listener

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
        """Send one session the events that it asked for, if it still reads."""
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
    """The events of one user, in the form of the SDK's `SubscriptionBus`; `caller` is the one that listens."""

    change_notifier: ChangeNotifier
    owner: Hashable
    caller: Caller | None = None

    async def publish(self, event: ServerEvent) -> None:
        """Send an event to the user's clients."""
        await self.change_notifier.tell(self.owner, event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Subscribe a stream; return the function that ends the subscription."""
        return self.change_notifier.listen(self.owner, listener, caller=self.caller)
