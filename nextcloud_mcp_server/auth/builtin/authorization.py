"""The authorization endpoint's way: from what a client asks for to the code it gets (RFC 6749 §4.1).

A client may have come out of nowhere, so its user is asked before Nextcloud is: Nextcloud lets a
browser that it knows through at once, whatever sent it. Nothing is stored until they have agreed, and
nothing is connected until they have said that they are who Nextcloud says.
"""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.authorize_request import Asked, Requests, back_to
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import (
    CLIENT,
    LIFETIME,
    CallbackResult,
    NextcloudSignIn,
)
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.code_exchange import ExchangedTokens
from nextcloud_mcp_server.auth.consent.orphaned_code import spent_unless_used
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.errors import (
    AlreadyAnswered,
    AuthorizeRefused,
    FormRefused,
    InvalidInput,
    SignInRefused,
    Unsealable,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    ClientRequest,
    CodeGrant,
    CompletedTransaction,
    TransactionKey,
)
from nextcloud_mcp_server.storage.records import Account, AuditEntry, Credential, Permission
from nextcloud_mcp_server.storage.records import Tokens as Given

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

#: How long a user may look at what is asked for.
FORM_LIFETIME = timedelta(minutes=30)

_PLACE = ("form", "authorize")
_GONE = (
    "This cannot be finished here: it belongs to another browser, is too old, or was taken back. Start again."
)
_ANSWERED = "This request of the app was answered before."


@dataclass(frozen=True, slots=True)
class Welcome:
    """Who came back from Nextcloud, and what the client will get.

    `before` is what they have allowed it earlier, which stays. `connected`: they have said yes already.
    """

    asked: Asked
    uid: str
    display_name: str
    scopes: frozenset[str]
    before: frozenset[str]
    connected: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """A client's answer: the address that takes it there, and the code in it for who must copy it."""

    asked: Asked
    url: str
    code: SecretStr


class Authorization:
    """Everything behind the pages of `/authorize`. `browser` is a random value that one browser has.

    `on_changed` is called after what a client may do was changed, so that nothing remembers it longer.
    """

    def __init__(
        self,
        database: "Database",
        requests: Requests,
        sign_in: NextcloudSignIn,
        tokens: Tokens,
        *,
        outbox: Outbox,
        keys: KeyRing,
        issuer: str,
        nextcloud_url: str,
        clock: Callable[[], datetime],
        on_changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._requests = requests
        self._sign_in = sign_in
        self._tokens = tokens
        self._outbox = outbox
        # A ring of its own: what is sealed for a form never opens as anything in the database.
        self._keys = KeyRing(keys.derive("authorize form"))
        self._issuer = issuer
        self._nextcloud_url = nextcloud_url
        self._clock = clock
        self._on_changed = on_changed

    async def read(self, params: Params, *, sender: str = "") -> Asked:
        """Check what a client asks for; see `Requests.read`."""
        return await self._requests.read(params, sender=sender)

    def seal(self, asked: Asked) -> str:
        """Write a request that was checked into a form, so that no one can change it there."""
        until = (self._clock() + FORM_LIFETIME).timestamp()
        sealed = self._keys.seal(json.dumps([asked.request.fields(), until], ensure_ascii=False), _PLACE)
        return urlsafe_b64encode(sealed.value).decode()

    async def unseal(self, sealed: str) -> Asked:
        """Read a request out of a form.

        Raises:
            FormRefused: It is not one that was sealed here, or too old.
            AuthorizeRefused: Its client is gone meanwhile, or gets its answers elsewhere now.
        """
        try:
            value = Sealed(urlsafe_b64decode(sealed.encode()))
            request, until = json.loads(self._keys.open(value, _PLACE))
        except (binascii.Error, ValueError, Unsealable):
            raise FormRefused("The form was not made here.") from None
        if self._clock().timestamp() >= until:
            raise FormRefused("The form is too old.")
        return await self._requests.again(ClientRequest.of(request))

    async def approve(self, asked: Asked, scopes: frozenset[str], *, browser: str) -> str:
        """Take the user's yes to a client; the answer is where they sign in.

        Raises:
            InvalidInput: Nothing was ticked that may be allowed.
            AlreadyAnswered: Another copy of this page was answered to its end.
        """
        if await self._tokens.answered(asked.request.key, by_other_than=""):
            raise AlreadyAnswered(_ANSWERED)
        allowed = scopes & asked.request.scopes
        if not allowed:
            raise InvalidInput("Nothing was ticked, so there is nothing to allow.")
        return await self._sign_in.begin(CLIENT, browser=browser, request=asked.request, scopes=allowed)

    def denied(self, asked: Asked) -> str:
        """Make the address that tells the client of the user's no (RFC 6749 §4.1.2.1)."""
        return back_to(asked.request, self._issuer, {"error": "access_denied"})

    async def asked(self, auth_transaction: AuthorizationTransaction) -> Asked:
        """Say again what a user had set out for."""
        if auth_transaction.request is None:
            raise AuthorizeRefused(_GONE)
        return await self._requests.again(auth_transaction.request)

    async def asked_by(self, callback: CallbackResult) -> Asked:
        """Say again what the browser that came back had set out for.

        Raises:
            AuthorizeRefused: The client is gone meanwhile; the code that came back is spent.
        """
        unused = {"code": [callback.code.get_secret_value()]}
        async with spent_unless_used(self._database.spent_codes, unused):
            return await self.asked(callback.auth_transaction)

    async def returned(self, params: Params, *, browser: str) -> CallbackResult:
        """Check how a browser came back from Nextcloud; nothing is sent anywhere.

        Raises:
            SignInRefused: It is not trusted.
            SignInCancelled: The user said no at Nextcloud.
        """
        return await self._sign_in.returned(params, browser=browser, kind="client")

    async def come_back(self, callback: CallbackResult, *, browser: str) -> str:
        """Have Nextcloud say who came back; the answer is the id of who it is.

        Raises:
            NotAMember: The user may not use this server.
            GrantRefused, Throttled, NextcloudError: Nextcloud did not say who it is.
        """

        async def keep(completed: CompletedTransaction, given: ExchangedTokens) -> str:
            auth_transaction = replace(completed.auth_transaction, expires_at=self._clock() + LIFETIME)
            returned = replace(completed, auth_transaction=auth_transaction)
            if not await self._database.auth_transactions.hold(returned, browser=browser, note=given.note):
                raise SignInRefused(_GONE)
            return auth_transaction.id

        return await self._sign_in.exchange_code(callback, browser=browser, keep=keep)

    async def completed(self, auth_transaction_id: str, *, browser: str) -> Welcome:
        """Say who came back and what for.

        Raises:
            SignInRefused: No one did in this browser, or too long ago.
            AuthorizeRefused: The client is gone meanwhile.
        """
        completed = await self._find(auth_transaction_id, browser)
        asked = await self.asked(completed.auth_transaction)
        allowed = await self._database.grants.permissions(completed.principal)
        return Welcome(
            asked=asked,
            uid=completed.principal.subject,
            display_name=completed.display_name,
            scopes=completed.auth_transaction.scopes,
            before=frozenset(
                scope
                for permission in allowed
                if permission.client_id == asked.client.client_id
                for scope in permission.scopes
            ),
            connected=completed.connected,
        )

    async def go_on(self, auth_transaction_id: str, *, browser: str) -> Sent:
        """Take the user's word that it is them: connect them, and make the client's answer.

        Said twice, the answer is the same, as long as the client has not used it: the first may not
        have reached the browser. Of two copies of one page, the first to get here makes the answer.

        Raises:
            SignInRefused: No one came back in this browser, or it was taken back.
            AlreadyAnswered: The client has had its answer.
            AuthorizeRefused: The client is gone meanwhile.
        """
        completed = await self._find(auth_transaction_id, browser)
        asked = await self.asked(completed.auth_transaction)
        if await self._tokens.answered(asked.request.key, by_other_than=auth_transaction_id):
            # What this authorization gave is not needed.
            await self._database.auth_transactions.discard(
                auth_transaction_id, browser=browser, nextcloud_url=self._nextcloud_url
            )
            self._outbox.wake()
            raise AlreadyAnswered(_ANSWERED)
        if completed.tokens is not None:
            await self._connect(completed, completed.tokens, asked, browser)
        code = await self._tokens.new_code(
            CodeGrant(
                client_id=asked.client.client_id,
                principal=completed.principal,
                redirect_uri=asked.request.redirect_uri,
                scopes=completed.auth_transaction.scopes,
                code_challenge=asked.request.code_challenge,
                resource=asked.request.resource,
                storage_id=completed.storage_id,
            ),
            transaction=TransactionKey(auth_transaction_id, browser),
            request=asked.request.key,
        )
        url = back_to(asked.request, self._issuer, {"code": code.get_secret_value()})
        return Sent(asked, url, code)

    async def not_me(self, auth_transaction_id: str, *, browser: str) -> Asked:
        """Take the user's word that it is another user: end what was given at once.

        Raises:
            SignInRefused: No one came back in this browser, or they are connected already.
            AuthorizeRefused: The client is gone meanwhile; what was given is ended all the same.
        """
        completed = await self._find(auth_transaction_id, browser)
        ended = await self._database.auth_transactions.discard(
            auth_transaction_id, browser=browser, nextcloud_url=self._nextcloud_url
        )
        if not ended:
            raise SignInRefused(_GONE)
        self._outbox.wake()
        await self._database.audit.append([self._entry(completed, "refused: not my account")])
        return await self.asked(completed.auth_transaction)

    async def tidy(self) -> None:
        """End at Nextcloud what no one can decide about any more; called again and again by the server."""
        if await self._database.auth_transactions.release_due(nextcloud_url=self._nextcloud_url):
            self._outbox.wake()

    async def _find(self, auth_transaction_id: str, browser: str) -> CompletedTransaction:
        completed = await self._database.auth_transactions.find(auth_transaction_id, browser=browser)
        if completed is None:
            raise SignInRefused(_GONE)
        return completed

    async def _connect(
        self, completed: CompletedTransaction, given: Given, asked: Asked, browser: str
    ) -> None:
        principal, now = completed.principal, self._clock()
        account = Account(
            id=str(uuid4()),
            principal=principal,
            nextcloud_url=self._nextcloud_url,
            uid=principal.subject,
            display_name=completed.display_name,
            storage_id=completed.storage_id,
            created_at=now,
            mapped=True,
        )
        credential = Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=completed.provider,
            login_name=principal.subject,
            secret=given.access_token,
            needs_reauth=False,
            version=1,
            created_at=now,
            refresh_token=given.refresh_token,
            expires_at=given.expires_at,
        )
        permission = Permission(
            principal=principal,
            client_id=asked.client.client_id,
            client_name=asked.client.name,
            scopes=completed.auth_transaction.scopes,
            granted_at=now,
        )
        stored = await self._database.grants.connect(
            completed,
            account=account,
            credential=credential,
            permission=permission,
            audit=self._entry(completed, "granted", " ".join(sorted(completed.auth_transaction.scopes))),
            browser=browser,
        )
        if not stored:
            raise SignInRefused(_GONE)
        # What was replaced is ended at Nextcloud now and not in a minute.
        self._outbox.wake()
        self._on_changed()

    def _entry(self, completed: CompletedTransaction, result: str, detail: str = "") -> AuditEntry:
        request = completed.auth_transaction.request
        return AuditEntry(
            at=self._clock(),
            principal=completed.principal,
            client_id="" if request is None else request.client_id,
            action="consent",
            result=result,
            detail=detail,
        )
