"""The sign-in for this server's own pages: a consent request of a client, or the account page.

The tokens from Nextcloud identify the user. They become the user's grant if the user allows the consent request
of this sign-in and needs a grant; otherwise they are revoked at once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import (
    AGAIN,
    OTHER_BROWSER,
    CallbackResult,
    NextcloudSignIn,
)
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.code_exchange import ExchangedTokens
from nextcloud_mcp_server.auth.consent.sign_in_flow import Person
from nextcloud_mcp_server.auth.consent.views import SignInStart
from nextcloud_mcp_server.auth.oauth_client import new_secret
from nextcloud_mcp_server.errors import OtherBrowser, SignInRefused
from nextcloud_mcp_server.storage.oauth_records import CompletedTransaction
from nextcloud_mcp_server.storage.records import Elicitation, PendingGrant, PendingGrantState

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

_CONSENT_REQUEST = "consent:"


@dataclass(frozen=True, slots=True)
class PageReturned:
    """A checked callback of a sign-in for a page; `flow` is the value that only this browser has."""

    callback: CallbackResult
    flow: str
    session: SecretStr
    state: str

    @property
    def target(self) -> str:
        """The target of the sign-in."""
        return self.callback.auth_transaction.target


class PageSignIn:
    """A `SignInFlow` at Nextcloud alone."""

    def __init__(self, database: "Database", sign_in: NextcloudSignIn) -> None:
        self._database = database
        self._sign_in = sign_in

    @property
    def mapping_claim(self) -> str | None:
        """Nextcloud's user id: the user has the account that they signed in with."""
        return "user_id"

    @property
    def brings_access(self) -> bool:
        """True: the tokens of the sign-in open the account."""
        return True

    async def begin(self, target: str, *, another: bool = False) -> SignInStart:
        """Build the authorization URL at Nextcloud, which cannot be asked for another user (`another`)."""
        del another
        flow = new_secret()
        url = await self._sign_in.begin(target, browser=flow.get_secret_value())
        return SignInStart(url=url, flow=flow)

    async def check_callback(self, flow: str, params: Params) -> PageReturned:
        """Check the parameters of a callback; see `NextcloudSignIn.check_callback`.

        If another browser has finished this sign-in, its session is ended: the code was in two browsers.
        """
        state = next(iter(params.get("state", ())), "")
        try:
            callback = await self._sign_in.check_callback(params, browser=flow, kind="page")
        except SignInRefused:
            if await self._database.sign_ins.end_of_other_browser(state, flow=flow):
                raise OtherBrowser(OTHER_BROWSER) from None
            raise
        return PageReturned(callback, flow, new_secret(), state)

    async def knows(self, state: str) -> bool:
        """Tell whether a `state` was made here, for a page or for a client: both are in one table."""
        return await self._database.auth_transactions.knows(state)

    async def exchange_code(self, returned: PageReturned) -> Person:
        """Exchange the code, and return the user; store the tokens only if they are needed."""
        session = returned.session.get_secret_value()

        async def keep(completed: CompletedTransaction, given: ExchangedTokens) -> Person:
            await self._keep(completed, given, session)
            uid = completed.principal.subject
            return Person(
                completed.principal, completed.display_name or uid, uid, sub=returned.flow, sid=returned.state
            )

        return await self._sign_in.exchange_code(returned.callback, browser=returned.flow, keep=keep)

    async def _keep(self, completed: CompletedTransaction, given: ExchangedTokens, session: str) -> None:
        elicitation = await self._needing(completed)
        if elicitation is None:
            await self._sign_in.discard(given)
            return
        pending_grant = PendingGrant(
            elicitation_id=elicitation.id,
            principal=completed.principal,
            scopes=elicitation.scopes,
            provider=completed.provider,
            tokens=given.tokens,
            uid=completed.principal.subject,
            display_name=completed.display_name,
            storage_id=completed.storage_id,
            expires_at=elicitation.expires_at,
        )
        held = await self._database.pending_grants.hold(pending_grant, sign_in=session, note=given.note)
        if held is PendingGrantState.NOT_STORED:
            raise SignInRefused(AGAIN)

    async def _needing(self, completed: CompletedTransaction) -> Elicitation | None:
        """Return the consent request that needs the tokens, or None.

        It must be this user's own, and the user must have no working grant.
        """
        target = completed.auth_transaction.target
        if not target.startswith(_CONSENT_REQUEST):
            return None
        elicitation = await self._database.elicitations.find(target.removeprefix(_CONSENT_REQUEST))
        if elicitation is None or elicitation.principal != completed.principal or elicitation.state.final:
            return None
        grant = await self._database.grants.find(completed.principal, elicitation.client_id)
        works = grant is not None and not grant.credential.needs_reauth
        return None if works else elicitation
