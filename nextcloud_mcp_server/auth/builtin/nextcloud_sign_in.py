"""Signs a user in at Nextcloud, by one authorization request to Nextcloud's own OAuth app.

The tokens open the user's account and identify the user. The app has no PKCE, no nonce and no `iss`. So only a
`state` that is accepted once, together with a value that only this browser has, protects the callback. Both are
looked up before anything is sent.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params, check_issuer, code_of, only_value
from nextcloud_mcp_server.auth.consent.code_exchange import (
    SPENT,
    CodeExchange,
    ExchangedTokens,
    uninterrupted,
)
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, end_orphaned_code, spent_unless_used
from nextcloud_mcp_server.auth.consent.provider import Identity, RedirectProvider
from nextcloud_mcp_server.auth.oauth_client import new_secret
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import GrantRefused, MalformedCode, NotAMember, OtherBrowser, SignInRefused
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    ClientRequest,
    CompletedTransaction,
)
from nextcloud_mcp_server.storage.records import MADE_ANEW, AuditEntry, Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: How long a user may take at Nextcloud, and then to confirm that it is their own account.
LIFETIME = timedelta(minutes=10)

#: Prefixes of `state`, by which the callback tells the flows apart. They decide nothing else.
CLIENT_STATE, PAGE_STATE = "c-", "s-"
#: The target of a client's sign-in.
CLIENT = "client"

Kind = Literal["client", "page"]
T = TypeVar("T")
#: Stores or revokes the tokens of a completed transaction.
Keep = Callable[[CompletedTransaction, ExchangedTokens], Awaitable[T]]

OTHER_BROWSER = (
    "This sign-in began in another browser, so it was ended there and here. Nothing was connected. Begin "
    "in the browser in which you want to finish."
)
AGAIN = "This cannot be finished here: it belongs to another browser, is too old, or was used. Start again."


class SignInCancelled(SignInRefused):
    """The user refused at Nextcloud; `auth_transaction` is the transaction of that sign-in."""

    def __init__(self, auth_transaction: AuthorizationTransaction) -> None:
        super().__init__("Nothing was allowed at Nextcloud.")
        self.auth_transaction = auth_transaction


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """A callback that passed every check that needs no request."""

    auth_transaction: AuthorizationTransaction
    code: SecretStr


class NextcloudSignIn:
    """Sends browsers to Nextcloud, and identifies their users. With `groups` only members may sign in."""

    def __init__(
        self,
        database: "Database",
        provider: RedirectProvider,
        *,
        outbox: Outbox,
        exchange_limiter: ExchangeLimiter,
        issuer: str,
        nextcloud_url: str,
        groups: frozenset[str],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._provider = provider
        self._code_exchange = CodeExchange(database, provider, outbox=outbox, nextcloud_url=nextcloud_url)
        self._exchange_limiter = exchange_limiter
        self._issuer = issuer
        self._groups = groups
        self._clock = clock
        self._turns = anyio.Lock()

    async def begin(
        self,
        target: str,
        *,
        browser: str,
        request: ClientRequest | None = None,
        scopes: frozenset[str] = frozenset(),
    ) -> str:
        """Build the authorization URL at Nextcloud; it is valid for one callback in this browser."""
        prefix = CLIENT_STATE if target == CLIENT else PAGE_STATE
        state = f"{prefix}{new_secret().get_secret_value()}"
        auth_transaction = AuthorizationTransaction(
            id=secrets.token_urlsafe(24),
            target=target,
            request=request,
            scopes=scopes,
            expires_at=self._clock() + LIFETIME,
        )
        url = await self._provider.authorize_url(state=state, verifier=None, nonce=None)
        await self._database.auth_transactions.create(auth_transaction, state=state, browser=browser)
        return url

    async def returned(self, params: Params, *, browser: str, kind: Kind) -> CallbackResult:
        """Check the parameters of a callback. Nothing is sent except to end a code that is not used.

        Raises:
            OtherBrowser: Another browser began the sign-in; it is ended for both.
            SignInRefused: The callback is too late, repeated or malformed.
            SignInCancelled: The user refused at Nextcloud.
        """
        async with spent_unless_used(self._database.spent_codes, params):
            state = only_value(params, "state") or ""
            auth_transaction = await self._database.auth_transactions.take(state, browser=browser)
            if auth_transaction is None:
                return await self._end_foreign(state, params)
            try:
                _check_kind(auth_transaction, kind)
                check_issuer(params, await self._provider.callback_issuer(), required=False)
                code = code_of(params)
            except SignInRefused:
                await self._database.spent_codes.spend(codes_in(params))
                await self._end_code(params, "refused: not in the form of an answer")
                raise
        if code is None:
            raise SignInCancelled(auth_transaction)
        return CallbackResult(auth_transaction, code)

    async def _end_foreign(self, state: str, params: Params) -> NoReturn:
        if await self._database.auth_transactions.end(state, codes=codes_in(params)):
            await self._end_code(params, "refused: another browser")
            raise OtherBrowser(OTHER_BROWSER)
        raise SignInRefused(AGAIN)

    async def _end_code(self, params: Params, result: str) -> None:
        nobody = Principal(self._issuer, "")
        await self._database.audit.append([AuditEntry(self._clock(), nobody, "", "sign-in", result)])
        await end_orphaned_code(self._code_exchange, self._exchange_limiter, nobody, params)

    async def exchange_code(self, callback: CallbackResult, *, browser: str, keep: Keep[T]) -> T:
        """Exchange the code, identify the user, and let `keep` store or revoke the tokens.

        If anything raises, including `keep`, the tokens are revoked here.

        Raises:
            Throttled: Too many codes were not accepted lately.
            GrantRefused: Nextcloud does not accept this code.
            NotAMember: The user is in none of the groups that may sign in.
            NextcloudError: Nextcloud could not be asked.
        """
        # One at a time: wrong codes that are sent at once do not get past the allowance.
        unused = {"code": [callback.code.get_secret_value()]}
        async with self._turns, spent_unless_used(self._database.spent_codes, unused):
            async with self._database.one_reading():
                failures = await self._exchange_limiter.failures(None, browser)
                spent = await self._code_exchange.is_spent(callback.code)
            await self._exchange_limiter.require(failures)
            if spent:
                raise SignInRefused(SPENT)
            with uninterrupted():
                given = await self._exchange(callback.code, browser)
                return await self._settle(callback.auth_transaction, given, keep)

    async def give_back(self, given: ExchangedTokens) -> None:
        """Revoke the tokens of a sign-in at Nextcloud: they are not needed any more."""
        await self._code_exchange.revoke_pending(given)

    async def _exchange(self, code: SecretStr, browser: str) -> ExchangedTokens:
        nobody = Principal(self._issuer, "")
        try:
            return await self._code_exchange.exchange_with_pending_revocation(nobody, code=code)
        except MalformedCode:
            raise
        except GrantRefused:
            await self._exchange_limiter.failed(nobody, browser)
            raise

    async def _settle(
        self, auth_transaction: AuthorizationTransaction, given: ExchangedTokens, keep: Keep[T]
    ) -> T:
        identity = given.exchanged.identity
        principal = Principal(self._issuer, identity.uid)
        kept = False
        try:
            await self._admit(principal, identity, auth_transaction)
            completed = CompletedTransaction(
                auth_transaction=auth_transaction,
                principal=principal,
                display_name=identity.display_name,
                storage_id=identity.storage_id,
                provider=self._provider.name,
                tokens=given.tokens,
            )
            outcome = await keep(completed, given)
            kept = True
        finally:
            if not kept:
                await self.give_back(given)
        return outcome

    async def _admit(
        self, principal: Principal, identity: Identity, auth_transaction: AuthorizationTransaction
    ) -> None:
        client_id = "" if auth_transaction.request is None else auth_transaction.request.client_id
        if self._groups and self._groups.isdisjoint(identity.groups):
            refused = AuditEntry(self._clock(), principal, client_id, "sign-in", "refused: not in a group")
            await self._database.audit.append([refused])
            raise NotAMember("Your Nextcloud account is not in a group that may use this server.")
        ended = AuditEntry(self._clock(), principal, client_id, "account", MADE_ANEW)
        await self._database.grants.end_former_user(principal, identity.storage_id, ended)


def _check_kind(auth_transaction: AuthorizationTransaction, kind: Kind) -> None:
    if (auth_transaction.target == CLIENT) != (kind == "client"):
        raise SignInRefused(AGAIN)
