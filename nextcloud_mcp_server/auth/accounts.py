"""From a caller to the Nextcloud account a tool may use, or to the consent request that is needed first."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio

from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.outbox import END_AFTER, Outbox
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.token_scopes import effective, require
from nextcloud_mcp_server.errors import ElicitationRequired, Link, MissingScope
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential, BearerCredential, NextcloudCredential
from nextcloud_mcp_server.storage.records import AuditEntry, Credential, Grant, Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: A disconnect by another process is noticed within this time.
CACHE_SECONDS = 5.0

#: An access token that is refused so soon after it was renewed is not renewed again.
RENEW_AGAIN_SECONDS = 60.0

#: How long a disconnect waits for Nextcloud before it says that it will go on trying.
REVOKE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Opened:
    """An account that may be used now, and which credential opens it, to stop that when it is refused."""

    account: Account
    scopes: frozenset[str]
    credential_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Connection:
    """What a user may know of their own connection."""

    connected: bool
    account_name: str
    display_name: str
    scopes: frozenset[str]
    needs_reauth: bool
    by_operator: bool


NOT_CONNECTED = Connection(False, "", "", frozenset(), needs_reauth=False, by_operator=False)


@dataclass(frozen=True, slots=True)
class Disconnected:
    """How a disconnect ended. `at_nextcloud` says whether Nextcloud has confirmed it already.

    `by_hand` says that it never will: the credential cannot be opened, so only the user can delete it.
    With an `account_url` only this client's permission has ended; the user ends the rest on that page.
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
    """What tools need of accounts."""

    @property
    def account_url(self) -> str:
        """The page on which users see and change what they allowed; empty where there is none."""
        ...

    async def open(self, caller: Caller, scopes: frozenset[str]) -> Opened:
        """Find what the call needs.

        Raises:
            ElicitationRequired: The user has to visit a page first.
            MissingScope: The operator's settings rule it out.
            TokenTooNarrow: The caller's access token does not cover it.
            NextcloudError: A consent request could not be prepared.
        """
        ...

    async def find(self, caller: Caller) -> Opened | None:
        """Find what the caller may use, asking no one for more; None when there is nothing.

        Raises:
            NextcloudError: It has to be renewed, and cannot be just now.
        """
        ...

    async def reject(self, caller: Caller, opened: Opened) -> None:
        """Stop using what Nextcloud refused: `open` finds something else from now on, or nothing.

        Raises:
            NextcloudError: It may be renewed, but not now.
        """
        ...

    async def decline(self, elicitation_id: str) -> None:
        """Record that the user said no to a consent request that `open` asked for."""
        ...

    async def connection(self, caller: Caller) -> Connection:
        """Tell where the caller stands."""
        ...

    async def disconnect(self, caller: Caller) -> Disconnected:
        """End the caller's connection: all of it for one user's server, else this client's part of it."""
        ...


def opening(credential: Credential) -> NextcloudCredential:
    """Say how a stored credential is shown to Nextcloud: what is refreshed is an access token."""
    if credential.refresh_token is None:
        return BasicCredential(credential.login_name, credential.secret)
    return BearerCredential(credential.secret)


class GrantedAccounts:
    """Accounts that users connected themselves."""

    def __init__(
        self,
        database: "Database",
        nextcloud: Nextcloud,
        provisioning: Provisioning,
        outbox: Outbox,
        audit: AuditLog,
        *,
        broker: Broker | None = None,
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
            # Its link was used: it must not be given again.
            need = await self._open_or_ask(caller, scopes)
        if isinstance(need, ElicitationRequired):
            raise need
        return need

    async def _open_or_ask(self, caller: Caller, scopes: frozenset[str]) -> Opened | ElicitationRequired:
        opened, grant = await self._open(caller, scopes)
        if opened is None or not scopes <= opened.scopes:
            need = await self._provisioning.ask(caller, scopes, grant=grant)
            # Where it was made anew, the one before it may have been granted since the first look; no one is given
            # the new one then.
            opened = None if need.reused else (await self._open(caller, scopes))[0]
            return opened if opened is not None and scopes <= opened.scopes else need
        return opened

    async def find(self, caller: Caller) -> Opened | None:
        """See `Accounts.find`."""
        try:
            return (await self._open(caller, frozenset()))[0]
        except MissingScope:
            # Paused.
            return None

    async def _open(self, caller: Caller, scopes: frozenset[str]) -> tuple[Opened | None, Grant | None]:
        """Open what there is for this token, and give the grant it stands on when that was read anew."""
        opened, grant = await self._for_client(caller, scopes)
        if opened is None:
            return None, grant
        allowed = effective(opened.scopes, token=caller.token_scopes, bound=self._provisioning.bound)
        return (opened if allowed == opened.scopes else replace(opened, scopes=allowed)), grant

    async def _for_client(self, caller: Caller, scopes: frozenset[str]) -> tuple[Opened | None, Grant | None]:
        """Open what the user allowed the client, whatever the token covers: that is not kept."""
        key = (caller.principal, caller.client_id)
        until, opened = self._cache.get(key, (0.0, None))
        if opened is not None and until >= self._monotonic() and scopes <= opened.scopes:
            return opened, None
        changes = self._changes
        self._cache.pop(key, None)
        grant = await self._find(caller)
        opened = self._usable(grant)
        # What was read before a disconnect must not be found after it.
        if grant is not None and opened is not None and changes == self._changes:
            self._cache[key] = (self._monotonic() + self._keeping(grant.credential), opened)
        return opened, grant

    def forget(self) -> None:
        """Look at the database again before the next call: a user has changed something."""
        self._cache.clear()
        self._changes += 1

    async def _find(self, caller: Caller) -> Grant | None:
        """Read what the caller was granted, with an access token that works where there is one."""
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
            # It has not run out, but Nextcloud has refused it, and it is not renewed yet.
            credential = await self._broker.renew(grant)
            self._refused.pop(known.id, None)
        else:
            credential = await self._broker.fresh(grant)
        # Gone: disconnected meanwhile, or replaced by what the user granted anew.
        return await self._find(caller) if credential is None else replace(grant, credential=credential)

    def _keeping(self, credential: Credential) -> float:
        """Say for how many seconds an opened account may be used without another look."""
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
        """See `Accounts.reject`. Nextcloud throttles every user behind our address after ten refusals."""
        self.forget()
        self._refused[opened.credential_id] = opened.version
        if not await self._renew(caller, opened):
            await self._stop(caller, opened)
        self._refused.pop(opened.credential_id, None)
        # A call that came in between may have found what was refused still standing.
        self.forget()

    async def _renew(self, caller: Caller, opened: Opened) -> bool:
        """Replace a refused access token; False when there is no way to, or that was just tried."""
        grant = await self._database.grants.find(caller.principal, caller.client_id)
        if self._broker is None or grant is None or grant.credential.id != opened.credential_id:
            return False
        now, credential_id = self._monotonic(), opened.credential_id
        recent = {one: made for one, made in self._renewed.items() if now < made[0] + RENEW_AGAIN_SECONDS}
        self._renewed = recent
        if credential_id in recent and recent[credential_id][1] == opened.version:
            # Nextcloud refuses what it has just given; more of the same would be a loop.
            return False
        if grant.credential.version != opened.version:
            # Another user was faster.
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
            await self._outbox.turn()
        # What is left is the background's work, and it must learn when to try again.
        self._outbox.wake()
        return Disconnected(was_connected=True, at_nextcloud=not await self._outbox.waiting(caller.principal))
