"""Signs a user in at the operator's identity provider (OpenID Connect, authorization code, PKCE).

The state of a sign-in is kept in a sealed cookie, so a callback is accepted only in the browser that began it,
and only for ten minutes. The cookie also holds the token of the future session: a second callback of the same
sign-in finds that this session exists already. Only hashes of codes that were exchanged or ended are stored.
"""

import base64
import binascii
import contextlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from nextcloud_mcp_server.auth import oauth_client
from nextcloud_mcp_server.auth.consent.callback import Params, check_issuer, code_of, only_value
from nextcloud_mcp_server.auth.consent.orphaned_code import codes_in, spent_unless_used
from nextcloud_mcp_server.auth.consent.sign_in_flow import Person
from nextcloud_mcp_server.auth.consent.views import SignInStart
from nextcloud_mcp_server.auth.discovery import Discovery, IssuerMetadata
from nextcloud_mcp_server.auth.id_token import IdTokenCheck
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient, TokenAnswer, new_secret
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.principal import is_unverified
from nextcloud_mcp_server.errors import (
    GrantRefused,
    IssuerUnavailable,
    OtherBrowser,
    SignInRefused,
    Unsealable,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed, hash_of
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.spent_codes import SpentCodeRepository

FLOW_LIFETIME = timedelta(minutes=10)

_PLACE = ("cookie", "sign-in")
_STATE_PLACE = ("state", "sign-in")
#: The longest lifetime of a code (RFC 6749 §4.1.2); it may have been issued in the last second of a sign-in.
_CODE_SECONDS = 600
_LONGEST_NAME = 200
#: Nextcloud's user ids have at most 64 characters.
_LONGEST_UID = 64

_AGAIN = "This sign-in cannot be finished here: it belongs to another browser, is too old, or was used. Start again."
_OTHER_BROWSER = (
    "This sign-in cannot be finished in this browser, so it was ended. Nothing was connected. Begin in the "
    "browser in which you want to finish."
)
_CANCELLED = "The sign-in was cancelled. Start again when you are ready."


@dataclass(frozen=True, slots=True)
class _Kept:
    """The cookie's content about the sign-in that this browser began; `until` in seconds since 1970."""

    verifier: SecretStr
    nonce: SecretStr
    session: SecretStr
    target: str
    until: float


@dataclass(frozen=True, slots=True)
class Returned:
    """A callback that passed every check that needs no request."""

    code: SecretStr
    verifier: SecretStr
    nonce: SecretStr
    session: SecretStr
    target: str


class SignIn:
    """The sign-in flow. `mapping_claim` names the claim that holds the user's Nextcloud user id."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        keyset: KeySet,
        outgoing: Outgoing,
        client: OAuthClient,
        redirect_uri: str,
        keys: KeyRing,
        clock: Callable[[], datetime],
        spent_codes: "SpentCodeRepository",
        identity_claim: str = "sub",
        mapping_claim: str | None = None,
    ) -> None:
        self._discovery = discovery
        self._outgoing = outgoing
        self._client = client
        self._redirect_uri = redirect_uri
        # A key ring of its own: a value sealed for a cookie can never be opened as one of the database.
        self._keys = KeyRing(keys.derive("sign-in cookie"))
        self._clock = clock
        self._spent_codes = spent_codes
        self._identity_claim = identity_claim
        self._mapping_claim = mapping_claim
        self._id_tokens = IdTokenCheck(keyset, client_id=client.client_id, clock=clock)

    @property
    def brings_access(self) -> bool:
        """False: an identity provider only identifies the user, and gives no access to Nextcloud."""
        return False

    @property
    def mapping_claim(self) -> str | None:
        """The claim that names each user's Nextcloud account; None if each user confirms their account."""
        return self._mapping_claim

    async def begin(self, target: str, *, another: bool = False) -> SignInStart:
        """Build the authorization URL; nothing is stored here.

        Without `another`, a provider that has a session in the browser signs the same user in without asking.

        Raises:
            IssuerUnavailable: The identity provider cannot be reached, or does not support PKCE with S256.
        """
        metadata = await self._discovery.get()
        if metadata.code_challenge_methods and "S256" not in metadata.code_challenge_methods:
            # RFC 7636 §4.4.1: "plain" protects nothing once an attacker has seen the request.
            raise IssuerUnavailable("The identity provider offers PKCE without S256; tell the operator.")
        verifier, nonce, session = new_secret(), new_secret(), new_secret()
        expires_at = self._clock() + FLOW_LIFETIME
        # Sealed into the state, so that a code that reaches another browser can be exchanged and ended there, and the
        # session that the sign-in has given already.
        session_id = SecretStr(hash_of(session.get_secret_value()))
        state = self._sealed([session_id, verifier, nonce], expires_at.timestamp(), place=_STATE_PLACE)
        url = oauth_client.authorize_url(
            metadata.authorization_endpoint,
            client_id=self._client.client_id,
            redirect_uri=self._redirect_uri,
            scope=self._scope(metadata),
            state=state.get_secret_value(),
            verifier=verifier,
            nonce=nonce,
            # OpenID Connect Core §3.1.2.1; every provider supports it, unlike `select_account`.
            extra={"prompt": "login"} if another else None,
        )
        kept = [state, verifier, nonce, session]
        return SignInStart(url=url, flow=self._sealed(kept, target, expires_at.timestamp()))

    def _sealed(
        self, secrets: Sequence[SecretStr], *values: object, place: tuple[str, str] = _PLACE
    ) -> SecretStr:
        text = json.dumps([*(one.get_secret_value() for one in secrets), *values])
        return SecretStr(base64.urlsafe_b64encode(self._keys.seal(text, place).value).decode())

    def _scope(self, metadata: IssuerMetadata) -> str:
        """Return the fewest scopes that identify the user: a name, and the claims that the settings use."""
        wanted = ["profile"]
        if "email" in (self._mapping_claim, self._identity_claim):
            wanted.append("email")
        return " ".join(["openid", *(scope for scope in wanted if scope in metadata.scopes)])

    async def check_callback(self, flow: str, params: Params) -> Returned:
        """Check the parameters of a callback. A code that is not used is ended.

        Raises:
            OtherBrowser: Another browser began the sign-in; the code of the callback is ended.
            SignInRefused: The browser began no sign-in or another one, the callback is too late, of another issuer
                or malformed, or the user cancelled.
            IssuerUnavailable: The identity provider's metadata cannot be read.
        """
        async with spent_unless_used(self._spent_codes, params):
            given = only_value(params, "state") or ""
            kept = self._kept(flow, given)
            if kept is None:
                if not await self._end_code(given, params):
                    raise SignInRefused(_AGAIN)
                refused = OtherBrowser(_OTHER_BROWSER)
                refused.sign_in_id = self._unsealed(given, _STATE_PLACE)[0]
                raise refused
            try:
                code = await self._code(params, until=kept.until)
            except SignInRefused:
                await self._end_code(given, params)
                raise
        if code is None:
            raise SignInRefused(_CANCELLED)
        return Returned(code, kept.verifier, kept.nonce, kept.session, kept.target)

    async def _code(self, params: Params, *, until: float) -> SecretStr | None:
        if self._clock().timestamp() >= until:
            raise SignInRefused(_AGAIN)
        metadata = await self._discovery.get()
        check_issuer(params, metadata.issuer, required=metadata.iss_parameter)
        return code_of(params)

    def _kept(self, flow: str, given: str) -> "_Kept | None":
        """Open the cookie of this browser; None without a valid one, or if it belongs to another `state`."""
        try:
            state, verifier, nonce, session, target, until = self._unsealed(flow, _PLACE)
        except (binascii.Error, ValueError, Unsealable):
            return None
        if not hmac.compare_digest(given.encode(errors="replace"), state.encode()):
            return None
        return _Kept(SecretStr(verifier), SecretStr(nonce), SecretStr(session), target, until)

    async def knows(self, state: str) -> bool:
        """Tell whether a `state` was made here and a code that belongs to it may still be valid."""
        opened = self._opened(state)
        return opened is not None and self._clock().timestamp() < opened[1] + _CODE_SECONDS

    def _opened(self, state: str) -> tuple[str, float] | None:
        """Open a `state`; return the code verifier, and when the sign-in ends."""
        try:
            _, verifier, _, until = self._unsealed(state, _STATE_PLACE)
        except (binascii.Error, ValueError, Unsealable):
            return None
        return verifier, until

    def _unsealed(self, text: str, place: tuple[str, str]) -> list[Any]:
        sealed = Sealed(base64.b64decode(text, altchars=b"-_", validate=True))
        return json.loads(self._keys.open(sealed, place))

    async def _end_code(self, state: str, params: Params) -> bool:
        """Exchange a code that this browser cannot use, and revoke its tokens; False if `state` is foreign.

        A `state` that was made here holds what the exchange needs. Each code is exchanged once, and marked as
        spent before.
        """
        opened = self._opened(state)
        if opened is None:
            return False
        verifier, until = opened
        codes = codes_in(params)
        if self._clock().timestamp() >= until + _CODE_SECONDS or len(codes) != 1:
            return bool(codes)
        if await self._spent_codes.is_spent(codes[0]):
            return True
        await self._spent_codes.spend(codes)
        with contextlib.suppress(GrantRefused, IssuerUnavailable):
            metadata = await self._discovery.get()
            answer = await self._exchange(metadata, SecretStr(codes[0]), SecretStr(verifier))
            if metadata.revocation_endpoint is not None:
                await oauth_client.revoke(
                    self._outgoing,
                    metadata.revocation_endpoint,
                    self._client,
                    refresh_token=answer.tokens.refresh_token or answer.tokens.access_token,
                )
        return True

    async def _exchange(
        self,
        metadata: IssuerMetadata,
        code: SecretStr,
        verifier: SecretStr,
        *,
        needs: frozenset[str] = frozenset(),
    ) -> TokenAnswer:
        return await oauth_client.exchange_code(
            self._outgoing,
            metadata.token_endpoint,
            self._client,
            code=code,
            redirect_uri=self._redirect_uri,
            verifier=verifier,
            now=self._clock,
            needs=needs,
        )

    async def exchange_code(self, returned: Returned) -> Person:
        """Exchange the code, and return the signed-in user.

        Raises:
            SignInRefused: The code or the ID token is not accepted.
            IssuerUnavailable: The identity provider cannot be reached.
        """
        metadata = await self._discovery.get()
        code = returned.code.get_secret_value()
        if await self._spent_codes.is_spent(code):
            raise SignInRefused(_AGAIN)
        # Some providers end the user's session when a code is sent twice, so it is marked as spent first.
        await self._spent_codes.spend([code])
        try:
            answer = await self._exchange(
                metadata, returned.code, returned.verifier, needs=frozenset({"openid"})
            )
        except GrantRefused as error:
            raise SignInRefused(str(error)) from error
        if answer.id_token is None:
            raise SignInRefused("The identity provider did not say who signed in; tell the operator.")
        claims = await self._id_tokens.check(
            answer.id_token,
            issuer=metadata.issuer,
            nonce=returned.nonce,
            access_token=answer.tokens.access_token,
        )
        return self._person(metadata.issuer, {**await self._missing(metadata, answer, claims), **claims})

    async def _missing(
        self, metadata: IssuerMetadata, answer: TokenAnswer, claims: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Request the claims that the settings need and the ID token lacks (OIDC Core §5.3)."""
        needed = {self._identity_claim, self._mapping_claim or "sub"}
        if self._identity_claim == "email":
            needed.add("email_verified")
        wanted = needed - claims.keys()
        if not wanted or metadata.userinfo_endpoint is None:
            return {}
        reply = await self._outgoing.json(
            "GET", metadata.userinfo_endpoint, bearer=answer.tokens.access_token
        )
        # §5.3.2: an answer about another `sub` may mean that the access token was swapped.
        if reply.fields.get("sub") != claims["sub"]:
            raise SignInRefused("The identity provider said two different things about who signed in.")
        return {name: reply.fields[name] for name in wanted | {"email_verified"} if name in reply.fields}

    def _person(self, issuer: str, claims: Mapping[str, object]) -> Person:
        identity = claims.get(self._identity_claim)
        if not isinstance(identity, str) or not identity:
            raise SignInRefused("The identity provider did not say who signed in; tell the operator.")
        if is_unverified(claims, self._identity_claim, unsaid=True):
            raise SignInRefused(
                "People are known here by their e-mail address, and the identity provider does not say that"
                " it has verified yours; tell the operator."
            )
        return Person(
            principal=Principal(issuer=issuer, subject=identity),
            display_name=_name(claims, identity),
            uid=self._uid(claims),
            sub=_said(claims, "sub"),
            sid=_said(claims, "sid"),
        )

    def _uid(self, claims: Mapping[str, object]) -> str | None:
        uid = claims.get(self._mapping_claim) if self._mapping_claim else None
        if is_unverified(claims, self._mapping_claim or "", unsaid=False):
            return None
        return uid if isinstance(uid, str) and 0 < len(uid) <= _LONGEST_UID else None


def _said(claims: Mapping[str, object], claim: str) -> str | None:
    value = claims.get(claim)
    return value if isinstance(value, str) and value else None


def _name(claims: Mapping[str, object], identity: str) -> str:
    for claim in ("name", "preferred_username"):
        value = claims.get(claim)
        if isinstance(value, str) and value.strip():
            return value.strip()[:_LONGEST_NAME]
    return identity[:_LONGEST_NAME]
