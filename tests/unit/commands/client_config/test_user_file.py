import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nextcloud_mcp_server.commands.client_config.user_file import UserFile
from nextcloud_mcp_server.errors import ConfigurationError

NOW = datetime(2026, 11, 29, 12, 0, 5, tzinfo=UTC)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_with_its_permissions_beside_a_copy_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes("{ü}\r\n".encode())
    path.chmod(0o640)

    backup = UserFile.read(path).replace("{neu}\r\n", now=NOW)

    assert path.read_bytes() == b"{neu}\r\n"
    assert backup is not None
    assert backup == tmp_path / "settings.json.20261129-120005.bak"
    assert backup.read_bytes() == "{ü}\r\n".encode()
    assert (mode(path), mode(backup)) == (0o640, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["settings.json", backup.name]


def test_a_second_copy_in_the_same_second_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("1")

    first = UserFile.read(path).replace("2", now=NOW)
    second = UserFile.read(path).replace("3", now=NOW)

    assert first is not None
    assert second is not None
    assert (first.read_text(), second.read_text(), path.read_text()) == ("1", "2", "3")


def test_a_new_file_is_the_user_s_alone_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "settings.json"

    backup = UserFile.read(path).replace("{}", now=NOW)

    assert backup is None
    assert (path.read_text(), mode(path)) == ("{}", 0o600)


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles" / "mcp.json", tmp_path / "mcp.json"
    real.write_text("1")
    link.symlink_to(Path("dotfiles") / "mcp.json")

    backup = UserFile.read(link).replace("2", now=NOW)

    assert link.is_symlink()
    assert real.read_text() == "2"
    assert backup is not None
    assert backup.parent == real.parent


def test_a_link_that_leads_nowhere_yet_makes_the_file_there(tmp_path: Path) -> None:
    link = tmp_path / "mcp.json"
    link.symlink_to("real.json")

    UserFile.read(link).replace("2", now=NOW)

    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "2"


def test_nothing_else_gets_the_permissions_where_another_user_of_the_folder_swaps_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, foreign = tmp_path / "settings.json", tmp_path / "foreign"
    path.write_text("1")
    path.chmod(0o644)
    foreign.write_text("secret")
    foreign.chmod(0o600)
    known = UserFile.read(path)

    def swap(descriptor: int) -> None:
        (made,) = tmp_path.glob(".settings.json.*")
        made.unlink()
        made.symlink_to(foreign)

    monkeypatch.setattr(os, "fsync", swap)
    known.replace("2", now=NOW)

    assert mode(foreign) == 0o600


def test_a_group_that_cannot_be_kept_is_no_reason_to_let_another_one_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    path.write_text("1")
    path.chmod(0o664)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(os, "chown", refuse)
    UserFile.read(path).replace("2", now=NOW)

    assert mode(path) == 0o604


def test_what_was_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("1")
    known = UserFile.read(path)
    path.write_text("by the client")

    with pytest.raises(ConfigurationError, match="was changed meanwhile, and was left as it is: run"):
        known.replace("2", now=NOW)

    assert path.read_text() == "by the client"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_put_in_its_place_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    path.write_text("1")
    known = UserFile.read(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="cannot be written: No space left on device"):
        known.replace("2", now=NOW)

    assert path.read_text() == "1"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_text_file_is_refused_and_left(tmp_path: Path) -> None:
    binary, folder, large = tmp_path / "binary", tmp_path / "folder", tmp_path / "large"
    binary.write_bytes(b"\xff\xfe{}")
    folder.mkdir()
    with large.open("wb") as file:
        file.truncate(5_000_000)
    (tmp_path / "circle").symlink_to("circle")

    for path, reason in (
        (binary, "is not UTF-8 text, and was left"),
        (folder, "is not a settings file, and was left"),
        (large, "is not a settings file, and was left"),
        (tmp_path / "circle", "cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            UserFile.read(path)

    assert binary.read_bytes() == b"\xff\xfe{}"


def test_a_file_that_others_can_read_is_told_from_one_that_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    missing = UserFile.read(path).is_shared
    path.write_text("1")
    path.chmod(0o600)
    private = UserFile.read(path).is_shared
    path.chmod(0o644)

    assert (missing, private, UserFile.read(path).is_shared) == (False, False, True)
