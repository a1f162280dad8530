"""Verifies ID tokens (OpenID Connect Core §3.1.3.7)."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import cast

from pydantic import SecretStr

from nextcloud_mcp_server.auth import jwt_check
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.errors import SignInRefused, TokenRefused

#: The accepted `typ` headers: an ID token has none or `JWT`; an access token has `at+jwt` (RFC 9068).
_TYPES = ("", "jwt")

#: Hash of `at_hash` by the last three digits of the algorithm (§3.1.3.6); Ed25519 goes with SHA-512.
_HASHES = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512, "DSA": hashlib.sha512}

_NOT_TRUSTED = "What the identity provider says about who signed in is not trusted. Start again."


class IdTokenCheck:
    """Verifies ID tokens issued to one of this server's clients."""

    def __init__(self, keyset: KeySet, *, client_id: str, clock: Callable[[], datetime]) -> None:
        self._keyset = keyset
        self._client_id = client_id
        self._clock = clock

    async def check(
        self, id_token: SecretStr, *, issuer: str, nonce: SecretStr, access_token: SecretStr
    ) -> Mapping[str, object]:
        """Verify an ID token completely and return its claims.

        `nonce` is the one that this browser's sign-in sent: a code stolen from another sign-in brings another
        nonce.

        Raises:
            SignInRefused: A check failed.
            IssuerUnavailable: The issuer's keys could not be fetched.
        """
        token = id_token.get_secret_value()
        try:
            signed = jwt_check.signed_token(token)
            header = jwt_check.read_header(signed)
            key = await self._keyset.key(header.kid, header.alg)
            claims = jwt_check.decode(
                signed,
                key,
                issuer=issuer,
                audience=self._client_id,
                typ=_TYPES,
                now=self._clock().timestamp(),
            )
        except TokenRefused as error:
            raise SignInRefused(_NOT_TRUSTED) from error
        self._check_claims(claims, nonce)
        at_hash = claims.get("at_hash")
        if at_hash is not None and at_hash != _at_hash(access_token, header.alg):
            # The access token was swapped on its way.
            raise SignInRefused(_NOT_TRUSTED)
        return claims

    def _check_claims(self, claims: Mapping[str, object], nonce: SecretStr) -> None:
        several = isinstance(claims["aud"], list) and len(cast("list[object]", claims["aud"])) > 1
        # A token for several audiences must name in `azp` the client that requested it: this server's.
        ours = claims.get("azp", None if several else self._client_id) == self._client_id
        named = claims.get("nonce")
        same = isinstance(named, str) and hmac.compare_digest(
            named.encode(errors="replace"), nonce.get_secret_value().encode()
        )
        subject = claims.get("sub")
        if not (ours and same and "iat" in claims and isinstance(subject, str) and subject):
            raise SignInRefused(_NOT_TRUSTED)


def _at_hash(access_token: SecretStr, alg: str) -> str:
    digest = _HASHES[alg[-3:]](access_token.get_secret_value().encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
