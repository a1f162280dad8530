"""The grant flow: an authorization request to the grant provider, whose callback becomes a grant.

Nextcloud's own OAuth app has no PKCE, no nonce and no `iss`. There, only two checks keep one user's access from
another, and both are made before the code is sent anywhere: the sign-in of this browser, and a `state` that was
made in it and is accepted once.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params, check_issuer, code_of, only_value
from nextcloud_mcp_server.auth.consent.code_exchange import SPENT, CodeExchange, uninterrupted
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, end_orphaned_code, spent_unless_used
from nextcloud_mcp_server.auth.consent.policy import OVER
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Identity, RedirectProvider
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.views import GrantDone
from nextcloud_mcp_server.auth.oauth_client import new_secret
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.patience import patiently
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
    PendingGrantState,
    SignedIn,
)

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: The prefix of a grant's `state`; those of sign-ins are in `auth.builtin.nextcloud_sign_in`.
GRANT_STATE = "g-"

_ANOTHER_USER = (
    "This browser was signed in to the identity provider as another user, so nothing was connected. "
    "Sign out there, and start again."
)
_OTHER_BROWSER = (
    "This began in another browser, so it was ended there and here. Nothing was connected. Open the link "
    "in the browser in which you want to finish."
)
_AGAIN = "This cannot be finished here: it belongs to another browser, is too old, or was used. Start again."


class GrantFlow:
    """Sends browsers to the grant provider, and stores or revokes what their callbacks bring.

    With `mapped`, the operator's mapping determines each user's account. Without, each user confirms on a page
    that the account is theirs before it can be used. Without a provider, no browser is sent anywhere, and every
    callback is refused.
    """

    def __init__(
        self,
        database: "Database",
        provisioning: Provisioning,
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
        self._lock = anyio.Lock()

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
        """Build the URL at which the user confirms; it is valid for one callback in this browser.

        Raises:
            Throttled: Too many failures lately; going there now could only fail.
            IssuerUnavailable: The provider's metadata could not be read.
        """
        await self._exchange_limiter.check(who.principal, token)
        # The callback tells flows apart by the prefix: a random state could begin with one of a sign-in.
        state = SecretStr(f"{GRANT_STATE}{new_secret().get_secret_value()}")
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

    async def finish(
        self, params: Params, who: SignedIn, token: str, *, account_of: Callable[[SignedIn], object]
    ) -> GrantDone:
        """Handle the callback of the grant provider. A code that is not used is spent and ended.

        `account_of` refuses a user to whom the operator's mapping gives no account. It is called after the flow of
        another browser was ended: its code opens an account, also for a user without one.

        Raises:
            OtherBrowser: Another browser began the flow; it is ended for both.
            SignInRefused: The callback failed a check.
            ElicitationUnknown: The consent request is over; tokens that were given meanwhile are revoked.
            WrongAccount: The tokens open another account than this user's; they are revoked.
            GrantRefused: The code is not accepted.
            Throttled: Too many failures lately; the code was not sent.
            NextcloudError: The provider or Nextcloud could not be asked.
        """
        async with spent_unless_used(self._database.spent_codes, params):
            grant_request = await self._take(params, token)
            try:
                account_of(who)
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
        # One at a time: of a user's tabs the second sees the result of the first, and codes that are sent at once
        # do not get past the allowance for failures.
        async with self._lock:
            code_exchange = self._code_exchange
            async with self._database.one_reading():
                elicitation = await self._provisioning.own(grant_request.elicitation_id, who)
                failures = await self._exchange_limiter.failures(who.principal, token)
                spent = code is not None and await code_exchange.is_spent(code)
            if elicitation.state is ElicitationState.COMPLETE:
                # Another tab finished first. Some providers revoke all tokens of a sign-in with one of them:
                # exchanging and revoking the code of this tab could end the grant that the other one has just
                # stored.
                await self._database.spent_codes.spend(codes_in(params))
                return _over(elicitation)
            if elicitation.state.final:
                await self._spend(grant_request, params)
                return _over(elicitation)
            if code is None:
                return GrantDone(elicitation.id, None, cancelled=True)
            await self._exchange_limiter.require(failures)
            if spent:
                raise SignInRefused(SPENT)
            with uninterrupted():
                given = await self._exchange_code(elicitation, grant_request, code, token)
                return await self._keep(elicitation, grant_request, given, who, token)

    async def end_foreign(self, params: Params) -> NoReturn:
        """End the flow that another browser began, with the code that came to this one.

        Raises:
            OtherBrowser: The flow was ended.
            SignInRefused: There is no such flow; the code is spent nevertheless.
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
        """Mark the code of a callback as spent without using it, and end it."""
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
        kept = False
        try:
            if given.subject not in (None, who.principal):
                await self._audit(elicitation, "refused: confirmed by another user")
                raise WrongAccount(_ANOTHER_USER)
            if self._mapped:
                kept = await self._connected(elicitation, given, grant_request.scopes, uid=who.uid)
                if kept:
                    return GrantDone(elicitation.id, None)
            else:
                pending_grant, held = await self._hold(elicitation, grant_request, given, token)
                kept = True
                if held is PendingGrantState.WAITS:
                    return GrantDone(elicitation.id, pending_grant)
        finally:
            if not kept:
                await self._code_exchange.discard(who.principal, given.tokens)
        # The request ended during the code exchange; storage has discarded the pending grant then.
        await self.end_discarded()
        return _over(await self._provisioning.own(elicitation.id, who))

    async def _hold(
        self, elicitation: Elicitation, grant_request: GrantRequest, given: ExchangeResult, token: str
    ) -> tuple[PendingGrant, PendingGrantState]:
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
        pending_grants = self._database.pending_grants

        async def held() -> PendingGrantState | None:
            found = await pending_grants.find(elicitation.id, sign_in=token)
            same = found is not None and found.tokens == given.tokens
            return PendingGrantState.WAITS if same else None

        hold = partial(pending_grants.hold, pending_grant, sign_in=token)
        return pending_grant, await patiently(hold, done=held)

    async def confirm(self, elicitation: Elicitation, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take the user's answer whether a pending grant's account is theirs: store the grant, or revoke it.

        Confirming twice changes nothing.

        Raises:
            ElicitationUnknown: There is no pending grant, or the consent request is over.
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
        """Fetch the picture of the account of a pending grant."""
        return await self._provider.picture(pending_grant.tokens, uid=pending_grant.uid)

    async def use(
        self,
        elicitation: Elicitation,
        pending_grant: PendingGrant,
        scopes: frozenset[str],
        who: SignedIn,
        token: str,
    ) -> None:
        """Turn a pending grant of this browser into the user's grant, for this client and these scopes.

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
            # Storing the grant deletes the pending grant in the same transaction.
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
        """Revoke discarded pending grants at Nextcloud."""
        if await self._database.pending_grants.release_due(nextcloud_url=self._provisioning.nextcloud_url):
            self._outbox.wake()

    async def _connected(
        self, elicitation: Elicitation, given: ExchangeResult, scopes: frozenset[str], *, uid: str | None
    ) -> bool:
        stored = await self._provisioning.connected(
            elicitation, given, scopes, provider=self._provider.name, uid=uid
        )
        # Revokes a replaced credential at Nextcloud now, and not in a minute.
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
    """Return the result of a consent request that another tab finished; raise if it ended without a grant."""
    if elicitation.state is not ElicitationState.COMPLETE:
        raise ElicitationUnknown(OVER)
    return GrantDone(elicitation.id, None)
