"""Finds the account that a tool may use for a caller, or the consent request that is needed first."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio

from nextcloud_mcp_server.auth.outbox import END_AFTER, Outbox
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.token_scopes import effective, require
from nextcloud_mcp_server.errors import ElicitationRequired, Link, MissingScope
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential, BearerCredential, NextcloudCredential
from nextcloud_mcp_server.storage.records import AuditEntry, Credential, Grant, Principal

if TYPE_CHECKING:
    # The types only: what they import, such as SQLAlchemy, is left to the first call that needs it.
    from nextcloud_mcp_server.auth.audit import AuditLog
    from nextcloud_mcp_server.auth.broker import Broker
    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
    from nextcloud_mcp_server.storage.engine import Database

#: A disconnect by another process is noticed within this time.
CACHE_SECONDS = 5.0

#: An access token that Nextcloud refuses within this time after its refresh is not refreshed again.
RENEW_AGAIN_SECONDS = 60.0

#: How long a disconnect waits for Nextcloud before it reports that the revocation continues in the background.
REVOKE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Opened:
    """An account that a call may use now, and the credential that opens it, so that `reject` can name it."""

    account: Account
    scopes: frozenset[str]
    credential_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Connection:
    """What a user may see of their own connection."""

    connected: bool
    account_name: str
    display_name: str
    scopes: frozenset[str]
    needs_reauth: bool
    by_operator: bool


NOT_CONNECTED = Connection(False, "", "", frozenset(), needs_reauth=False, by_operator=False)


@dataclass(frozen=True, slots=True)
class Disconnected:
    """How a disconnect ended. `at_nextcloud` says whether Nextcloud has confirmed the revocation already.

    `by_hand` says that it never will: the credential cannot be decrypted, so only the user can delete it. With
    an `account_url` only this client's permission has ended; the user ends the rest on that page.
    """

    was_connected: bool
    at_nextcloud: bool
    by_hand: bool = False
    account_url: str = ""


#: Polls the flow of a consent request out of turn; True when it has ended.
PollNow = Callable[[str], Awaitable[bool]]


async def _nothing_to_poll(elicitation_id: str) -> bool:  # noqa: ARG001 - see `PollNow`
    return False


class Accounts(Protocol):
    """The accounts as tools use them."""

    @property
    def account_url(self) -> str:
        """The page on which users see and change what they allowed; empty where there is none."""
        ...

    async def open(self, caller: Caller, scopes: frozenset[str]) -> Opened:
        """Return the account of a caller, opened for these scopes.

        Raises:
            ElicitationRequired: The user must answer a consent request first.
            MissingScope: The operator's settings exclude one of the scopes.
            TokenTooNarrow: The caller's access token does not cover the scopes.
            NextcloudError: A consent request could not be prepared.
        """
        ...

    async def find(self, caller: Caller) -> Opened | None:
        """Return the account that the caller may use, without asking for consent; None when there is none.

        Raises:
            NextcloudError: The access token must be refreshed, and that is not possible now.
        """
        ...

    async def reject(self, caller: Caller, opened: Opened) -> None:
        """Stop using a credential that Nextcloud refused; `open` finds another one from now on, or none.

        Raises:
            NextcloudError: The access token can be refreshed, but not now.
        """
        ...

    async def decline(self, elicitation_id: str) -> None:
        """Record that the user declined a consent request that `open` raised."""
        ...

    async def connection(self, caller: Caller) -> Connection:
        """Return the state of the caller's connection."""
        ...

    async def disconnect(self, caller: Caller) -> Disconnected:
        """End the caller's connection: all of it on a single-user server, else this client's permission only."""
        ...


def opening(credential: Credential) -> NextcloudCredential:
    """Convert a stored credential for the Nextcloud client.

    An OAuth credential, which has a refresh token, becomes a bearer token.
    """
    if credential.refresh_token is None:
        return BasicCredential(credential.login_name, credential.secret)
    return BearerCredential(credential.secret)


class GrantedAccounts:
    """Accounts that users connected themselves."""

    def __init__(
        self,
        database: "Database",
        nextcloud: Nextcloud,
        provisioning: "Provisioning",
        outbox: Outbox,
        audit: "AuditLog",
        *,
        broker: "Broker | None" = None,
        account_url: str = "",
        poll_now: PollNow = _nothing_to_poll,
        monotonic: Callable[[], float] = anyio.current_time,
        revoke_seconds: float = REVOKE_SECONDS,
    ) -> None:
        self._database = database
        self._nextcloud = nextcloud
        self._provisioning = provisioning
        self._outbox = outbox
        self._audit = audit
        self._broker = broker
        self._account_url = account_url
        self._poll_now = poll_now
        self._monotonic = monotonic
        self._revoke_seconds = revoke_seconds
        self._cache: dict[tuple[Principal, str], tuple[float, Opened]] = {}
        self._changes = 0
        self._renewed: dict[str, tuple[float, int]] = {}
        self._refused: dict[str, int] = {}

    @property
    def account_url(self) -> str:
        """See `Accounts.account_url`."""
        return self._account_url

    async def open(self, caller: Caller, scopes: frozenset[str]) -> Opened:
        """See `Accounts.open`. An account opened seconds ago is opened again without a query."""
        require(scopes, token=caller.token_scopes)
        need = await self._open_or_ask(caller, scopes)
        if (
            isinstance(need, ElicitationRequired)
            and need.reused
            and await self._poll_now(need.elicitation_id)
        ):
            # The link of this consent request was used, so the client must not get it again.
            need = await self._open_or_ask(caller, scopes)
        if isinstance(need, ElicitationRequired):
            raise need
        return need

    async def _open_or_ask(self, caller: Caller, scopes: frozenset[str]) -> Opened | ElicitationRequired:
        opened, grant = await self._open(caller, scopes)
        if opened is None or not scopes <= opened.scopes:
            need = await self._provisioning.ask(caller, scopes, grant=grant)
            # If this consent request is new, an older one may have been granted since the first query. Then the
            # account is used, and the new request reaches no client.
            opened = None if need.reused else (await self._open(caller, scopes))[0]
            return opened if opened is not None and scopes <= opened.scopes else need
        return opened

    async def find(self, caller: Caller) -> Opened | None:
        """See `Accounts.find`."""
        try:
            return (await self._open(caller, frozenset()))[0]
        except MissingScope:
            # The user paused this client.
            return None

    async def _open(self, caller: Caller, scopes: frozenset[str]) -> tuple[Opened | None, Grant | None]:
        """Return the account within the scopes of the caller's token, and its grant.

        The grant is None if it was not read from the database for this call.
        """
        opened, grant = await self._for_client(caller, scopes)
        if opened is None:
            return None, grant
        allowed = effective(opened.scopes, token=caller.token_scopes, bound=self._provisioning.bound)
        return (opened if allowed == opened.scopes else replace(opened, scopes=allowed)), grant

    async def _for_client(self, caller: Caller, scopes: frozenset[str]) -> tuple[Opened | None, Grant | None]:
        """Return the account with the user's permission for the client, and its grant.

        The scopes of the token are neither applied nor cached.
        """
        key = (caller.principal, caller.client_id)
        until, opened = self._cache.get(key, (0.0, None))
        if opened is not None and until >= self._monotonic() and scopes <= opened.scopes:
            return opened, None
        changes = self._changes
        self._cache.pop(key, None)
        grant = await self._find(caller)
        opened = self._usable(grant)
        # A grant that was read before a disconnect must not be cached after it.
        if grant is not None and opened is not None and changes == self._changes:
            self._keep(key, opened, self._keeping(grant.credential))
        return opened, grant

    def _keep(self, key: tuple[Principal, str], opened: Opened, seconds: float) -> None:
        """Cache an account, and drop those whose time is over: most users do not call again soon."""
        now = self._monotonic()
        while self._cache and next(iter(self._cache.values()))[0] < now:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = (now + seconds, opened)

    def forget(self) -> None:
        """Drop the cached accounts, so that the next call reads the database: a user changed a permission."""
        self._cache.clear()
        self._changes += 1

    async def _find(self, caller: Caller) -> Grant | None:
        """Read the caller's grant from the database; refresh its access token if that is due."""
        grant = await self._database.grants.find(caller.principal, caller.client_id)
        if grant is None or grant.permission is None:
            return grant
        if grant.permission.paused:
            raise MissingScope(
                "The user has paused this client's access to Nextcloud; only they can let it go on, here:",
                link=Link(self._account_url, "Do not retry before the user says that it goes on."),
            )
        if self._broker is None:
            return grant
        known = grant.credential
        if self._refused.get(known.id) == known.version:
            # Nextcloud refused the access token although it has not expired, and no refresh has followed yet.
            credential = await self._broker.renew(grant)
            self._refused.pop(known.id, None)
        else:
            credential = await self._broker.fresh(grant)
        # The credential is gone: the user disconnected meanwhile, or connected again.
        return await self._find(caller) if credential is None else replace(grant, credential=credential)

    def _keeping(self, credential: Credential) -> float:
        """Return for how many seconds an account may be cached."""
        if credential.expires_at is None:
            return CACHE_SECONDS
        left = (credential.expires_at - self._provisioning.now()).total_seconds()
        return min(max(left, 0.0), CACHE_SECONDS)

    def _usable(self, grant: Grant | None) -> Opened | None:
        if grant is None or grant.permission is None or grant.credential.needs_reauth:
            return None
        credential = grant.credential
        account = self._nextcloud.account(opening(credential), uid=grant.account.uid)
        return Opened(account, grant.permission.scopes, credential.id, credential.version)

    async def reject(self, caller: Caller, opened: Opened) -> None:
        """See `Accounts.reject`. After ten refusals Nextcloud throttles all users of this server's address."""
        self.forget()
        self._refused[opened.credential_id] = opened.version
        if not await self._renew(caller, opened):
            await self._stop(caller, opened)
        self._refused.pop(opened.credential_id, None)
        # A concurrent call may have cached the refused credential again.
        self.forget()

    async def _renew(self, caller: Caller, opened: Opened) -> bool:
        """Refresh a refused access token; return False when that is impossible, or was just tried."""
        grant = await self._database.grants.find(caller.principal, caller.client_id)
        if self._broker is None or grant is None or grant.credential.id != opened.credential_id:
            return False
        now, credential_id = self._monotonic(), opened.credential_id
        recent = {one: made for one, made in self._renewed.items() if now < made[0] + RENEW_AGAIN_SECONDS}
        self._renewed = recent
        if credential_id in recent and recent[credential_id][1] == opened.version:
            # Nextcloud refuses the token it has just issued; another refresh would repeat that without end.
            return False
        if grant.credential.version != opened.version:
            # A concurrent call refreshed the token already.
            return True
        credential = await self._broker.renew(grant)
        if credential is None or credential.version == opened.version or credential.needs_reauth:
            return False
        self._renewed[credential_id] = (now, credential.version)
        return True

    async def _stop(self, caller: Caller, opened: Opened) -> None:
        self._nextcloud.forget(opened.account.uid)
        if await self._database.grants.mark_needs_reauth(
            opened.credential_id, version=opened.version, end_after=END_AFTER
        ):
            await self._audit.record(
                caller, action="credential", result="refused by Nextcloud", detail="", request_id="", now=True
            )

    async def decline(self, elicitation_id: str) -> None:
        """See `Accounts.decline`."""
        await self._provisioning.decline(elicitation_id)

    async def connection(self, caller: Caller) -> Connection:
        """See `Accounts.connection`."""
        grant = await self._database.grants.find(caller.principal, caller.client_id)
        if grant is None:
            return NOT_CONNECTED
        scopes = grant.permission.scopes if grant.permission else frozenset[str]()
        return Connection(
            connected=not grant.credential.needs_reauth,
            account_name=grant.account.uid,
            display_name=grant.account.display_name,
            scopes=effective(scopes, token=caller.token_scopes, bound=self._provisioning.bound),
            needs_reauth=grant.credential.needs_reauth,
            by_operator=False,
        )

    async def disconnect(self, caller: Caller) -> Disconnected:
        """See `Accounts.disconnect`. What Nextcloud has not confirmed yet stays in the outbox."""
        audit = AuditEntry(
            at=self._provisioning.now(),
            principal=caller.principal,
            client_id=caller.client_id,
            action="disconnect",
            result="done",
        )
        grant = await self._database.grants.disconnect(caller.principal, audit=audit)
        self.forget()
        if grant is None:
            return Disconnected(was_connected=False, at_nextcloud=True)
        self._nextcloud.forget(grant.account.uid)
        if not grant.credential.secret:
            return Disconnected(was_connected=True, at_nextcloud=False, by_hand=True)
        with anyio.move_on_after(self._revoke_seconds):
            await self._outbox.run_once()
        # The background task sends what is left; `wake` makes it compute its next attempt.
        self._outbox.wake()
        return Disconnected(was_connected=True, at_nextcloud=not await self._outbox.waiting(caller.principal))
