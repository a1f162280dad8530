"""Keeps tokens between runs: in the system's keyring, or in a file that only the user can read.

A record belongs to a server's URL, and in it each grant to the issuer that gave it: credentials of one authorization
server are never shown to another.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.to_thread
from mcp.shared.auth_utils import resource_url_from_server_url
from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.file_lock import file_lock
from nextcloud_mcp_server.bridge.oauth.grant import Grant
from nextcloud_mcp_server.bridge.oauth.keyring_vault import find_keyring
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault
from nextcloud_mcp_server.errors import ConfigurationError

STORE_VARIABLE: Final = "NEXTCLOUD_MCP_CLIENT_TOKEN_STORE"
PASSPHRASE_VARIABLE: Final = "NEXTCLOUD_MCP_CLIENT_PASSPHRASE"  # noqa: S105 - the name of a variable
_FILE: Final = "client-tokens.json"
#: What a vault may take: a keyring may show a window and wait for the user.
_VAULT_SECONDS: Final = 60.0

_T = TypeVar("_T")


class Vault(Protocol):
    """Keeps texts by name; its methods may wait, and raise TokenStoreFailed."""

    @property
    def place(self) -> str:
        """Where the texts are, for a sentence."""
        ...

    def read(self, name: str) -> str | None:
        """Return a text."""
        ...

    def write(self, name: str, text: str) -> None:
        """Keep a text."""
        ...

    def remove(self, name: str) -> None:
        """Delete a text, if there is one."""
        ...


class _Record(BaseModel):
    """The grants of one server by issuer, and the issuer of the newest."""

    model_config = ConfigDict(extra="ignore")

    current: str
    grants: dict[str, Grant] = Field(default_factory=dict[str, Grant])


class TokenStore:
    """Keeps grants by the server's URL and the issuer; `folder` has the locks between processes."""

    def __init__(self, vault: Vault, folder: Path) -> None:
        self._vault = vault
        self._folder = folder

    @property
    def place(self) -> str:
        """Where the tokens are, for a sentence."""
        return self._vault.place

    async def load(self, url: str, issuer: str | None = None) -> Grant | None:
        """Return the grant of an issuer for a server; without `issuer` the newest.

        Raises:
          TokenStoreFailed: The keyring or the file cannot be read.
        """
        record = await self._record(_name(url))
        return None if record is None else record.grants.get(record.current if issuer is None else issuer)

    async def save(self, url: str, grant: Grant) -> None:
        """Keep a grant.

        Raises:
          TokenStoreFailed: The keyring or the file cannot be written.
        """
        name = _name(url)
        async with self.lock(url, "store", seconds=_VAULT_SECONDS):
            record = await self._record(name)
            grants = {} if record is None else record.grants
            text = _Record(current=grant.issuer, grants=grants | {grant.issuer: grant}).model_dump_json(
                exclude_none=True, ensure_ascii=True
            )
            await self._run(lambda: self._vault.write(name, text))

    async def remove(self, url: str) -> list[Grant]:
        """Delete all grants of a server, and return them.

        Raises:
          TokenStoreFailed: The keyring or the file cannot be written.
        """
        name = _name(url)
        async with self.lock(url, "store", seconds=_VAULT_SECONDS):
            record = await self._record(name)
            await self._run(lambda: self._vault.remove(name))
        return [] if record is None else list(record.grants.values())

    @asynccontextmanager
    async def lock(self, url: str, purpose: str, *, seconds: float) -> AsyncGenerator[None]:
        """Let one process after the other do something for a server.

        Raises:
          TokenStoreFailed: Another process did not end within `seconds`.
        """
        # The vault of a file has one text for all servers.
        key = "all" if purpose == "store" else sha256(_name(url).encode()).hexdigest()[:24]
        async with file_lock(self._folder / f"client-{purpose}-{key}.lock", seconds=seconds):
            yield

    async def _record(self, name: str) -> _Record | None:
        text = await self._run(lambda: self._vault.read(name))
        if text is None:
            return None
        try:
            return _Record.model_validate_json(text)
        except ValidationError:
            # Written by another version, or cut off when a process ended: the user signs in once more.
            return None

    async def _run(self, work: Callable[[], _T]) -> _T:
        try:
            with anyio.fail_after(_VAULT_SECONDS):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            raise TokenStoreFailed(f"{self.place} does not answer; {_INSTEAD}") from None


_INSTEAD: Final = f"unlock it and try again, or set {STORE_VARIABLE}=file."


def open_store(environment: Mapping[str, str], folder: Path | None = None) -> TokenStore:
    """Open the store that the variables name: the keyring where there is one, else the file.

    Raises:
      ConfigurationError: A variable has no valid value, or there is no keyring to use.
    """
    folder = folder or user_data_path("nextcloud-mcp-server", appauthor=False)
    wanted = environment.get(STORE_VARIABLE, "auto")
    if wanted not in {"auto", "keyring", "file"}:
        raise ConfigurationError(f"{STORE_VARIABLE} must be auto, keyring or file.")
    vault = None if wanted == "file" else find_keyring()
    if vault is None and wanted == "keyring":
        raise ConfigurationError(
            f"{STORE_VARIABLE}=keyring: there is no keyring to use. Install nextcloud-mcp-server[keyring] on a desktop."
        )
    return TokenStore(
        vault or FileVault(folder / _FILE, environment.get(PASSPHRASE_VARIABLE) or None), folder
    )


def _name(url: str) -> str:
    return resource_url_from_server_url(url)
