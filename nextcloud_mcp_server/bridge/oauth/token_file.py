"""A file for tokens, mode 0600, written at once or not at all; encrypted where a passphrase is given."""

import base64
import binascii
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic_core import from_json, to_json

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed

_PURPOSE: Final = b"nextcloud-mcp-server client tokens 1"
_LARGEST: Final = 4 << 20
#: scrypt with 32 MiB, about a tenth of a second.
_WORK: Final = {"n": 1 << 15, "r": 8, "p": 1}
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class FileVault:
    """Keeps texts by name in one file."""

    def __init__(self, path: Path, passphrase: str | None = None) -> None:
        self._path = path
        self._passphrase = passphrase
        self._keys: dict[bytes, bytes] = {}

    @property
    def place(self) -> str:
        """Where the texts are, for a sentence."""
        return str(self._path)

    def read(self, name: str) -> str | None:
        """Return a text.

        Raises:
          TokenStoreFailed: The file cannot be read, or others can read it.
        """
        return self._texts()[0].get(name)

    def write(self, name: str, text: str) -> None:
        """Keep a text.

        Raises:
          TokenStoreFailed: The file cannot be written.
        """
        texts, salt = self._texts()
        self._write(texts | {name: text}, salt)

    def remove(self, name: str) -> None:
        """Delete a text; the last one takes the file with it.

        Raises:
          TokenStoreFailed: The file cannot be written.
        """
        texts, salt = self._texts()
        if texts.pop(name, None) is None:
            return
        if texts:
            self._write(texts, salt)
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from None

    def _texts(self) -> tuple[dict[str, str], bytes | None]:
        """Return all texts, and the salt if they were encrypted."""
        content = self._content()
        if content is None:
            return {}, None
        try:
            fields = _object(from_json(content))
            sealed = fields.get("sealed")
            if not isinstance(sealed, str):
                return _all_texts(fields["texts"]), None
            salt = base64.b64decode(str(fields["salt"]), validate=True)
            return _all_texts(from_json(self._opened(base64.b64decode(sealed, validate=True), salt))), salt
        except (ValueError, KeyError, binascii.Error):
            raise TokenStoreFailed(f"{self.place} is damaged; delete it and sign in again.") from None

    def _content(self) -> bytes | None:
        try:
            # A link could lead to a file that another user has laid there.
            opened = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error) from None
        with os.fdopen(opened, "rb") as file:
            self._check_private(os.fstat(file.fileno()))
            return file.read(_LARGEST)

    def _check_private(self, found: os.stat_result) -> None:
        if os.name == "nt":
            # A user's profile is private there; mode bits say nothing.
            return
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise TokenStoreFailed(f"{self.place} is not a file of yours; delete it and sign in again.")
        if found.st_mode & _OTHERS:
            raise TokenStoreFailed(
                f"Other users of this computer can read {self.place}. Run chmod 600 on it; if they may have read it, "
                "run client logout and sign in again."
            )

    def _write(self, texts: dict[str, str], salt: bytes | None) -> None:
        content = (
            to_json({"version": 1, "texts": texts}) if self._passphrase is None else self._sealed(texts, salt)
        )
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened, name = tempfile.mkstemp(prefix=f".{self._path.name}-", dir=self._path.parent)
        except OSError as error:
            raise self._failed(error) from None
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except OSError as error:
            with suppress(OSError):
                Path(name).unlink(missing_ok=True)
            raise self._failed(error) from None

    def _sealed(self, texts: dict[str, str], salt: bytes | None) -> bytes:
        salt, nonce = salt or secrets.token_bytes(16), secrets.token_bytes(12)
        sealed = nonce + AESGCM(self._key(salt)).encrypt(nonce, to_json(texts), _PURPOSE)
        fields = {"version": 1, "salt": base64.b64encode(salt), "sealed": base64.b64encode(sealed)}
        return to_json(fields)

    def _opened(self, sealed: bytes, salt: bytes) -> bytes:
        if self._passphrase is None:
            raise TokenStoreFailed(f"{self.place} is encrypted; set NEXTCLOUD_MCP_CLIENT_PASSPHRASE.")
        try:
            return AESGCM(self._key(salt)).decrypt(sealed[:12], sealed[12:], _PURPOSE)
        except InvalidTag:
            raise TokenStoreFailed(f"NEXTCLOUD_MCP_CLIENT_PASSPHRASE does not open {self.place}.") from None

    def _key(self, salt: bytes) -> bytes:
        key = self._keys.get(salt)
        if key is None:
            key = Scrypt(salt=salt, length=32, **_WORK).derive((self._passphrase or "").encode())
            self._keys = {salt: key}
        return key

    def _failed(self, error: OSError) -> TokenStoreFailed:
        return TokenStoreFailed(
            f"{self.place} cannot be used for tokens: {error.strerror or type(error).__name__}."
        )


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - it is read from a file, where each fault is a value
    return cast("dict[str, object]", value)


def _all_texts(value: object) -> dict[str, str]:
    return {name: str(text) for name, text in _object(value).items()}
