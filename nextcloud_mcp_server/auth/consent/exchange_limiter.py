"""How many failed code exchanges this server allows itself.

After ten failed token requests from one address Nextcloud answers 429 to the good ones too, for half
an hour, and with each it answers more slowly. Anyone who can bring a browser to our callback could cause them, so
few are sent at all: of one network so few that it cannot use up those of the others, and a last share
is for browsers in which a user signed in before.
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

#: How long an answer of Nextcloud about its allow list is believed.
ASKED_AGAIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Failures in one window: of one user, browser or network; of browsers that are not known; of all."""

    of_one: int
    of_strangers: int
    of_all: int


USUAL = Allowance(of_one=2, of_strangers=3, of_all=5)

#: Where Nextcloud counts no failures of our address, they cost only requests.
ALLOW_LISTED = Allowance(of_one=20, of_strangers=500, of_all=1_000)

_ONE = (
    "Two attempts to connect have failed within half an hour. Nothing is lost: wait half an hour, then "
    "ask your assistant again for a new link."
)
_ALL = (
    "Several attempts to connect to this Nextcloud have failed, so this server pauses them to keep "
    "everybody else connected. Wait half an hour, then ask your assistant again for a new link."
)


async def _is_never_listed() -> bool:
    return False


class ExchangeLimiter:
    """Asked before a code is sent anywhere, and told when one was not accepted.

    `is_allow_listed` asks Nextcloud whether it counts failures of our address; it is asked only when the usual
    allowance is used up.
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

    async def check(self, who: Principal | None, sign_in: str) -> None:
        """Refuse a code exchange that may be one failure too many. `sign_in` is the value in the cookie.

        `who` is None where no one is known yet. Where the request comes from says `current_requester`.

        Raises:
            Throttled: The budget of this user, browser or network, or of all together, is used up.
        """
        refusal = await self._refusal(USUAL, who, sign_in)
        if refusal and await self._listed():
            refusal = await self._refusal(ALLOW_LISTED, who, sign_in)
        if refusal:
            raise Throttled(refusal, retry_after_seconds=WINDOW.total_seconds())

    async def failed(self, who: Principal, sign_in: str) -> None:
        """Count one code that was not accepted, and forget those that count no more."""
        source = current_requester.get().source
        await self._database.failed_exchanges.failed(who, sign_in=sign_in, source=source)
        await self._database.failed_exchanges.purge(before=self._clock() - WINDOW)

    async def _refusal(self, allowance: Allowance, who: Principal | None, sign_in: str) -> str | None:
        count, since, requester = (
            self._database.failed_exchanges.count,
            self._clock() - WINDOW,
            current_requester.get(),
        )
        if who is not None and await count(since=since, principal=who) >= allowance.of_one:
            return _ONE
        if await count(since=since, sign_in=sign_in) >= allowance.of_one:
            return _ONE
        if requester.source and await count(since=since, source=requester.source) >= allowance.of_one:
            return _ONE
        most = allowance.of_all if requester.is_known_browser else allowance.of_strangers
        return _ALL if await count(since=since) >= most else None

    async def _listed(self) -> bool:
        if self._answer is None or self._answer[0] + ASKED_AGAIN <= self._clock():
            self._answer = (self._clock(), await self._is_allow_listed())
        return self._answer[1]
