"""Whose turn it is: how many requests a person may have under way, and that none is sent with what was refused."""

from collections.abc import Iterable
from types import TracebackType

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.http import NextcloudCredential

#: How many requests one person may have under way. Debian's PHP answers five at once unless it is told otherwise, and
#: one of those is to be left for everybody else; and when Nextcloud is slow for somebody, be it for an external storage
#: of theirs, the others must still get through. More would also cost each request more: the pool asks every
#: idle connection, twice a request, whether it is still open.
REQUESTS_AT_ONCE = 4


#: How many providers of the unified search one person may have under way, and all people. Nextcloud's own search page
#: asks all of them at once, about twenty, and most answer in a moment; by fours, the slowest one would begin last. More
#: than these would leave too few of the pool's hundred connections to everything else.
SEARCHES_AT_ONCE = 20
ALL_SEARCHES_AT_ONCE = 60


class Turns:
    """One person's turns; whoever asks for more waits for their own requests, not for others'.

    A credential that was refused is remembered: calls, looks for changes and the parts of one call run side by
    side, each with the account it has opened, and Nextcloud counts every refusal against everybody's address.
    """

    def __init__(self) -> None:
        # Sending is what lets the others go on; who need not wait need not let them before that, too.
        self.semaphore = anyio.Semaphore(REQUESTS_AT_ONCE, fast_acquire=True)
        self.searches = anyio.Semaphore(SEARCHES_AT_ONCE, fast_acquire=True)
        self.refused: NextcloudCredential | None = None

    def of(self, credential: NextcloudCredential) -> "Turn":
        """Take turns with one of the person's credentials."""
        return Turn(self, credential, (self.semaphore,))

    def searching(self, credential: NextcloudCredential, everybody: anyio.Semaphore) -> "Turn":
        """Take turns for a search, among one's own and those of everybody.

        More at once than else, so only with a credential that Nextcloud has just accepted.
        """
        return Turn(self, credential, (self.searches, everybody))


class Turn:
    """Surrounds each request that is sent with a credential."""

    def __init__(
        self, turns: Turns, credential: NextcloudCredential, semaphores: tuple[anyio.Semaphore, ...]
    ) -> None:
        self._turns = turns
        self._credential = credential
        self._semaphores = semaphores

    async def __aenter__(self) -> None:
        taken: list[anyio.Semaphore] = []
        try:
            for semaphore in self._semaphores:
                await semaphore.acquire()
                taken.append(semaphore)
        except BaseException:
            _release(taken)
            raise
        # Asked after the wait, in which it may have been refused.
        if self._turns.refused == self._credential:
            _release(taken)
            raise errors.CredentialRejected(
                "Nextcloud no longer accepts the access that was granted, so nothing more was sent with it. "
                "Call request_nextcloud_access to ask for it again."
            )

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, errors.CredentialRejected):
            self._turns.refused = self._credential
        _release(self._semaphores)


def _release(semaphores: Iterable[anyio.Semaphore]) -> None:
    for semaphore in semaphores:
        semaphore.release()
