"""What the pages of many users need of the state machine behind them.

The pages hold no rule about who may do what: each question goes there together with who is signed
in, and a refusal comes back as an exception.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nextcloud_mcp_server.auth.consent.views import (
    AccountView,
    ConsentRequest,
    GrantDone,
    SignInDone,
    SignInStart,
)
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import OpenSignIn, PendingGrant, SignedIn

#: The parameters of a callback, each with every value it has.
Params = Mapping[str, Sequence[str]]


class ConsentBackend(Protocol):
    """Sign-in, consent request and account of any number of users."""

    @property
    def can_switch(self) -> bool:
        """Whether a sign-in can be asked to let another user in than the one its own session knows."""
        ...

    async def begin_sign_in(self, target: str, *, another: bool = False) -> SignInStart:
        """Start a sign-in for `consent_request:<id>` or `account`; nothing is written.

        `another` has the identity provider ask who it is, even if it has a session of its own.

        Raises:
            IssuerUnavailable: The identity provider could not be asked where to go.
        """
        ...

    async def finish_sign_in(self, flow: str, params: Params, *, place: str = "") -> SignInDone:
        """Take what the identity provider sent back, and begin a session; `place` is where the browser is.

        Raises:
            SignInRefused: Something about it is not trusted.
            IssuerUnavailable: The identity provider could not be asked.
        """
        ...

    async def signed_in(self, token: str) -> SignedIn | None:
        """Find who holds a session; None when there is none or it is over."""
        ...

    async def sign_ins(self, who: SignedIn) -> list[OpenSignIn]:
        """List the browsers in which a user is signed in."""
        ...

    async def end_sign_in(self, who: SignedIn, sign_in_id: str) -> None:
        """End one of them, if it is theirs."""
        ...

    async def sign_out(self, token: str) -> None:
        """End one session."""
        ...

    async def sign_out_everywhere(self, who: SignedIn) -> None:
        """End every session of a user."""
        ...

    async def view(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        """Show a consent request to the user it is for.

        Raises:
            ElicitationUnknown: There is none.
            OtherPerson: It is another user's; that was written down.
        """
        ...

    async def allow(
        self, elicitation_id: str, who: SignedIn, token: str, scopes: frozenset[str]
    ) -> str | None:
        """Record what was ticked; tell where the browser goes to confirm, or None when it stays here.

        Then the consent request is complete, or has a `login_url` for the page that follows it.
        """
        ...

    async def decline(self, elicitation_id: str, who: SignedIn) -> None:
        """End a consent request; nothing is connected."""
        ...

    async def finish_grant(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        """Take what the grant provider sent back.

        Raises:
            SignInRefused: Something about it is not trusted; nothing was sent anywhere.
            WrongAccount: It opens another account than this user's; it was ended at once.
            GrantRefused: The provider does not accept the code.
        """
        ...

    async def end_foreign(self, params: Params) -> None:
        """End what another browser began and this one brings back.

        Raises:
            SignInRefused: Always; its kind says whether there was something to end.
        """
        ...

    async def spend_if_known(self, params: Params) -> None:
        """Spend the code of a callback beyond the limit of its address, where its `state` is one of ours."""
        ...

    async def pending_grant(self, elicitation_id: str, who: SignedIn, token: str) -> PendingGrant | None:
        """Find what waits for the user to say that the account is theirs."""
        ...

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        """Fetch the picture of the account that waits; None where there is none."""
        ...

    async def confirm(self, elicitation_id: str, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take that answer: keep what was given, or end it at once."""
        ...

    async def account(self, who: SignedIn) -> AccountView:
        """Show what a user has connected."""
        ...

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        """Change what one client may do."""
        ...

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        """Let one client do nothing until it goes on; or let it go on."""
        ...

    async def remove(self, who: SignedIn, client_id: str) -> None:
        """End what one client may do."""
        ...

    async def sign_out_client(self, who: SignedIn, client_id: str) -> None:
        """Have one client sign in again; what it may do stays."""
        ...

    async def disconnect(self, who: SignedIn) -> bool:
        """End everything; tell whether Nextcloud has confirmed that already."""
        ...
