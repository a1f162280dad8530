import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

import nextcloud_mcp_server
from nextcloud_mcp_server.storage.audit import insert_entries
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    ElicitationState,
    LoginFlow,
    Principal,
)
from nextcloud_mcp_server.storage.transaction import Transactions

Ask = Callable[..., Awaitable[Elicitation]]
Start = Callable[..., Awaitable[LoginFlow]]
Complete = Callable[..., Awaitable[bool]]
Open = Callable[..., Awaitable[Database]]

LEASE = timedelta(seconds=30)
RACE = """
import sys
from datetime import UTC, datetime, timedelta
import anyio
import pytest
from pydantic import SecretStr
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import ElicitationState, Principal

async def main():
    keys = KeyRing.parse([SecretStr(sys.argv[2])])
    database = await Database.open(sys.argv[1], keys=keys, clock=lambda: datetime.now(UTC))
    print("ready", flush=True)
    sys.stdin.readline()
    asked, created = await database.elicitations.open(
        principal=Principal("personal", "https://cloud.example.org"), client_id="claude", client_name="Claude",
        kind="provision", scopes=frozenset({"notes:read"}), ttl=timedelta(hours=1), new_url=str,
    )
    await database.login_flows.create(
        elicitation_id=asked.id, principal=asked.principal, login_url=SecretStr("url"),
        poll_token=SecretStr("token"), scopes=asked.scopes, expires_at=asked.expires_at,
    )
    leased = await database.login_flows.lease_due(owner=sys.argv[3], lease=timedelta(minutes=5))
    opened = await database.elicitations.mark_opened(asked.id)
    print(asked.id, created, len(leased), opened)
    print("done", flush=True)
    sys.stdin.readline()
    print(await database.elicitations.finish(asked.id, ElicitationState.DECLINED))
    await database.aclose()

anyio.run(main)
"""


T = TypeVar("T")


async def all_of(*calls: Callable[[], Awaitable[T]]) -> list[T]:
    answers: list[T] = []

    async def one(call: Callable[[], Awaitable[T]]) -> None:
        answers.append(await call())

    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(one, call)
    return answers


async def test_two_that_open_an_empty_place_at_once_migrate_it_once(open_database: Open) -> None:
    opened = await all_of(open_database, open_database)

    assert [await database.outbox.next_due_at() for database in opened] == [None, None]


async def test_parallel_calls_share_one_request(ask: Ask, open_database: Open, database: Database) -> None:
    other = await open_database()

    asked = await all_of(*[lambda through=through: ask(through=through) for through in (database, other) * 4])

    assert len({elicitation.id for elicitation in asked}) == 1


async def test_a_due_flow_is_leased_by_one_of_two_processes(
    database: Database, open_database: Open, ask: Ask, start: Start
) -> None:
    other = await open_database()
    await start(await ask())

    leased = await all_of(
        lambda: database.login_flows.lease_due(owner="one", lease=LEASE),
        lambda: other.login_flows.lease_due(owner="two", lease=LEASE),
    )

    assert sorted(len(flows) for flows in leased) == [0, 1]


async def test_consent_and_refusal_at_the_same_moment_have_one_winner(
    *, database: Database, open_database: Open, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    other = await open_database()
    asked = await ask()
    flow = await start(asked)

    answers = await all_of(
        lambda: complete(asked, flow),
        lambda: other.elicitations.finish(asked.id, ElicitationState.DECLINED),
    )

    ended = await database.elicitations.find(asked.id)
    grant = await database.grants.find(alice, "claude")
    assert sorted(answers) == [False, True]
    assert ended is not None
    assert (ended.state is ElicitationState.COMPLETE) is (grant is not None)


async def test_a_refused_credential_is_marked_by_one_of_two_processes(
    database: Database, open_database: Open, ask: Ask, complete: Complete
) -> None:
    other = await open_database()
    await complete(await ask())

    answers = await all_of(
        *[lambda d=d: d.grants.mark_needs_reauth("credential-1", version=1) for d in (database, other)]
    )

    assert sorted(answers) == [False, True]


async def test_a_caller_that_goes_away_leaves_the_database_usable(database: Database, ask: Ask) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ask()

    with anyio.fail_after(60):
        for _ in range(8):
            await ask()


async def test_a_caller_that_goes_away_in_the_middle_leaves_a_whole_transaction(
    *,
    transactions: Transactions,
    database: Database,
    keys: KeyRing,
    now: Callable[[], datetime],
    alice: Principal,
) -> None:
    actions = ["first", "second"]

    with anyio.CancelScope() as scope:
        async with transactions.writing() as connection:
            for action in actions:
                scope.cancel()
                await insert_entries(connection, keys, [AuditEntry(now(), alice, "claude", action, "ok")])

    assert sorted(entry.action for entry in await database.audit.recent(alice, 10)) == actions


@pytest.mark.process
def test_racing_processes_share_one_request_one_flow_and_one_winner(url: str) -> None:
    key = new_key()
    root = Path(nextcloud_mcp_server.__file__).parents[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, url, key, f"owner-{number}"],
            cwd=root,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]

    def everyone(until: str) -> list[list[str]]:
        lines: list[list[str]] = []
        for process in processes:
            assert process.stdout
            while (line := process.stdout.readline().strip()) != until:
                assert line
                lines.append(line.split())
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        return lines

    everyone("ready")
    first = everyone("done")
    ended = [process.communicate(timeout=60)[0].strip() for process in processes]

    assert len({line[0] for line in first}) == 1
    assert sorted(line[1] for line in first) == ["False", "False", "False", "True"]
    assert sorted(line[2] for line in first) == ["0", "0", "0", "1"]
    assert sorted(line[3] for line in first) == ["False", "False", "False", "True"]
    assert sorted(ended) == ["False", "False", "False", "True"]


async def test_of_many_concurrent_readers_none_is_passed_over(database: Database, ask: Ask) -> None:
    """There are few connections; who has read and wants to read again is behind all who still wait."""
    asked = await ask()
    read = dict.fromkeys(range(40), 0)
    ahead: list[int] = []

    async def go_on_reading(number: int) -> None:
        for _ in range(5):
            await database.elicitations.find(asked.id)
            read[number] += 1
            ahead.append(read[number] - min(read.values()))

    async with anyio.create_task_group() as group:
        for number in read:
            group.start_soon(go_on_reading, number)

    # The one who reads while the last of the others do is one ahead, and may be done before they are.
    assert max(ahead) <= 2
