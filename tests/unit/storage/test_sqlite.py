import contextlib
import sqlite3
import stat
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

import pytest

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE
from nextcloud_mcp_server.storage.transaction import Transactions

Open = Callable[..., Awaitable[Database]]


@pytest.fixture
def url(sqlite_url: str) -> str:
    return sqlite_url


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


async def test_an_empty_place_becomes_a_database_with_write_ahead_log(open_database: Open, url: str) -> None:
    await open_database()

    with sqlite3.connect(path_of(url)) as connection:
        [[version]] = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()
        [[mode]] = connection.execute("PRAGMA journal_mode").fetchall()
    connection.close()
    assert (version, mode) == (SCHEMA_VERSION, "wal")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
async def test_every_file_of_the_database_is_private(open_database: Open, url: str) -> None:
    database = await open_database()
    await database.outbox.next_due_at()

    folder = path_of(url).parent
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"mcp.db", "mcp.db-wal", "mcp.db-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
async def test_a_file_that_others_could_read_is_made_private(open_database: Open, url: str) -> None:
    path_of(url).parent.mkdir()
    path_of(url).touch(mode=0o644)

    await open_database()

    assert stat.S_IMODE(path_of(url).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql+psycopg://user:hunter2@localhost/mcp",
        "mysql://user:hunter2@localhost/mcp",
        "hunter2",
    ],
)
async def test_a_url_that_names_no_database_is_refused_without_showing_it(
    url: str, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    with pytest.raises(ConfigurationError, match="DATABASE_URL") as caught:
        await Database.open(url, keys=keys, clock=now)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_folder_with_spaces_and_letters_of_any_alphabet_works(
    tmp_path: Path, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    path = tmp_path / "Ünï cödé %20 ?#" / "mcp.db"

    database = await Database.open(file_url(path), keys=keys, clock=now)
    await database.aclose()

    assert path.is_file()


async def test_a_file_that_is_no_database_is_refused(open_database: Open, url: str) -> None:
    path_of(url).parent.mkdir()
    path_of(url).write_bytes(b"no database " * 100)

    with pytest.raises(StorageError, match="not a database"):
        await open_database()

    assert path_of(url).read_bytes() == b"no database " * 100


async def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match="DATABASE_URL"):
        await Database.open(file_url(tmp_path / "file" / "mcp.db"), keys=keys, clock=now)


async def test_a_lock_that_cannot_be_taken_says_which_file_is_in_the_way(
    open_database: Open, url: str
) -> None:
    path_of(url).parent.mkdir()
    path_of(url).with_name("mcp.db.lock").write_bytes(b"no database " * 100)

    with pytest.raises(StorageError, match=r"mcp\.db\.lock"):
        await open_database()


async def test_a_transaction_that_has_only_read_keeps_other_processes_from_writing(
    transactions: Transactions, url: str
) -> None:
    """If both wrote, one would fail: what it read is not the newest any more."""
    with contextlib.closing(sqlite3.connect(path_of(url), timeout=0)) as other_process:
        async with transactions.writing() as connection:
            await connection.exec_driver_sql("SELECT id FROM accounts")
            with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                other_process.execute("BEGIN IMMEDIATE")

        other_process.execute("BEGIN IMMEDIATE")


async def test_a_copy_without_write_ahead_log_gets_it_back(open_database: Open, url: str) -> None:
    database = await open_database()
    await database.aclose()
    connection = sqlite3.connect(path_of(url))
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()

    await open_database()

    connection = sqlite3.connect(path_of(url))
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    connection.close()
