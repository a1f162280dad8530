"""How many failed redemptions we allow ourselves.

After ten failed token requests from one address Nextcloud answers 429 to the good ones too, for half
an hour. Whoever can bring a browser to our callback could cause them, so few are sent at all.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.errors import Throttled
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

WINDOW = timedelta(minutes=30)

#: For one person, and for one browser that people take turns at.
MOST_OF_ONE = 2
MOST_OF_ALL = 5

_PERSON = (
    "Two attempts to connect have failed within half an hour. Nothing is lost: wait half an hour, then "
    "ask your assistant again for a new link."
)
_ALL = (
    "Several attempts to connect to this Nextcloud have failed, so this server pauses them to keep "
    "everybody else connected. Wait half an hour, then ask your assistant again for a new link."
)


class RedemptionBudget:
    """Asked before a code is sent anywhere, and told when one was not accepted."""

    def __init__(self, database: "Database", *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        #: Held while a code is exchanged only to be revoked; see `end_orphaned_code`.
        self.orphans = anyio.Lock()

    async def check(self, who: Principal | None, sign_in: str) -> None:
        """Refuse a redemption that may be one failure too many. `sign_in` is the value in the cookie.

        `who` is None where nobody is known yet.

        Raises:
            Throttled: The budget of this person, this browser or the whole server is used up.
        """
        redemptions, since = self._database.redemptions, self._clock() - WINDOW
        if (
            who is not None and await redemptions.count(since=since, principal=who) >= MOST_OF_ONE
        ) or await redemptions.count(since=since, sign_in=sign_in) >= MOST_OF_ONE:
            raise Throttled(_PERSON, retry_after_seconds=WINDOW.total_seconds())
        if await redemptions.count(since=since) >= MOST_OF_ALL:
            raise Throttled(_ALL, retry_after_seconds=WINDOW.total_seconds())

    async def failed(self, who: Principal, sign_in: str) -> None:
        """Count one code that was not accepted, and forget those that count no more."""
        await self._database.redemptions.failed(who, sign_in=sign_in)
        await self._database.redemptions.purge(before=self._clock() - WINDOW)
