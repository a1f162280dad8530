"""The state machine of consent requests. Only this code changes the state of an elicitation.

`pending → opened → complete | declined | failed | expired`; every transition is a conditional UPDATE in
storage, so one of two concurrent ones wins. `complete` is reached in one transaction with the credential.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from nextcloud_mcp_server.auth.client_identity import identity
from nextcloud_mcp_server.auth.consent.provider import GrantProvider, Identity
from nextcloud_mcp_server.auth.consent.views import ClientIdentity, ConsentRequest
from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID, Caller
from nextcloud_mcp_server.errors import (
    ElicitationRequired,
    ElicitationUnknown,
    MissingScope,
    WrongAccount,
)
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    ElicitationState,
    Grant,
    LoginFlow,
    LoginResult,
    Permission,
    Principal,
)

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: A consent request that is not finished in this time has expired.
LIFETIME = timedelta(seconds=600)

ASK = "Grant the MCP server access to your Nextcloud account to continue. This is a one-time setup."
ASK_AGAIN = "Your Nextcloud no longer accepts the access given earlier; please grant it again to continue."
ASK_MORE = "This needs a permission you have not given yet; please allow it to continue."

OVER = "This link is no longer valid; ask your assistant again for a new one."


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's settings for consent.

    `page_url` builds the URL of this server's consent page from an id. With None users go straight to
    Nextcloud, as they must in a process without a web server.
    """

    nextcloud_url: str
    nextcloud_host: str
    bound: frozenset[str]
    page_url: Callable[[str], str] | None

    @property
    def kind(self) -> str:
        """The kind of new consent requests: through this server's page, or directly at Nextcloud.

        The two kinds do not mix.
        """
        return "page" if self.page_url else "direct"


class Provisioning:
    """Creates consent requests and records how they end.

    `within` limits it to one user, for the same reason as in `Poller`: a consent request that a server for
    another Nextcloud began must not be continued at this one.
    """

    def __init__(
        self,
        database: "Database",
        provider: GrantProvider,
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        on_finished: Callable[[str], Awaitable[None]],
        within: Principal | None = None,
    ) -> None:
        self._database = database
        self._provider = provider
        self._policy = policy
        self._clock = clock
        self._on_finished = on_finished
        self._within = within

    @property
    def bound(self) -> frozenset[str]:
        """The scopes that may be permitted at all."""
        return self._policy.bound

    @property
    def nextcloud_url(self) -> str:
        """The Nextcloud of all consent requests here."""
        return self._policy.nextcloud_url

    def now(self) -> datetime:
        """Return the time for audit entries."""
        return self._clock()

    async def ask(
        self, caller: Caller, scopes: frozenset[str], *, grant: Grant | None
    ) -> ElicitationRequired:
        """Create or reuse the one pending consent request of this caller; return it as an exception to raise.

        Raises:
            MissingScope: The operator's settings exclude a scope.
            NextcloudError: The consent request leads straight to Nextcloud, which could not be reached.
        """
        if missing := scopes - self._policy.bound:
            raise MissingScope(
                f"This server's settings do not allow {', '.join(sorted(missing))}; tell the operator."
            )
        page_url = self._policy.page_url
        elicitation, made = await self._database.elicitations.open(
            principal=caller.principal,
            client_id=caller.client_id,
            client_name=caller.client_name,
            kind=self._policy.kind,
            scopes=scopes if page_url else self._policy.bound,
            ttl=LIFETIME,
            new_url=page_url or (lambda _: ""),
        )
        url = elicitation.url
        if page_url is None and not url:
            secret = await self._provider.authorize_url(elicitation, self._policy.bound)
            url = secret.get_secret_value()
            await self._database.elicitations.set_url(elicitation.id, url)
        return ElicitationRequired(
            self._message(grant), url=url, elicitation_id=elicitation.id, reused=not made
        )

    def _message(self, grant: Grant | None) -> str:
        message = ASK
        if grant is not None:
            message = ASK_AGAIN if grant.credential.needs_reauth else ASK_MORE
        if self._policy.page_url is None:
            # Nextcloud's own page cannot name the scopes, so the message must.
            message += f" It will allow: {', '.join(sorted(self._policy.bound))}."
        return message

    async def find(self, elicitation_id: str, principal: Principal) -> Elicitation | None:
        """Return a user's own consent request; None for unknown, malformed and other users' ids alike."""
        elicitation = await self._find(elicitation_id)
        return elicitation if elicitation and elicitation.principal == principal else None

    async def finished(self, elicitation_ids: Sequence[str]) -> list[str]:
        """Return those of the given consent requests that are final or deleted."""
        still_open = await self._database.elicitations.still_open(elicitation_ids, within=self._within)
        return [elicitation_id for elicitation_id in elicitation_ids if elicitation_id not in still_open]

    async def view(self, elicitation_id: str) -> ConsentRequest | None:
        """Return a consent request as its page shows it, without changing it; None for an unknown id."""
        # Completion deletes the flow and adds the grant. In this order, a consent request that completes between
        # the reads is seen as complete with its grant, never as open without its flow.
        flow = await self._database.login_flows.find(elicitation_id)
        elicitation = await self._find(elicitation_id)
        if elicitation is None or elicitation.kind != "page":
            return None
        return await self._consent_request(elicitation, flow)

    async def _consent_request(self, elicitation: Elicitation, flow: LoginFlow | None) -> ConsentRequest:
        grant = await self._database.grants.find(elicitation.principal, elicitation.client_id)
        granted = grant.permission.scopes if grant and grant.permission else frozenset[str]()
        return ConsentRequest(
            id=elicitation.id,
            state=elicitation.state,
            client_name=elicitation.client_name,
            nextcloud_host=self._policy.nextcloud_host,
            needed=elicitation.scopes,
            offered=self._policy.bound,
            granted=granted & self._policy.bound,
            login_url=flow.login_url if flow else None,
            expires_at=elicitation.expires_at,
            account_name=elicitation.account_name,
            error=elicitation.error,
            client=await self._identity(elicitation.client_id, elicitation.client_name),
        )

    async def _identity(self, client_id: str, name: str) -> ClientIdentity | None:
        known = None if client_id == PERSONAL_CLIENT_ID else await self._database.clients.find(client_id)
        return identity(client_id, name, known)

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> ConsentRequest:
        """Record that the user pressed Allow, and start the login flow at Nextcloud if one is needed.

        A user who is connected already and only permits more needs no login flow.

        Raises:
            ElicitationUnknown: The consent request is over, or never was.
            NextcloudError: Nextcloud could not be asked; the consent request stays open for another try.
        """
        elicitation = await self._active(elicitation_id)
        if elicitation.kind != "page":
            # It leads straight to Nextcloud; this server's page does not show it.
            raise ElicitationUnknown(OVER)
        if not await self.permit(elicitation, scopes):
            await self._provider.authorize_url(elicitation, scopes & self._policy.bound)
        consent_request = await self.view(elicitation_id)
        if consent_request is None:
            raise ElicitationUnknown(OVER)
        return consent_request

    async def permit(
        self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str | None = None
    ) -> bool:
        """Record that the user pressed Allow; True if they are connected, so that the request is complete.

        `uid` is the account that the operator's mapping gives the user, None without a mapping.

        Raises:
            WrongAccount: They are connected to another account than `uid`.
        """
        await self._database.elicitations.mark_opened(elicitation.id)
        grant = await self._database.grants.find(elicitation.principal, elicitation.client_id)
        if grant is None or grant.credential.needs_reauth:
            return False
        if uid not in (None, grant.account.uid):
            raise WrongAccount(
                f"You are connected as {grant.account.uid!r}, but the operator's settings give you {uid!r}."
                " Disconnect first, then connect again."
            )
        await self._complete(elicitation, None, grant.account, grant.credential, scopes & self._policy.bound)
        return True

    async def decline(self, elicitation_id: str) -> None:
        """Record that the user declined; an app password that Nextcloud still gives is deleted there."""
        elicitation = await self._active(elicitation_id)
        await self._finish(elicitation, ElicitationState.DECLINED)

    async def exchanged(self, flow: LoginFlow, result: LoginResult, identity: Identity) -> bool:
        """Store the app password of a login flow, in one transaction; False if the consent request is over.

        Raises:
            WrongAccount: The account is not this user's; nothing is stored.
        """
        elicitation = await self._find(flow.elicitation_id)
        # The flow may have changed since the poller read it: other scopes, a decline, an end.
        current = await self._database.login_flows.find(flow.elicitation_id)
        if elicitation is None or elicitation.state.final or current is None or current.discard:
            return False
        account = self._account(flow.principal, identity)
        credential = Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=self._provider.name,
            login_name=result.login_name,
            secret=result.app_password,
            needs_reauth=False,
            version=1,
            created_at=account.created_at,
        )
        return await self._complete(elicitation, current, account, credential, current.scopes)

    async def failed(self, flow: LoginFlow, sentence: str) -> None:
        """Record that the consent request failed, with the sentence for the user."""
        elicitation = await self._find(flow.elicitation_id)
        if elicitation is not None:
            await self._finish(elicitation, ElicitationState.FAILED, error=sentence)

    async def expire(self) -> None:
        """Expire every consent request whose time is over."""
        for elicitation_id in await self._database.elicitations.expire_due():
            await self._on_finished(elicitation_id)

    async def _complete(
        self,
        elicitation: Elicitation,
        flow: LoginFlow | None,
        account: Account,
        credential: Credential,
        scopes: frozenset[str],
    ) -> bool:
        try:
            return await self._store(elicitation, flow, account, credential, scopes)
        except WrongAccount as error:
            await self._wrong_account(elicitation, account.uid, error)
            raise

    async def _wrong_account(self, elicitation: Elicitation, uid: str, error: WrongAccount) -> None:
        """Record that the credential opens another account than the user's."""
        del uid
        await self._finish(elicitation, ElicitationState.FAILED, error=str(error))

    async def _store(
        self,
        elicitation: Elicitation,
        flow: LoginFlow | None,
        account: Account,
        credential: Credential,
        scopes: frozenset[str],
    ) -> bool:
        permission = Permission(
            principal=elicitation.principal,
            client_id=elicitation.client_id,
            client_name=elicitation.client_name,
            scopes=scopes,
            granted_at=self._clock(),
        )
        stored = await self._database.grants.complete(
            elicitation=elicitation,
            flow=flow,
            account=account,
            credential=credential,
            permission=permission,
            audit=self._audit(elicitation, "consent", "granted", " ".join(sorted(scopes))),
        )
        await self._on_finished(elicitation.id)
        return stored

    def _account(self, principal: Principal, identity: Identity) -> Account:
        return Account(
            id=str(uuid4()),
            principal=principal,
            nextcloud_url=self._policy.nextcloud_url,
            uid=identity.uid,
            display_name=identity.display_name,
            storage_id=identity.storage_id,
            created_at=self._clock(),
        )

    async def _finish(
        self, elicitation: Elicitation, state: ElicitationState, *, error: str | None = None
    ) -> None:
        audit = self._audit(elicitation, "consent", state, error or "")
        await self._database.elicitations.finish(elicitation.id, state, error=error, audit=audit)
        await self._on_finished(elicitation.id)

    async def _active(self, elicitation_id: str) -> Elicitation:
        elicitation = await self._find(elicitation_id)
        if elicitation is None or elicitation.state.final:
            raise ElicitationUnknown(OVER)
        return elicitation

    async def _find(self, elicitation_id: str) -> Elicitation | None:
        try:
            canonical = str(UUID(elicitation_id)) == elicitation_id
        except ValueError:
            return None
        found = await self._database.elicitations.find(elicitation_id) if canonical else None
        return None if found and self._within not in (None, found.principal) else found

    def _audit(
        self,
        elicitation: Elicitation,
        action: str,
        result: str,
        detail: str,
        *,
        principal: Principal | None = None,
    ) -> AuditEntry:
        return AuditEntry(
            at=self._clock(),
            principal=principal or elicitation.principal,
            client_id=elicitation.client_id,
            action=action,
            result=result,
            detail=detail,
        )
