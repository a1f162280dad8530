"""Work that must happen at Nextcloud even after a crash: revoking credentials no longer needed."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from nextcloud_mcp_server.auth.consent.provider import GrantProvider, RedirectProvider
from nextcloud_mcp_server.auth.token_refresh import REQUEST_SECONDS, THROTTLED
from nextcloud_mcp_server.errors import (
    GrantDead,
    NextcloudError,
    ServerFault,
    Throttled,
    TimedOut,
    Unavailable,
)
from nextcloud_mcp_server.storage.records import OutboxItem, Principal, Tokens
from nextcloud_mcp_server.storage.tokens import REVOKE_TOKENS, dump_tokens, load_tokens

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: When a credential that was given up is revoked at Nextcloud. Not at once: Nextcloud has just refused it twice,
#: and after some refusals it slows down every user behind an address for half an hour.
END_AFTER = timedelta(hours=1)

LEASE = timedelta(seconds=120)
IDLE_SECONDS = 60.0
FIRST_RETRY_SECONDS = 5.0
SLOWEST_RETRY_SECONDS = 3600.0
THROTTLED_SECONDS = 60.0


class Outbox:
    """Processes the rows of the outbox, and retries until Nextcloud has confirmed.

    `within` limits it to one user, for the same reason as in `Poller`: an app password must only be sent to the
    Nextcloud that made it. `redirects` are the providers whose tokens it can revoke, by name.
    """

    def __init__(
        self,
        database: "Database",
        provider: GrantProvider,
        *,
        clock: Callable[[], datetime],
        within: Principal | None,
        redirects: Mapping[str, RedirectProvider] | None = None,
        refresh_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._database = database
        self._provider = provider
        self._redirects = redirects or {}
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._within = within
        self._owner = str(uuid4())
        self._wake = anyio.Event()
        self._turns = anyio.Lock()

    def wake(self) -> None:
        """Make `run` look at the outbox now: a row was added."""
        self._wake.set()

    async def run(self) -> None:
        """Process due rows as long as the server runs."""
        while True:
            self._wake = anyio.Event()
            try:
                seconds = await self.turn()
            except Exception:  # a supervisor: one bad turn must not end the work
                logger.exception("the outbox could not be processed; trying again")
                seconds = IDLE_SECONDS
            with anyio.move_on_after(seconds):
                await self._wake.wait()

    async def turn(self) -> float:
        """Process everything that is due; return in how many seconds to call again."""
        async with self._turns:
            items = await self._database.outbox.lease_due(owner=self._owner, lease=LEASE, within=self._within)
            for item in items:
                await self._send(item)
        due = await self._database.outbox.next_due_at(self._within)
        if due is None:
            return IDLE_SECONDS
        return min(max((due - self._clock()).total_seconds(), 0.2), IDLE_SECONDS)

    async def waiting(self, principal: Principal) -> bool:
        """Tell whether rows of this user are still waiting."""
        return await self._database.outbox.holds(principal)

    async def _send(self, item: OutboxItem) -> None:
        of_tokens = item.kind == REVOKE_TOKENS
        try:
            if of_tokens:
                await self._end_tokens(item)
            else:
                await self._provider.revoke(login_name=item.login_name, secret=item.secret)
        except NextcloudError as error:
            logger.warning("a credential could not be revoked at Nextcloud yet: %s", error)
            seconds = min(FIRST_RETRY_SECONDS * 2.0 ** min(item.attempts, 20), SLOWEST_RETRY_SECONDS)
            if isinstance(error, Throttled):
                least = THROTTLED.total_seconds() if of_tokens else THROTTLED_SECONDS
                seconds = max(seconds, min(error.retry_after_seconds or least, SLOWEST_RETRY_SECONDS))
            await self._database.outbox.retry(item.id, self._clock() + timedelta(seconds=seconds))
        else:
            await self._database.outbox.done(item.id)

    async def _end_tokens(self, item: OutboxItem) -> None:
        provider, tokens = self._redirects.get(item.login_name), load_tokens(item.secret)
        if provider is None:
            raise Unavailable(
                f"it was given by way of {item.login_name}, which the settings no longer name; the person "
                "can end it in Nextcloud under Settings > Security."
            )
        alive = tokens.expires_at is None or self._clock() < tokens.expires_at
        if alive and await provider.revoke(tokens):
            return
        # Revocation needs a valid access token, so an expired one is refreshed first.
        renewed = await self._renewed(provider, tokens, item)
        if renewed is not None and not await provider.revoke(renewed):
            raise ServerFault("Nextcloud does not accept the access token that it has just given.")

    async def _renewed(self, provider: RedirectProvider, tokens: Tokens, item: OutboxItem) -> Tokens | None:
        """Refresh the tokens of an item, and store the result before it is used.

        The result is None when there is nothing left to revoke.
        """
        if tokens.refresh_token is None:
            return None
        # The refresh uses up the old refresh token: if it were interrupted here, the new tokens would stay valid
        # and nothing would know them.
        with anyio.move_on_after(self._refresh_seconds, shield=True) as limit:
            try:
                answer = await provider.refresh(tokens.refresh_token)
            except GrantDead:
                return None
            limit.deadline = float("inf")
            renewed = replace(answer, refresh_token=answer.refresh_token or tokens.refresh_token)
            await self._database.outbox.replace_secret(item, dump_tokens(renewed))
            return renewed
        raise TimedOut("Nextcloud did not answer in time.")
