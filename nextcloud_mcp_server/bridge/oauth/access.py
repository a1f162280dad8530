"""Keeps the access to one server: tokens from the store, refreshed in time, or a new sign-in.

The SDK's provider holds one lock from before a request until the head of its answer, so calls that a server holds would
follow one another. Here a lock is held for a refresh or a sign-in alone.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import anyio
from mcp.client.auth.utils import union_scopes

from nextcloud_mcp_server.bridge.oauth.authorization import SIGN_IN_SECONDS, SignIn
from nextcloud_mcp_server.bridge.oauth.challenge import Challenge
from nextcloud_mcp_server.bridge.oauth.faults import GrantEnded, SignInNeeded
from nextcloud_mcp_server.bridge.oauth.grant import Grant
from nextcloud_mcp_server.bridge.oauth.network import Network
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.target import Target
from nextcloud_mcp_server.bridge.oauth.tokens import refresh
from nextcloud_mcp_server.errors import AuthorizationFailed, BridgeError
from nextcloud_mcp_server.logs import one_line

_REFRESH_SECONDS: Final = 120.0
_LONGEST_SCOPE: Final = 200


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class Access:
    """The access of this process to one server; `sign_in` is None where no browser may be opened."""

    def __init__(
        self,
        target: Target,
        store: TokenStore,
        network: Network,
        sign_in: SignIn | None,
        *,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.target = target
        #: How many sign-ins this process has tried.
        self.attempts = 0
        self._store = store
        self._network = network
        self._sign_in = sign_in
        self._clock = clock
        self._grant: Grant | None = None
        self._is_loaded = False
        self._failure: BridgeError | None = None
        self._refreshing = anyio.Lock()
        self._signing_in = anyio.Lock()

    async def current(self) -> Grant | None:
        """Return the grant to use now, refreshed if it expires within a minute; None if the server must say no first.

        Raises:
          AuthorizationFailed: The grant has expired, and the authorization server cannot be asked now.
        """
        if not self._is_loaded:
            self._grant = self._fitting(await self._store.load(self.target.url))
            self._is_loaded = True
        grant = self._grant
        if grant is None or not grant.is_stale(self._clock()):
            return grant
        if grant.refresh_token is None:
            return None if grant.is_expired(self._clock()) else grant
        return await self._refreshed(grant)

    async def after_refusal(self, used: Grant | None, challenge: Challenge, seen: int) -> Grant:
        """Return another grant than the one that the server refused with 401.

        `seen` is the number of attempts before the request: who waited for a sign-in that failed starts no other one.

        Raises:
          AuthorizationFailed: There is none.
        """
        if used is not None:
            if self._grant is not None and self._grant.access_token != used.access_token:
                return self._grant
            grant = await self._refreshed(used, refused=True)
            if grant is not None:
                return grant
        return await self._signed_in(used, challenge, (), seen)

    async def with_more_scopes(self, used: Grant | None, challenge: Challenge, seen: int) -> Grant:
        """Return a grant with the scopes of the challenge besides those that this client has, or asked for.

        Raises:
          AuthorizationFailed: The user did not allow it, or cannot be asked.
        """
        held = None if used is None else union_scopes(used.requested, used.scope)
        return await self._signed_in(
            used, challenge, (union_scopes(held, challenge.scope) or "").split(), seen
        )

    async def end(self, used: Grant) -> None:
        """Forget an access token that the server refuses although it is new, so that the next request signs in."""
        if self._grant is not None and self._grant.access_token == used.access_token:
            await self._keep_without_tokens(used)

    async def _refreshed(self, used: Grant, *, refused: bool = False) -> Grant | None:
        """Refresh a grant once, in one process; None if it has ended."""
        async with self._refreshing:
            if self._grant is not None and self._grant.access_token != used.access_token:
                return self._grant
            async with self._store.lock(self.target.url, "refresh", seconds=_REFRESH_SECONDS):
                stored = self._fitting(await self._store.load(self.target.url))
                if stored is None:
                    # Another process has signed out.
                    self._grant = None
                    return None
                if stored.access_token != used.access_token and not stored.is_stale(self._clock()):
                    self._grant = stored
                    return stored
                return await self._refresh_stored(stored, refused=refused)

    async def _refresh_stored(self, stored: Grant, *, refused: bool) -> Grant | None:
        if stored.refresh_token is None:
            return None
        try:
            grant = await refresh(self._network, stored, self._clock)
        except GrantEnded as ended:
            if ended.forgets_client:
                await self._store.remove(self.target.url)
                self._grant = None
            else:
                await self._keep_without_tokens(stored)
            return None
        except AuthorizationFailed:
            if refused or stored.is_expired(self._clock()):
                raise
            # It still holds for up to a minute; the next request tries again.
            return stored
        await self._store.save(self.target.url, grant)
        self._grant = grant
        return grant

    async def _keep_without_tokens(self, grant: Grant) -> None:
        """Keep who this client is, for the next sign-in."""
        ended = grant.model_copy(update={"refresh_token": None, "expires_at": grant.obtained_at})
        await self._store.save(self.target.url, ended)
        self._grant = ended

    async def _signed_in(
        self, used: Grant | None, challenge: Challenge, more: Sequence[str], seen: int
    ) -> Grant:
        if self._sign_in is None:
            raise _sign_in_needed(self.target.server_id, challenge)
        async with self._signing_in:
            if self.attempts > seen:
                if self._failure is not None:
                    raise AuthorizationFailed(str(self._failure))
                if self._grant is not None:
                    return self._grant
            async with self._store.lock(self.target.url, "sign-in", seconds=SIGN_IN_SECONDS + 60):
                stored = await self._store.load(self.target.url)
                if (other := self._from_other_process(stored, used, more)) is not None:
                    self._grant = other
                    return other
                return await self._ask(self._sign_in, challenge, self._fitting(stored), more)

    async def _ask(
        self, sign_in: SignIn, challenge: Challenge, known: Grant | None, more: Sequence[str]
    ) -> Grant:
        try:
            grant = await sign_in.run(challenge, known, more)
            async with self._store.lock(self.target.url, "refresh", seconds=_REFRESH_SECONDS):
                await self._store.save(self.target.url, grant)
        except BridgeError as error:
            self._failure = error
            raise
        finally:
            self.attempts += 1
        self._failure = None
        self._grant, self._is_loaded = grant, True
        return grant

    def _from_other_process(
        self, stored: Grant | None, used: Grant | None, more: Sequence[str]
    ) -> Grant | None:
        """Return the stored grant if another process has just got it, and it covers what is needed."""
        stored = self._fitting(stored)
        if stored is None or stored.is_stale(self._clock()) or not set(more) <= set(stored.scope.split()):
            return None
        return stored if used is None or stored.access_token != used.access_token else None

    def _fitting(self, grant: Grant | None) -> Grant | None:
        """Return a stored grant, unless the configuration names another client since."""
        if grant is None or self.target.client_id in {None, grant.client.client_id}:
            return grant
        return None


def _sign_in_needed(name: str, challenge: Challenge) -> SignInNeeded:
    """Say why the user has to sign in: the server knows no access (401), or wants one with more rights (403)."""
    why = f"{name} needs a sign-in."
    if challenge.wants_scopes:
        wanted = f" ({one_line(challenge.scope[:_LONGEST_SCOPE])})" if challenge.scope else ""
        why = f"{name} answered 403: it wants more rights{wanted} than this client has."
    return SignInNeeded(f"{why} Run: nextcloud-mcp-server client auth {name}")
