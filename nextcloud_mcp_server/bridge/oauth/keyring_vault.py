"""The system's keyring as a place for tokens, through the optional package `keyring`."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed

_SERVICE: Final = "nextcloud-mcp-server client"
#: Windows takes 2,560 bytes of UTF-16 for one entry.
_LONGEST: Final = 1_200
_PLACE: Final = "The keyring of this computer"
_PARTS: Final = "parts:"
_MOST_PARTS: Final = 500
#: Below it are backends that keep nothing, or in plain files.
_LEAST_PRIORITY: Final = 1

_T = TypeVar("_T")


class Backend(Protocol):
    """What a backend of `keyring` does."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return an entry."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Write an entry."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Delete an entry."""
        ...


class KeyringVault:
    """Keeps texts by name; long ones in several entries."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def place(self) -> str:
        """Where the texts are, for a sentence."""
        return _PLACE

    def read(self, name: str) -> str | None:
        """Return a text; None as well for one that was cut off when a process ended.

        Raises:
          TokenStoreFailed: The keyring is locked, or does not work.
        """
        text = self._get(name)
        if text is None or not text.startswith(_PARTS):
            return text
        parts = [self._get(_part(name, number)) for number in range(_count(text))]
        return None if None in parts else "".join(part or "" for part in parts)

    def write(self, name: str, text: str) -> None:
        """Keep a text.

        Raises:
          TokenStoreFailed: The keyring is locked, or does not work.
        """
        before = _count(self._get(name) or "")
        parts = [text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST)]
        if len(parts) == 1:
            self._set(name, text)
            parts = []
        else:
            for number, part in enumerate(parts):
                self._set(_part(name, number), part)
            # Last, so that the entry never names parts that are not there.
            self._set(name, f"{_PARTS}{len(parts)}")
        for number in range(len(parts), before):
            self._delete(_part(name, number))

    def remove(self, name: str) -> None:
        """Delete a text, if there is one.

        Raises:
          TokenStoreFailed: The keyring is locked, or does not work.
        """
        text = self._get(name)
        if text is None:
            return
        self._delete(name)
        for number in range(_count(text)):
            self._delete(_part(name, number))

    def _get(self, name: str) -> str | None:
        return _run(lambda: self._backend.get_password(_SERVICE, name))

    def _set(self, name: str, text: str) -> None:
        _run(lambda: self._backend.set_password(_SERVICE, name, text))

    def _delete(self, name: str) -> None:
        if self._get(name) is not None:
            _run(lambda: self._backend.delete_password(_SERVICE, name))


def find_keyring() -> KeyringVault | None:
    """Return the keyring; None where the package is not installed, or the computer has no keyring."""
    try:
        import keyring  # noqa: PLC0415 - an optional package, which takes long to import
    except ImportError:
        return None
    backend = keyring.get_keyring()
    try:
        is_usable = backend.priority >= _LEAST_PRIORITY
    except RuntimeError:
        # So a backend says that it does not work on this system.
        return None
    return KeyringVault(cast("Backend", backend)) if is_usable else None


def _run(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - each backend raises errors of its own system
        # Their texts are not shown: no one says what they hold.
        state = "is locked" if "locked" in type(error).__name__.lower() else "cannot be used"
        raise TokenStoreFailed(
            f"{_PLACE} {state}: unlock it and try again, or set NEXTCLOUD_MCP_CLIENT_TOKEN_STORE=file."
        ) from None


def _part(name: str, number: int) -> str:
    return f"{name} part {number}"


def _count(text: str) -> int:
    number = text.removeprefix(_PARTS)
    return min(int(number), _MOST_PARTS) if text.startswith(_PARTS) and number.isdecimal() else 0
