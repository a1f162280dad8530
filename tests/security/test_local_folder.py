"""A model that was talked into reaching for this computer's files gets no further than the folder that was opened."""

import os
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import pytest

from nextcloud_mcp_server.errors import ConfigurationError, InvalidInput
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.tools.local_folder import LocalFolder, is_odd
from nextcloud_mcp_server.tools.registry import TOOLSETS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("canary")
    made = tmp_path / "exchange"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "a.txt").write_text("fine")
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "dangling").symlink_to(tmp_path / "new")
    (made / "door").symlink_to(tmp_path / "outside")
    os.mkfifo(made / "pipe")
    return made


def read(local_folder: LocalFolder, name: str) -> None:
    with local_folder.reading(name):
        raise AssertionError("it was opened")


def write(local_folder: LocalFolder, name: str) -> None:
    with local_folder.writing(name):
        raise AssertionError("it was opened")


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "sub/../../secret",
        "/etc/passwd",
        "link",
        "dangling",
        "door/key",
        "door/new",
        "",
        ".",
        "/",
        "a\nb",
        "\u202ea",
        "..",
    ],
)
def test_no_name_leads_out_of_the_folder(
    folder: Path, name: str, use: Callable[[LocalFolder, str], None]
) -> None:
    with pytest.raises(InvalidInput):
        use(LocalFolder(folder), name)

    assert not (folder.parent / "new").exists()
    assert not (folder.parent / "outside" / "new").exists()


@pytest.mark.parametrize(
    "name", ["C:\\x", "C:x", "\\x", "/x", "\\\\host\\share\\x", "\\\\?\\C:\\x", "a\\..\\..\\x", "", "a\x07"]
)
def test_no_name_leads_out_of_the_folder_on_windows(name: str) -> None:
    assert is_odd(PureWindowsPath(name))
    assert not is_odd(PureWindowsPath("sub\\a.txt"))


@pytest.mark.parametrize("name", ["pipe", "sub", "missing", "sub/a.txt/b", "x" * 300])
def test_what_is_no_plain_file_is_not_read(folder: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        read(LocalFolder(folder), name)


def test_a_folder_that_is_not_there_is_not_made(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        write(LocalFolder(folder), "no/where.txt")


def test_a_file_exchanged_for_a_link_between_the_look_and_the_opening_is_refused(folder: Path) -> None:
    class Raced(LocalFolder):
        def _inside(self, name: str) -> Path:
            path = super()._inside(name)
            (folder / "sub" / "a.txt").unlink()
            (folder / "sub").rmdir()
            (folder / "sub").symlink_to(folder.parent / "outside")
            return path

    (folder.parent / "outside" / "a.txt").write_text("canary")

    with pytest.raises(InvalidInput, match="not a plain file"):
        read(Raced(folder), "sub/a.txt")


def test_a_file_made_through_such_a_link_does_not_stay(folder: Path) -> None:
    class Raced(LocalFolder):
        def _inside(self, name: str) -> Path:
            path = super()._inside(name)
            (folder / "sub" / "a.txt").unlink()
            (folder / "sub").rmdir()
            (folder / "sub").symlink_to(folder.parent / "outside")
            return path

    with pytest.raises(InvalidInput):
        write(Raced(folder), "sub/new.txt")

    assert not (folder.parent / "outside" / "new.txt").exists()


def test_a_file_has_its_name_only_when_it_is_whole(folder: Path) -> None:
    with LocalFolder(folder).writing("new.txt") as file:
        file.write(b"half")
        names = [path.name for path in folder.iterdir() if path.suffix == ".part"]
        there = (folder / "new.txt").exists()

    assert (len(names), there) == (1, False)
    assert (folder / "new.txt").read_bytes() == b"half"
    assert not (folder / names[0]).exists()


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_was_taken_meanwhile_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    if not links:
        # As on a memory stick.
        monkeypatch.setattr(os, "link", no_links)

    def overtaken() -> None:
        with LocalFolder(folder).writing("new.txt") as file:
            file.write(b"ours")
            (folder / "new.txt").write_bytes(b"theirs")

    with pytest.raises(InvalidInput, match="exists already"):
        overtaken()
    with LocalFolder(folder).writing("other.txt") as file:
        file.write(b"ours")

    assert (folder / "new.txt").read_bytes() == b"theirs"
    assert (folder / "other.txt").read_bytes() == b"ours"
    assert not list(folder.glob(".*.part"))


async def test_a_file_that_changes_while_it_is_read_is_not_sent_on(folder: Path) -> None:
    with LocalFolder(folder).reading("sub/a.txt") as source:
        assert await source.read(2) == b"fi"
        (folder / "sub" / "a.txt").write_text("changed")

        with pytest.raises(InvalidInput, match="was changed while it was read"):
            await source.read(2)


def test_without_the_setting_there_is_nothing_to_reach_and_no_tool_for_it(tmp_path: Path) -> None:
    shut = mcp_server.select(TOOLSETS, exclude=(), read_only=False, local=False)
    open_ = mcp_server.select(TOOLSETS, exclude=(), read_only=False, local=True)

    assert {spec.name for spec in open_} - {spec.name for spec in shut} == {"nc_files_download_file"}
    with pytest.raises(InvalidInput, match="LOCAL_FOLDER"):
        read(LocalFolder(), str(tmp_path))


def load(folder: Path, **more: object) -> environment.Settings:
    return environment.load(nextcloud_host="https://cloud.example.org", local_folder=folder, **more)


def test_the_folder_is_for_one_person_over_stdio_alone(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    exchange = tmp_path / "exchange"
    exchange.mkdir()

    assert load(exchange, data_dir=ours).local_folder == exchange
    with pytest.raises(ConfigurationError, match="over stdio alone"):
        load(exchange, data_dir=ours, transport="http")


def test_the_folder_may_not_hold_the_servers_own_keys(tmp_path: Path) -> None:
    ours = tmp_path / "home" / "ours"
    (ours / "deeper").mkdir(parents=True)

    for folder in (tmp_path, ours, ours / "deeper"):
        with pytest.raises(ConfigurationError, match="data folder, where its keys are"):
            load(folder, data_dir=ours)


def test_the_folder_must_be_there_and_be_named_in_full(tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", Path("relative")):
        with pytest.raises(ConfigurationError, match="names no folder"):
            load(folder, data_dir=tmp_path / "ours")
