"""The state machine of consent requests. Only this code changes the state of an elicitation.

`pending → opened → complete | declined | failed | expired`; every transition is a conditional UPDATE in
storage, so one of two concurrent ones wins. `complete` is reached in one transaction with the credential.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID, uuid4

from nextcloud_mcp_server.auth.client_identity import identity
from nextcloud_mcp_server.auth.consent.policy import OVER, Policy
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, GrantProvider, Identity
from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.auth.patience import patiently
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import (
    ElicitationRequired,
    ElicitationUnknown,
    MissingScope,
    OtherPerson,
    WrongAccount,
)
from nextcloud_mcp_server.storage.failure import Failure
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
    SignedIn,
    Tokens,
)

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: So many attempts by other users end a consent request: its link has been passed on.
MOST_REFUSALS = 3


class Provisioning:
    """Creates consent requests and records how they end.

    `within` limits it to the one user of single-user mode: as in `Poller`, a consent request of a server for another
    Nextcloud must not be continued at this one. Without it many users sign in before they answer: then only an account
    that was known beforehand is accepted from a login flow, since every holder of its link can finish it.
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
    def implicit_user(self) -> SignedIn | None:
        """The one user of single-user mode, who need not sign in; None where there are many users."""
        return self._within and SignedIn(self._within, "", None, self._clock(), self._clock())

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
        policy = await self._policy.beside(partial(self.find_active, caller))
        page_url = policy.page_url
        elicitation, made = await self._database.elicitations.open(
            principal=caller.principal,
            client_id=caller.client_id,
            client_name=caller.client_name,
            kind=policy.kind,
            scopes=scopes if page_url else policy.bound,
            ttl=self._policy.lifetime,
            new_url=page_url or (lambda _: ""),
        )
        # Of the stored request: its page may have moved since, and a loopback page counts the links to open requests.
        url = elicitation.url if page_url is None else page_url(elicitation.id)
        if page_url is None and not url:
            url = (await self._provider.authorize_url(elicitation, policy.bound)).get_secret_value()
        if url != elicitation.url:
            await self._database.elicitations.set_url(elicitation.id, url)
        message = policy.message(grant, obstacle=self._provider.obstacle)
        return ElicitationRequired(message, url=url, elicitation_id=elicitation.id, reused=not made)

    async def find(self, elicitation_id: str, caller: Caller) -> Elicitation | None:
        """Return a caller's own consent request; None for malformed ids and for those of any other caller alike."""
        found = await self._find(elicitation_id)
        is_own = found and (found.principal, found.client_id) == (caller.principal, caller.client_id)
        return found if is_own else None

    async def find_active(self, caller: Caller) -> Elicitation | None:
        """Return the open consent request of this caller, if there is one."""
        return await self._database.elicitations.find_active(
            principal=caller.principal, client_id=caller.client_id, kind=self._policy.kind
        )

    async def finished(self, elicitation_ids: Sequence[str]) -> list[str]:
        """Return those of the given consent requests that are final or deleted."""
        still_open = await self._database.elicitations.still_open(elicitation_ids, within=self._within)
        return [elicitation_id for elicitation_id in elicitation_ids if elicitation_id not in still_open]

    async def own(self, elicitation_id: str, who: SignedIn) -> Elicitation:
        """Return a consent request of this user. An attempt by another user is audited and counted.

        Raises:
            ElicitationUnknown: There is no such consent request.
            OtherPerson: It was asked of another user; after the third such try it is over, and the
                next call of the user it was meant for makes a new one.
        """
        elicitation = await self._find(elicitation_id)
        if elicitation is None or elicitation.kind != "page":
            raise ElicitationUnknown(OVER)
        if elicitation.principal != who.principal:
            await self._refuse(elicitation, who)
        return elicitation

    async def see(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        """Return a consent request as its page shows it, without changing it; raises as `own`."""
        # Completion deletes the flow and adds the grant: in this order it is never seen as open without its flow.
        flow = await self._database.login_flows.find(elicitation_id)
        return await self._consent_request(await self.own(elicitation_id, who), flow)

    async def _refuse(self, elicitation: Elicitation, who: SignedIn) -> NoReturn:
        if elicitation.state.final:
            raise ElicitationUnknown(OVER)
        context = f"{who.principal.issuer} {who.principal.subject}"
        entries = [
            self._audit(elicitation, "refused: another person", context),
            self._audit(elicitation, "refused: of another person", "", principal=who.principal),
        ]
        await self._database.audit.append(entries)
        if await self._database.elicitations.count_refusal(elicitation.id) >= MOST_REFUSALS:
            await self._finish(elicitation, ElicitationState.FAILED, Failure("opened_by_others"))
        raise OtherPerson("This request belongs to another account. Nothing was shared.")

    async def _consent_request(self, elicitation: Elicitation, flow: LoginFlow | None) -> ConsentRequest:
        grant = await self._database.grants.find(elicitation.principal, elicitation.client_id)
        granted = grant.permission.scopes if grant and grant.permission else frozenset[str]()
        # Not by its id: an issuer may give a client any. With one user all programs are one client.
        many, client_id = self._within is None, elicitation.client_id
        known = await self._database.clients.find(client_id) if many else None
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
            lifetime=elicitation.expires_at - elicitation.created_at,
            account_name=elicitation.account_name,
            failure=elicitation.failure,
            client=identity(client_id, elicitation.client_name, known) if many else None,
        )

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

    async def follow(self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str | None) -> None:
        """Start a login flow at Nextcloud; it has no callback. With many users it must open the account `uid`.

        Raises:
            WrongAccount: The flow was started for another account.
            NextcloudError: Nextcloud could not be asked; the consent request stays open for another try.
        """
        await self._provider.authorize_url(elicitation, scopes, uid=uid)

    async def decline(self, elicitation_id: str) -> None:
        """Record that the user declined; an app password that Nextcloud still gives is deleted there."""
        elicitation = await self._find(elicitation_id)
        if elicitation is None or elicitation.state.final:
            raise ElicitationUnknown(OVER)
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
        given = Tokens(result.app_password, None, None)
        credential = self._credential(account, given, self._provider.name, result.login_name)
        return await self._complete(elicitation, current, account, credential, current.scopes)

    async def connected(
        self,
        elicitation: Elicitation,
        given: ExchangeResult,
        scopes: frozenset[str],
        *,
        provider: str,
        uid: str | None,
    ) -> bool:
        """Store the tokens of a callback as a grant, in one transaction; False if the request is over.

        `uid` is the account that the operator's mapping gives the user; None if the user has confirmed that the
        account is theirs.

        Raises:
            WrongAccount: The account is another one, or another user has connected it. Nothing is
                stored, and the consent request stays open for another try.
        """
        account = replace(self._account(elicitation.principal, given.identity), mapped=uid is not None)
        credential = self._credential(account, given.tokens, provider, account.uid)
        return await self._complete(
            elicitation, None, account, credential, scopes & self._policy.bound, uid=uid
        )

    async def failed(self, flow: LoginFlow, failure: Failure) -> None:
        """Record that the consent request failed, and why."""
        if (elicitation := await self._find(flow.elicitation_id)) is not None:
            await self._finish(elicitation, ElicitationState.FAILED, failure)

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
        *,
        uid: str | None = None,
    ) -> bool:
        """Store a grant, whose account must be `uid` if that is given; False if the request is over.

        With many users, the account of a login flow must be the one that the flow was started for.
        """
        if flow is not None and self._within is None:
            uid, account = flow.uid or "", replace(account, mapped=True)
        client_id, client_name = elicitation.client_id, elicitation.client_name
        permission = Permission(elicitation.principal, client_id, client_name, scopes, self._clock())
        try:
            if uid is not None:
                _require_account(account, uid)
            complete = partial(
                self._database.grants.complete,
                elicitation=elicitation,
                flow=flow,
                account=account,
                credential=credential,
                permission=permission,
                audit=self._audit(elicitation, "granted", " ".join(sorted(scopes))),
            )
            done = partial(self._database.grants.is_complete, elicitation.id, credential.id)
            stored = await patiently(complete, done=done)
        except WrongAccount as error:
            await self._wrong_account(elicitation, account.uid, error)
            raise
        await self._on_finished(elicitation.id)
        return stored

    async def _wrong_account(self, elicitation: Elicitation, uid: str, error: WrongAccount) -> None:
        """Record that the credential opens another account than the user's.

        A user who signed in here can sign in to Nextcloud again, so their consent request stays open.
        """
        if self._within is not None:
            await self._finish(elicitation, ElicitationState.FAILED, Failure.of(error))
            return
        await self._database.elicitations.set_failure(elicitation.id, Failure.of(error))
        refused = self._audit(elicitation, "refused: wrong account", uid)
        await self._database.audit.append([refused])

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

    @staticmethod
    def _credential(account: Account, tokens: Tokens, provider: str, login_name: str) -> Credential:
        return Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=provider,
            login_name=login_name,
            secret=tokens.access_token,
            needs_reauth=False,
            version=1,
            created_at=account.created_at,
            refresh_token=tokens.refresh_token,
            expires_at=tokens.expires_at,
        )

    async def _finish(
        self, elicitation: Elicitation, state: ElicitationState, failure: Failure | None = None
    ) -> None:
        audit = self._audit(elicitation, state, "" if failure is None else str(failure))
        await self._database.elicitations.finish(elicitation.id, state, failure=failure, audit=audit)
        await self._on_finished(elicitation.id)

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
        result: str,
        detail: str,
        *,
        principal: Principal | None = None,
    ) -> AuditEntry:
        return AuditEntry(
            at=self._clock(),
            principal=principal or elicitation.principal,
            client_id=elicitation.client_id,
            action="consent",
            result=result,
            detail=detail,
        )


def _require_account(account: Account, uid: str) -> None:
    if account.uid != uid:
        raise WrongAccount(Failure("not_yours", {"answered": account.uid, "yours": uid}))
