"""Verifies a signed token (RFC 7519, RFC 8725): first its header, then signature and claims.

PyJWT verifies the signature. The claims are checked here, against the clock that was passed in; a claim that
two parsers could read differently is refused.
"""

import binascii
import math
from base64 import urlsafe_b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from jwt import PyJWK, PyJWTError
from jwt.api_jws import PyJWS

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.auth.jwks import ALGORITHMS
from nextcloud_mcp_server.errors import TokenRefused
from nextcloud_mcp_server.nextcloud import spelling

#: Longer tokens are refused unread.
MAX_TOKEN_CHARS = 16_384

#: How far the clock of an issuer may be off.
LEEWAY_SECONDS = 30.0

_MAX_KID_CHARS = 256

#: Headers that bring a key, say where to get one, or change what the signature covers. No extension is supported,
#: so `crit` always names an unsupported one (RFC 7515 §4.1.11).
_FORBIDDEN = frozenset({"jku", "jwk", "x5u", "crit", "zip", "enc", "b64"})

_JWS = PyJWS(options={"verify_signature": True, "enforce_minimum_key_length": True})

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a token. `typ` is in lower case, without `application/`; "" when absent."""

    alg: str
    kid: str | None
    typ: str


class SignedToken:
    """A text in the form of a JWT; header and claims are parsed once, and not verified."""

    def __init__(self, text: str, header: Mapping[str, Any]) -> None:
        self.text = text
        self.header = header

    @classmethod
    def parse(cls, text: str) -> "SignedToken | None":
        """Parse a text; None unless it has three parts, the first of them a JSON object."""
        header = _header(text)
        return None if header is None else cls(text, header)

    @cached_property
    def claims(self) -> Claims:
        """The claims, before they are verified.

        Raises:
            TokenRefused: They cannot be read.
        """
        try:
            claims = _part(self.text, 1)
        except ValueError:
            claims = None
        if not isinstance(claims, dict):
            raise TokenRefused("The token's claims cannot be read.")
        return cast("dict[str, Any]", claims)


def signed_token(text: str) -> SignedToken:
    """Parse a token.

    Raises:
        TokenRefused: It is no JWT.
    """
    token = SignedToken.parse(text)
    if token is None:
        raise TokenRefused("The token is not a signed JWT.")
    return token


def read_header(token: SignedToken, *, algorithms: Collection[str] = ALGORITHMS) -> Header:
    """Read the header of a token that is not verified yet.

    Raises:
        TokenRefused: Its header names something unsupported.
    """
    header = token.header
    alg, kid, typ = header.get("alg"), header.get("kid"), header.get("typ", "")
    if not isinstance(alg, str) or alg not in algorithms or alg not in ALGORITHMS:
        raise TokenRefused("The token is signed with an algorithm that is not accepted.")
    if _FORBIDDEN & set(header):
        raise TokenRefused("The token's header names a key or an extension of its own.")
    if "kid" in header and not (isinstance(kid, str) and 0 < len(kid) <= _MAX_KID_CHARS):
        raise TokenRefused("The token's key id is malformed.")
    if not isinstance(typ, str):
        raise TokenRefused("The token's type is malformed.")
    return Header(alg, kid, typ.lower().removeprefix("application/"))


def decode(
    token: SignedToken,
    key: PyJWK,
    *,
    issuer: str,
    audience: str,
    typ: Collection[str] | None,
    now: float,
    leeway_seconds: float = LEEWAY_SECONDS,
    algorithms: Collection[str] = ALGORITHMS,
) -> Claims:
    """Verify a token completely, and return its claims.

    `typ` lists the accepted types in lower case ("" for none in the header); None accepts any. The token must
    name `audience`; it may name others (RFC 7519 §4.1.3). `now` is in seconds since 1970.

    Raises:
        TokenRefused: A check failed; the text says which one and repeats nothing of the token.
    """
    header = read_header(token, algorithms=algorithms)
    if typ is not None and header.typ not in typ:
        raise TokenRefused("The token is of a type that is not accepted, such as an ID token.")
    if header.alg != key.algorithm_name:
        raise TokenRefused("The token's algorithm does not go with its key.")
    try:
        _JWS.decode_complete(token.text, key, algorithms=[header.alg])
    except PyJWTError:
        raise TokenRefused("The token's signature does not fit.") from None
    claims = token.claims
    check_claims(claims, issuer=issuer, audience=audience, now=now, leeway_seconds=leeway_seconds)
    return claims


def check_claims(
    claims: Claims, *, issuer: str, audience: str, now: float, leeway_seconds: float = LEEWAY_SECONDS
) -> None:
    """Check the issuer, the audience and the times of a token.

    Raises:
        TokenRefused: As `decode`.
    """
    if claims.get("iss") != issuer:
        raise TokenRefused("The token is of another issuer.")
    check_audience(claims, audience)
    if "exp" not in claims:
        raise TokenRefused("The token does not say until when it is valid.")
    check_times(claims, now=now, leeway_seconds=leeway_seconds)


def check_audience(claims: Claims, audience: str) -> None:
    """Check that a token names this audience.

    Raises:
        TokenRefused: It does not, or its audiences cannot be read.
    """
    named: object = claims.get("aud")
    audiences = cast("list[object]", named) if isinstance(named, list) else [named]
    if not all(isinstance(item, str) for item in audiences) or not any(
        spelling.same(audience, str(item)) for item in audiences
    ):
        raise TokenRefused("The token is for another server.")


def check_times(claims: Claims, *, now: float, leeway_seconds: float) -> None:
    """Check the times in a token: not expired, valid already, not issued in the future.

    Raises:
        TokenRefused: A time is out of range, or is no number.
    """
    times = {name: _time(claims[name]) for name in ("exp", "nbf", "iat") if name in claims}
    if times.get("exp", math.inf) + leeway_seconds <= now:
        raise TokenRefused("The token has expired.")
    if times.get("nbf", now) > now + leeway_seconds:
        raise TokenRefused("The token is not valid yet.")
    if times.get("iat", now) > now + leeway_seconds:
        raise TokenRefused("The token was issued in the future.")


def _time(value: object) -> float:
    # RFC 7519 §2, NumericDate. Python alone counts true and false as numbers.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused("A time in the token is not a number.")
    try:
        seconds = float(value)
    except OverflowError:
        raise TokenRefused("A time in the token is out of range.") from None
    if seconds < 0:
        # No token is older than 1970, and Python has no dates for the earliest of such times.
        raise TokenRefused("A time in the token is out of range.")
    return seconds


def _header(token: str) -> dict[str, Any] | None:
    if token.count(".") != 2 or len(token) > MAX_TOKEN_CHARS:  # noqa: PLR2004 - header.payload.signature
        return None
    try:
        header = _part(token, 0)
    except ValueError:
        return None
    return cast("dict[str, Any]", header) if isinstance(header, dict) else None


def _part(token: str, index: int) -> object:
    segment = token.split(".")[index]
    try:
        decoded = urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        raise ValueError("not base64url") from None
    return strict_json.read(decoded)
