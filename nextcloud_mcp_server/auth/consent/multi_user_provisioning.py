"""The transitions of the consent state machine that exist only on a multi-user server.

Each takes the signed-in user: only the user whom a consent request asks may move it.
"""

from dataclasses import replace
from typing import NoReturn
from uuid import uuid4

from nextcloud_mcp_server.auth.consent.provider import ExchangeResult
from nextcloud_mcp_server.auth.consent.provisioning import OVER, Provisioning
from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.errors import ElicitationUnknown, OtherPerson, WrongAccount
from nextcloud_mcp_server.storage.records import (
    Account,
    Credential,
    Elicitation,
    ElicitationState,
    LoginFlow,
    SignedIn,
)

#: So many attempts by other users end a consent request: its link has been passed on.
MOST_REFUSALS = 3

_GOT_AROUND = (
    "Another user opened the link several times, so it was closed; ask your assistant for a new one."
)


class MultiUserProvisioning(Provisioning):
    """`Provisioning` for many users, who sign in before they answer."""

    async def own(self, elicitation_id: str, who: SignedIn) -> Elicitation:
        """Return a consent request of the signed-in user. An attempt by another user is audited and counted.

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
        # The order matters; `view` gives the reason.
        flow = await self._database.login_flows.find(elicitation_id)
        return await self._consent_request(await self.own(elicitation_id, who), flow)

    async def _refuse(self, elicitation: Elicitation, who: SignedIn) -> NoReturn:
        if elicitation.state.final:
            raise ElicitationUnknown(OVER)
        context = f"{who.principal.issuer} {who.principal.subject}"
        entries = [
            self._audit(elicitation, "consent", "refused: another person", context),
            self._audit(elicitation, "consent", "refused: of another person", "", principal=who.principal),
        ]
        await self._database.audit.append(entries)
        if await self._database.elicitations.count_refusal(elicitation.id) >= MOST_REFUSALS:
            await self._finish(elicitation, ElicitationState.FAILED, error=_GOT_AROUND)
        raise OtherPerson("This request belongs to another account. Nothing was shared.")

    async def follow(self, elicitation: Elicitation, scopes: frozenset[str], *, uid: str) -> None:
        """Start a login flow at Nextcloud that must open the account `uid`; it has no callback.

        Raises:
            ElicitationUnknown: The consent request was deleted meanwhile.
            WrongAccount: The flow was started for another account.
            NextcloudError: Nextcloud could not be asked; the consent request stays open for another try.
        """
        await self._provider.authorize_url(elicitation, scopes, uid=uid)

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
        identity, tokens = given.identity, given.tokens
        account = replace(self._account(elicitation.principal, identity), mapped=uid is not None)
        credential = Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=provider,
            login_name=identity.uid,
            secret=tokens.access_token,
            needs_reauth=False,
            version=1,
            created_at=account.created_at,
            refresh_token=tokens.refresh_token,
            expires_at=tokens.expires_at,
        )
        try:
            if uid is not None:
                _require_account(account, uid)
            return await self._store(elicitation, None, account, credential, scopes & self._policy.bound)
        except WrongAccount as error:
            await self._wrong_account(elicitation, identity.uid, error)
            raise

    async def _store(
        self,
        elicitation: Elicitation,
        flow: LoginFlow | None,
        account: Account,
        credential: Credential,
        scopes: frozenset[str],
    ) -> bool:
        """Store a grant. One of a login flow must be of the account that the flow was started for.

        The link of a login flow suffices to finish it, with any account: every holder of the link can do that.
        So a flow without an account, which a single-user server started, is refused.
        """
        if flow is not None:
            _require_account(account, flow.uid or "")
            account = replace(account, mapped=True)
        return await super()._store(elicitation, flow, account, credential, scopes)

    async def _wrong_account(self, elicitation: Elicitation, uid: str, error: WrongAccount) -> None:
        """Audit a wrong account, and leave the consent request open: its user can sign in to Nextcloud again."""
        await self._database.elicitations.set_error(elicitation.id, str(error))
        refused = self._audit(elicitation, "consent", "refused: wrong account", uid)
        await self._database.audit.append([refused])


def _require_account(account: Account, uid: str) -> None:
    if account.uid != uid:
        raise WrongAccount(
            f"Nextcloud answered for {account.uid!r}, but your account is {uid!r}. Nothing was stored."
            f" Sign in to Nextcloud as {uid!r} and try again."
        )
