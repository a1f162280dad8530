"""Limits the failed code exchanges of this server.

After ten failed token requests from one address, Nextcloud answers 429 to valid ones too, for half an hour, and
it answers more slowly with each. Anyone who can send a browser to the callback could cause such failures, so
few codes are sent at all. Of one network so few are sent that it cannot use up the allowance of the others. A
last share is reserved for browsers in which a user signed in before.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.auth.requester import current_requester
from nextcloud_mcp_server.errors import Throttled
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

WINDOW = timedelta(minutes=30)

#: How long Nextcloud's answer about its allow list is cached.
ASKED_AGAIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Failures allowed in one window.

    Of one user, browser or network; of browsers that are not known; of all together.
    """

    of_one: int
    of_strangers: int
    of_all: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of the last half hour: of one user, browser and network, and of all together."""

    of_user: int
    of_browser: int
    of_source: int
    of_all: int


USUAL = Allowance(of_one=2, of_strangers=3, of_all=5)

#: For an address that is on Nextcloud's allow list: its failures only cost requests.
ALLOW_LISTED = Allowance(of_one=20, of_strangers=500, of_all=1_000)

_ONE = (
    "Two attempts to connect have failed within half an hour. Nothing is lost: wait half an hour, then "
    "ask your assistant again for a new link."
)
_ALL = (
    "Several attempts to connect to this Nextcloud have failed, so this server pauses them to keep "
    "all other users connected. Wait half an hour, then ask your assistant again for a new link."
)


async def _is_never_listed() -> bool:
    return False


class ExchangeLimiter:
    """Decides before a code exchange whether the code may be sent; counts codes that were not accepted.

    `is_allow_listed` asks Nextcloud whether this server's address is on its allow list; it is called only when
    the usual allowance is used up.
    """

    def __init__(
        self,
        database: "Database",
        *,
        clock: Callable[[], datetime],
        is_allow_listed: Callable[[], Awaitable[bool]] = _is_never_listed,
    ) -> None:
        self._database = database
        self._clock = clock
        self._is_allow_listed = is_allow_listed
        self._answer: tuple[datetime, bool] | None = None
        #: Held while a code is exchanged only to be revoked; see `end_orphaned_code`.
        self.orphans = anyio.Lock()

    async def failures(self, who: Principal | None, sign_in: str) -> Failures:
        """Count the failures that matter for a code exchange, in one transaction.

        `sign_in` is the value in the cookie. `who` is None if the user is not known yet. `current_requester`
        holds the source of the request.
        """
        count, since = self._database.failed_exchanges.count, self._clock() - WINDOW
        source = current_requester.get().source
        async with self._database.one_reading():
            return Failures(
                of_user=0 if who is None else await count(since=since, principal=who),
                of_browser=await count(since=since, sign_in=sign_in),
                of_source=await count(since=since, source=source) if source else 0,
                of_all=await count(since=since),
            )

    async def check(self, who: Principal | None, sign_in: str) -> None:
        """Refuse a code exchange if its failure would exceed the allowance; see `failures`.

        Raises:
            Throttled: The allowance of this user, browser or network, or of all together, is used up.
        """
        await self.require(await self.failures(who, sign_in))

    async def require(self, failures: Failures) -> None:
        """Refuse a code exchange after so many failures; raises as `check`."""
        refusal = _refusal(USUAL, failures)
        if refusal and await self._listed():
            refusal = _refusal(ALLOW_LISTED, failures)
        if refusal:
            raise Throttled(refusal, retry_after_seconds=WINDOW.total_seconds())

    async def failed(self, who: Principal, sign_in: str) -> None:
        """Count one code that was not accepted; delete counts older than the window."""
        source = current_requester.get().source
        await self._database.failed_exchanges.failed(who, sign_in=sign_in, source=source)
        await self._database.failed_exchanges.purge(before=self._clock() - WINDOW)

    async def _listed(self) -> bool:
        # The clock may have been corrected meanwhile, to an earlier time.
        if self._answer is None or not timedelta() <= self._clock() - self._answer[0] < ASKED_AGAIN:
            self._answer = (self._clock(), await self._is_allow_listed())
        return self._answer[1]


def _refusal(allowance: Allowance, failures: Failures) -> str | None:
    if max(failures.of_user, failures.of_browser, failures.of_source) >= allowance.of_one:
        return _ONE
    most = allowance.of_all if current_requester.get().is_known_browser else allowance.of_strangers
    return _ALL if failures.of_all >= most else None
