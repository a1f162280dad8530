"""Issues, refreshes, revokes and verifies the codes and tokens of the built-in authorization server.

    code     ncc_ + 43 random characters                     60 s, once
    access   nca_ + 43 random characters                     1 h
    refresh  ncr_ + 22 of its family + 43 of its generation  90 days after the sign-in (a setting)

Only hashes are stored. A family is everything that came of one code. The 43 characters of a generation are
derived from the whole previous token. So a client that shows the previous token again can get the same
successor again, while the database and the keys are not enough to derive it. That is done for a minute at most,
and not after the successor was used: a client whose answer was lost retries at once, a thief may come later.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.ended_sign_ins import SIGN_IN
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import (
    AlreadyAnswered,
    IssuerUnavailable,
    OAuthRefusal,
    SignInRefused,
    StorageError,
    TokenRefused,
)
from nextcloud_mcp_server.nextcloud import spelling
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.oauth_records import (
    CodeGrant,
    Fresh,
    Given,
    Holder,
    Refused,
    TransactionKey,
)
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

CODE_TIME = timedelta(seconds=60)
ACCESS_TIME = timedelta(hours=1)
REFRESH_TIME = timedelta(days=90)
GRACE = timedelta(seconds=60)

_CODE, _ACCESS, _REFRESH = "ncc_", "nca_", "ncr_"
_RANDOM = r"[A-Za-z0-9_-]{43}"
_CODE_FORM = re.compile(_CODE + _RANDOM)
_ACCESS_FORM = re.compile(_ACCESS + _RANDOM)
_REFRESH_FORM = re.compile(rf"{_REFRESH}(?P<family>[A-Za-z0-9_-]{{22}}){_RANDOM}")
#: RFC 7636 §4.1 and §4.2: a SHA-256 in base64url, and the code verifier that it is made of.
_CHALLENGE = re.compile(_RANDOM)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")

_AGAIN = "Start again at the authorization endpoint."
_REFUSALS = {
    "unknown": ("invalid_grant", f"It is unknown, too old, or another client's. {_AGAIN}"),
    "used": (
        "invalid_grant",
        f"It was used before, so two may hold it: everything that came of it has been ended. {_AGAIN}",
    ),
    "unfit": (
        "invalid_grant",
        f"The code was given for another redirect_uri, code_verifier or resource, and is spent. {_AGAIN}",
    ),
    "person": (
        "invalid_grant",
        f"Nextcloud does not let this person in any more, or not this server for them. {_AGAIN}",
    ),
    "scope": ("invalid_scope", "None of these scopes was granted."),
}


#: Checks whether a user may still use this server; returns the reason why not, for the audit log, or None.
StillAllowed = Callable[[Principal], Awaitable[str | None]]


async def _allow_everyone(_: Principal) -> None:
    """Allow every user: the default where no upstream is asked."""


@dataclass(frozen=True, slots=True)
class Issued:
    """The answer to a token request (RFC 6749 §5.1)."""

    access_token: SecretStr
    refresh_token: SecretStr
    expires_in: int
    scopes: frozenset[str]


class Tokens:
    """Issues, refreshes, revokes and verifies tokens; asks only the database.

    `issuer` is this server's own, which a user's principal carries; `resource` is the one MCP endpoint that the
    tokens are for (RFC 8707). A sign-in lasts for `lifetime`, however often it is refreshed, and no longer than
    its user is `still_allowed`.
    """

    def __init__(
        self,
        database: "Database",
        *,
        issuer: str,
        resource: str,
        keys: KeyRing,
        clock: Callable[[], datetime],
        grace: timedelta = GRACE,
        lifetime: timedelta = REFRESH_TIME,
        still_allowed: StillAllowed = _allow_everyone,
    ) -> None:
        self._database = database
        self._issuer = issuer
        self._resource = resource
        self._keys = keys.derive("successor of a refresh token")
        self._code_key = keys.derive("code of a transaction")[0]
        self._clock = clock
        self._grace = grace
        self._lifetime = lifetime
        self._still_allowed = still_allowed

    def audience(self, resource: str | None) -> str:
        """Return the audience of tokens requested with this `resource` (RFC 8707 §2).

        Raises:
            OAuthRefusal: It is not this server's resource (`invalid_target`).
        """
        if resource is not None and not spelling.same(resource, self._resource):
            raise OAuthRefusal(
                "invalid_target", "The resource is not the one that this server gives tokens for."
            )
        return self._resource

    async def new_code(
        self, grant: CodeGrant, *, transaction: TransactionKey | None = None, request: str = ""
    ) -> SecretStr:
        """Make the authorization code for a client (RFC 6749 §4.1.2).

        A `request` gets one code; the same `transaction` gets the same code again.

        Raises:
            SignInRefused: `transaction` was ended meanwhile.
            AlreadyAnswered: The request's code was used already, or was made for another transaction.
            OAuthRefusal: The resource is not this server's, or the challenge is not S256 (RFC 7636 §4.2).
        """
        grant = replace(grant, resource=self.audience(grant.resource))
        if not is_challenge(grant.code_challenge):
            raise OAuthRefusal("invalid_request", "A code_challenge with the method S256 is needed.")
        code = _new(_CODE) if transaction is None else self._code_of(transaction)
        stored = await self._database.oauth_tokens.add_code(
            code, grant, expires_at=self._clock() + CODE_TIME, transaction=transaction, request=request
        )
        if stored == "over":
            raise SignInRefused("This was ended meanwhile. Start again.")
        if stored == "answered":
            raise AlreadyAnswered("The app has had the answer to this request already.")
        return SecretStr(code)

    async def answered(self, request: str, *, by_other_than: str) -> bool:
        """Tell whether a request got its code by another authorization transaction than `by_other_than`."""
        return await self._database.oauth_tokens.answered(request, by_other_than=by_other_than)

    def _code_of(self, transaction: TransactionKey) -> str:
        # The browser's value is not stored, so the code cannot be derived from the database and the keys.
        return (
            f"{_CODE}{_derived(self._code_key, f'{transaction.auth_transaction_id} {transaction.browser}')}"
        )

    async def exchange_code(
        self,
        code: str,
        *,
        client_id: str,
        redirect_uri: str | None,
        verifier: str | None,
        resource: str | None,
    ) -> Issued:
        """Exchange a code for tokens (RFC 6749 §4.1.3, RFC 7636 §4.5).

        The client has been authenticated. The redirect URI may be absent, since the verifier binds the code to
        its client already (OAuth 2.1 §10.2), but it must not differ.

        Raises:
            OAuthRefusal: The code is not accepted. `invalid_target` and `invalid_request` leave it unused.
        """
        self.audience(resource)
        if verifier is None:
            raise OAuthRefusal("invalid_request", "The code_verifier is missing.")
        if _CODE_FORM.fullmatch(code) is None:
            raise _refusal("unknown")

        def fits(grant: CodeGrant) -> bool:
            return (
                redirect_uri in (None, grant.redirect_uri)
                and grant.resource == self._resource
                and _matches(verifier, grant.code_challenge)
            )

        family = secrets.token_urlsafe(16)
        fresh = self._fresh(family, _new(f"{_REFRESH}{family}"))
        given = await self._database.oauth_tokens.exchange_code(
            code, client_id=client_id, fits=fits, fresh=fresh
        )
        return _issued(given, fresh)

    async def refresh(
        self, token: str, *, client_id: str, scopes: frozenset[str] | None, resource: str | None
    ) -> Issued:
        """Exchange a refresh token for its successor and a new access token (RFC 6749 §6).

        The client has been authenticated. `scopes` narrow the access token; those that were not granted are
        left out (RFC 6749 §3.3), since many clients repeat all the scopes of their first request.

        Raises:
            OAuthRefusal: The refresh token is not accepted.
        """
        self.audience(resource)
        form = _REFRESH_FORM.fullmatch(token)
        if form is None:
            raise _refusal("unknown")
        family = form["family"]
        await self._require_allowed(token, family, client_id)
        successors = [f"{_REFRESH}{family}{_derived(key, token)}" for key in self._keys]
        fresh = self._fresh(family, successors[0])
        given = await self._database.oauth_tokens.rotate(
            token,
            client_id=client_id,
            resource=self._resource,
            scopes=scopes or None,
            successors=successors,
            grace=self._grace,
            lifetime=self._lifetime,
            fresh=fresh,
        )
        return _issued(given, fresh)

    async def _require_allowed(self, token: str, family: str, client_id: str) -> None:
        """End a family whose user may not use this server any more.

        No check is made for unknown tokens.
        """
        tokens = self._database.oauth_tokens
        person = await tokens.whose(token, family=family, client_id=client_id)
        why = None if person is None else await self._still_allowed(person)
        if why is not None:
            await tokens.revoke_family(family, client_id=client_id, why=f"ended: {why}")
            raise _refusal("person")

    async def revoke(self, token: str, *, client_id: str) -> None:
        """Revoke a token of this client; with a refresh token its whole family (RFC 7009 §2.1).

        An unknown token counts as revoked (RFC 7009 §2.2), and another client's token counts as unknown.
        """
        form = _REFRESH_FORM.fullmatch(token)
        if form is not None:
            await self._database.oauth_tokens.revoke_family(form["family"], client_id=client_id)
        elif _ACCESS_FORM.fullmatch(token) is not None:
            await self._database.oauth_tokens.revoke_access(token, client_id=client_id)

    async def verify(self, token: str) -> Bearer:
        """Verify an access token, and return its user, client and scopes.

        Raises:
            TokenRefused: It is not a token of this server, or not valid any more.
            IssuerUnavailable: The database cannot be read now; the request must be refused.
        """
        if _ACCESS_FORM.fullmatch(token) is None:
            raise TokenRefused("The token is not an access token of this server.")
        try:
            live = await self._database.oauth_tokens.use(token)
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        if live is None:
            raise TokenRefused("The token is unknown, has expired or was revoked.")
        grant, expires_at = live.grant, int(live.expires_at.timestamp())
        if (grant.principal.issuer, grant.resource) != (self._issuer, self._resource):
            # The server's URL has changed; the former one may belong to another party now.
            raise TokenRefused("The token was given for another address of this server.")
        return Bearer(
            principal=grant.principal,
            client_id=grant.client_id,
            scopes=grant.scopes,
            expires_at=expires_at,
            claims={
                "iss": grant.principal.issuer,
                "sub": grant.principal.subject,
                "aud": grant.resource,
                "client_id": grant.client_id,
                "scope": " ".join(sorted(grant.scopes)),
                "iat": int(live.issued_at.timestamp()),
                "exp": expires_at,
                SIGN_IN: live.family_hash,
            },
        )

    async def end(self, principal: Principal, *, client_id: str | None = None) -> int:
        """End codes, families and access tokens of all clients of a user, or of one client.

        Returns how many families that were.
        """
        return await self._database.oauth_tokens.end(principal, client_id=client_id)

    async def holders(self, principal: Principal) -> list[Holder]:
        """List the clients that hold valid tokens of a user."""
        return await self._database.oauth_tokens.holders(principal)

    async def purge(self) -> None:
        """Delete what has expired."""
        await self._database.oauth_tokens.purge()

    def _fresh(self, family: str, refresh: str) -> Fresh:
        now = self._clock()
        return Fresh(
            family=family,
            refresh=refresh,
            access=_new(_ACCESS),
            refresh_until=now + self._lifetime,
            access_until=now + ACCESS_TIME,
        )


def is_challenge(text: str) -> bool:
    """Tell whether a text can be the S256 hash of a code verifier (RFC 7636 §4.2)."""
    return _CHALLENGE.fullmatch(text) is not None


def _new(prefix: str) -> str:
    return f"{prefix}{secrets.token_urlsafe(32)}"


def _derived(key: bytes, token: str) -> str:
    return _base64url(hmac.digest(key, token.encode(), "sha256"))


def _matches(verifier: str, challenge: str) -> bool:
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    hashed = _base64url(hashlib.sha256(verifier.encode()).digest())
    return hmac.compare_digest(hashed, challenge)


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _refusal(reason: str) -> OAuthRefusal:
    return OAuthRefusal(*_REFUSALS[reason])


def _issued(given: Given | Refused, fresh: Fresh) -> Issued:
    if isinstance(given, Refused):
        raise _refusal(given.reason)
    return Issued(
        access_token=SecretStr(fresh.access),
        refresh_token=SecretStr(given.refresh),
        expires_in=int(ACCESS_TIME.total_seconds()),
        scopes=given.scopes,
    )
