"""Limits how many requests of a user run at once, and stops requests with a rejected credential."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import credential_probe
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential

#: How many requests of one user may run at once. Debian's default for PHP is five at once, and one of those is left
#: for all other users. When Nextcloud is slow for one user, for example because of an external storage, other users
#: must still get through. More would also cost each request more: the pool checks twice per request for every idle
#: connection whether it is still open.
REQUESTS_AT_ONCE = 4


#: How many providers of the unified search, or calendars, may be requested at once, for one user and for all users.
#: Nextcloud's own search page requests all providers at once, about twenty, and its Calendar app all calendars
#: (`eventSource.js`). Most answer in a moment; four at a time, the slowest one would begin last. More than these
#: would leave too few of the pool's hundred connections to everything else.
WIDE_AT_ONCE = 20
#: How long a response shows that the next requests will be accepted too. With a credential that is no longer valid,
#: many requests at once would all be rejected, and after ten of these Nextcloud rejects every user behind this
#: server's address.
ACCEPTED_SECONDS = 10.0
ALL_WIDE_AT_ONCE = 60


@dataclass(eq=False, slots=True)
class _Doubt:
    """A credential in doubt while it is probed; `dead` is the result, None until there is one."""

    credential: NextcloudCredential
    settled: anyio.Event = field(default_factory=anyio.Event)
    dead: credential_probe.Known = None


class ConcurrencyLimiter:
    """Limits the requests of one user; a request waits only for requests of the same user.

    A rejected credential is remembered: calls, checks for changes and the parts of one call run in parallel, each
    with its own account, and Nextcloud counts every rejection against this server's address, which all users share.
    For the same reason the first request with a credential is sent alone, and while a rejection is being confirmed no
    other request is sent.
    """

    def __init__(self, *, monotonic: Callable[[], float] = anyio.current_time) -> None:
        self._monotonic = monotonic
        self._accepted_at = 0.0
        # `fast_acquire` skips the checkpoint where no wait is needed: sending the request yields to other tasks
        # anyway.
        self.semaphore = anyio.Semaphore(REQUESTS_AT_ONCE, fast_acquire=True)
        self.wide = anyio.Semaphore(WIDE_AT_ONCE, fast_acquire=True)
        self.refused: NextcloudCredential | None = None
        self.proven: NextcloudCredential | None = None
        self.doubt: _Doubt | None = None

    def of(self, credential: NextcloudCredential) -> "UserLimiter":
        """Return a limiter for requests with one of the user's credentials."""
        return UserLimiter(self, credential, (self.semaphore,))

    def widely(self, credential: NextcloudCredential, everybody: anyio.Semaphore) -> "UserLimiter":
        """Return a limiter for many requests of one call, counted for the user and in `everybody`.

        Its limit is higher, so it is only for a credential that Nextcloud has just accepted.
        """
        return UserLimiter(self, credential, (self.wide, everybody))

    def accept(self, credential: NextcloudCredential) -> None:
        """Record that Nextcloud has just accepted a credential."""
        self.proven, self._accepted_at = credential, self._monotonic()

    def has_just_accepted(self, credential: NextcloudCredential) -> bool:
        """Tell whether Nextcloud accepted a credential within the last `ACCEPTED_SECONDS`."""
        return self.proven == credential and self._monotonic() - self._accepted_at < ACCEPTED_SECONDS

    def forgive(self, credential: NextcloudCredential) -> None:
        """Forget the rejection of a credential that Nextcloud accepts again."""
        if self.refused == credential:
            self.refused = None


@dataclass(frozen=True, slots=True)
class UserLimiter:
    """Limits the requests with one credential; one slot for each request."""

    limiter: ConcurrencyLimiter
    credential: NextcloudCredential
    semaphores: tuple[anyio.Semaphore, ...]

    @property
    def just_accepted(self) -> bool:
        """Whether Nextcloud has just accepted the credential: many requests may use it."""
        return self.limiter.has_just_accepted(self.credential)

    def next(self) -> "UserSlot":
        """Return the slot for a request."""
        return UserSlot(self)


class UserSlot(credential_probe.Slot):
    """Surrounds one request that is sent with a credential."""

    def __init__(self, limiter: UserLimiter) -> None:
        self._limiter, self._credential = limiter.limiter, limiter.credential
        self._semaphores = limiter.semaphores
        self._doubt: _Doubt | None = None

    async def __aenter__(self) -> Self:
        """Wait as `Slot` does."""
        limiter = self._limiter
        while True:
            await _acquire(self._semaphores)
            # Checked after the wait, during which the credential may have been rejected.
            if limiter.refused == self._credential:
                _release(self._semaphores)
                raise errors.CredentialRejected(
                    "Nextcloud no longer accepts the access that was granted, so nothing more was sent with it. "
                    "Call request_nextcloud_access to ask for it again."
                )
            current = limiter.doubt
            if current is None or current.credential != self._credential:
                break
            _release(self._semaphores)
            await current.settled.wait()
        if limiter.proven != self._credential:
            self._doubt = limiter.doubt = _Doubt(self._credential)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the slot."""
        self._settle()
        self.leave()

    def leave(self) -> None:
        """Release the slot before its end, as `Slot` does."""
        held, self._semaphores = self._semaphores, ()
        _release(held)

    def accepted(self) -> None:
        """Record that Nextcloud has accepted the credential."""
        self._limiter.accept(self._credential)
        self._settle()

    async def settled(
        self, probe: credential_probe.Probe, error: errors.CredentialRejected
    ) -> errors.NextcloudError:
        """Return the error as `Slot` does. Of requests rejected together only one is followed by a probe."""
        limiter = self._limiter
        current = limiter.doubt
        if limiter.refused == self._credential:
            return error
        if self._doubt is None and current is not None and current.credential == self._credential:
            await current.settled.wait()
            return credential_probe.said(current.dead, error)
        mine = self._doubt = self._doubt or _Doubt(self._credential)
        limiter.doubt, limiter.proven = mine, None
        mine.dead = await credential_probe.is_dead(probe)
        if mine.dead is True:
            limiter.refused = self._credential
        elif mine.dead is False:
            limiter.accept(self._credential)
        self._settle()
        return credential_probe.said(mine.dead, error)

    def _settle(self) -> None:
        mine, self._doubt = self._doubt, None
        if mine is not None:
            if self._limiter.doubt is mine:
                self._limiter.doubt = None
            mine.settled.set()


async def _acquire(semaphores: Iterable[anyio.Semaphore]) -> None:
    taken: list[anyio.Semaphore] = []
    try:
        for semaphore in semaphores:
            await semaphore.acquire()
            taken.append(semaphore)
    except BaseException:  # raised again: a cancelled wait releases what it has acquired
        _release(taken)
        raise


def _release(semaphores: Iterable[anyio.Semaphore]) -> None:
    for semaphore in semaphores:
        semaphore.release()
