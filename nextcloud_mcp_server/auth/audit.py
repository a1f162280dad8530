"""The audit log. Entries are written in batches, so that reading a note costs no transaction."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.storage.records import AuditEntry

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
BATCH = 200

#: It is tried every few seconds; the log needs the same failure less often.
_TELL_AGAIN_SECONDS = 30

#: Entries kept at most while the database cannot be written; the oldest are dropped first.
MOST_WAITING = 10_000


class AuditLog:
    """Collects audit entries.

    Those of changes are written before the answer is sent, those of reads a little later.
    """

    def __init__(
        self,
        database: "Database",
        *,
        clock: Callable[[], datetime],
        flush_seconds: float = FLUSH_SECONDS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._database = database
        self._flush_seconds = flush_seconds
        self._most_waiting = most_waiting
        self._clock = clock
        self._entries: list[AuditEntry] = []
        self._callers: dict[tuple[str, str, str], Caller] = {}
        self._work = anyio.Event()
        self._tell_at = float("-inf")

    async def record(
        self,
        caller: Caller,
        *,
        action: str,
        result: str,
        detail: str,
        request_id: str,
        now: bool,
        object_name: str = "",
    ) -> None:
        """Add one entry; with `now`, write it and all waiting entries at once."""
        principal = caller.principal
        entry = AuditEntry(
            at=self._clock(),
            principal=principal,
            client_id=caller.client_id,
            action=action,
            result=result,
            detail=detail,
            request_id=request_id,
            object_name=object_name,
        )
        self._entries.append(entry)
        self._callers[principal.issuer, principal.subject, caller.client_id] = caller
        self._work.set()
        if now or len(self._entries) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Write the collected entries; those that could not be written are kept for the next flush."""
        entries, self._entries = self._entries, []
        callers, self._callers = self._callers, {}
        try:
            if entries:
                await self._database.audit.append(entries)
        except BaseException:
            # The call that flushes may be cancelled; the entries are not only its own.
            self._entries = [*entries, *self._entries][-self._most_waiting :]
            self._callers = callers | self._callers
            raise
        for caller in callers.values():
            await self._database.grants.touch(caller.principal, caller.client_id, self._clock())

    async def run(self) -> None:
        """Flush every few seconds, and once more when the server stops."""
        try:
            while True:
                await self._work.wait()
                await anyio.sleep(self._flush_seconds)
                self._work = anyio.Event()
                await self._flush_quietly()
        finally:
            with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                await self._flush_quietly()

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except Exception:  # a supervisor: a full disk must not stop users from reading
            self._work.set()
            if anyio.current_time() >= self._tell_at:
                logger.exception("the audit could not be written; trying again")
                self._tell_at = anyio.current_time() + _TELL_AGAIN_SECONDS
        else:
            self._tell_at = float("-inf")
