"""What the pages of multi-user modes need of the consent service.

The pages hold no rule about what a user may do: each call passes the signed-in user, and a refusal is an
exception.
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

#: The parameters of a callback, each with all its values.
Params = Mapping[str, Sequence[str]]


class ConsentBackend(Protocol):
    """Sign-in, consent requests and accounts of many users."""

    @property
    def can_switch(self) -> bool:
        """Whether a sign-in can ask for another user than that of the provider's own session."""
        ...

    async def begin_sign_in(self, target: str, *, another: bool = False) -> SignInStart:
        """Start a sign-in for `consent_request:<id>` or `account`; nothing is stored.

        With `another` the identity provider asks for the user even if it has a session.

        Raises:
            IssuerUnavailable: The identity provider's metadata could not be read.
        """
        ...

    async def finish_sign_in(self, flow: str, params: Params, *, place: str = "") -> SignInDone:
        """Handle the callback of a sign-in, and create a browser session; `place` describes the browser.

        Raises:
            SignInRefused: The callback failed a check.
            IssuerUnavailable: The identity provider could not be reached.
        """
        ...

    async def signed_in(self, token: str) -> SignedIn | None:
        """Return the user of a browser session; None without a session, or after its end."""
        ...

    async def sign_ins(self, who: SignedIn) -> list[OpenSignIn]:
        """Return the browser sessions of a user."""
        ...

    async def end_sign_in(self, who: SignedIn, sign_in_id: str) -> None:
        """End one of the user's browser sessions; an unknown id changes nothing."""
        ...

    async def sign_out(self, token: str) -> None:
        """End one browser session."""
        ...

    async def sign_out_everywhere(self, who: SignedIn) -> None:
        """End all browser sessions of a user."""
        ...

    async def view(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        """Return a consent request as its page shows it to its user.

        Raises:
            ElicitationUnknown: There is none.
            OtherPerson: It is another user's; that was audited.
        """
        ...

    async def allow(
        self, elicitation_id: str, who: SignedIn, token: str, scopes: frozenset[str]
    ) -> str | None:
        """Record the ticked scopes; return the URL at which the user confirms, or None to stay on the page.

        If it is None, the consent request is complete, or has a `login_url` for the waiting page.
        """
        ...

    async def decline(self, elicitation_id: str, who: SignedIn) -> None:
        """End a consent request; nothing is connected."""
        ...

    async def finish_grant(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        """Handle the callback of the grant provider.

        Raises:
            SignInRefused: The callback failed a check; nothing was sent anywhere.
            WrongAccount: The tokens open another account than this user's; they were revoked at once.
            GrantRefused: The provider does not accept the code.
        """
        ...

    async def end_foreign(self, params: Params) -> None:
        """End the flow that another browser began, with the code that came to this one.

        Raises:
            SignInRefused: Always; its kind says whether there was such a flow.
        """
        ...

    async def spend_if_known(self, params: Params) -> None:
        """Mark the code of a callback beyond its address's limit as spent, if its `state` was made here."""
        ...

    async def pending_grant(self, elicitation_id: str, who: SignedIn, token: str) -> PendingGrant | None:
        """Return the pending grant of this browser, which waits for the user's confirmation."""
        ...

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        """Fetch the picture of the account of a pending grant; None where there is none."""
        ...

    async def confirm(self, elicitation_id: str, who: SignedIn, token: str, *, mine: bool) -> None:
        """Take the user's answer whether the account is theirs: store the grant, or revoke it."""
        ...

    async def account(self, who: SignedIn) -> AccountView:
        """Return what the account page shows of the user's connection."""
        ...

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        """Set the scopes of one client."""
        ...

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        """Pause one client's access, or resume it."""
        ...

    async def remove(self, who: SignedIn, client_id: str) -> None:
        """Delete one client's permission."""
        ...

    async def sign_out_client(self, who: SignedIn, client_id: str) -> None:
        """End the tokens of one client; its permission stays."""
        ...

    async def disconnect(self, who: SignedIn) -> bool:
        """End the user's whole connection; return whether Nextcloud has confirmed the revocation already."""
        ...
