"""The authorization endpoint: from an authorization request to the code (RFC 6749 §4.1).

Any client may send the request, so the user is asked here before the browser goes to Nextcloud: Nextcloud lets
a browser with a session through at once, whatever sent it. Nothing is stored until the user has agreed, and
nothing is connected until the user has confirmed that it is their own account.
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
from nextcloud_mcp_server.auth.builtin.client_logos import ClientLogos
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
from nextcloud_mcp_server.nextcloud.picture import Picture
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

#: How long the form of an authorization request is valid.
FORM_LIFETIME = timedelta(minutes=30)

_PLACE = ("form", "authorize")
_GONE = (
    "This cannot be finished here: it belongs to another browser, is too old, or was taken back. Start again."
)
_ANSWERED = "This request of the app was answered before."


@dataclass(frozen=True, slots=True)
class Welcome:
    """The user who signed in at Nextcloud, and what the client will get.

    `before` are the scopes that the user allowed this client earlier, which stay. `connected`: the user has
    confirmed already.
    """

    asked: Asked
    uid: str
    display_name: str
    scopes: frozenset[str]
    before: frozenset[str]
    connected: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer to a client: its URL, and the code in that URL for users who must copy it."""

    asked: Asked
    url: str
    code: SecretStr


class Authorization:
    """Everything behind the pages of `/authorize`. `browser` is a random value that one browser has.

    `on_changed` is called after a change of what a client may do, so that caches are dropped.
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
        logos: ClientLogos | None = None,
    ) -> None:
        self._database = database
        self._logos = logos
        self._requests = requests
        self._sign_in = sign_in
        self._tokens = tokens
        self._outbox = outbox
        # A key ring of its own: a value sealed for a form can never be opened as one of the database.
        self._keys = KeyRing(keys.derive("authorize form"))
        self._issuer = issuer
        self._nextcloud_url = nextcloud_url
        self._clock = clock
        self._on_changed = on_changed

    async def logo(self, asked: Asked) -> Picture | None:
        """Return the logo of a client; none of one that imitates another client."""
        return None if self._logos is None else await self._logos.of(asked.client)

    async def read(self, params: Params, *, sender: str = "") -> Asked:
        """Check an authorization request; see `Requests.read`."""
        return await self._requests.read(params, sender=sender)

    def seal(self, asked: Asked) -> str:
        """Seal a checked request for a form, so that it cannot be changed there."""
        until = (self._clock() + FORM_LIFETIME).timestamp()
        sealed = self._keys.seal(json.dumps([asked.request.fields(), until], ensure_ascii=False), _PLACE)
        return urlsafe_b64encode(sealed.value).decode()

    async def unseal(self, sealed: str) -> Asked:
        """Open a sealed request from a form.

        Raises:
            FormRefused: It was not sealed here, or is too old.
            AuthorizeRefused: Its client was deleted meanwhile, or has another redirect URI now.
        """
        try:
            value = Sealed(urlsafe_b64decode(sealed.encode()))
            request, until = json.loads(self._keys.open(value, _PLACE))
        except (binascii.Error, ValueError, Unsealable):
            raise FormRefused("The form was not made by this server, or was changed.") from None
        if self._clock().timestamp() >= until:
            raise FormRefused("The form is too old.")
        return await self._requests.again(ClientRequest.of(request))

    async def approve(self, asked: Asked, scopes: frozenset[str], *, browser: str) -> str:
        """Record that the user agreed; return the URL at which they sign in.

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
        """Build the URL that tells the client that the user refused (RFC 6749 §4.1.2.1)."""
        return back_to(asked.request, self._issuer, {"error": "access_denied"})

    async def asked(self, auth_transaction: AuthorizationTransaction) -> Asked:
        """Return the client's request of an authorization transaction, checked again."""
        if auth_transaction.request is None:
            raise AuthorizeRefused(_GONE)
        return await self._requests.again(auth_transaction.request)

    async def asked_by(self, callback: CallbackResult) -> Asked:
        """Return the client's request of a callback, checked again.

        Raises:
            AuthorizeRefused: The client was deleted meanwhile; the code of the callback is spent.
        """
        unused = {"code": [callback.code.get_secret_value()]}
        async with spent_unless_used(self._database.spent_codes, unused):
            return await self.asked(callback.auth_transaction)

    async def check_callback(self, params: Params, *, browser: str) -> CallbackResult:
        """Check the parameters of Nextcloud's callback; nothing is sent anywhere.

        Raises:
            SignInRefused: A check failed.
            SignInCancelled: The user refused at Nextcloud.
        """
        return await self._sign_in.check_callback(params, browser=browser, kind="client")

    async def finish_sign_in(self, callback: CallbackResult, *, browser: str) -> str:
        """Exchange the code of a callback, and store the user and the tokens; return the transaction's id.

        Raises:
            NotAMember: The user may not use this server.
            GrantRefused, Throttled, NextcloudError: Nextcloud did not identify the user.
        """

        async def keep(completed: CompletedTransaction, given: ExchangedTokens) -> str:
            auth_transaction = replace(completed.auth_transaction, expires_at=self._clock() + LIFETIME)
            returned = replace(completed, auth_transaction=auth_transaction)
            if not await self._database.auth_transactions.hold(returned, browser=browser, note=given.note):
                raise SignInRefused(_GONE)
            return auth_transaction.id

        return await self._sign_in.exchange_code(callback, browser=browser, keep=keep)

    async def completed(self, auth_transaction_id: str, *, browser: str) -> Welcome:
        """Return the user who signed in, and the client's request.

        Raises:
            SignInRefused: No sign-in was completed in this browser, or it has expired.
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

    async def confirm(self, auth_transaction_id: str, *, browser: str) -> Sent:
        """Record that the user confirmed their account: store the grant, and make the client's answer.

        A second call returns the same answer as long as the client has not used it: the first one may not have
        reached the browser. Of two copies of one page, the first to get here makes the answer.

        Raises:
            SignInRefused: No sign-in was completed in this browser, or the user withdrew it.
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

    async def reject(self, auth_transaction_id: str, *, browser: str) -> Asked:
        """Record that the account is not the user's: revoke the tokens at once.

        Raises:
            SignInRefused: No sign-in was completed in this browser, or the user is connected already.
            AuthorizeRefused: The client was deleted meanwhile; the tokens are revoked all the same.
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

    async def clean_up(self) -> None:
        """Revoke the tokens of expired transactions at Nextcloud; the server calls this periodically."""
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
        # Revokes a replaced credential at Nextcloud now, and not in a minute.
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
