import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from anyio.abc import TaskGroup

import nextcloud_mcp_server
from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.listener import Listener
from nextcloud_mcp_server.storage.notify import CHANNEL
from nextcloud_mcp_server.storage.postgres import Postgres
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, ElicitationState, Principal

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]

ROOT = Path(nextcloud_mcp_server.__file__).parents[1]
END_LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
FINISH = """
import sys
from datetime import UTC, datetime
import anyio
from pydantic import SecretStr
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import ElicitationState

async def main():
    keys = KeyRing.parse([SecretStr(new_key())])
    database = await Database.open(sys.argv[1], keys=keys, clock=lambda: datetime(2026, 11, 27, 12, 0, tzinfo=UTC))
    print("ready", flush=True)
    while elicitation_id := (await anyio.to_thread.run_sync(sys.stdin.readline)).strip():
        await database.elicitations.finish(elicitation_id, ElicitationState.DECLINED)
    await database.aclose()

anyio.run(main)
"""


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
async def heard(url: str) -> AsyncGenerator[Callable[[], Awaitable[list[str]]]]:
    """List what was announced since the last time."""
    connection = await asyncpg.connect(url)
    payloads: list[str] = []

    async def since() -> list[str]:
        # What was announced before this connection's own announcement has arrived by then.
        await connection.execute("SELECT pg_notify($1, 'own')", CHANNEL)
        with anyio.fail_after(60):
            while "own" not in payloads:
                await anyio.lowlevel.checkpoint()
        found = [payload for payload in payloads if payload != "own"]
        payloads.clear()
        return found

    def hear_one(*received: object) -> None:
        payloads.append(str(received[3]))

    await connection.add_listener(CHANNEL, hear_one)
    yield since
    await connection.close()


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_every_way_in_which_a_consent_request_ends_is_announced_without_content(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    alice: Principal,
    entry: Callable[..., AuditEntry],
    advance: Callable[[float], None],
    heard: Callable[[], Awaitable[list[str]]],
) -> None:
    declined, granted = await ask(), await ask(client_id="other")
    await database.elicitations.mark_opened(granted.id)
    before = await heard()

    await database.elicitations.finish(declined.id, ElicitationState.DECLINED)
    after_declining = await heard()
    await complete(granted)
    after_granting = await heard()
    await ask(client_id="third")
    await database.grants.disconnect(alice, audit=entry("disconnect"))
    after_disconnecting = await heard()
    await ask(client_id="fourth")
    advance(600)
    await database.elicitations.expire_due()
    after_expiring = await heard()

    assert before == []
    assert after_declining == after_granting == after_disconnecting == after_expiring == [""]


async def test_what_did_not_end_is_not_announced(
    database: Database, ask: Ask, heard: Callable[[], Awaitable[list[str]]]
) -> None:
    asked = await ask()
    await database.elicitations.finish(asked.id, ElicitationState.DECLINED)
    await heard()

    await database.elicitations.finish(asked.id, ElicitationState.FAILED)
    await database.elicitations.expire_due()

    assert await heard() == []


async def test_a_connection_that_is_ended_while_it_listens_is_an_error_of_ours(
    url: str, execute: Execute
) -> None:
    async def listen() -> None:
        async with Listener(Postgres(url).connect).listen() as notifications:
            await execute(END_LISTENERS)
            async for _ in notifications:
                raise NotImplementedError

    with (
        anyio.fail_after(60),
        pytest.raises(StorageError, match="notified of ended consent requests is lost"),
    ):
        await listen()


async def test_a_connection_that_ended_before_it_listened_is_an_error_of_ours(url: str) -> None:
    connection = await Postgres(url).connect()
    await connection.close()

    async def ended() -> asyncpg.Connection:
        return connection

    async def listen() -> None:
        async with Listener(ended).listen():
            raise NotImplementedError

    with pytest.raises(StorageError, match="notified of ended consent requests is lost"):
        await listen()


async def test_a_quiet_connection_is_asked_now_and_then_whether_it_lives(url: str) -> None:
    connection = await Postgres(url).connect()
    asked: list[str] = []
    connection.add_query_logger(lambda record: asked.append(record.query))

    async def connect() -> asyncpg.Connection:
        return connection

    with anyio.move_on_after(60) as scope:
        async with Listener(connect, beat_seconds=0.01).listen() as notifications:
            connection.add_query_logger(lambda _: scope.cancel() if "SELECT 1" in asked else None)
            async for _ in notifications:
                raise NotImplementedError

    assert "SELECT 1" in asked
    assert connection.is_closed()


@pytest.mark.process
async def test_a_wait_ends_at_once_when_another_process_finishes_the_consent_request(
    url: str, database: Database, ask: Ask, group: TaskGroup, execute: Execute
) -> None:
    # Longer than anyone waits: only an announcement ends the wait.
    pending = Pending(lambda ids: ended(database, ids), listening_poll_seconds=10_000)
    group.start_soon(pending.run)
    group.start_soon(lambda: hear(pending, database))
    consent_service = [await ask(), await ask(client_id="other")]
    async with await anyio.open_process([sys.executable, "-c", FINISH, url], cwd=ROOT) as other:
        assert other.stdin
        assert other.stdout
        assert b"ready" in await other.stdout.receive()
        for consent_request in consent_service:
            await until_somebody_listens(execute)
            await other.stdin.send(f"{consent_request.id}\n".encode())
            assert await pending.wait(consent_request.id, seconds=60)
            await execute(END_LISTENERS)
        await other.stdin.aclose()


async def ended(database: Database, elicitation_ids: Sequence[str]) -> list[str]:
    still_open = await database.elicitations.still_open(elicitation_ids)
    return [elicitation_id for elicitation_id in elicitation_ids if elicitation_id not in still_open]


async def hear(pending: Pending, database: Database) -> None:
    assert database.listen
    await pending.listen(database.listen, pause_seconds=0)


async def until_somebody_listens(execute: Execute) -> None:
    with anyio.fail_after(60):
        while not await execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"):
            await anyio.lowlevel.checkpoint()
