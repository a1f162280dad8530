"""The grant flow: an authorization request to the grant provider, and the callback that becomes a grant.

Nextcloud's own OAuth app has no PKCE, no nonce and no `iss`. What keeps one user's access from
another there is what is checked here before the code is sent anywhere: this browser's sign-in, and
a `state` that was made in it and is taken once.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params, check_issuer, code_of, only_value
from nextcloud_mcp_server.auth.consent.code_exchange import CodeExchange, uninterrupted
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.multi_user_provisioning import MultiUserProvisioning
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, end_orphaned_code, spent_unless_used
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Identity, RedirectProvider
from nextcloud_mcp_server.auth.consent.provisioning import OVER
from nextcloud_mcp_server.auth.consent.views import GrantDone
from nextcloud_mcp_server.auth.oauth_client import new_secret
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import (
    ElicitationUnknown,
    GrantRefused,
    MalformedCode,
    OtherBrowser,
    SignInRefused,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    ElicitationState,
    GrantRequest,
    PendingGrant,
    SignedIn,
)

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

_SOMEBODY_ELSE = (
    "This browser was signed in to the identity provider as somebody else, so nothing was connected. "
    "Sign out there, and start again."
)
_OTHER_BROWSER = (
    "This began in another browser, so it was ended there and here. Nothing was connected. Open the link "
    "in the browser in which you want to finish."
)
_AGAIN = "This cannot be finished here: it belongs to another browser, is too old, or was used. Start again."


class GrantFlow:
    """Sends browsers to the grant provider, and keeps or ends what they bring back.

    With `mapped` the operator's mapping says which account is whose; without, each user says so
    on a page of ours before anything can be used. Without a provider no browser is sent anywhere, and
    none can come back.
    """

    def __init__(
        self,
        database: "Database",
        provisioning: MultiUserProvisioning,
        provider: RedirectProvider | None,
        *,
        outbox: Outbox,
        exchange_limiter: ExchangeLimiter,
        clock: Callable[[], datetime],
        mapped: bool,
    ) -> None:
        self._database = database
        self._provisioning = provisioning
        self._known = provider
        self._outbox = outbox
        self._exchange_limiter = exchange_limiter
        self._clock = clock
        self._mapped = mapped
        self._turns = anyio.Lock()

    @property
    def _provider(self) -> RedirectProvider:
        if self._known is None:
            raise SignInRefused(_AGAIN)
        return self._known

    @property
    def _code_exchange(self) -> CodeExchange:
        url = self._provisioning.nextcloud_url
        return CodeExchange(self._database, self._provider, outbox=self._outbox, nextcloud_url=url)

    async def start(self, elicitation: Elicitation, scopes: frozenset[str], who: SignedIn, token: str) -> str:
        """Make the address at which the user confirms, good for one answer in this browser.

        Raises:
            Throttled: Too many failures lately; going there now could only fail.
            IssuerUnavailable: The provider's addresses could not be found out.
        """
        await self._exchange_limiter.check(who.principal, token)
        state = new_secret()
        verifier = new_secret() if self._provider.uses_pkce else None
        nonce = new_secret() if self._provider.uses_nonce else None
        url = await self._provider.authorize_url(
            state=state.get_secret_value(), verifier=verifier, nonce=nonce
        )
        grant_request = GrantRequest(
            state=state,
            elicitation_id=elicitation.id,
            principal=who.principal,
            scopes=scopes,
            redirect_uri=self._provider.redirect_uri,
            verifier=verifier,
            nonce=nonce,
            created_at=self._clock(),
            expires_at=elicitation.expires_at,
        )
        await self._database.grant_requests.create(grant_request, sign_in=token)
        return url

    async def finish(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        """Take what the provider sent back with the browser. A code that is not used is ended.

        Raises:
            OtherBrowser: Another browser began it; it is ended for both.
            SignInRefused: It is not trusted.
            ElicitationUnknown: The consent request is over; what was given meanwhile is ended.
            WrongAccount: It opens another account than this user's; it is ended.
            GrantRefused: The code is not accepted.
            Throttled: Too many failures lately; the code was not sent.
            NextcloudError: The provider or Nextcloud could not be asked.
        """
        async with spent_unless_used(self._database.spent_codes, params):
            grant_request = await self._take(params, token)
            try:
                issuer = await self._provider.callback_issuer()
                check_issuer(params, issuer, required=issuer is not None)
                code = code_of(params)
            except SignInRefused:
                await self._spend(grant_request, params)
                raise
            return await self._finish(grant_request, code, params, who, token)

    async def _finish(
        self, grant_request: GrantRequest, code: SecretStr | None, params: Params, who: SignedIn, token: str
    ) -> GrantDone:
        # One at a time: of a user's tabs the second finds what the first one led to, and no one
        # gets more wrong codes past the budget by sending them at once.
        async with self._turns:
            elicitation = await self._provisioning.own(grant_request.elicitation_id, who)
            if elicitation.state is ElicitationState.COMPLETE:
                # Another tab was faster. Some providers end all of a sign-in with one of its tokens: to exchange and
                # revoke the code of this tab could end what the other one has just stored.
                await self._database.spent_codes.spend(codes_in(params))
                return _over(elicitation)
            if elicitation.state.final:
                await self._spend(grant_request, params)
                return _over(elicitation)
            if code is None:
                return GrantDone(elicitation.id, None, cancelled=True)
            await self._exchange_limiter.check(who.principal, token)
            with uninterrupted():
                given = await self._exchange_code(elicitation, grant_request, code, token)
                return await self._keep(elicitation, grant_request, given, who, token)

    async def end_foreign(self, params: Params) -> NoReturn:
        """End what another browser began, with the code that came to this one.

        Raises:
            OtherBrowser: It was ended.
            SignInRefused: There is no such thing; the code is spent nevertheless.
        """
        async with spent_unless_used(self._database.spent_codes, params):
            await self._end_foreign(params)

    async def _end_foreign(self, params: Params) -> NoReturn:
        state = only_value(params, "state") or ""
        grant_request = await self._database.grant_requests.end(state, codes=codes_in(params))
        if grant_request is None or self._known is None:
            raise SignInRefused(_AGAIN)
        elicitation = await self._database.elicitations.find(grant_request.elicitation_id)
        if elicitation is not None:
            await self._audit(elicitation, "refused: another browser")
        await self._end_code(grant_request, params)
        raise OtherBrowser(_OTHER_BROWSER)

    async def _spend(self, grant_request: GrantRequest, params: Params) -> None:
        """Remember that the code of a callback is not used, and end it."""
        if codes := codes_in(params):
            await self._database.spent_codes.spend(codes)
            await self._end_code(grant_request, params)

    async def _end_code(self, grant_request: GrantRequest, params: Params) -> None:
        await end_orphaned_code(
            self._code_exchange,
            self._exchange_limiter,
            grant_request.principal,
            params,
            verifier=grant_request.verifier,
            nonce=grant_request.nonce,
        )

    async def _exchange_code(
        self, elicitation: Elicitation, grant_request: GrantRequest, code: SecretStr, token: str
    ) -> ExchangeResult:
        try:
            return await self._code_exchange.exchange(
                grant_request.principal, code=code, verifier=grant_request.verifier, nonce=grant_request.nonce
            )
        except GrantRefused as refused:
            if not isinstance(refused, MalformedCode):
                await self._exchange_limiter.failed(grant_request.principal, token)
            await self._audit(elicitation, "refused: the code")
            raise
        except WrongAccount:
            await self._audit(elicitation, "refused: wrong account")
            raise

    async def _take(self, params: Params, token: str) -> GrantRequest:
        state = only_value(params, "state")
        grant_request = await self._database.grant_requests.take(state, sign_in=token) if state else None
        if grant_request is None:
            await self._end_foreign(params)
        if grant_request.redirect_uri == self._provider.redirect_uri:
            return grant_request
        raise SignInRefused(_AGAIN)

    async def _keep(
        self,
        elicitation: Elicitation,
        grant_request: GrantRequest,
        given: ExchangeResult,
        who: SignedIn,
        token: str,
    ) -> GrantDone:
        pending_grant, kept = None, False
        try:
            if given.subject not in (None, who.principal):
                await self._audit(elicitation, "refused: confirmed by somebody else")
                raise WrongAccount(_SOMEBODY_ELSE)
            if self._mapped:
                kept = await self._connected(elicitation, given, grant_request.scopes, uid=who.uid)
            else:
                pending_grant = await self._hold(elicitation, grant_request, given, token)
                kept = True
        finally:
            if not kept:
                await self._code_exchange.give_back(who.principal, given.tokens)
        current = await self._provisioning.own(elicitation.id, who)
        if current.state.final:
            # Also where it ended while the provider was asked; then storage has discarded what came.
            await self.end_discarded()
            return _over(current)
        return GrantDone(elicitation.id, pending_grant)

    async def _hold(
        self, elicitation: Elicitation, grant_request: GrantRequest, given: ExchangeResult, token: str
    ) -> PendingGrant:
        pending_grant = PendingGrant(
            elicitation_id=elicitation.id,
            principal=grant_request.principal,
            scopes=grant_request.scopes,
            provider=self._provider.name,
            tokens=given.tokens,
            uid=given.identity.uid,
            display_name=given.identity.display_name,
            storage_id=given.identity.storage_id,
            expires_at=elicitation.expires_at,
        )
        await self._database.pending_grants.hold(pending_grant, sign_in=token)
        return pending_grant

    async def confirm(self, elicitation: Elicitation, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take the user's word on whose account was given: keep it, or end it.

        Saying twice that it is theirs changes nothing.

        Raises:
            ElicitationUnknown: Nothing waits here, or the consent request is over.
            WrongAccount: The account is another user's here, or not the one this user has.
        """
        if mine and elicitation.state is ElicitationState.COMPLETE:
            return
        pending_grant = await self._database.pending_grants.find(elicitation.id, sign_in=token)
        if pending_grant is None:
            raise ElicitationUnknown(OVER)
        if mine:
            await self.use(elicitation, pending_grant, pending_grant.scopes, who, token)
            return
        await self._discard(elicitation, token)
        await self._audit(elicitation, "refused: not my account")

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        """Fetch the picture of an account that waits for the word of its user."""
        return await self._provider.picture(pending_grant.tokens, uid=pending_grant.uid)

    async def use(
        self,
        elicitation: Elicitation,
        pending_grant: PendingGrant,
        scopes: frozenset[str],
        who: SignedIn,
        token: str,
    ) -> None:
        """Make what is held in this browser the user's connection, for this client and these scopes.

        Raises:
            ElicitationUnknown: The consent request is over.
            WrongAccount: The account is another user's here, or not the one this user has.
        """
        stored = False
        try:
            given = ExchangeResult(
                pending_grant.tokens,
                Identity(pending_grant.uid, pending_grant.display_name, pending_grant.storage_id),
            )
            # Storing it takes it from what is held, in the same transaction.
            stored = await self._connected(elicitation, given, scopes, uid=who.uid if self._mapped else None)
        finally:
            if not stored:
                await self._discard(elicitation, token)
        if not stored:
            _over(await self._provisioning.own(elicitation.id, who))

    async def _discard(self, elicitation: Elicitation, token: str) -> None:
        await self._database.pending_grants.discard(elicitation.id, sign_in=token)
        await self.end_discarded()

    async def end_discarded(self) -> None:
        """Have what no one can confirm any more ended at Nextcloud."""
        if await self._database.pending_grants.release_due(nextcloud_url=self._provisioning.nextcloud_url):
            self._outbox.wake()

    async def _connected(
        self, elicitation: Elicitation, given: ExchangeResult, scopes: frozenset[str], *, uid: str | None
    ) -> bool:
        stored = await self._provisioning.connected(
            elicitation, given, scopes, provider=self._provider.name, uid=uid
        )
        # What was replaced is ended at Nextcloud now and not in a minute.
        self._outbox.wake()
        return stored

    async def _audit(self, elicitation: Elicitation, result: str) -> None:
        entry = AuditEntry(
            at=self._clock(),
            principal=elicitation.principal,
            client_id=elicitation.client_id,
            action="consent",
            result=result,
        )
        await self._database.audit.append([entry])


def _over(elicitation: Elicitation) -> GrantDone:
    """Say how a consent request ended that another tab was faster with: done is done, whichever it was."""
    if elicitation.state is not ElicitationState.COMPLETE:
        raise ElicitationUnknown(OVER)
    return GrantDone(elicitation.id, None)
