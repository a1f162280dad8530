"""Notices accounts that another process took from who held them, so that this one ends what they have open.

The operator's `accounts release` writes to the database while the servers run. So does a server that gives an account
to its owner, or finds that it was made anew at Nextcloud. The audit says who lost what; each server reads it.
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

#: An account that another process took ends here within this time.
LOOK_SECONDS = 5.0

#: Entries of processes that write at the same time may become visible out of order, by so many numbers.
_OVERLAP = 1_000

#: Told who lost an account.
OnEnded = Callable[[frozenset[Principal]], Awaitable[None]]


class EndedAccounts:
    """Reads the audit for accounts that were released or given to another principal."""

    def __init__(self, database: "Database", on_ended: OnEnded) -> None:
        self._database = database
        self._on_ended = on_ended
        self._known: frozenset[int] = frozenset()
        self._last: int | None = None

    async def run(self) -> None:
        """Look again and again, as long as the server runs."""
        while True:
            try:
                await self.look()
            except StorageError as error:
                logger.warning("released accounts could not be read: %s", error)
            await anyio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Report who lost an account since the last look; the first look only notes what is there.

        Raises:
            StorageError: The audit cannot be read.
        """
        last = await self._database.audit.last_number()
        found = await self._database.audit.ended_accounts(after=(self._last or last) - _OVERLAP)
        fresh = frozenset(each.principal for each in found if each.number not in self._known)
        is_first, self._last = self._last is None, last
        self._known = frozenset(each.number for each in found)
        if fresh and not is_first:
            await self._on_ended(fresh)
