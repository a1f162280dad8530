"""One token refresh, from the request to the stored result; the caller holds the credential's lease.

    answered            stored with a compare-and-swap on the version; a late answer becomes the alternate
    answered, but gone  the user disconnected meanwhile: the new tokens go to the outbox
    dead                the alternate is tried; if it is dead too → `needs_reauth`, once, with an audit entry
    anything else       nothing changes, and no task tries again before `retry_at`

If the process is killed between the request and the storing, the next refresh finds a dead token: one new
consent request, no loop.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio

from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.patience import patiently
from nextcloud_mcp_server.errors import GrantDead, NextcloudError, StorageError, Throttled, TimedOut
from nextcloud_mcp_server.storage.records import AuditEntry, Credential, Grant, Tokens
from nextcloud_mcp_server.telemetry import metrics

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: The provider's time limit. Nextcloud delays answers to an address with failures by up to 25 s.
REQUEST_SECONDS = 25.0

#: Longer than a request, so that a process that is not suspended gets the answer within its lease.
LEASE = timedelta(seconds=35)

RETRY = timedelta(seconds=20)
#: After ten failures from one address Nextcloud refuses every token request from it for this long.
THROTTLED = timedelta(minutes=30)
#: The longest pause, whatever a `Retry-After` says.
LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The credential after a refresh, None when it is gone; `error` says why it was not refreshed."""

    credential: Credential | None
    error: NextcloudError | None = None


def is_pause(until: datetime | None, now: datetime) -> bool:
    """Tell whether to wait until `until`.

    A time further ahead than the longest pause was written by a clock that has been corrected since.
    """
    return until is not None and now < until <= now + LONGEST_PAUSE


class TokenRefresh:
    """Exchanges refresh tokens."""

    def __init__(
        self,
        database: "Database",
        providers: Mapping[str, RedirectProvider],
        *,
        clock: Callable[[], datetime],
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._database = database
        self._providers = providers
        self._clock = clock
        self._request_seconds = request_seconds
        self._throttled_until: dict[str, datetime] = {}

    async def run(self, grant: Grant, current: Credential, owner: str) -> Outcome:
        """Refresh `current`, the leased credential of `grant`, and release the lease.

        The caller shields this call from cancellation; it ends by itself, within the lease.
        """
        provider = self._providers.get(current.provider)
        if provider is None:
            # The settings name another provider than the one that gave this: only a new consent helps.
            metrics.REFRESHES.add("refused")
            await self._database.grants.release(current.id, owner=owner, retry_at=None)
            return Outcome(replace(current, needs_reauth=True, alternate=None))
        try:
            tokens = await self._request(provider, current)
        except GrantDead as error:
            metrics.REFRESHES.add("refused")
            return await self._give_up(grant, current, owner, error)
        except NextcloudError as error:
            metrics.REFRESHES.add("postponed")
            return await self._postpone(current, owner, error)
        metrics.REFRESHES.add("refreshed")
        return await self._keep(provider, current, owner, tokens)

    async def _request(self, provider: RedirectProvider, current: Credential) -> Tokens:
        until, now = self._throttled_until.get(current.provider), self._clock()
        if until is not None and is_pause(until, now):
            raise Throttled(
                "Nextcloud throttles this server's address, so the access token cannot be refreshed yet.",
                retry_after_seconds=(until - now).total_seconds(),
            )
        try:
            with anyio.fail_after(self._request_seconds):
                return await self._first_living(provider, current)
        except TimeoutError:
            raise TimedOut("The access could not be renewed in time. Try again in a minute.") from None

    async def _first_living(self, provider: RedirectProvider, current: Credential) -> Tokens:
        known = [None if current.needs_reauth else current.refresh_token]
        if current.alternate is not None:
            known.append(current.alternate.refresh_token)
        error = GrantDead("Nextcloud no longer accepts the access given earlier.")
        for refresh_token in known:
            if refresh_token is not None:
                try:
                    return await provider.refresh(refresh_token)
                except GrantDead as dead:
                    error = dead
        raise error

    async def _keep(
        self, provider: RedirectProvider, current: Credential, owner: str, tokens: Tokens
    ) -> Outcome:
        grants = self._database.grants
        try:
            stored = await patiently(partial(self._store, current, tokens))
        except StorageError:
            # The tokens cannot be stored (a full disk, say), and unless revoked they would stay valid.
            with suppress(NextcloudError):
                await provider.revoke(tokens)
            raise
        if not stored:
            await grants.release(current.id, owner=owner, retry_at=None)
        return Outcome(await grants.credential(current.id))

    async def _store(self, current: Credential, tokens: Tokens) -> bool:
        """Store the tokens; False if they could only be kept as alternate, or were abandoned. May be repeated."""
        grants = self._database.grants
        if await grants.store_refreshed(current.id, version=current.version, tokens=tokens):
            return True
        now = await grants.credential(current.id)
        if now is not None and now.secret == tokens.access_token:
            # An earlier try was done, and only its answer was lost with the connection.
            return True
        if not await grants.keep_alternate(current.id, tokens):
            await grants.abandon(current, tokens)
        return False

    async def _give_up(self, grant: Grant, current: Credential, owner: str, error: GrantDead) -> Outcome:
        grants = self._database.grants
        if await grants.mark_needs_reauth(current.id, version=current.version):
            logger.warning(
                "an access token cannot be refreshed any more; the user must grant access again: %s", error
            )
            client_id = grant.permission.client_id if grant.permission else ""
            entry = AuditEntry(self._clock(), grant.account.principal, client_id, "refresh", "refused")
            await self._database.audit.append([entry])
        await grants.release(current.id, owner=owner, retry_at=None)
        return Outcome(await grants.credential(current.id))

    async def _postpone(self, current: Credential, owner: str, error: NextcloudError) -> Outcome:
        logger.warning("an access token could not be refreshed yet: %s", error)
        now = self._clock()
        retry_at = now + RETRY
        if isinstance(error, Throttled):
            retry_at = self._throttled_until.get(current.provider, now)
            if not is_pause(retry_at, now):
                asked = min(error.retry_after_seconds or 0, LONGEST_PAUSE.total_seconds())
                retry_at = now + max(THROTTLED, timedelta(seconds=asked))
                self._throttled_until[current.provider] = retry_at
        await self._database.grants.release(current.id, owner=owner, retry_at=retry_at)
        return Outcome(replace(current, retry_at=retry_at), error)
