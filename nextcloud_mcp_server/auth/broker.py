"""Keeps one valid access token per credential for all tasks and processes.

A refresh token works once, so only one refresh may be made. A lock serializes the tasks of this process, a
lease in the database serializes the processes, and a compare-and-swap on the credential's version decides which
result is stored. A process that was suspended beyond its lease loses that swap. Its tokens are kept as the
credential's alternate, and tried once before the credential is given up: Nextcloud may answer all of several
parallel refreshes and keep only one successor valid.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.token_refresh import LEASE, REQUEST_SECONDS, Outcome, TokenRefresh, is_pause
from nextcloud_mcp_server.errors import Unavailable
from nextcloud_mcp_server.storage.records import Credential, Grant

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: An access token that expires within this time is refreshed before it is used. Some identity providers issue
#: tokens for one minute (Keycloak's default), of which half is to be used.
AHEAD = timedelta(seconds=30)

#: How long a call without a valid token waits for another process: a little longer than a lease.
WAIT_SECONDS = 40.0
_FIRST_LOOK_SECONDS = 0.05
_SLOWEST_LOOK_SECONDS = 0.5

_NOT_NOW = "The access to Nextcloud could not be renewed just now. Nothing is lost; try again in a minute."


@dataclass(slots=True)
class _Flight:
    """The tasks of this process that need the same credential; `seen` is their latest result."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    tasks: int = 0
    seen: Credential | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """A credential as stored, None when it is gone; `leased` says whether this call holds its lease."""

    credential: Credential | None
    leased: bool


class Broker:
    """Keeps the access tokens of OAuth grants valid; returns app passwords unchanged."""

    def __init__(
        self,
        database: "Database",
        providers: Mapping[str, RedirectProvider],
        *,
        clock: Callable[[], datetime],
        request_seconds: float = REQUEST_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._database = database
        self._exchange = TokenRefresh(database, providers, clock=clock, request_seconds=request_seconds)
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._flights: dict[str, _Flight] = {}

    async def fresh(self, grant: Grant) -> Credential | None:
        """Return the credential of a grant with a valid access token; None when the credential is gone.

        With `needs_reauth` set, the user must consent again.

        Raises:
            NextcloudError: The access token is not valid any more, and no new one can be fetched now.
        """
        return await self._want(grant, refused=None)

    async def renew(self, grant: Grant) -> Credential | None:
        """Return the credential with a new access token; Nextcloud refused the one in `grant`.

        Raises:
            NextcloudError: No new access token can be fetched now.
        """
        return await self._want(grant, refused=grant.credential.version)

    async def _want(self, grant: Grant, *, refused: int | None) -> Credential | None:
        credential = grant.credential
        if credential.refresh_token is None or self._settled(credential, refused):
            return credential
        async with self._flight(credential.id) as flight:
            if flight.lock.locked() and self._works(credential, refused):
                # Another task refreshes the token before it expires; this call need not wait for that.
                return credential
            async with flight.lock:
                seen = flight.seen
                if seen is not None and seen.version >= credential.version and self._settled(seen, refused):
                    return seen
                found = await self._refresh(grant, flight, refused)
                if found is not None and found.needs_reauth and found.alternate is not None:
                    # The provider's answer came after the lease, and another process has given the credential up
                    # meanwhile.
                    found = await self._refresh(grant, flight, refused)
                return found

    @asynccontextmanager
    async def _flight(self, credential_id: str) -> AsyncGenerator[_Flight]:
        flight = self._flights.setdefault(credential_id, _Flight())
        flight.tasks += 1
        try:
            yield flight
        finally:
            flight.tasks -= 1
            if not flight.tasks:
                del self._flights[credential_id]

    def _settled(self, credential: Credential, refused: int | None) -> bool:
        """Tell whether to use a credential as it is, instead of refreshing it.

        Raises:
            Unavailable: Its access token is not valid, and it is too early for another refresh.
        """
        if credential.needs_reauth and credential.alternate is None:
            return True
        now, works = self._clock(), self._works(credential, refused)
        if is_pause(credential.retry_at, now):
            if not works:
                raise Unavailable(_NOT_NOW)
            return True
        return works and (credential.expires_at is None or now + AHEAD < credential.expires_at)

    def _works(self, credential: Credential, refused: int | None) -> bool:
        """Tell whether the access token is valid now, be it for seconds only."""
        if credential.needs_reauth or (refused is not None and credential.version <= refused):
            return False
        return credential.expires_at is None or self._clock() < credential.expires_at

    async def _refresh(self, grant: Grant, flight: _Flight, refused: int | None) -> Credential | None:
        owner = uuid4().hex
        held = await self._hold(grant.credential, owner, refused)
        flight.seen = current = held.credential
        if current is None or not held.leased:
            return current
        outcome = Outcome(current)
        # From here on a cancelled caller must not interrupt the refresh: other tasks wait for the result, and the
        # provider's answer uses up the old refresh token.
        with anyio.CancelScope(shield=True):
            outcome = await self._use(grant, current, owner, refused)
        flight.seen = outcome.credential
        if outcome.error is not None and not self._works(current, refused):
            raise outcome.error
        return outcome.credential

    async def _use(self, grant: Grant, current: Credential, owner: str, refused: int | None) -> Outcome:
        """Refresh a leased credential unless another process did meanwhile; release the lease in every case."""
        try:
            settled = self._settled(current, refused)
        except Unavailable as early:
            outcome = Outcome(current, early)
        else:
            if not settled:
                return await self._exchange.run(grant, current, owner)
            outcome = Outcome(current)
        await self._database.grants.release(current.id, owner=owner, retry_at=current.retry_at)
        return outcome

    async def _hold(self, asked: Credential, owner: str, refused: int | None) -> _Held:
        """Lease the credential, or wait for the result of the process that holds the lease."""
        grants, pause = self._database.grants, _FIRST_LOOK_SECONDS
        with anyio.move_on_after(self._wait_seconds):
            while True:
                leased = await grants.lease(asked.id, owner=owner, lease=LEASE)
                if leased is not None:
                    return _Held(leased, leased=True)
                current = await grants.credential(asked.id)
                if current is None or self._works(current, refused) or self._settled(current, refused):
                    return _Held(current, leased=False)
                await anyio.sleep(pause)
                pause = min(pause * 2, _SLOWEST_LOOK_SECONDS)
        raise Unavailable(_NOT_NOW)
