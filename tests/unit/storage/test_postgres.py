import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import anyio
import pytest

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database, backend_of, postgres_state
from nextcloud_mcp_server.storage.postgres import WRITE_LOCK, Postgres
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, Principal
from nextcloud_mcp_server.storage.transaction import Transactions, translated

Open = Callable[..., Awaitable[Database]]
Ask = Callable[..., Awaitable[Elicitation]]
Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]

END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.mark.parametrize("scheme", ["postgresql+asyncpg", "postgresql", "postgres"])
async def test_an_address_may_be_written_in_three_ways(
    url: str, scheme: str, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    same = url.replace("postgresql://", f"{scheme}://") + "&ssl=disable"

    database = await Database.open(same, keys=keys, clock=now)
    await database.aclose()

    assert (await postgres_state(url))[0] == SCHEMA_VERSION


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:hunter2@localhost",
        "postgresql://user:hunter2@localhost/",
        "postgresql://user:hunter2@localhost:0/mcp",
        "postgresql://user:hunter2@localhost:port/mcp",
    ],
)
def test_an_address_without_a_database_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(ConfigurationError, match="DATABASE_URL") as caught:
        backend_of(address)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_without_the_driver_the_refusal_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nextcloud_mcp_server.storage.postgres")
    monkeypatch.setitem(sys.modules, "asyncpg", None)

    with pytest.raises(ConfigurationError, match=r"nextcloud-mcp-server\[postgres\]"):
        backend_of("postgresql://localhost/mcp")


@pytest.mark.parametrize(
    ("part", "other", "why"),
    [
        ("postgres@", "nobody:hunter2@", 'role "nobody" does not exist'),
        ("/nextcloud", "/other", 'database "other_mcp_test_.*" does not exist'),
        ("?host=", "?sslmode=hunter2&host=", "`sslmode` parameter"),
        ("?host=", "?host=/nowhere", "No such file"),
    ],
)
async def test_a_database_that_cannot_be_reached_is_explained_without_the_password(
    *, url: str, part: str, other: str, why: str, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    wrong = url.replace(part, other, 1)

    with pytest.raises(StorageError, match=f"PostgreSQL cannot be used .*{why}.* DATABASE_URL") as caught:
        await Database.open(wrong, keys=keys, clock=now)

    assert caught.value.__cause__ is None


async def test_after_a_restart_of_postgresql_the_next_call_goes_through(
    database: Database, ask: Ask, execute: Execute
) -> None:
    asked = await ask()
    await execute(END_OTHERS)

    found = await database.elicitations.find(asked.id)

    assert found == asked


async def test_a_connection_that_breaks_in_a_transaction_is_an_error_of_ours(
    url: str, keys: KeyRing, now: Callable[[], datetime], execute: Execute
) -> None:
    backend = Postgres(url)
    engine = backend.engine()
    transactions = Transactions(engine, backend, keys=keys, clock=now)

    async def write() -> None:
        async with transactions.writing() as connection:
            await execute(END_OTHERS)
            await connection.exec_driver_sql("SELECT 1")

    with pytest.raises(StorageError, match=r"database cannot be used .* Check that PostgreSQL runs"):
        await write()

    await engine.dispose()


def test_a_statement_that_takes_too_long_is_an_error_of_ours() -> None:
    with (
        pytest.raises(StorageError, match=r"\(TimeoutError\)\. Check the network"),
        translated("Check the network."),
    ):
        raise TimeoutError


async def test_a_value_that_the_database_refuses_is_not_shown(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> None:
    entry = AuditEntry(at=now(), principal=alice, client_id="hunter2\0", action="grant", result="ok")

    with pytest.raises(StorageError, match="CharacterNotInRepertoire") as caught:
        await database.audit.append([entry])

    assert "hunter2" not in str(caught.value)


async def test_the_database_asks_after_a_silent_connection_so_that_no_firewall_forgets_it(url: str) -> None:
    connection = await Postgres(url).connect()

    # These tests use a socket of this computer, for which the value is always 0.
    found = await connection.fetchval("SELECT source FROM pg_settings WHERE name = 'tcp_keepalives_idle'")

    await connection.close()
    assert found == "client"


async def test_one_query_after_the_other_uses_one_connection(url: str) -> None:
    engine = Postgres(url).engine()
    pids = list[int]()

    async def ask() -> None:
        async with engine.connect() as connection:
            pids.append((await connection.exec_driver_sql("SELECT pg_backend_pid()")).scalar_one())

    async with engine.connect(), engine.connect():
        # Two connections are open from here on.
        pass
    for _ in range(4):
        await ask()

    assert len(set(pids)) == 1
    await engine.dispose()


async def test_a_writer_waits_while_another_process_writes_and_a_reader_does_not(
    url: str, database: Database, ask: Ask, execute: Execute
) -> None:
    backend = Postgres(url)
    engine = backend.engine()
    order: list[str] = []

    async def write() -> None:
        await ask()
        order.append("written")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, engine.begin() as other:
            await other.run_sync(backend.begin_writing)
            group.start_soon(write)
            while await execute(WAITING) != [(1,)]:
                await anyio.lowlevel.checkpoint()
            await database.elicitations.find("any")
            order.append("read")

    assert order == ["read", "written"]
    await engine.dispose()


async def test_a_process_that_hangs_while_it_writes_loses_its_turn(url: str, ask: Ask) -> None:
    hanging = await Postgres(url).connect(turn_seconds=0.05)
    await hanging.execute(f"BEGIN; SELECT pg_advisory_xact_lock({WRITE_LOCK})")

    with anyio.fail_after(60):
        await ask()

    await hanging.close()


async def test_the_schema_s_version_is_read_without_making_one(
    url: str, keys: KeyRing, now: Callable[[], datetime]
) -> None:
    before = await postgres_state(url)
    database = await Database.open(url, keys=keys, clock=now)
    await database.sealing_keys.adopt(source="TOKEN_ENCRYPTION_KEYS")
    await database.aclose()

    assert before == (None, (), frozenset())
    version, tables, key_ids = await postgres_state(url)
    assert (version, key_ids) == (SCHEMA_VERSION, frozenset(keys.ids))
    assert "accounts" in tables


async def test_a_table_of_versions_of_another_form_is_an_error_of_ours(
    url: str, database: Database, execute: Execute
) -> None:
    await execute("ALTER TABLE nextcloud_mcp_version RENAME COLUMN version_num TO renamed")

    with pytest.raises(StorageError, match="PostgreSQL cannot be used"):
        await postgres_state(url)
