import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

import nextcloud_mcp_server
from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase, StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.migration import configuration
from nextcloud_mcp_server.storage.models import SCHEMA_VERSION, VERSION_TABLE, metadata
from nextcloud_mcp_server.storage.records import AuditEntry, Principal

ROOT = Path(nextcloud_mcp_server.__file__).parents[1]
OPEN = """
import sys
from datetime import UTC, datetime
import anyio
from pydantic import SecretStr
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    keys = KeyRing.parse([SecretStr(sys.argv[2])])
    database = await Database.open(sys.argv[1], keys=keys, clock=lambda: datetime.now(UTC))
    print(await database.outbox.next_due_at(), "alembic" in sys.modules)
    await database.aclose()

anyio.run(main)
"""

Open = Callable[..., Awaitable[Database]]


def start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OPEN, url, new_key()],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def release(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == "ready\n"


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


async def test_a_current_database_opens_without_loading_alembic(open_database: Open, url: str) -> None:
    await open_database()

    output, errors = start(url).communicate("go\n", timeout=60)

    assert (output.split(), errors) == (["ready", "None", "False"], "")


def test_eight_processes_may_start_at_once_on_an_empty_place(url: str) -> None:
    processes = [start(url) for _ in range(8)]
    for process in processes:
        wait_until_ready(process)
    for process in processes:
        release(process)

    ended = [process.communicate(timeout=120) for process in processes]

    assert [errors for _, errors in ended] == [""] * 8
    assert {output.split()[0] for output, _ in ended} == {"None"}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql+asyncpg://user:hunter2@localhost/mcp",
        "mysql://user:hunter2@localhost/mcp",
        "hunter2",
    ],
)
async def test_a_url_that_names_no_sqlite_file_is_refused_without_showing_it(
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


@pytest.mark.parametrize("tables", ["users", "accounts", "alembic_version"])
async def test_a_database_of_another_program_is_refused_and_left_alone(
    open_database: Open, url: str, tables: str
) -> None:
    path_of(url).parent.mkdir()
    connection = sqlite3.connect(path_of(url))
    connection.execute(f"CREATE TABLE {tables} (id INTEGER)")
    connection.commit()

    with pytest.raises(ForeignDatabase, match="another program"):
        await open_database()

    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [(tables,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    connection.close()


async def test_a_database_of_a_newer_version_is_refused(open_database: Open, url: str) -> None:
    database = await open_database()
    await database.aclose()
    connection = sqlite3.connect(path_of(url))
    connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.commit()
    connection.close()

    with pytest.raises(StorageError, match=r"newer version .*9999.* Update the program"):
        await open_database()


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


async def test_a_failed_write_leaves_nothing_and_shows_no_values(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> None:
    good = AuditEntry(at=now(), principal=alice, client_id="claude", action="good", result="ok")
    bad = AuditEntry(at=now(), principal=alice, client_id="hunter2", action="bad", result=None)  # pyright: ignore[reportArgumentType]

    with pytest.raises(StorageError, match="database cannot be used") as caught:
        await database.audit.append([good, bad])

    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
    assert await database.audit.recent(alice, 10) == []


def test_the_schema_goes_up_down_and_up_and_is_what_the_models_say() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        config = configuration(connection)
        tables: list[set[str]] = []

        for move, target in (
            (command.upgrade, "head"),
            (command.downgrade, "base"),
            (command.upgrade, "head"),
        ):
            move(config, target)
            tables.append(set(inspect(connection).get_table_names()))

        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        differences = compare_metadata(context, metadata)
    engine.dispose()
    assert tables == [{*metadata.tables, VERSION_TABLE}, {VERSION_TABLE}, {*metadata.tables, VERSION_TABLE}]
    assert differences == []


def test_the_known_version_is_the_newest_migration() -> None:
    with create_engine("sqlite://").connect() as connection:
        script = ScriptDirectory.from_config(configuration(connection))
        connection.engine.dispose()

    assert script.get_heads() == [SCHEMA_VERSION]


def test_developers_can_run_the_migrations_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "mcp.db"

    subprocess.run(
        [sys.executable, "-m", "alembic", "-x", f"url=sqlite:///{path.as_posix()}", "upgrade", "head"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )

    connection = sqlite3.connect(path)
    assert connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall() == [(SCHEMA_VERSION,)]
    connection.close()
