"""Whose turn it is: how many requests a person may have under way, and that none is sent with what was refused."""

from types import TracebackType

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.http import NextcloudCredential

#: How many requests one person may have under way. Debian's PHP answers five at once unless it is told otherwise, and
#: one of those is to be left for everybody else; and when Nextcloud is slow for somebody, be it for an external storage
#: of theirs, the others must still get through. More would also cost each request more: the pool asks every
#: idle connection, twice a request, whether it is still open.
REQUESTS_AT_ONCE = 4


class Turns:
    """One person's turns; whoever asks for more waits for their own requests, not for others'.

    A credential that was refused is remembered: calls, looks for changes and the parts of one call run side by
    side, each with the account it has opened, and Nextcloud counts every refusal against everybody's address.
    """

    def __init__(self) -> None:
        # Sending is what lets the others go on; who need not wait need not let them before that, too.
        self.semaphore = anyio.Semaphore(REQUESTS_AT_ONCE, fast_acquire=True)
        self.refused: NextcloudCredential | None = None

    def of(self, credential: NextcloudCredential) -> "Turn":
        """Take turns with one of the person's credentials."""
        return Turn(self, credential)


class Turn:
    """Surrounds each request that is sent with a credential."""

    def __init__(self, turns: Turns, credential: NextcloudCredential) -> None:
        self._turns = turns
        self._credential = credential

    async def __aenter__(self) -> None:
        await self._turns.semaphore.acquire()
        # Asked after the wait, in which it may have been refused.
        if self._turns.refused == self._credential:
            self._turns.semaphore.release()
            raise errors.CredentialRejected(
                "Nextcloud no longer accepts the access that was granted, so nothing more was sent with it. "
                "Call request_nextcloud_access to ask for it again."
            )

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if isinstance(error, errors.CredentialRejected):
            self._turns.refused = self._credential
        self._turns.semaphore.release()
