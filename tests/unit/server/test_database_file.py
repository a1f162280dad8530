import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase, StorageError
from nextcloud_mcp_server.server import database_file
from nextcloud_mcp_server.server.database_file import (
    has_state,
    is_current,
    refuse_unusable_file,
    refuse_unwritable,
    schema_of,
    stored_in,
)
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION
from tests.auth_fixtures import NEXTCLOUD


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


@pytest.mark.parametrize(
    "database_url", [None, "sqlite+aiosqlite:///{}/state.db", "sqlite:///{}/state.db?timeout=5"]
)
def test_work_of_an_earlier_process_is_looked_for_where_there_is_a_database(
    tmp_path: Path, database_url: str | None
) -> None:
    config = configured(tmp_path, database_url=database_url and database_url.format(tmp_path.as_posix()))
    before = has_state(config)
    (tmp_path / "state.db").touch()

    assert (before, has_state(config)) == (False, True)


def sqlite(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database" * 100)

    with pytest.raises(ForeignDatabase, match=r"state\.db cannot be read as a database"):
        refuse_unusable_file(configured(tmp_path))


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()

    with pytest.raises(StorageError, match=r"state\.db"):
        refuse_unusable_file(configured(tmp_path))


def test_tables_of_another_program_are_refused(tmp_path: Path) -> None:
    sqlite(tmp_path / "state.db", "CREATE TABLE oc_users (uid TEXT)")

    with pytest.raises(ForeignDatabase, match="another program, such as 'oc_users'"):
        refuse_unusable_file(configured(tmp_path))


async def test_the_schema_of_a_newer_version_is_refused_even_with_another_table_of_keys(
    tmp_path: Path,
) -> None:
    sqlite(
        tmp_path / "state.db",
        "CREATE TABLE nextcloud_mcp_version (version_num TEXT)",
        "INSERT INTO nextcloud_mcp_version VALUES ('9999')",
        "CREATE TABLE sealing_keys (renamed TEXT)",
    )

    assert await schema_of(configured(tmp_path)) == "9999"
    with pytest.raises(ForeignDatabase, match=r"newer version .*9999"):
        refuse_unusable_file(configured(tmp_path))


async def test_a_database_that_is_made_now_is_taken_and_its_keys_are_known(tmp_path: Path) -> None:
    refuse_unusable_file(configured(tmp_path))
    async with open_database(configured(tmp_path)) as database:
        (key_id,) = await database.sealing_keys.known()

    refuse_unusable_file(configured(tmp_path))
    stored = await stored_in(configured(tmp_path))
    assert (stored.version, stored.key_ids) == (SCHEMA_VERSION, {key_id})


async def test_a_file_needs_no_opening_where_its_schema_is_the_newest_and_its_keys_are_known(
    tmp_path: Path,
) -> None:
    config = configured(tmp_path)
    before = is_current(config)
    async with open_database(config):
        pass
    opened = is_current(config)
    sqlite(tmp_path / "state.db", "UPDATE nextcloud_mcp_version SET version_num = '0009'")

    assert (before, opened, is_current(config)) == (False, True, False)
    sqlite(tmp_path / "state.db", "UPDATE nextcloud_mcp_version SET version_num = '9999'")
    with pytest.raises(ForeignDatabase):
        is_current(config)
    assert not is_current(configured(tmp_path, database_url="postgresql://mcp@127.0.0.1:9/mcp"))


async def test_a_key_file_that_is_gone_is_missed_and_not_replaced(tmp_path: Path) -> None:
    async with open_database(configured(tmp_path)):
        pass
    (tmp_path / "encryption.key").unlink()

    with pytest.raises(ConfigurationError, match=r"encryption\.key: put that key back"):
        async with open_database(configured(tmp_path)):
            pass

    assert not (tmp_path / "encryption.key").exists()


async def test_a_key_file_with_something_else_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with open_database(config):
        pass
    config.key_file.write_text("junk")

    with pytest.raises(ConfigurationError, match="^" + re.escape(str(config.key_file))):
        refuse_unusable_file(config)


def test_postgresql_without_its_driver_is_refused_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_module(_: str) -> None: ...

    monkeypatch.setattr(database_file, "find_spec", no_module)

    with pytest.raises(ConfigurationError, match="extra 'postgres'") as caught:
        refuse_unusable_file(configured(tmp_path, database_url="postgresql://mcp:pw@127.0.0.1/mcp"))

    # The bare name in an index is another project.
    assert "git+ADDRESS" in str(caught.value)


async def test_well_formed_keys_of_another_database_are_refused(tmp_path: Path) -> None:
    async with open_database(configured(tmp_path)):
        pass

    with pytest.raises(
        ConfigurationError, match=r"sealed with another key .* than those of TOKEN_ENCRYPTION_KEYS"
    ):
        refuse_unusable_file(configured(tmp_path, token_encryption_keys=new_key()))


def test_a_file_in_the_place_of_the_data_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for folder in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(ConfigurationError, match=r"cannot be written \(.*set DATA_DIR to another"):
            refuse_unwritable(configured(folder))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that takes no folders")
def test_a_data_folder_that_not_even_root_can_make_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="it cannot be made in /proc"):
        refuse_unwritable(configured(Path("/proc/nextcloud-mcp")))


def test_a_data_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    refuse_unwritable(configured(tmp_path))
    refuse_unwritable(configured(tmp_path / "later" / "data"))

    assert list(tmp_path.iterdir()) == []


def test_a_server_that_writes_nothing_there_needs_no_data_folder(tmp_path: Path) -> None:
    """In docker-compose.builtin.yml keys and database are elsewhere, and the account cannot write to /data."""
    (tmp_path / "file").touch()
    many = {
        "mode": "builtin",
        "nextcloud_mcp_server_url": "https://mcp.test",
        "nextcloud_oauth_client_id": "client",
        "nextcloud_oauth_client_secret": "secret",
        "token_encryption_keys": new_key(),
    }

    refuse_unwritable(configured(tmp_path / "file", **many, database_url="postgresql://mcp@db/mcp"))
    with pytest.raises(ConfigurationError, match="cannot be written"):
        refuse_unwritable(configured(tmp_path / "file", **many))


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(
            ConfigurationError, match=r"cannot be written \(File too large\).*free some space"
        ):
            refuse_unwritable(configured(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_no_reason_to_put_a_backup_back(tmp_path: Path) -> None:
    """SQLite then says “disk I/O error”, since there is no room for the file that its readers share."""
    resource = pytest.importorskip("resource")
    sqlite(tmp_path / "state.db", "PRAGMA journal_mode = wal", "CREATE TABLE one (x TEXT)")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(StorageError) as caught:
            refuse_unusable_file(configured(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be opened (disk I/O error): check the free space" in str(caught.value)
    assert not isinstance(caught.value, ForeignDatabase)
