"""Ends a user's sessions and tokens when the issuer reports a logout.

Implements OpenID Connect Back-Channel Logout 1.0.

A signed access token cannot be revoked. So each logout is stored, and a token of this user that was issued
before it is refused. A client whose refresh token the issuer still accepts gets a newer access token: that is
the issuer's decision.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import anyio

from nextcloud_mcp_server.auth import jwt_check
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.errors import StorageError, TokenRefused
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import Logout

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: How long a logout is kept. Access tokens with a longer lifetime outlive it.
KEPT = timedelta(days=1)

#: A logout that another process received takes effect here within this time.
LOOK_SECONDS = 5.0

#: Another process may commit a row later than the time in it.
_OVERLAP = timedelta(seconds=60)

_EVENT = "http://schemas.openid.net/event/backchannel-logout"
#: §2.4 recommends the type `logout+jwt`; many issuers write none, or JWT. The type of access tokens is never
#: accepted.
_TYPES = frozenset({"logout+jwt", "jwt", ""})
_LONGEST = 255

Claims = Mapping[str, object]
#: Called with a predicate on claims for logouts that are new here; ends what matches, such as open streams and
#: browser sessions.
OnLogout = Callable[[Callable[[Claims], bool]], Awaitable[None]]


class BackChannelLogout:
    """Receives logout tokens, and decides which access tokens they end.

    `client_id` is this server's id at the issuer.
    """

    def __init__(
        self,
        database: "Database",
        keyset: KeySet,
        *,
        issuer: str,
        client_id: str,
        clock: Callable[[], datetime],
        on_logout: OnLogout,
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._database = database
        self._keyset = keyset
        self._issuer = issuer
        self._client_id = client_id
        self._clock = clock
        self._on_logout = on_logout
        self._monotonic = monotonic
        self._known: dict[tuple[str, str | None, str | None], Logout] = {}
        self._seen_until = clock() - KEPT
        self._next_look = 0.0

    async def receive(self, token: str) -> None:
        """Verify a logout token (§2.6), end the browser sessions it names, and refuse older access tokens.

        Raises:
            TokenRefused: It is not a logout token for this server, or it was received before.
            IssuerUnavailable: The issuer's keys could not be fetched.
            StorageError: The logout could not be stored, so nothing has ended.
        """
        signed = jwt_check.signed_token(token)
        header = jwt_check.read_header(signed)
        claims = jwt_check.decode(
            signed,
            await self._keyset.key(header.kid, header.alg),
            issuer=self._issuer,
            audience=self._client_id,
            typ=_TYPES,
            now=self._clock().timestamp(),
        )
        logout, jti = self._read(claims)
        now = self._clock()
        if not await self._database.logouts.add(jti, logout, expires_at=now + KEPT):
            raise TokenRefused("The logout token was used before.")
        logger.info("the identity provider reported a logout")
        await self._look()

    def _read(self, claims: Claims) -> tuple[Logout, str]:
        events = claims.get("events")
        named = cast("dict[str, object]", events).get(_EVENT) if isinstance(events, dict) else None
        if not isinstance(named, dict) or "nonce" in claims or "iat" not in claims:
            raise TokenRefused("The token is no logout token.")
        sub, sid, jti = (_text(claims, name) for name in ("sub", "sid", "jti"))
        if jti is None or (sub is None and sid is None):
            raise TokenRefused("The logout token does not say who logged out, or has no id.")
        issued_at = datetime.fromtimestamp(float(cast("float", claims["iat"])), UTC)
        logout = Logout(
            issuer=self._issuer,
            sub_hash=None if sub is None else hash_of(sub),
            sid_hash=None if sid is None else hash_of(sid),
            issued_at=issued_at,
            received_at=self._clock(),
        )
        return logout, jti

    async def check(self, claims: Claims, *, introspected: bool = False) -> None:
        """Refuse an access token that was issued before its user logged out, or may have been.

        An `introspected` token that does not say when it was issued is left to the issuer, which is asked about it
        again after each logout.

        Raises:
            TokenRefused: The token was issued before the logout.
            StorageError: The database cannot be read.
        """
        if self._monotonic() >= self._next_look:
            await self._look()
        if introspected and "iat" not in claims:
            return
        if any(_ends(logout, claims) for logout in self._known.values()):
            raise TokenRefused("The person logged out at the identity provider after the token was issued.")

    async def run(self) -> None:
        """Read the logouts that other processes stored, as long as the server runs."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except StorageError as error:
                logger.warning("logouts could not be read: %s", error)

    async def _look(self) -> None:
        # A logout that came while the clock was ahead must not hide those that come after its correction.
        self._seen_until = min(self._seen_until, self._clock())
        found = await self._database.logouts.since(self._seen_until - _OVERLAP)
        self._next_look = self._monotonic() + LOOK_SECONDS
        fresh = [logout for logout in found if self._is_new(logout)]
        over = self._clock() - KEPT
        self._known = {key: one for key, one in self._known.items() if one.received_at > over}
        if found:
            self._seen_until = max(self._seen_until, found[-1].received_at)
        if fresh:
            await self._on_logout(lambda claims: any(_ends(logout, claims) for logout in fresh))

    def _is_new(self, logout: Logout) -> bool:
        key = (logout.issuer, logout.sub_hash, logout.sid_hash)
        known = self._known.get(key)
        if known is not None and known.issued_at >= logout.issued_at:
            return False
        self._known[key] = logout
        return True


def _ends(logout: Logout, claims: Claims) -> bool:
    """Tell whether a logout ends the token with these claims.

    It does if the token is of the session that the logout names, or of its user where the token names no
    session. A token that does not say when it was issued may be older than the logout, so it ends too: RFC 9068 §2.2
    requires `iat`, but RFC 7519 §4.1.6 does not.
    """
    if claims.get("iss", logout.issuer) != logout.issuer:
        return False
    sub, sid, issued_at = _text(claims, "sub"), _text(claims, "sid"), claims.get("iat")
    of_person = sub is not None and logout.sub_hash == hash_of(sub)
    names_session = logout.sid_hash is not None and sid is not None
    meant = logout.sid_hash == hash_of(sid or "") if names_session else of_person
    return meant and not (isinstance(issued_at, int | float) and issued_at > logout.issued_at.timestamp())


def _text(claims: Claims, name: str) -> str | None:
    value = claims.get(name)
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST else None
