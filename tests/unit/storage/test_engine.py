import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

import nextcloud_mcp_server
from nextcloud_mcp_server.errors import ForeignDatabase, StorageError
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.engine import Database, backend_of
from nextcloud_mcp_server.storage.migration import configuration
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from nextcloud_mcp_server.storage.transaction import translated

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

pytestmark = pytest.mark.migrations

Open = Callable[..., Awaitable[Database]]
Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]


@pytest.fixture
async def connection(url: str) -> AsyncGenerator[AsyncConnection]:
    """Lend a connection whose transaction leaves nothing behind."""
    engine = backend_of(url).engine()
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


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


@pytest.mark.process
async def test_a_current_database_opens_without_loading_alembic(open_database: Open, url: str) -> None:
    await open_database()

    output, errors = start(url).communicate("go\n", timeout=60)

    assert (output.split(), errors) == (["ready", "None", "False"], "")


@pytest.mark.process
def test_five_processes_may_start_at_once_on_an_empty_place(url: str) -> None:
    processes = [start(url) for _ in range(5)]
    for process in processes:
        wait_until_ready(process)
    for process in processes:
        release(process)

    ended = [process.communicate(timeout=120) for process in processes]

    assert [errors for _, errors in ended] == [""] * 5
    assert {output.split()[0] for output, _ in ended} == {"None"}


@pytest.mark.parametrize("table", ["users", "accounts", "alembic_version"])
async def test_a_database_of_another_program_is_refused_and_left_alone(
    connection: AsyncConnection, open_database: Open, execute: Execute, table: str
) -> None:
    await execute(f"CREATE TABLE {table} (id INTEGER)")

    with pytest.raises(ForeignDatabase, match="another program"):
        await open_database()

    assert await connection.run_sync(lambda opened: inspect(opened).get_table_names()) == [table]


async def test_a_database_of_a_newer_version_is_refused(open_database: Open, execute: Execute) -> None:
    await open_database()
    await execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")

    with pytest.raises(StorageError, match=r"newer version .*9999.* Update the program"):
        await open_database()


async def test_a_failed_write_leaves_nothing_and_shows_no_values(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> None:
    good = AuditEntry(at=now(), principal=alice, client_id="claude", action="good", result="ok")
    bad = AuditEntry(at=now(), principal=alice, client_id="hunter2", action="bad", result=None)  # pyright: ignore[reportArgumentType]

    with pytest.raises(StorageError, match="database cannot be used") as caught:
        await database.audit.append([good, bad])

    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"
    assert await database.audit.recent(alice, 10) == []


def test_what_a_log_prints_of_a_failed_statement_repeats_no_row() -> None:
    fields = {"C": "23502", "M": "a column is empty", "D": "Failing row contains (1, hunter2, null)."}
    of_the_driver = asyncpg.PostgresError.new(fields)

    with pytest.raises(StorageError, match="a column is empty") as caught, translated("Look."):
        raise IntegrityError("INSERT", {}, of_the_driver, hide_parameters=True)

    assert "hunter2" in str(of_the_driver)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_value_that_the_database_repeats_is_in_no_error() -> None:
    of_the_driver = asyncpg.PostgresError.new({"C": "22P02", "M": 'invalid input syntax: "hunter2"'})

    with pytest.raises(StorageError, match="database cannot be used") as caught, translated("Look."):
        raise DataError("INSERT", {}, of_the_driver, hide_parameters=True)

    assert "hunter2" in str(of_the_driver)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


async def test_the_library_shows_no_value_of_a_failed_statement(connection: AsyncConnection) -> None:
    with pytest.raises(DBAPIError, match="nowhere") as caught:
        await connection.execute(text("SELECT 1 FROM nowhere WHERE secret = :secret"), {"secret": "hunter2"})

    assert "hunter2" not in str(caught.value)


async def test_a_row_that_points_nowhere_is_refused(connection: AsyncConnection) -> None:
    await connection.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    await connection.exec_driver_sql("CREATE TABLE child (parent_id INTEGER REFERENCES parent (id))")

    with pytest.raises(IntegrityError):
        await connection.exec_driver_sql("INSERT INTO child VALUES (7)")


async def test_the_schema_goes_up_down_and_up_and_is_what_the_models_say(connection: AsyncConnection) -> None:
    tables, differences = await connection.run_sync(_up_down_and_up)

    assert tables == [{*metadata.tables, VERSION_TABLE}, {VERSION_TABLE}, {*metadata.tables, VERSION_TABLE}]
    assert differences == []


def _up_down_and_up(connection: Connection) -> tuple[list[set[str]], list[Any]]:
    config = configuration(connection)
    tables: list[set[str]] = []
    for move, target in ((command.upgrade, "head"), (command.downgrade, "base"), (command.upgrade, "head")):
        move(config, target)
        tables.append(set(inspect(connection).get_table_names()))
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return tables, list(compare_metadata(context, metadata))


def test_the_known_version_is_the_newest_migration() -> None:
    with create_engine("sqlite://").connect() as connection:
        script = ScriptDirectory.from_config(configuration(connection))
        connection.engine.dispose()

    assert script.get_heads() == [SCHEMA_VERSION]


@pytest.mark.process
async def test_developers_can_run_the_migrations_from_the_command_line(url: str, execute: Execute) -> None:
    await anyio.run_process(
        [sys.executable, "-m", "alembic", "-x", f"url={url}", "upgrade", "head"], cwd=ROOT
    )

    assert await execute(f"SELECT version_num FROM {VERSION_TABLE}") == [(SCHEMA_VERSION,)]
