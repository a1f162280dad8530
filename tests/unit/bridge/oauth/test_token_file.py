"""The file with tokens: private, whole, and encrypted where the user gave a passphrase."""

import os
import stat
import sys
from pathlib import Path

import pytest

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault

unix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of a Unix system")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "client-tokens.json"


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
def test_texts_are_kept_by_name(path: Path, passphrase: str | None) -> None:
    vault = FileVault(path, passphrase)
    assert vault.read("a") is None

    vault.write("a", "the-secret")
    vault.write("b", "ö")

    again = FileVault(path, passphrase)
    assert (again.read("a"), again.read("b"), again.read("c")) == ("the-secret", "ö", None)
    assert (b"the-secret" in path.read_bytes()) is (passphrase is None)
    again.remove("a")
    again.remove("a")
    assert (vault.read("a"), vault.read("b")) == (None, "ö")
    again.remove("b")
    assert list(path.parent.iterdir()) == []


@unix
def test_only_the_user_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        FileVault(path).write("a", "the-secret")
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@unix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o601])
def test_a_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    vault = FileVault(path)
    vault.write("a", "the-secret")
    path.chmod(mode)

    for action in (lambda: vault.read("a"), lambda: vault.write("b", "x")):
        with pytest.raises(TokenStoreFailed, match=f"can read {path}.*chmod 600"):
            action()
    assert b'"b"' not in path.read_bytes()


@unix
def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    FileVault(elsewhere).write("a", "planted")
    path.parent.mkdir()
    path.symlink_to(elsewhere)

    with pytest.raises(TokenStoreFailed):
        FileVault(path).read("a")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"texts": 1}',
        b'{"texts": []}',
        b'{"sealed": "!", "salt": "AA=="}',
        b'{"sealed": "AA=="}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_one_sentence(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(TokenStoreFailed, match="is damaged; delete it and sign in again"):
        FileVault(path, "passphrase").read("a")
    assert path.read_bytes() == content


def test_another_passphrase_or_none_opens_nothing(path: Path) -> None:
    FileVault(path, "correct horse").write("a", "the-secret")

    with pytest.raises(TokenStoreFailed, match="does not open"):
        FileVault(path, "battery staple").read("a")
    with pytest.raises(TokenStoreFailed, match="is encrypted; set NEXTCLOUD_MCP_CLIENT_PASSPHRASE"):
        FileVault(path).read("a")


def test_a_changed_file_is_not_opened(path: Path) -> None:
    vault = FileVault(path, "correct horse")
    vault.write("a", "the-secret")
    content = path.read_bytes()
    place = content.index(b'"sealed":"') + 40
    path.write_bytes(
        content[:place] + (b"A" if content[place : place + 1] != b"A" else b"B") + content[place + 1 :]
    )

    with pytest.raises(TokenStoreFailed, match="does not open"):
        FileVault(path, "correct horse").read("a")


def test_a_passphrase_encrypts_what_was_plain(path: Path) -> None:
    FileVault(path).write("a", "the-secret")

    vault = FileVault(path, "correct horse")
    assert vault.read("a") == "the-secret"
    vault.write("b", "x")

    assert b"the-secret" not in path.read_bytes()
    assert vault.read("a") == "the-secret"


def test_a_write_that_fails_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = FileVault(path)
    vault.write("a", "before")
    content = path.read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TokenStoreFailed, match="No space left on device"):
        vault.write("a", "after")

    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
