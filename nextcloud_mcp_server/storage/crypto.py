"""Sealed values: AES-256-GCM under a key ring, bound to the place where the value is stored."""

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError, Unsealable
from nextcloud_mcp_server.storage.records import Principal

_Row = TypeVar("_Row")
_Opened = TypeVar("_Opened")

_VERSION = b"\x01"
_KEY_BYTES = 32
#: The offset of the key id in a sealed value. It is not encrypted, so that a query can select by it.
KEY_ID_AT = len(_VERSION)
KEY_ID_BYTES = 8
_NONCE_BYTES = 12
_HEADER_BYTES = KEY_ID_AT + KEY_ID_BYTES + _NONCE_BYTES
_KEY_FAULT = (
    "{source} holds something that is not a key: each must be 32 bytes in base64url. Put the right key back; for a new"
    " database make one with 'nextcloud-mcp-server keys new'."
)


@dataclass(frozen=True, slots=True)
class Sealed:
    """The content of a sealed column: version, key id, nonce, ciphertext and tag."""

    value: bytes

    @property
    def key_id(self) -> bytes:
        """The id of the key that sealed the value; see `KEY_ID_AT`."""
        return self.value[KEY_ID_AT : KEY_ID_AT + KEY_ID_BYTES]


@dataclass(frozen=True, slots=True)
class _Key:
    """One key of the ring, ready to seal; sub-keys are derived from `master`."""

    id: bytes
    master: bytes = field(repr=False)
    cipher: AESGCM = field(repr=False)

    @classmethod
    def of(cls, master: bytes) -> "_Key":
        return cls(
            id=_hkdf(master, "key id")[:KEY_ID_BYTES], master=master, cipher=AESGCM(_hkdf(master, "seal"))
        )


#: Renamed tables and columns. Their values stay bound to the name that they were first sealed with, so that an
#: upgrade need not seal anything again.
_SEALED_AS = {
    "authorization_transactions": "arrivals",
    "grant_requests": "grant_legs",
    "pending_grants": "held_grants",
    "pending_grants.storage_id": "home_id",
}


class KeyRing:
    """The operator's keys: the first one seals, all of them open."""

    def __init__(self, masters: Sequence[bytes]) -> None:
        self._keys = [_Key.of(master) for master in dict.fromkeys(masters)]
        self._by_id = {key.id: key for key in self._keys}

    @classmethod
    def parse(cls, texts: Sequence[SecretStr], *, source: str = "TOKEN_ENCRYPTION_KEYS") -> "KeyRing":
        """Parse keys as in the settings, the newest first; errors name their `source`, a variable or a file.

        Raises:
            ConfigurationError: There is none, or one is not 32 bytes in base64url; the message does not show it.
        """
        if not texts:
            raise ConfigurationError(f"{source} is empty. Make a key with 'nextcloud-mcp-server keys new'.")
        return cls([_decode_key(text, source) for text in texts])

    @property
    def ids(self) -> list[bytes]:
        """Return the ids of the keys in their order; the first one seals."""
        return [key.id for key in self._keys]

    def derive(self, purpose: str) -> list[bytes]:
        """Derive a 32-byte sub-key of each key for a purpose other than sealing; the first is the current one."""
        return [_hkdf(key.master, f"derived {purpose}") for key in self._keys]

    def at(self, table: str, principal: Principal, row: str) -> "Seal":
        """Return the seal for the values of one row."""
        return Seal(self, (table, principal.issuer, principal.subject, row))

    def seal(self, text: str, place: Sequence[str]) -> Sealed:
        """Encrypt a text so that it can be opened at this place only."""
        key = self._keys[0]
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = key.cipher.encrypt(nonce, text.encode(), _associated_data(place, key.id))
        return Sealed(_VERSION + key.id + nonce + ciphertext)

    def open(self, sealed: Sealed, place: Sequence[str]) -> str:
        """Decrypt a value that `seal` made for this place.

        Raises:
            Unsealable: Its key is not in the ring, or the value was moved or changed.
        """
        header, ciphertext = sealed.value[:_HEADER_BYTES], sealed.value[_HEADER_BYTES:]
        key = self._by_id.get(sealed.key_id)
        if key is None or not header.startswith(_VERSION):
            raise Unsealable(
                "A stored value was sealed with a key that is not configured."
                " Put the key back into TOKEN_ENCRYPTION_KEYS, or disconnect (revoke_nextcloud_access) and"
                " connect the account again."
            )
        try:
            return key.cipher.decrypt(
                header[-_NONCE_BYTES:], ciphertext, _associated_data(place, key.id)
            ).decode()
        except InvalidTag as error:
            raise Unsealable(
                "A stored value was changed or moved, and is not trusted."
                " Disconnect (revoke_nextcloud_access) and connect the account again."
            ) from error


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals and opens the values of one row.

    The place is associated data: an attacker who can write to the database still cannot make one user's row
    open another user's secret.
    """

    keys: KeyRing
    row: tuple[str, ...]

    def seal(self, column: str, text: str) -> Sealed:
        """Encrypt the value of one column."""
        return self.keys.seal(text, (*self.row, column))

    def seal_optional(self, column: str, text: str | None) -> Sealed | None:
        """Encrypt the value of a column that may be empty."""
        return None if text is None else self.seal(column, text)

    def open(self, column: str, sealed: Sealed) -> str:
        """Decrypt the value of one column; raises `Unsealable`."""
        return self.keys.open(sealed, (*self.row, column))

    def open_optional(self, column: str, sealed: Sealed | None) -> str | None:
        """Decrypt the value of a column that may be empty; raises `Unsealable`."""
        return None if sealed is None else self.open(column, sealed)


def hash_of(identifier: str) -> str:
    """Hash a random id: its row is found by the hash, and the database alone does not reveal the id."""
    return hashlib.sha256(identifier.encode()).hexdigest()


def new_key() -> str:
    """Return a new key in the form that settings and key files hold."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode().rstrip("=")


def load_or_create_key_file(
    path: Path, *, variable: str = "TOKEN_ENCRYPTION_KEYS_FILE"
) -> tuple[list[SecretStr], bool]:
    """Read the keys of a file, one per line; create the file with one key if there is none.

    The second part of the result tells whether it was created now. Several processes may call this at once: a
    complete file is linked into place, which only one of them can do, so no process reads a partial file.
    `variable` is the setting that names the file.

    Raises:
        ConfigurationError: The file cannot be read or created, or it holds no key.
    """
    try:
        created = not path.exists() and _create_key_file(path)
        lines = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The key file {path} cannot be read or made. Check its folder's permissions,"
            f" or name another file in {variable}."
        ) from error
    if not lines:
        raise ConfigurationError(
            f"The key file {path} is empty. Put the key back, or delete the file and connect again."
        )
    return [SecretStr(line) for line in lines], created


def _create_key_file(path: Path) -> bool:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(new_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
            return True
        return False
    finally:
        draft.unlink()


def readable(rows: Iterable[_Row], open_row: Callable[[_Row], _Opened]) -> list[_Opened]:
    """Decrypt rows; those whose key is missing are left out."""
    found: list[_Opened] = []
    for row in rows:
        with contextlib.suppress(Unsealable):
            found.append(open_row(row))
    return found


def _decode_key(text: SecretStr, source: str) -> bytes:
    raw = text.get_secret_value().strip()
    try:
        key = base64.b64decode(raw + "=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        # `from None`: the cause would carry the key into tracebacks.
        raise ConfigurationError(_KEY_FAULT.format(source=source)) from None
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(_KEY_FAULT.format(source=source))
    return key


def _hkdf(master: bytes, purpose: str) -> bytes:
    info = f"nextcloud-mcp-server {purpose}".encode()
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(master)


def _associated_data(place: Sequence[str], key_id: bytes) -> bytes:
    names = list(place)
    names[-1] = _SEALED_AS.get(f"{place[0]}.{place[-1]}", place[-1])
    names[0] = _SEALED_AS.get(place[0], names[0])
    # Length prefixes: without them ("ab", "c") and ("a", "bc") would be the same place.
    parts = [_VERSION, *(name.encode() for name in names), key_id]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
