"""The consent service of multi-user modes: sign-in, consent, the grant flow, the account page.

Who may do what is decided here and below, never in a page. Each question comes with who is signed
in, or with the token of the browser's session; a refusal is an exception.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from nextcloud_mcp_server.auth.account_page import REVOKE_SECONDS, AccountPage, ClientTokens
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.grant_flow import GrantFlow
from nextcloud_mcp_server.auth.consent.multi_user_provisioning import MultiUserProvisioning
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, spent_unless_used
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.consent.provisioning import OVER, Policy
from nextcloud_mcp_server.auth.consent.sign_in_flow import SignInFlow
from nextcloud_mcp_server.auth.consent.views import (
    AccountView,
    ConsentRequest,
    GrantDone,
    SignInDone,
    SignInStart,
)
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import (
    ConfigurationError,
    ElicitationUnknown,
    InvalidInput,
    SignInRefused,
)
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Elicitation, OpenSignIn, PendingGrant, SignedIn

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: How long a user stays signed in at our pages.
SESSION_LIFETIME = timedelta(minutes=15)

_TARGET = re.compile(r"account|consent:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ConsentService:
    """The state machine of consent, as many users' browsers reach it.

    Without a `provider` to come back from, users confirm in a login flow at Nextcloud, which is
    followed from our page. Anyone who has its link can finish it, so there must be a mapping.
    """

    def __init__(
        self,
        database: "Database",
        provisioning: MultiUserProvisioning,
        sign_in: SignInFlow[Any],
        provider: RedirectProvider | None,
        *,
        outbox: Outbox,
        policy: Policy,
        exchange_limiter: ExchangeLimiter,
        clock: Callable[[], datetime],
        on_changed: Callable[[], None],
        tokens: ClientTokens | None = None,
        revoke_seconds: float = REVOKE_SECONDS,
    ) -> None:
        if provider is None and sign_in.mapping_claim is None:
            raise ConfigurationError(
                "GRANT_PROVIDER=login_flow needs to know each person's Nextcloud account beforehand: name the "
                "claim that holds it in ACCOUNT_MAPPING."
            )
        self._database = database
        self._provisioning = provisioning
        self._sign_in = sign_in
        self._follows = provider is None
        self._clock = clock
        self._grant_flow = GrantFlow(
            database,
            provisioning,
            provider,
            outbox=outbox,
            exchange_limiter=exchange_limiter,
            clock=clock,
            mapped=sign_in.mapping_claim is not None,
        )
        self._page = AccountPage(
            database,
            outbox=outbox,
            policy=policy,
            clock=clock,
            on_changed=on_changed,
            tokens=tokens,
            revoke_seconds=revoke_seconds,
        )

    @property
    def can_switch(self) -> bool:
        """Whether a sign-in can be asked for another user: Nextcloud lets its own session in, unasked."""
        return not self._sign_in.brings_access

    async def begin_sign_in(self, target: str, *, another: bool = False) -> SignInStart:
        """Start a sign-in for `consent_request:<id>` or `account`; nothing is stored.

        `another` has the identity provider ask who it is, even if it has a session of its own.
        Whether there is such a consent request is not looked up: before a sign-in all links look the same.

        Raises:
            ElicitationUnknown: The target is neither.
            IssuerUnavailable: The identity provider could not be asked where to go.
        """
        if not _TARGET.fullmatch(target):
            raise ElicitationUnknown(OVER)
        return await self._sign_in.begin(target, another=another)

    async def finish_sign_in(self, flow: str, params: Params, *, place: str = "") -> SignInDone:
        """Take what the identity provider sent back with the browser, and begin a session there.

        `place` is where that browser is, for the user's own list.

        Raises:
            SignInRefused: Something about it is not trusted.
            IssuerUnavailable: The identity provider could not be asked.
        """
        returned = await self._sign_in.returned(flow, params)
        token = returned.session
        if await self._database.sign_ins.find(token.get_secret_value()) is not None:
            # The session that this question led to exists: it was answered before.
            raise SignInRefused("This sign-in was used already. Start again.")
        person = await self._sign_in.exchange_code(returned)
        now = self._clock()
        signed_in = SignedIn(
            principal=person.principal,
            display_name=person.display_name,
            uid=person.uid,
            created_at=now,
            expires_at=now + SESSION_LIFETIME,
            place=place,
        )
        # Of two answers that come at once, the second finds its place taken and fails here.
        await self._database.sign_ins.create(
            token.get_secret_value(), signed_in, sub=person.sub, sid=person.sid
        )
        return SignInDone(token=token, signed_in=signed_in, target=returned.target)

    async def signed_in(self, token: str) -> SignedIn | None:
        """Find who is signed in; None when no one is, or it is over."""
        found = await self._database.sign_ins.find(token)
        if found is not None:
            await self._database.sign_ins.used(token)
        return found

    async def sign_ins(self, who: SignedIn) -> list[OpenSignIn]:
        """List the browsers in which this user is signed in."""
        return await self._database.sign_ins.open(who.principal)

    async def end_sign_in(self, who: SignedIn, sign_in_id: str) -> None:
        """End one of them, and what was begun in it; one that is gone or another user's changes nothing."""
        await self._database.sign_ins.end(who.principal, sign_in_id)
        await self._grant_flow.end_discarded()

    async def sign_out(self, token: str) -> None:
        """End one session, and what was begun in it."""
        await self._database.sign_ins.delete(token)
        await self._grant_flow.end_discarded()

    async def sign_out_everywhere(self, who: SignedIn) -> None:
        """End every session of a user, what was begun in them, and the tokens we gave to their clients."""
        await self._database.sign_ins.delete_all(who.principal)
        await self._page.sign_out_clients(who)
        await self._grant_flow.end_discarded()

    async def view(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        """Show a consent request to the user it is for.

        Raises:
            ElicitationUnknown: There is none.
            OtherPerson: It is another user's; that was written down, and the third time ends it.
        """
        return await self._provisioning.see(elicitation_id, who)

    async def allow(
        self, elicitation_id: str, who: SignedIn, token: str, scopes: frozenset[str]
    ) -> str | None:
        """Record what was ticked; tell where the browser goes to confirm, or None when it stays here.

        It stays when the user is connected, and where the consent request has now a login flow to follow.

        Raises:
            ElicitationUnknown: The consent request is over, or never was.
            OtherPerson: It is another user's.
            InvalidInput: Nothing was ticked that may be allowed.
            SignInRefused: The operator's mapping gives this user no account.
            WrongAccount: The mapping gives them another account than they are connected to, or than
                the consent request was started for.
            Throttled: Too many failures lately.
            IssuerUnavailable: The provider's addresses could not be found out.
            NextcloudError: No login flow could be started; the consent request stays open for another try.
        """
        elicitation = await self._open(elicitation_id, who)
        allowed = scopes & self._provisioning.bound
        if not allowed:
            raise InvalidInput("Nothing was ticked, so there is nothing to allow.")
        uid = self._account_of(who)
        if await self._provisioning.permit(elicitation, allowed, uid=uid):
            return None
        pending_grant = await self._brought(elicitation, token)
        if pending_grant is not None:
            await self._grant_flow.use(elicitation, pending_grant, allowed, who, token)
            return None
        if self._follows and uid is not None:
            await self._provisioning.follow(elicitation, allowed, uid=uid)
            return None
        return await self._grant_flow.start(elicitation, allowed, who, token)

    async def decline(self, elicitation_id: str, who: SignedIn) -> None:
        """End a consent request; what Nextcloud gave for it or still gives is ended there.

        Raises:
            ElicitationUnknown: The consent request is over, or never was.
            OtherPerson: It is another user's.
        """
        await self._open(elicitation_id, who)
        await self._provisioning.decline(elicitation_id)
        await self._grant_flow.end_discarded()

    async def finish_grant(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        """Take what the grant provider sent back with the browser; see `GrantFlow.finish`."""
        async with spent_unless_used(self._database.spent_codes, params):
            self._account_of(who)
        return await self._grant_flow.finish(params, who, token)

    async def end_foreign(self, params: Params) -> None:
        """Refuse what comes back in a browser in which no one is signed in; see `GrantFlow.end_foreign`."""
        await self._grant_flow.end_foreign(params)

    async def spend_if_known(self, params: Params) -> None:
        """Spend the code of a callback that is not looked at otherwise, where its `state` is one of ours.

        The callbacks of its address are too many, so nothing is exchanged and nothing is ended: one look, and one
        row. A callback with several states or codes is forged.

        Raises:
            StorageError: The database cannot be used.
        """
        states, codes = params.get("state", ()), codes_in(params)
        if len(states) != 1 or len(codes) != 1:
            return
        if await self._sign_in.knows(states[0]) or await self._database.grant_requests.knows(states[0]):
            await self._database.spent_codes.spend(codes)

    async def pending_grant(self, elicitation_id: str, who: SignedIn, token: str) -> PendingGrant | None:
        """Find what waits in this browser for the user to say that the account is theirs.

        Raises:
            ElicitationUnknown: There is no such consent request.
            OtherPerson: It is another user's.
        """
        await self._provisioning.own(elicitation_id, who)
        if self._sign_in.brings_access:
            # Whose it is was the sign-in's question.
            return None
        return await self._database.pending_grants.find(elicitation_id, sign_in=token)

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        """Fetch the picture of the account that waits; None where there is none."""
        return await self._grant_flow.picture(pending_grant)

    async def confirm(self, elicitation_id: str, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take that answer: keep what was given, or end it at once. See `GrantFlow.confirm`.

        Raises:
            OtherPerson: It is another user's consent request.
        """
        elicitation = await self._provisioning.own(elicitation_id, who)
        await self._grant_flow.confirm(elicitation, who, token, mine=mine)

    async def account(self, who: SignedIn) -> AccountView:
        """Show what a user has connected."""
        return await self._page.view(who)

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        """Change what one client may do; see `AccountPage.set_scopes`."""
        await self._page.set_scopes(who, client_id, scopes)

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        """Let one client do nothing until it goes on, or let it go on; see `AccountPage.pause`."""
        await self._page.pause(who, client_id, paused=paused)

    async def remove(self, who: SignedIn, client_id: str) -> None:
        """End what one client may do; see `AccountPage.remove`."""
        await self._page.remove(who, client_id)

    async def sign_out_client(self, who: SignedIn, client_id: str) -> None:
        """End the tokens that we gave to one client; what it may do stays, for when it signs in again."""
        await self._page.sign_out_clients(who, client_id)

    async def disconnect(self, who: SignedIn) -> bool:
        """End everything; tell whether Nextcloud has confirmed that already."""
        return await self._page.disconnect(who)

    async def tidy(self) -> None:
        """End what ran out and forget it; called again and again by the server."""
        await self._provisioning.expire()
        await self._database.sign_ins.purge()
        await self._grant_flow.end_discarded()

    async def _brought(self, elicitation: Elicitation, token: str) -> PendingGrant | None:
        """Find what the sign-in brought for this consent request."""
        if not self._sign_in.brings_access:
            return None
        return await self._database.pending_grants.find(elicitation.id, sign_in=token)

    async def _open(self, elicitation_id: str, who: SignedIn) -> Elicitation:
        elicitation = await self._provisioning.own(elicitation_id, who)
        if elicitation.state.final:
            raise ElicitationUnknown(OVER)
        return elicitation

    def _account_of(self, who: SignedIn) -> str | None:
        claim = self._sign_in.mapping_claim
        if claim is not None and who.uid is None:
            raise SignInRefused(
                f"Your sign-in does not say which Nextcloud account is yours (claim {claim!r});"
                " tell the operator."
            )
        return who.uid
