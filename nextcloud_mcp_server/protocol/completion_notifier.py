"""The completion notifier for clients of 2025-11-25 (`notifications/elicitation/complete`)."""

from dataclasses import dataclass, replace
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.pending import Pending

#: Sessions remembered at most; the oldest are dropped first.
MAX_NOTIFIED = 1000

#: How much longer than a consent request can last a session that got its link is remembered.
_SPARE_SECONDS = 15.0

_METHOD = "notifications/elicitation/complete"

#: The key under which a connection stores that its end is noticed here.
_KEY = "completion notifier"


@dataclass(frozen=True, slots=True)
class NotifiedSession:
    """A session that got a link, and the link's elicitation. A client of 2026-07-28 has no session.

    `connection` is None without a session, and after its end. `in_text` says that the client's own form brought no
    answer from the user.
    """

    connection: Connection | None
    elicitation_id: str
    in_text: bool = False


class CompletionNotifier:
    """Remembers which session got which link, and notifies exactly those sessions of the end.

    VS Code waits for the notification without a time limit, so it is sent for every ending, not just for
    success: the repeated call then reports how it ended.
    """

    def __init__(self, pending: Pending, *, consent_seconds: float = 600) -> None:
        self._pending = pending
        self._seconds = consent_seconds + _SPARE_SECONDS
        self._notified: dict[str, NotifiedSession] = {}
        pending.on_finish(self._finished)

    def record_link(
        self,
        ctx: ServerRequestContext[Any, Any],
        elicitation_id: str,
        *,
        stand_in: str | None = None,
        in_text: bool = False,
    ) -> None:
        """Remember that the session of this request got the link, until the consent request must have ended.

        `stand_in` identifies the client where there are no sessions; without either nothing is remembered. With
        `in_text` it gets this link as text from now on.
        """
        session = wire.session_key(ctx)
        key = session or stand_in
        if key is None:
            return
        self._notified.pop(key, None)
        connection = None if session is None else self._until_its_end(session, wire.connection(ctx))
        self._notified[key] = NotifiedSession(connection, elicitation_id, in_text)
        while len(self._notified) > MAX_NOTIFIED:
            del self._notified[next(iter(self._notified))]
        self._pending.watch(elicitation_id, seconds=self._seconds)

    def last_link(
        self, ctx: ServerRequestContext[Any, Any], *, stand_in: str | None = None
    ) -> NotifiedSession | None:
        """Return the session of this request, with the link that it got last."""
        return self._notified.get(wire.session_key(ctx) or stand_in or "")

    def forget(self, ctx: ServerRequestContext[Any, Any], *, stand_in: str | None = None) -> None:
        """Forget the session of this request: its client knows how the consent request ended."""
        self._notified.pop(wire.session_key(ctx) or stand_in or "", None)

    def _until_its_end(self, key: str, connection: Connection) -> Connection:
        """Drop a connection when it ends: all that its session had would stay in memory."""
        if _KEY not in connection.state:
            connection.state[_KEY] = key
            connection.exit_stack.callback(self._ended, key, connection)
        return connection

    def _ended(self, key: str, connection: Connection) -> None:
        # The link stays known, since the session may be taken up again under the same id.
        notified = self._notified.get(key)
        if notified is not None and notified.connection is connection:
            self._notified[key] = replace(notified, connection=None)

    async def _finished(self, elicitation_id: str) -> None:
        for notified in list(self._notified.values()):
            connection = notified.connection
            if (
                connection is not None
                and notified.elicitation_id == elicitation_id
                # Other clients do not know the notification: unknown ones have broken clients.
                and wire.declares_url(connection.client_capabilities)
            ):
                await connection.notify(_METHOD, {"elicitationId": elicitation_id})
