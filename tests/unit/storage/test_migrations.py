from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from alembic import command
from pydantic import SecretStr
from sqlalchemy import Connection, MetaData, inspect, select
from sqlalchemy.ext.asyncio import AsyncEngine

from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database, backend_of
from nextcloud_mcp_server.storage.migration import configuration
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, Fresh
from nextcloud_mcp_server.storage.recognition import VERSION_TABLE
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    Grant,
    LoginFlow,
    LoginResult,
    OutboxItem,
    Principal,
)
from tests import sealed_rows, sign_in_fixtures

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
Open = Callable[..., Awaitable[Database]]
Start = Callable[..., Awaitable[LoginFlow]]

pytestmark = pytest.mark.migrations

Rows = dict[str, list[tuple[Any, ...]]]

ADDED = {
    "credentials": {"refresh_token", "expires_at", "alternate", "retry_at", "lease_owner", "lease_until"},
    "permissions": {"paused"},
    "elicitations": {"refusals", "completed_at"},
    "login_flows": {"uid"},
    "accounts": {"mapped"},
    "audit": {"object_name"},
}

#: Names of schemas before 0009, and the names that these tables and columns have now.
RENAMED = {
    "arrivals": "authorization_transactions",
    "grant_legs": "grant_requests",
    "held_grants": "pending_grants",
    "redemptions": "failed_code_exchanges",
    "home_id": "storage_id",
    "arrival_hash": "transaction_hash",
}


@dataclass(frozen=True)
class Content:
    """Everything that a database of the first schema can say."""

    grants: list[Grant]
    asked: Elicitation | None
    flow: LoginFlow | None
    audit: list[AuditEntry]
    outbox: list[OutboxItem]


@pytest.fixture
async def engine(url: str) -> AsyncGenerator[AsyncEngine]:
    """Reach the test's database behind the server's back."""
    engine = backend_of(url).engine()
    yield engine
    await engine.dispose()


async def read(database: Database, asked: Elicitation, principal: Principal) -> Content:
    return Content(
        grants=await database.grants.all(),
        asked=await database.elicitations.find(asked.id),
        flow=await database.login_flows.find(asked.id),
        audit=await database.audit.recent(principal, 10),
        outbox=await database.outbox.lease_due(owner="test", lease=timedelta(seconds=0)),
    )


def to_first_schema(connection: Connection) -> Rows:
    command.downgrade(configuration(connection), "0001")
    return rows(connection)


def rows(connection: Connection) -> Rows:
    """Read every row as it is stored, without the columns that came later."""
    stored = MetaData()
    stored.reflect(connection)
    found: Rows = {}
    for table in stored.sorted_tables:
        kept = [column for column in table.c if column.name not in ADDED.get(table.name, ())]
        if table.name != VERSION_TABLE:
            found[RENAMED.get(table.name, table.name)] = sorted(
                [tuple(row) for row in connection.execute(select(*kept))], key=repr
            )
    return found


def columns(connection: Connection) -> dict[str, set[str]]:
    inspector = inspect(connection)
    return {
        RENAMED.get(name, name): {
            RENAMED.get(column["name"], column["name"]) for column in inspector.get_columns(name)
        }
        for name in inspector.get_table_names()
    }


async def test_a_database_of_the_first_schema_keeps_every_row(
    *,
    database: Database,
    open_database: Open,
    engine: AsyncEngine,
    ask: Ask,
    start: Start,
    complete: Complete,
    alice: Principal,
    bob: Principal,
) -> None:
    await complete(await ask())
    again = await ask(alice, "files:read")
    await complete(again, await start(again), credential_id="credential-2", secret="another")
    await complete(await ask(bob), uid="bob", credential_id="credential-3")
    asked = await ask(alice, client_id="codex")
    flow = await start(asked)
    await database.login_flows.save_result(flow.id, LoginResult("alice", SecretStr("late")))
    before = await read(database, asked, alice)
    async with engine.begin() as connection:
        stored = await connection.run_sync(to_first_schema)

    upgraded = await open_database()

    async with engine.connect() as connection:
        kept = await connection.run_sync(rows)
    assert {name: kept[name] for name in stored} == stored
    assert all(stored.values())
    assert await read(upgraded, asked, alice) == before
    assert len(before.grants) == 2
    assert len(before.outbox) == 1
    assert [one.paused for one in await upgraded.grants.permissions(alice)] == [False]
    assert await upgraded.elicitations.count_refusal(asked.id) == 1


async def test_going_back_discards_the_callback_result_and_nothing_else(
    database: Database, engine: AsyncEngine
) -> None:
    await database.outbox.next_due_at()
    async with engine.connect() as connection:
        newest = await connection.run_sync(columns)
    async with engine.begin() as connection:
        await connection.run_sync(to_first_schema)
        first = await connection.run_sync(columns)

    new_tables = {"sign_ins", "grant_requests", "pending_grants", "failed_code_exchanges"}
    new_tables |= {"authorization_transactions", "clients", "codes", "token_families", "access_tokens"}
    new_tables |= {"spent_codes", "answered_requests", "logouts", "sealing_keys", "tasks", "ended_sessions"}
    assert set(newest) == {*metadata.tables, VERSION_TABLE}
    assert set(newest) - set(first) == new_tables
    assert {name: newest[name] - first[name] for name in first if newest[name] != first[name]} == ADDED


async def test_the_newest_schema_can_be_left_and_come_back_to(
    *,
    database: Database,
    open_database: Open,
    engine: AsyncEngine,
    ask: Ask,
    complete: Complete,
    alice: Principal,
    now: Callable[[], datetime],
) -> None:
    """An operator may put the former version back, and try again later: users sign in again, no more."""
    await complete(await ask())
    await database.auth_transactions.create(sign_in_fixtures.leaving(now), state="c-state", browser="browser")
    await database.spent_codes.spend(["code-of-the-victim"])
    grant = CodeGrant("claude", alice, "uri", frozenset(), "challenge", "resource", None)
    later = now() + timedelta(hours=1)
    await database.oauth_tokens.add_code("code", grant, expires_at=later)
    fresh = Fresh("family", "refresh", "access", later, later)
    await database.oauth_tokens.exchange_code("code", client_id="claude", fits=lambda _: True, fresh=fresh)
    async with engine.connect() as connection:
        newest, stored = await connection.run_sync(columns), await connection.run_sync(rows)
    new_tables = {"authorization_transactions", "clients", "codes", "token_families", "access_tokens"}
    new_tables |= {"spent_codes", "answered_requests", "logouts", "sealing_keys", "tasks", "ended_sessions"}

    async with engine.begin() as connection:
        await connection.run_sync(lambda it: command.downgrade(configuration(it), "0003"))
        former, kept = await connection.run_sync(columns), await connection.run_sync(rows)
    again = await open_database()

    came = {
        "accounts": {"mapped"},
        "audit": {"object_name"},
        "elicitations": {"completed_at"},
        "failed_code_exchanges": {"source"},
        "sign_ins": {"sub_hash", "sid_hash", "place", "last_used_at"},
    }
    assert former == {name: newest[name] - came.get(name, set()) for name in newest if name not in new_tables}
    assert kept == {name: stored[name] for name in stored if name not in new_tables}
    async with engine.connect() as connection:
        assert await connection.run_sync(columns) == newest
    assert await again.grants.find(alice, "claude") is not None
    assert await again.oauth_tokens.find("access") is None
    assert not await again.spent_codes.is_spent("code-of-the-victim")
    assert await again.auth_transactions.take("c-state", browser="browser") is None
    await again.auth_transactions.create(sign_in_fixtures.leaving(now), state="c-state", browser="browser")
    assert await again.auth_transactions.take("c-state", browser="browser") is not None


async def test_sealed_values_still_open_after_their_tables_took_other_names(
    *,
    database: Database,
    open_database: Open,
    engine: AsyncEngine,
    url: str,
    keys: KeyRing,
    now: Callable[[], datetime],
) -> None:
    await sealed_rows.Rows(database, now).fill()
    before = await sealed_rows.opened_values(url, keys)
    # Its column came with 0011.
    before.remove("object 1")
    # Their table came with 0013.
    for text in ("answer 1", "message 1", "question 1", '["read", "{\\"path\\": \\"1\\"}"]'):
        before.remove(text)
    async with engine.begin() as connection:
        await connection.run_sync(lambda it: command.downgrade(configuration(it), "0008"))

    await (await open_database()).outbox.next_due_at()

    assert await sealed_rows.opened_values(url, keys) == before
