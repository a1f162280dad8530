"""Stores what Nextcloud gives only once, also while the database is away: it would be lost otherwise.

A refresh uses up the old refresh token, and a code or an answer of a login flow comes once. So the server keeps what
it got in memory, and tries again until the database takes it. Only where that takes too long, the caller revokes it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from nextcloud_mcp_server.errors import StorageUnavailable

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: Longer than a restart of the database, and shorter than clients and proxies wait for an answer.
STORE_SECONDS: Final = 120.0
_FIRST_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 2.0


async def patiently(
    store: Callable[[], Awaitable[T]], *, done: Callable[[], Awaitable[T | None]] | None = None
) -> T:
    """Call `store` until the database can be used, for two minutes at most.

    Where the connection breaks during a commit, nobody knows whether it was done. So either `store` may be repeated, or
    `done` looks before that, and returns the outcome, or None or False if there is none.

    Raises:
        StorageUnavailable: The database could not be used in all this time.
        StorageError: It will never take this.
    """
    until, tries = anyio.current_time() + STORE_SECONDS, 0
    while True:
        try:
            if tries and done is not None and (outcome := await done()):
                return outcome
            return await store()
        except StorageUnavailable as error:
            pause = min(_FIRST_PAUSE_SECONDS * 2.0**tries, _LONGEST_PAUSE_SECONDS)
            if anyio.current_time() + pause > until:
                raise
            if not tries:
                logger.warning("what Nextcloud gave is kept until the database takes it: %s", error)
        tries += 1
        await anyio.sleep(pause)
