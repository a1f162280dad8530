"""A migration that a crash cuts off is not half done, and older servers work on beside a newer schema."""

import ast
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from alembic import command
from sqlalchemy import Connection, inspect

from nextcloud_mcp_server.storage.engine import Database, backend_of
from nextcloud_mcp_server.storage.migration import configuration, migrations_folder
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE
from nextcloud_mcp_server.storage.records import Elicitation, Principal

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
Open = Callable[..., Awaitable[Database]]

#: From this version on, a server of an earlier one works beside the schema, until its replica is updated as well.
FIRST_ADDITIVE = "0010"

#: Migrates a database, and is killed when everything is changed and nothing committed.
KILLED = """
import os, signal, sys
import anyio
from sqlalchemy import Engine, event
from nextcloud_mcp_server.storage.engine import backend_of
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE

def die(connection, cursor, statement, parameters, context, many):
    if VERSION_TABLE in statement and SCHEMA_VERSION in f"{statement} {parameters}":
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute", die)
backend = backend_of(sys.argv[1])
anyio.run(backend.prepare, backend.engine())
"""


def to_first_schema(connection: Connection) -> set[str]:
    command.downgrade(configuration(connection), "0001")
    return set(inspect(connection).get_table_names())


@pytest.mark.process
@pytest.mark.migrations
async def test_a_migration_that_is_killed_changes_nothing_and_the_next_start_does_it(
    *, database: Database, open_database: Open, url: str, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask(), secret="app-password")
    engine = backend_of(url).engine()
    async with engine.begin() as connection:
        before = await connection.run_sync(to_first_schema)

    killed = await anyio.run_process([sys.executable, "-c", KILLED, url], check=False)

    async with engine.connect() as connection:
        left = await connection.run_sync(lambda one: set(inspect(one).get_table_names()))
        version = (await connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    await engine.dispose()
    upgraded = await open_database()
    grant = await upgraded.grants.find(alice, "claude")
    assert killed.returncode == -signal.SIGKILL
    assert (left, version) == (before, "0001")
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "app-password"


def additions(call: ast.Call) -> bool:
    """Tell whether a server that does not know of this change can go on writing."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "add_column":
        column = call.args[1]
        assert isinstance(column, ast.Call)
        said = {one.arg: ast.unparse(one.value) for one in column.keywords}
        return said.get("nullable") == "True" or "server_default" in said
    return call.func.attr in {"create_table", "create_index"}


def operations(file: Path) -> list[ast.Call]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    [upgrade] = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "upgrade"]
    calls = [one for one in ast.walk(upgrade) if isinstance(one, ast.Call)]
    return [one for one in calls if ast.unparse(one.func).startswith(("op.", "batch."))]


def test_migrations_only_add_what_an_older_replica_need_not_know() -> None:
    """docs/operate/updates.md promises that the replicas of a server can be updated one after the other."""
    files = sorted(migrations_folder().glob("versions/*.py"))
    additive = [file for file in files if file.name[:4] >= FIRST_ADDITIVE]

    others = [
        (file.name, ast.unparse(one)) for file in additive for one in operations(file) if not additions(one)
    ]

    assert others == []
    assert additive[-1].name[:4] == SCHEMA_VERSION
