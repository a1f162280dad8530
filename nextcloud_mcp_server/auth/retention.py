"""Deletes what is kept for a time only: audit entries after `AUDIT_RETENTION_DAYS`, old consent requests and tasks."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.auth.clock_watch import running_seconds

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: The pause between two rounds.
EVERY_SECONDS = 3600.0

#: A client may still ask how an expired consent request ended; after this time it is told that there is none.
CONSENT_REQUESTS_KEPT = timedelta(days=7)


class Retention:
    """The background job; several servers of one database may run it at once.

    A clock that jumps ahead deletes nothing early: not more time counts than has passed since the start.
    """

    def __init__(
        self,
        database: "Database",
        *,
        audit_days: int,
        clock: Callable[[], datetime],
        running: Callable[[], float] = running_seconds,
    ) -> None:
        self._database = database
        self._audit_days = audit_days
        self._clock = clock
        self._running = running
        self._began = clock() - timedelta(seconds=running())

    async def purge(self) -> None:
        """Delete once what is too old now."""
        now = min(self._clock(), self._began + timedelta(seconds=self._running()))
        await self._database.elicitations.purge(before=now - CONSENT_REQUESTS_KEPT)
        await self._database.tasks.purge()
        if self._audit_days:
            gone = await self._database.audit.purge(before=now - timedelta(days=self._audit_days))
            if gone:
                logger.info(
                    "deleted %d audit entries older than AUDIT_RETENTION_DAYS=%d", gone, self._audit_days
                )

    async def run(self, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Delete at the start, and then periodically."""
        while True:
            try:
                await self.purge()
            except Exception:  # a supervisor: a full disk must not stop the server
                logger.exception("old entries could not be deleted; trying again")
            await anyio.sleep(every_seconds)
