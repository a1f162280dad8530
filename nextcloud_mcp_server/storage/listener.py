"""Receives the notifications of other processes. Loads PostgreSQL's driver."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from asyncpg import Connection, InterfaceError, PostgresError

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.notify import CHANNEL

_LOST = "The connection to PostgreSQL that hears of ended consent requests is lost."
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
        ear = _Ear()
        try:
            connection.add_termination_listener(ear.lose)
            await connection.add_listener(CHANNEL, ear.ring)
            yield self._notifications(connection, ear)
        except (PostgresError, InterfaceError, OSError):
            raise StorageError(_LOST) from None
        finally:
            with anyio.CancelScope(shield=True), suppress(PostgresError, InterfaceError, OSError):
                await connection.close(timeout=_CLOSE_SECONDS)

    async def _notifications(self, connection: Connection, ear: "_Ear") -> AsyncGenerator[None]:
        while True:
            with anyio.move_on_after(self._beat_seconds) as quiet:
                await ear.rung.wait()
            if ear.lost:
                raise StorageError(_LOST)
            if quiet.cancelled_caught:
                # If the other end vanished silently, only a query detects it.
                await connection.execute("SELECT 1")
                continue
            ear.rung = anyio.Event()
            yield


class _Ear:
    """The callbacks for the driver."""

    def __init__(self) -> None:
        self.rung = anyio.Event()
        self.lost = False

    def ring(self, *_: object) -> None:
        self.rung.set()

    def lose(self, *_: object) -> None:
        self.lost = True
        self.rung.set()
