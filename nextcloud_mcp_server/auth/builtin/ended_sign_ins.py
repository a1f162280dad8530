"""Notices that the sign-in of a client has ended, and ends the streams that its tokens opened here.

A stream is checked when it is opened. Its user may sign the client out later, or a token may come twice; each server
asks the database from time to time.
"""

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import anyio

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import StorageError

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.token_holders import TokenHolders

logger = logging.getLogger(__name__)

#: A stream is open for so long after the sign-in of its token has ended.
LOOK_SECONDS: Final = 5.0

#: The claim of a verified token that names its sign-in.
SIGN_IN: Final = "sid"


class EndedSignIns:
    """Looks which of the sign-ins with open streams have ended."""

    def __init__(
        self,
        tokens: "TokenHolders",
        *,
        streams: Callable[[], Collection[Bearer]],
        end: Callable[[Callable[[Bearer], bool]], None],
    ) -> None:
        """Create it; `streams` returns the tokens of the open streams, and `end` ends those that are meant."""
        self._tokens = tokens
        self._streams = streams
        self._end = end

    async def run(self) -> None:
        """Call `look` periodically as long as the server runs."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except StorageError as error:
                logger.warning("streams of clients that were signed out may go on: %s", error)

    async def look(self) -> None:
        """End the streams whose sign-in has ended.

        Raises:
            StorageError: The sign-ins cannot be read.
        """
        asked = {str(bearer.claims[SIGN_IN]) for bearer in self._streams()}
        if ended := asked - await self._tokens.living(asked):
            self._end(lambda bearer: bearer.claims[SIGN_IN] in ended)
