"""The consent service of every mode: sign-in, consent, the grant flow, the account page.

What each user may do is decided here and in the classes below, never in a page. Each method takes the signed-in
user, or the token of the browser session; a refusal is an exception. In single-user mode there is one implicit
user, and no sign-in.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from nextcloud_mcp_server.auth.account_page import REVOKE_SECONDS, AccountPage, ClientLogos, ClientTokens
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.grant_flow import GrantFlow
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, spent_unless_used
from nextcloud_mcp_server.auth.consent.policy import OVER, Policy
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
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
    OtherBrowser,
    SignInRefused,
)
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import Elicitation, OpenSignIn, PendingGrant, SignedIn

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: How long a browser session lasts.
SESSION_LIFETIME = timedelta(minutes=15)

_TARGET = re.compile(r"account|consent:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ConsentService:
    """The consent state machine, as browsers reach it.

    Without a redirect `provider`, users confirm in a login flow at Nextcloud, which this server's page follows.
    Every holder of its link can finish it, so there must be a mapping where users sign in. Without a `sign_in`
    every browser is that of the one implicit user.
    """

    def __init__(
        self,
        database: "Database",
        provisioning: Provisioning,
        sign_in: SignInFlow[Any] | None,
        provider: RedirectProvider | None,
        *,
        outbox: Outbox,
        policy: Policy,
        exchange_limiter: ExchangeLimiter,
        clock: Callable[[], datetime],
        on_changed: Callable[[], None],
        tokens: ClientTokens | None = None,
        logos: ClientLogos | None = None,
        revoke_seconds: float = REVOKE_SECONDS,
    ) -> None:
        mapped = sign_in is not None and sign_in.mapping_claim is not None
        if provider is None and sign_in is not None and not mapped:
            raise ConfigurationError(
                "GRANT_PROVIDER=login_flow needs to know each user's Nextcloud account beforehand: name the "
                "claim that holds it in ACCOUNT_MAPPING."
            )
        self._database = database
        self._provisioning = provisioning
        self._known_sign_in = sign_in
        self._follows = provider is None
        self._clock = clock
        self._grant_flow = GrantFlow(
            database,
            provisioning,
            provider,
            outbox=outbox,
            exchange_limiter=exchange_limiter,
            clock=clock,
            mapped=mapped,
        )
        self._page = AccountPage(
            database,
            outbox=outbox,
            policy=policy,
            clock=clock,
            on_changed=on_changed,
            tokens=tokens,
            logos=logos,
            revoke_seconds=revoke_seconds,
        )

    @property
    def _sign_in(self) -> SignInFlow[Any]:
        if self._known_sign_in is None:
            raise ElicitationUnknown(OVER)
        return self._known_sign_in

    @property
    def _brings_access(self) -> bool:
        return self._known_sign_in is not None and self._known_sign_in.brings_access

    @property
    def implicit_user(self) -> SignedIn | None:
        """The one user of single-user mode; None where users sign in."""
        return None if self._known_sign_in is not None else self._provisioning.implicit_user

    @property
    def can_switch(self) -> bool:
        """Whether a sign-in can ask for another user: Nextcloud signs its own session in without asking."""
        return not self._sign_in.brings_access

    async def begin_sign_in(self, target: str, *, another: bool = False) -> SignInStart:
        """Start a sign-in for the target `consent:<id>` or `account`; nothing is stored.

        With `another` the identity provider asks for the user even if it has a session. Whether the consent
        request exists is not looked up: before a sign-in all links look the same.

        Raises:
            ElicitationUnknown: The target is neither of the two.
            IssuerUnavailable: The identity provider's metadata could not be read.
        """
        if not _TARGET.fullmatch(target):
            raise ElicitationUnknown(OVER)
        return await self._sign_in.begin(target, another=another)

    async def finish_sign_in(self, flow: str, params: Params, *, place: str = "") -> SignInDone:
        """Handle the callback of a sign-in, and create a browser session.

        `place` describes the browser in the user's own list.

        Raises:
            SignInRefused: The callback failed a check.
            IssuerUnavailable: The identity provider could not be asked.
        """
        try:
            returned = await self._sign_in.check_callback(flow, params)
        except OtherBrowser as refused:
            await self._end_in_both(refused.sign_in_id)
            raise
        token = returned.session
        async with spent_unless_used(self._database.spent_codes, params):
            if await self._database.sign_ins.find(token.get_secret_value()) is not None:
                # The session of this sign-in exists: its callback was handled before.
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
        # Of two concurrent callbacks, the second fails here, because the row exists.
        await self._database.sign_ins.create(
            token.get_secret_value(), signed_in, sub=person.sub, sid=person.sid
        )
        if await self._database.spent_codes.is_spent(hash_of(token.get_secret_value())):
            # It came back in another browser, too, while this one exchanged the code.
            await self.sign_out(token.get_secret_value())
            raise OtherBrowser("This sign-in came back in two browsers, so it was ended in both.")
        return SignInDone(token=token, signed_in=signed_in, target=returned.target)

    async def _end_in_both(self, sign_in_id: str) -> None:
        """End the browser session that a sign-in has given, or gives at this moment, to another browser."""
        if sign_in_id:
            await self._database.spent_codes.spend([sign_in_id])
            await self._database.sign_ins.delete_by_id(sign_in_id)
        await self._grant_flow.end_discarded()

    async def signed_in(self, token: str, *, is_callback: bool = False) -> SignedIn | None:
        """Return the user of a browser session; None without a session, or after its end.

        The last use is recorded, except at a callback: the page that it leads to does so.
        """
        found = await self._database.sign_ins.find(token)
        if found is not None and not is_callback:
            await self._database.sign_ins.used(token)
        return found

    async def sign_ins(self, who: SignedIn) -> list[OpenSignIn]:
        """List the browser sessions of this user."""
        return await self._database.sign_ins.open(who.principal)

    async def end_sign_in(self, who: SignedIn, sign_in_id: str) -> None:
        """End one of the user's browser sessions, and the flows begun in it; an unknown id changes nothing."""
        await self._database.sign_ins.end(who.principal, sign_in_id)
        await self._grant_flow.end_discarded()

    async def sign_out(self, token: str) -> None:
        """End one browser session, and the flows begun in it."""
        await self._database.sign_ins.delete(token)
        await self._grant_flow.end_discarded()

    async def sign_out_everywhere(self, who: SignedIn) -> None:
        """End all browser sessions of a user, with their flows, and all tokens of their clients.

        These are the tokens that this server issued.
        """
        await self._database.sign_ins.delete_all(who.principal)
        await self._page.sign_out_clients(who)
        await self._grant_flow.end_discarded()

    async def view(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        """Return a consent request as its page shows it to its user.

        Raises:
            ElicitationUnknown: There is none.
            OtherPerson: It is another user's; that was audited, and the third attempt ends the request.
        """
        return await self._provisioning.see(elicitation_id, who)

    async def allow(
        self, elicitation_id: str, who: SignedIn, token: str, scopes: frozenset[str]
    ) -> str | None:
        """Record the ticked scopes; return the URL at which the user confirms, or None to stay on the page.

        It is None if the user is connected, or if the consent request now has a login flow that the page
        follows.

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
        pending_grant = await self._grant_of_sign_in(elicitation, token)
        if pending_grant is not None:
            await self._grant_flow.use(elicitation, pending_grant, allowed, who, token)
            return None
        if self._follows:
            await self._provisioning.follow(elicitation, allowed, uid=uid)
            return None
        return await self._grant_flow.start(elicitation, allowed, who, token)

    async def decline(self, elicitation_id: str, who: SignedIn) -> None:
        """End a consent request; a credential that Nextcloud gave for it or still gives is revoked there.

        Raises:
            ElicitationUnknown: The consent request is over, or never was.
            OtherPerson: It is another user's.
        """
        await self._open(elicitation_id, who)
        await self._provisioning.decline(elicitation_id)
        await self._grant_flow.end_discarded()

    async def finish_grant(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        """Handle the callback of the grant provider; see `GrantFlow.finish`."""
        return await self._grant_flow.finish(params, who, token, account_of=self._account_of)

    async def end_foreign(self, params: Params) -> None:
        """Refuse a callback in a browser in which no user is signed in; see `GrantFlow.end_foreign`."""
        await self._grant_flow.end_foreign(params)

    async def spend_if_known(self, params: Params) -> None:
        """Mark the code of a callback as spent without handling it, if its `state` was made here.

        The address of the browser has sent too many callbacks, so nothing is exchanged and nothing is ended:
        this costs one query and one row. A callback with several states or codes is forged.

        Raises:
            StorageError: The database cannot be used.
        """
        states, codes = params.get("state", ()), codes_in(params)
        if len(states) != 1 or len(codes) != 1:
            return
        if await self._sign_in.knows(states[0]) or await self._database.grant_requests.knows(states[0]):
            await self._database.spent_codes.spend(codes)

    async def pending_grant(self, elicitation_id: str, who: SignedIn, token: str) -> PendingGrant | None:
        """Return the pending grant of this browser, which waits for the user's confirmation.

        Raises:
            ElicitationUnknown: There is no such consent request.
            OtherPerson: It is another user's.
        """
        await self._provisioning.own(elicitation_id, who)
        if self._brings_access:
            # The sign-in itself identified the account, so there is nothing to confirm.
            return None
        return await self._database.pending_grants.find(elicitation_id, sign_in=token)

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        """Fetch the picture of the account of a pending grant; None where there is none."""
        return await self._grant_flow.picture(pending_grant)

    async def confirm(self, elicitation_id: str, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take the user's answer whether the account is theirs: store the grant, or revoke it.

        See `GrantFlow.confirm`.

        Raises:
            OtherPerson: It is another user's consent request.
        """
        elicitation = await self._provisioning.own(elicitation_id, who)
        await self._grant_flow.confirm(elicitation, who, token, mine=mine)

    async def account(self, who: SignedIn) -> AccountView:
        """Return what the account page shows of the user's connection."""
        return await self._page.view(who)

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        """Set the scopes of one client; see `AccountPage.set_scopes`."""
        await self._page.set_scopes(who, client_id, scopes)

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        """Pause one client's access, or resume it; see `AccountPage.pause`."""
        await self._page.pause(who, client_id, paused=paused)

    async def remove(self, who: SignedIn, client_id: str) -> None:
        """Delete one client's permission; see `AccountPage.remove`."""
        await self._page.remove(who, client_id)

    async def sign_out_client(self, who: SignedIn, client_id: str) -> None:
        """End the tokens that this server issued to one client; its permission stays for its next sign-in."""
        await self._page.sign_out_clients(who, client_id)

    async def disconnect(self, who: SignedIn) -> bool:
        """End the user's whole connection; return whether Nextcloud has confirmed the revocation already."""
        return await self._page.disconnect(who)

    async def clean_up(self) -> None:
        """End and delete what has expired; the server calls this periodically."""
        await self._provisioning.expire()
        await self._database.sign_ins.purge()
        await self._grant_flow.end_discarded()

    async def _grant_of_sign_in(self, elicitation: Elicitation, token: str) -> PendingGrant | None:
        """Return the pending grant that the sign-in itself brought for this consent request."""
        if not self._brings_access:
            return None
        return await self._database.pending_grants.find(elicitation.id, sign_in=token)

    async def _open(self, elicitation_id: str, who: SignedIn) -> Elicitation:
        elicitation = await self._provisioning.own(elicitation_id, who)
        if elicitation.state.final:
            raise ElicitationUnknown(OVER)
        return elicitation

    def _account_of(self, who: SignedIn) -> str | None:
        claim = None if self._known_sign_in is None else self._known_sign_in.mapping_claim
        if claim is not None and who.uid is None:
            raise SignInRefused(
                f"Your sign-in does not say which Nextcloud account is yours (claim {claim!r});"
                " tell the operator."
            )
        return who.uid
