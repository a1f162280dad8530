"""`db backup`: a copy of the database file, made while a server writes to it."""

import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nextcloud_mcp_server.commands import database
from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load(nextcloud_host="https://cloud.example.org", data_dir=tmp_path / "data")
    database.upgrade(found)
    return found


def version_of(copy: Path) -> str:
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (version,) = connection.execute("SELECT version_num FROM nextcloud_mcp_version").fetchone()
    return str(version)


def test_a_copy_is_whole_and_its_owner_s_alone_while_another_process_writes(
    settings: Settings, tmp_path: Path, capsys: Capture
) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(settings.data_path / "state.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE nextcloud_mcp_version SET version_num = 'not committed'")
        database.backup(settings, copy)
        writer.execute("ROLLBACK")

    assert version_of(copy) == SCHEMA_VERSION
    if sys.platform != "win32":
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    told = capsys.readouterr()
    assert f"The database was copied to {copy}." in told.out
    assert f"Keep the keys too, in another place ({settings.key_file})" in told.err


def test_a_copy_is_printed_for_another_machine_and_leaves_no_file(
    settings: Settings, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = sorted(settings.data_path.iterdir())

    database.backup(settings, Path("-"))

    printed = tmp_path / "printed.db"
    sys.stdout.flush()
    printed.write_bytes(capfdbinary.readouterr().out)
    assert version_of(printed) == SCHEMA_VERSION
    assert sorted(path for path in settings.data_path.iterdir() if not path.name.startswith("state.db-")) == [
        path for path in before if not path.name.startswith("state.db-")
    ]


def test_no_file_is_overwritten(settings: Settings, tmp_path: Path) -> None:
    kept = tmp_path / "kept.db"
    kept.write_text("of yesterday", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="exists already"):
        database.backup(settings, kept)

    assert kept.read_text(encoding="utf-8") == "of yesterday"


def test_a_copy_that_cannot_be_made_says_why_and_leaves_nothing(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be made"):
        database.backup(settings, tmp_path / "no folder" / "copy.db")

    (settings.data_path / "state.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="cannot be copied"):
        database.backup(settings, tmp_path / "copy.db")

    assert not (tmp_path / "copy.db").exists()


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    settings = load(nextcloud_host="https://cloud.example.org", data_dir=tmp_path / "data")

    with pytest.raises(ConfigurationError, match="There is no database"):
        database.backup(settings, tmp_path / "copy.db")

    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "copy.db").exists()


def test_of_postgresql_its_own_command_is_named(tmp_path: Path) -> None:
    settings = load(
        nextcloud_host="https://cloud.example.org", data_dir=tmp_path, database_url="postgresql://mcp@db/mcp"
    )

    with pytest.raises(ConfigurationError, match="pg_dump --format custom"):
        database.backup(settings, tmp_path / "copy.db")
