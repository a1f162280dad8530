"""The keyring: long texts, one that is locked, and computers without one."""

import sys
from dataclasses import dataclass, field

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import InitError, KeyringLocked, PasswordDeleteError, PasswordSetError

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.keyring_vault import KeyringVault, find_keyring


@dataclass
class Keyring:
    """A keyring that takes as much as Windows does."""

    entries: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    fault: Exception | None = None
    priority: float = 5

    def get_password(self, service: str, username: str) -> str | None:
        self._fail()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._fail()
        if len(password.encode("utf-16-le")) > 2560:
            raise PasswordSetError("the stub received bad data")
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._fail()
        if (service, username) not in self.entries:
            raise PasswordDeleteError("not found")
        del self.entries[service, username]

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault


def use(monkeypatch: pytest.MonkeyPatch, backend: object) -> None:
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)


@pytest.mark.parametrize("length", [1, 1_200, 1_201, 2_400, 10_000])
def test_a_text_of_any_length_comes_back_and_goes(length: int) -> None:
    backend = Keyring()
    vault = KeyringVault(backend)
    text = "".join(chr(48 + number % 70) for number in range(length))

    vault.write("https://mcp.example/mcp", text)

    assert vault.read("https://mcp.example/mcp") == text
    assert {service for service, _ in backend.entries} == {"nextcloud-mcp-server client"}
    vault.remove("https://mcp.example/mcp")
    vault.remove("https://mcp.example/mcp")
    assert backend.entries == {}


@pytest.mark.parametrize(("before", "after"), [(5_000, 10), (10, 5_000), (5_000, 2_500)])
def test_a_text_of_another_length_leaves_no_part_behind(before: int, after: int) -> None:
    backend = Keyring()
    vault = KeyringVault(backend)
    vault.write("name", "a" * before)

    vault.write("name", "b" * after)

    assert vault.read("name") == "b" * after
    vault.remove("name")
    assert backend.entries == {}


def test_a_text_without_one_of_its_parts_is_none() -> None:
    backend = Keyring()
    vault = KeyringVault(backend)
    vault.write("name", "a" * 3_000)
    del backend.entries["nextcloud-mcp-server client", "name part 1"]

    assert vault.read("name") is None


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (KeyringLocked("the-secret"), "is locked: unlock it"),
        (InitError("the-secret"), "cannot be used: unlock it"),
        (RuntimeError("the-secret"), "cannot be used: unlock it"),
    ],
)
def test_a_keyring_that_is_locked_is_one_sentence(fault: Exception, sentence: str) -> None:
    vault = KeyringVault(Keyring(fault=fault))

    for action in (lambda: vault.read("a"), lambda: vault.write("a", "x"), lambda: vault.remove("a")):
        with pytest.raises(TokenStoreFailed, match=sentence) as caught:
            action()
        assert "the-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("priority", "is_used"), [(5, True), (1, True), (0.5, False), (0, False), (-1, False)]
)
def test_a_backend_that_keeps_nothing_or_plain_files_is_no_keyring(
    monkeypatch: pytest.MonkeyPatch,
    priority: float,
    is_used: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    use(monkeypatch, Keyring(priority=priority))

    assert (find_keyring() is not None) is is_used


def test_a_backend_that_does_not_work_here_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfit:
        @property
        def priority(self) -> float:
            raise RuntimeError("no bus")

    use(monkeypatch, Unfit())

    assert find_keyring() is None


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)

    assert find_keyring() is None


def test_what_it_uses_is_what_the_package_has() -> None:
    for name in ("get_password", "set_password", "delete_password"):
        assert hasattr(KeyringBackend, name)
