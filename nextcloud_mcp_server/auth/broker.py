"""One living access token per credential, however many tasks and processes want it.

A refresh token is good once, so a refresh is made once: a lock keeps the tasks of this process in
line, a lease in the database the processes, and a compare-and-swap on the credential's version
decides what counts. A process that was frozen past its lease loses that swap; what it brought is kept as an
alternate and tried once before the credential is given up, because of parallel refreshes Nextcloud
can answer all and let only one successor live.
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

#: An access token with less life than this is refreshed before it is used. Some identity providers
#: give it a minute in all (Keycloak's default), of which half is to be used.
AHEAD = timedelta(seconds=30)

#: How long a call without a living token waits for another process: a little longer than a lease.
WAIT_SECONDS = 40.0
_FIRST_LOOK_SECONDS = 0.05
_SLOWEST_LOOK_SECONDS = 0.5

_NOT_NOW = "The access to Nextcloud could not be renewed just now. Nothing is lost; try again in a minute."


@dataclass(slots=True)
class _Flight:
    """The tasks of this process that want the same credential; `seen` is what the last of them found."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    tasks: int = 0
    seen: Credential | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """What a credential is now, None when it is gone, and whether its lease is ours."""

    credential: Credential | None
    leased: bool


class Broker:
    """Keeps the access tokens of OAuth grants alive; app passwords pass through it untouched."""

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
        """Return the credential with an access token to use now; None when it is gone.

        One that needs the user again comes back with `needs_reauth`.

        Raises:
            NextcloudError: The access token is dead, and another one cannot be had right now.
        """
        return await self._want(grant, refused=None)

    async def renew(self, grant: Grant) -> Credential | None:
        """Return the credential with another access token than this one, which Nextcloud refused.

        Raises:
            NextcloudError: Another one cannot be had right now.
        """
        return await self._want(grant, refused=grant.credential.version)

    async def _want(self, grant: Grant, *, refused: int | None) -> Credential | None:
        credential = grant.credential
        if credential.refresh_token is None or self._settled(credential, refused):
            return credential
        async with self._flight(credential.id) as flight:
            if flight.lock.locked() and self._works(credential, refused):
                # A user refreshes ahead of time, and no one has to wait for that.
                return credential
            async with flight.lock:
                seen = flight.seen
                if seen is not None and seen.version >= credential.version and self._settled(seen, refused):
                    return seen
                found = await self._refresh(grant, flight, refused)
                if found is not None and found.needs_reauth and found.alternate is not None:
                    # Our answer was late, and another process has given up meanwhile.
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
        """Tell whether to take a credential as it is, instead of refreshing it.

        Raises:
            Unavailable: It does not work, and it is too early to try again.
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
        """Tell whether the access token can be used, be it for some seconds."""
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
        # From here on a caller that goes away must not cut in: others wait for the answer, and when
        # the provider has given it the old refresh token is used up.
        with anyio.CancelScope(shield=True):
            outcome = await self._use(grant, current, owner, refused)
        flight.seen = outcome.credential
        if outcome.error is not None and not self._works(current, refused):
            raise outcome.error
        return outcome.credential

    async def _use(self, grant: Grant, current: Credential, owner: str, refused: int | None) -> Outcome:
        """Refresh a leased credential, unless a user did so meanwhile; its lease is free in the end."""
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
        """Lease the credential, or wait for what its holder makes of it."""
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
