"""Notices accounts that another process took from a principal, and ends what is open for them here.

The operator's command `accounts release` writes to the database while the servers run. So does a server that
gives an account to its owner, or finds that it was re-created at Nextcloud. The audit log names the principal
that lost the account; each server reads it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: A loss that another process recorded takes effect here within this time.
LOOK_SECONDS = 5.0

#: Concurrent processes may commit entries out of order, by so many ids.
_OVERLAP = 1_000

#: Called with the principals that lost an account.
OnEnded = Callable[[frozenset[Principal]], Awaitable[None]]


class EndedAccounts:
    """Reads the audit log for accounts that were released or given to another principal."""

    def __init__(self, database: "Database", on_ended: OnEnded) -> None:
        self._database = database
        self._on_ended = on_ended
        self._known: frozenset[int] = frozenset()
        self._last: int | None = None
        self._fails = False

    async def run(self) -> None:
        """Call `look` periodically as long as the server runs."""
        while True:
            try:
                await self.look()
            except StorageError as error:
                # Every five seconds, so the log has it once.
                level = logging.DEBUG if self._fails else logging.WARNING
                logger.log(level, "released accounts cannot be read; trying again: %s", error)
                self._fails = True
            else:
                self._fails = False
            await anyio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Report the principals that lost an account since the last call.

        The first call only records the position.

        Raises:
            StorageError: The audit log cannot be read.
        """
        last = await self._database.audit.last_number()
        found = await self._database.audit.ended_accounts(after=(self._last or last) - _OVERLAP)
        fresh = frozenset(each.principal for each in found if each.number not in self._known)
        if fresh and self._last is not None:
            await self._on_ended(fresh)
        # After that: what could not be ended now is ended at the next look.
        self._last, self._known = last, frozenset(each.number for each in found)
