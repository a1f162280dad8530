"""Receives the notifications of other processes. Loads PostgreSQL's driver."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from asyncpg import Connection, InterfaceError, PostgresError

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.notify import CHANNEL

_LOST = "The connection to PostgreSQL that is notified of ended consent requests is lost."
_CLOSE_SECONDS = 2


class Listener:
    """Listens on a connection of its own, which no query uses."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, beat_seconds: float = 30) -> None:
        self._connect = connect
        self._beat_seconds = beat_seconds

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[AsyncGenerator[None]]:
        """Yield the notifications from now on; several at once count as one.

        Raises:
            StorageError: There is no connection, or it was lost.
        """
        connection = await self._connect()
        callbacks = _Callbacks()
        try:
            connection.add_termination_listener(callbacks.on_termination)
            await connection.add_listener(CHANNEL, callbacks.on_notification)
            yield self._notifications(connection, callbacks)
        except (PostgresError, InterfaceError, OSError):
            raise StorageError(_LOST) from None
        finally:
            with anyio.CancelScope(shield=True), suppress(PostgresError, InterfaceError, OSError):
                await connection.close(timeout=_CLOSE_SECONDS)

    async def _notifications(self, connection: Connection, callbacks: "_Callbacks") -> AsyncGenerator[None]:
        while True:
            with anyio.move_on_after(self._beat_seconds) as quiet:
                await callbacks.notified.wait()
            if callbacks.lost:
                raise StorageError(_LOST)
            if quiet.cancelled_caught:
                # If the other end vanished silently, only a query detects it.
                await connection.execute("SELECT 1")
                continue
            callbacks.notified = anyio.Event()
            yield


class _Callbacks:
    """The callbacks that the driver calls, and what they record."""

    def __init__(self) -> None:
        self.notified = anyio.Event()
        self.lost = False

    def on_notification(self, *_: object) -> None:
        self.notified.set()

    def on_termination(self, *_: object) -> None:
        self.lost = True
        self.notified.set()
