"""Whose turn it is: how many requests a user may have under way, and that none is sent with what was refused."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import credential_probe
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential

#: How many requests one user may have under way. Debian's PHP answers five at once unless it is told otherwise, and
#: one of those is to be left for all other users; and when Nextcloud is slow for a user, be it for an external
#: storage of theirs, the others must still get through. More would also cost each request more: the pool asks every
#: idle connection, twice a request, whether it is still open.
REQUESTS_AT_ONCE = 4


#: How many providers of the unified search, or calendars, one user may have under way, and all users. Nextcloud's
#: own search page asks all providers at once, about twenty, and its Calendar app all calendars (`eventSource.js`); most
#: answer in a moment, and by fours the slowest one would begin last. More than these would leave too few of the pool's
#: hundred connections to everything else.
WIDE_AT_ONCE = 20
#: For how long an answer shows that the next requests will not be refused. With a credential that is accepted no more,
#: many at once would be as many refusals, and after ten Nextcloud refuses every user behind our address.
ACCEPTED_SECONDS = 10.0
ALL_WIDE_AT_ONCE = 60


@dataclass(eq=False, slots=True)
class _Doubt:
    """A credential of which no one knows now whether it works; `dead` is what came out, None as long as nothing."""

    credential: NextcloudCredential
    settled: anyio.Event = field(default_factory=anyio.Event)
    dead: credential_probe.Known = None


class ConcurrencyLimiter:
    """The requests of one user; one more waits for the user's own requests, not for those of others.

    A credential that was refused is remembered: calls, looks for changes and the parts of one call run side by
    side, each with the account it has opened, and Nextcloud counts every refusal against every user's address.
    For the same reason the first request with a credential goes alone, and while a refusal is being
    confirmed no other is sent.
    """

    def __init__(self, *, monotonic: Callable[[], float] = anyio.current_time) -> None:
        self._monotonic = monotonic
        self._accepted_at = 0.0
        # Sending is what lets the others go on; who need not wait need not let them before that, too.
        self.semaphore = anyio.Semaphore(REQUESTS_AT_ONCE, fast_acquire=True)
        self.wide = anyio.Semaphore(WIDE_AT_ONCE, fast_acquire=True)
        self.refused: NextcloudCredential | None = None
        self.proven: NextcloudCredential | None = None
        self.doubt: _Doubt | None = None

    def of(self, credential: NextcloudCredential) -> "UserLimiter":
        """Take turns with one of the user's credentials."""
        return UserLimiter(self, credential, (self.semaphore,))

    def widely(self, credential: NextcloudCredential, everybody: anyio.Semaphore) -> "UserLimiter":
        """Take turns for many requests of one call, among one's own and those of every user.

        More at once than else, so only with a credential that Nextcloud has just accepted.
        """
        return UserLimiter(self, credential, (self.wide, everybody))

    def accept(self, credential: NextcloudCredential) -> None:
        """Note that Nextcloud has just taken a credential."""
        self.proven, self._accepted_at = credential, self._monotonic()

    def has_just_accepted(self, credential: NextcloudCredential) -> bool:
        """Tell whether that was a moment ago."""
        return self.proven == credential and self._monotonic() - self._accepted_at < ACCEPTED_SECONDS

    def forgive(self, credential: NextcloudCredential) -> None:
        """Let a credential be sent again that Nextcloud takes by now."""
        if self.refused == credential:
            self.refused = None


class UserLimiter:
    """Gives out the turns of one credential, one for each request."""

    def __init__(
        self,
        turns: ConcurrencyLimiter,
        credential: NextcloudCredential,
        semaphores: tuple[anyio.Semaphore, ...],
    ) -> None:
        self._turns = turns
        self._credential = credential
        self._semaphores = semaphores

    @property
    def just_accepted(self) -> bool:
        """See `doubt.ConcurrencyLimiter`."""
        return self._turns.has_just_accepted(self._credential)

    def next(self) -> "UserSlot":
        """Begin a request."""
        return UserSlot(self._turns, self._credential, self._semaphores)


class UserSlot:
    """Surrounds one request that is sent with a credential; see `doubt.Slot`."""

    def __init__(
        self,
        turns: ConcurrencyLimiter,
        credential: NextcloudCredential,
        semaphores: tuple[anyio.Semaphore, ...],
    ) -> None:
        self._turns = turns
        self._credential = credential
        self._semaphores = semaphores
        self._doubt: _Doubt | None = None

    async def __aenter__(self) -> Self:
        """See `doubt.Slot`."""
        turns = self._turns
        while True:
            await _acquire(self._semaphores)
            # Asked after the wait, in which it may have been refused.
            if turns.refused == self._credential:
                _release(self._semaphores)
                raise errors.CredentialRejected(
                    "Nextcloud no longer accepts the access that was granted, so nothing more was sent with it. "
                    "Call request_nextcloud_access to ask for it again."
                )
            current = turns.doubt
            if current is None or current.credential != self._credential:
                break
            _release(self._semaphores)
            await current.settled.wait()
        if turns.proven != self._credential:
            self._doubt = turns.doubt = _Doubt(self._credential)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `doubt.Slot`."""
        self._settle()
        _release(self._semaphores)

    def accepted(self) -> None:
        """See `doubt.Slot`."""
        self._turns.accept(self._credential)
        self._settle()

    async def settled(
        self, probe: credential_probe.Probe, error: errors.CredentialRejected
    ) -> errors.NextcloudError:
        """See `doubt.Slot`. Of requests that are refused together only one is followed by a probe."""
        turns = self._turns
        current = turns.doubt
        if turns.refused == self._credential:
            return error
        if self._doubt is None and current is not None and current.credential == self._credential:
            await current.settled.wait()
            return credential_probe.said(current.dead, error)
        mine = self._doubt = self._doubt or _Doubt(self._credential)
        turns.doubt, turns.proven = mine, None
        mine.dead = await credential_probe.is_dead(probe)
        if mine.dead is True:
            turns.refused = self._credential
        elif mine.dead is False:
            turns.accept(self._credential)
        self._settle()
        return credential_probe.said(mine.dead, error)

    def _settle(self) -> None:
        mine, self._doubt = self._doubt, None
        if mine is not None:
            if self._turns.doubt is mine:
                self._turns.doubt = None
            mine.settled.set()


async def _acquire(semaphores: Iterable[anyio.Semaphore]) -> None:
    taken: list[anyio.Semaphore] = []
    try:
        for semaphore in semaphores:
            await semaphore.acquire()
            taken.append(semaphore)
    except BaseException:  # raised again: a wait that is cancelled gives back what it has taken
        _release(taken)
        raise


def _release(semaphores: Iterable[anyio.Semaphore]) -> None:
    for semaphore in semaphores:
        semaphore.release()
