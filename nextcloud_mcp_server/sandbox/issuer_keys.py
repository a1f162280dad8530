"""The issuer's signing keys: one signs, those in the key set verify."""

import secrets
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

ALGORITHM = "RS256"


class SigningKeys:
    """RSA keys; the first is created at first use, since that takes a tenth of a second."""

    def __init__(self) -> None:
        self._current: tuple[str, RSAPrivateKey] | None = None
        self._published: dict[str, RSAPrivateKey] = {}

    def rotate(self, *, keep_old: bool = False) -> None:
        """Sign with a new key from now on; the old one leaves the key set unless it is kept."""
        made = self._make()
        if not keep_old:
            self._published.clear()
        self._published[made[0]] = made[1]
        self._current = made

    def document(self) -> dict[str, object]:
        """Return the key set (RFC 7517)."""
        self._ensure()
        return {
            "keys": [
                {
                    **RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
                    "kid": kid,
                    "use": "sig",
                    "alg": ALGORITHM,
                }
                for kid, key in self._published.items()
            ]
        }

    def sign(self, claims: dict[str, Any], *, typ: str, published: bool = True) -> str:
        """Create a JWT; `published=False` signs with a key that is in no key set."""
        kid, key = self._ensure() if published else self._make()
        return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": kid, "typ": typ})

    def _ensure(self) -> tuple[str, RSAPrivateKey]:
        if self._current is None:
            self.rotate()
        assert self._current is not None  # noqa: S101 - rotate() has just set it
        return self._current

    def _make(self) -> tuple[str, RSAPrivateKey]:
        return secrets.token_hex(8), generate_private_key(public_exponent=65537, key_size=2048)
