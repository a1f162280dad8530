"""The account page: what a signed-in user sees and changes of their own connection."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import anyio

from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.views import (
    AccountView,
    ClientView,
    RecentAction,
    ReusedToken,
    SignedInClient,
)
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.oauth_records import Holder
from nextcloud_mcp_server.storage.records import (
    CODE_USED,
    TOKEN_USED,
    AuditEntry,
    Permission,
    Principal,
    SignedIn,
)

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: How long a disconnect waits for Nextcloud before it reports that the revocation continues in the background.
REVOKE_SECONDS = 5.0

_ENTRIES_READ = 300
_ACTIONS_SHOWN = 10
_ALERT_SHOWN = timedelta(days=30)
_MOST_ALERTS = 10


class ClientTokens(Protocol):
    """The tokens that this server's own authorization server issued to clients."""

    async def end(self, principal: Principal, *, client_id: str | None = None) -> int:
        """End the tokens of all clients of a user, or of one client; return how many sign-ins that ended."""
        ...

    async def holders(self, principal: Principal) -> list[Holder]:
        """List the clients that hold valid tokens of a user."""
        ...


class ClientLogos(Protocol):
    """The logos that clients name in their metadata."""

    async def of_all(self, names: Mapping[str, str]) -> Mapping[str, Picture]:
        """Return the logos of those clients that have one; `names` are those that the page shows, by client id."""
        ...


class AccountPage:
    """Reads and changes the signed-in user's own connection; every query is limited to their principal.

    `on_changed` is called after a change of what a client may do, so that caches are dropped. `tokens` is given
    only where this server issues tokens to clients itself, and `logos` where it fetches those of clients.
    """

    def __init__(
        self,
        database: "Database",
        *,
        outbox: Outbox,
        policy: Policy,
        clock: Callable[[], datetime],
        on_changed: Callable[[], None],
        tokens: ClientTokens | None = None,
        logos: ClientLogos | None = None,
        revoke_seconds: float = REVOKE_SECONDS,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._policy = policy
        self._clock = clock
        self._on_changed = on_changed
        self._tokens = tokens
        self._logos = logos
        self._revoke_seconds = revoke_seconds

    async def view(self, who: SignedIn) -> AccountView:
        """Return the account, and for each client its scopes and its recent actions."""
        grant = await self._database.grants.find(who.principal, "")
        permissions = await self._database.grants.permissions(who.principal)
        entries = await self._database.audit.recent(who.principal, _ENTRIES_READ)
        # Looked for by themselves: a client could call until other entries are the latest.
        since = self._clock() - _ALERT_SHOWN
        reused = await self._database.audit.recent_with(
            who.principal, (CODE_USED, TOKEN_USED), since=since, limit=_MOST_ALERTS
        )
        holders = [] if self._tokens is None else await self._tokens.holders(who.principal)
        names = {permission.client_id: permission.client_name for permission in permissions}
        logos: Mapping[str, Picture] = {} if self._logos is None else await self._logos.of_all(names)
        return AccountView(
            nextcloud_host=self._policy.nextcloud_host,
            uid=grant.account.uid if grant else None,
            display_name=grant.account.display_name if grant else "",
            needs_reauth=grant is not None and grant.credential.needs_reauth,
            clients=tuple(
                self._client(permission, entries, logos.get(permission.client_id))
                for permission in permissions
            ),
            signed_in=tuple(self._signed_in(holder, permissions) for holder in holders),
            alerts=tuple(ReusedToken(_name_of(entry.client_id, permissions), entry.at) for entry in reused),
        )

    def _signed_in(self, holder: Holder, permissions: Sequence[Permission]) -> SignedInClient:
        name = _name_of(holder.client_id, permissions)
        return SignedInClient(holder.client_id, name, holder.since, holder.last_used_at)

    def _client(self, permission: Permission, entries: list[AuditEntry], logo: Picture | None) -> ClientView:
        own = [entry for entry in entries if entry.client_id == permission.client_id]
        return ClientView(
            client_id=permission.client_id,
            name=permission.client_name,
            scopes=permission.scopes & self._policy.bound,
            offered=self._policy.bound,
            granted_at=permission.granted_at,
            last_used_at=permission.last_used_at,
            paused=permission.paused,
            recent=tuple(
                RecentAction(entry.at, entry.action, entry.result, entry.object_name)
                for entry in own[:_ACTIONS_SHOWN]
            ),
            logo=logo,
        )

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        """Set the scopes of one client, within what the operator allows.

        Raises:
            InvalidInput: The user has no such client.
        """
        await self._require(who, client_id)
        allowed = scopes & self._policy.bound
        await self._database.grants.set_scopes(who.principal, client_id, allowed)
        await self._changed(who, client_id, "changed", " ".join(sorted(allowed)))

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        """Pause one client's access, or resume it.

        Raises:
            InvalidInput: The user has no such client.
        """
        await self._require(who, client_id)
        await self._database.grants.set_paused(who.principal, client_id, paused)
        await self._changed(who, client_id, "paused" if paused else "goes on")

    async def remove(self, who: SignedIn, client_id: str) -> None:
        """Delete one client's permission, and its tokens.

        Raises:
            InvalidInput: The user has no such client.
        """
        removed = self._entry(who, client_id, "permission", "removed")
        if not await self._database.grants.end_client(who.principal, client_id, audit=removed):
            raise InvalidInput("There is no such connection any more.")
        self._on_changed()

    async def disconnect(self, who: SignedIn) -> bool:
        """End the user's whole connection; return whether Nextcloud has confirmed the revocation already."""
        await self._end_tokens(who)
        grant = await self._database.grants.disconnect(
            who.principal, audit=self._entry(who, "", "disconnect", "done")
        )
        # Pending grants of this user's consent requests were discarded with everything else.
        await self._database.pending_grants.release_due(nextcloud_url=self._policy.nextcloud_url)
        self._on_changed()
        if grant is not None and not grant.credential.secret:
            # The credential cannot be decrypted, so only the user can revoke it at Nextcloud.
            return False
        with anyio.move_on_after(self._revoke_seconds):
            await self._outbox.run_once()
        # The background task sends what is left; `wake` makes it compute its next attempt.
        self._outbox.wake()
        return not await self._outbox.waiting(who.principal)

    async def sign_out_clients(self, who: SignedIn, client_id: str | None = None) -> None:
        """End the tokens of all clients of the user, or of one client; each must sign in again."""
        if await self._end_tokens(who, client_id):
            entry = self._entry(who, client_id or "", "sign-out", "done")
            await self._database.audit.append([entry])

    async def _end_tokens(self, who: SignedIn, client_id: str | None = None) -> int:
        return 0 if self._tokens is None else await self._tokens.end(who.principal, client_id=client_id)

    async def _require(self, who: SignedIn, client_id: str) -> None:
        known = await self._database.grants.permissions(who.principal)
        if client_id not in {permission.client_id for permission in known}:
            raise InvalidInput("There is no such connection any more.")

    async def _changed(self, who: SignedIn, client_id: str, result: str, detail: str = "") -> None:
        self._on_changed()
        await self._database.audit.append([self._entry(who, client_id, "permission", result, detail)])

    def _entry(self, who: SignedIn, client_id: str, action: str, result: str, detail: str = "") -> AuditEntry:
        return AuditEntry(
            at=self._clock(),
            principal=who.principal,
            client_id=client_id,
            action=action,
            result=result,
            detail=detail,
        )


def _name_of(client_id: str, permissions: Sequence[Permission]) -> str:
    return next((one.client_name for one in permissions if one.client_id == client_id), "")
