import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from nextcloud_mcp_server.errors import MissingScope
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, Principal
from nextcloud_mcp_server.storage.task_records import (
    LIFETIME,
    MOST_BYTES,
    MOST_KEPT,
    MOST_RUNNING,
    Began,
    Lease,
    Task,
    TaskOwner,
    TaskStatus,
)

Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]
Advance = Callable[[float], None]

LEASE = Lease("this process", timedelta(seconds=30))
OTHER_PROCESS = Lease("another process", timedelta(seconds=30))


@pytest.fixture
def owner(alice: Principal) -> TaskOwner:
    return TaskOwner(alice, "claude")


async def begun(
    database: Database, owner: TaskOwner, *, arguments: str | None = None, lease: Lease = LEASE
) -> Task:
    task = await database.tasks.create(
        owner,
        secrets.token_hex(16),
        began=None,
        tool="read",
        arguments=arguments,
        lifetime=LIFETIME,
        lease=lease,
    )
    assert task is not None
    return task


async def ended(database: Database, owner: TaskOwner, outcome: str = "{}") -> Task:
    task = await begun(database, owner)
    assert await database.tasks.finish(task, LEASE, TaskStatus.COMPLETED, outcome=outcome)
    return task


async def status(database: Database, task: Task) -> TaskStatus | None:
    found = await database.tasks.find(task.owner, task.id)
    return found and found.status


async def test_a_task_is_found_with_its_result_by_its_owner(database: Database, owner: TaskOwner) -> None:
    task = await begun(database, owner, arguments='{"path": "Plan.pdf"}')
    working = await database.tasks.find(owner, task.id)

    stored = await database.tasks.finish(
        task, LEASE, TaskStatus.COMPLETED, outcome='{"content": []}', message="Read 3 of 3 parts"
    )

    found = await database.tasks.find(owner, task.id)
    assert working == task
    assert stored
    assert found is not None
    assert (found.status, found.outcome, found.message) == (
        TaskStatus.COMPLETED,
        '{"content": []}',
        "Read 3 of 3 parts",
    )
    assert (found.tool, found.arguments) == ("read", '{"path": "Plan.pdf"}')


async def test_no_other_user_or_client_finds_cancels_or_answers_it(
    database: Database, owner: TaskOwner, alice: Principal, bob: Principal
) -> None:
    task = await begun(database, owner)
    await database.tasks.ask(task, LEASE, "{}")

    for other in (TaskOwner(bob, "claude"), TaskOwner(alice, "codex")):
        assert await database.tasks.find(other, task.id) is None
        assert not await database.tasks.cancel(other, task.id)
        assert not await database.tasks.answer(other, task.id, "{}")
    assert await status(database, task) is TaskStatus.INPUT_REQUIRED


async def test_a_task_whose_values_do_not_open_is_unknown_and_its_answers_are_none(
    database: Database, owner: TaskOwner, execute: Execute
) -> None:
    """As with a key that is gone, or a row that somebody has changed."""
    task = await begun(database, owner)
    await database.tasks.ask(task, LEASE, "{}")
    assert await database.tasks.answer(owner, task.id, "{}")
    await execute("UPDATE tasks SET request = outcome, answers = outcome")

    assert await database.tasks.find(owner, task.id) is None
    assert await database.tasks.renew(LEASE, {task.id: (owner, None)}) == {task.id: None}


async def test_an_expired_task_is_unknown_and_purged(
    database: Database, owner: TaskOwner, bob: Principal, advance: Advance, execute: Execute
) -> None:
    task = await ended(database, owner)
    advance(LIFETIME.total_seconds())
    found = await database.tasks.find(owner, task.id)
    later = await ended(database, TaskOwner(bob, "claude"))

    assert found is None
    await database.tasks.purge()
    assert await execute("SELECT count(*) FROM tasks") == [(1,)]
    assert await status(database, later) is TaskStatus.COMPLETED


async def test_a_user_has_so_many_running_tasks_at_most_and_another_user_others(
    database: Database, owner: TaskOwner, alice: Principal, bob: Principal
) -> None:
    running = [await begun(database, owner) for _ in range(MOST_RUNNING)]
    create = partial(
        database.tasks.create, began=None, tool="read", arguments=None, lifetime=LIFETIME, lease=LEASE
    )

    assert await create(TaskOwner(alice, "codex"), "one-more") is None
    assert await create(TaskOwner(bob, "claude"), "of-bob") is not None
    await database.tasks.cancel(owner, running[0].id)
    assert await create(owner, "then") is not None


async def test_of_many_ended_tasks_the_oldest_is_deleted_and_a_running_one_never(
    database: Database, owner: TaskOwner, advance: Advance
) -> None:
    running = await begun(database, owner, lease=Lease("this process", timedelta(minutes=5)))
    tasks = list[Task]()
    for _ in range(MOST_KEPT - 1):
        advance(1)
        tasks.append(await ended(database, owner))

    newest = await begun(database, owner)

    assert await status(database, running) is TaskStatus.WORKING
    assert await status(database, newest) is TaskStatus.WORKING
    assert await status(database, tasks[0]) is None
    assert await status(database, tasks[1]) is TaskStatus.COMPLETED


async def test_a_task_whose_process_is_gone_neither_counts_as_running_nor_stays_for_good(
    database: Database, owner: TaskOwner, advance: Advance
) -> None:
    """Nobody can list tasks: without its id, a client could not end a lost one to make room."""
    tasks = list[Task]()
    for _ in range(MOST_KEPT // MOST_RUNNING):
        tasks += [await begun(database, owner) for _ in range(MOST_RUNNING)]
        advance(LEASE.duration.total_seconds())

    newest = await begun(database, owner)

    found = [await status(database, each) for each in tasks]
    assert found.count(None) == 1
    assert None in found[:MOST_RUNNING]
    assert await status(database, newest) is TaskStatus.WORKING


async def test_the_results_of_a_user_have_so_many_bytes_at_most(
    database: Database, owner: TaskOwner, bob: Principal, advance: Advance
) -> None:
    third = json.dumps("x" * (MOST_BYTES // 3 - 100))
    running, others = await begun(database, owner), await ended(database, TaskOwner(bob, "claude"), third)
    tasks = list[Task]()
    for _ in range(4):
        advance(1)
        tasks.append(await ended(database, owner, third))

    assert [await status(database, task) for task in tasks] == [None, *[TaskStatus.COMPLETED] * 3]
    assert await status(database, running) is TaskStatus.WORKING
    assert await status(database, others) is TaskStatus.COMPLETED


async def test_a_process_learns_of_answers_and_that_it_must_stop(
    database: Database, owner: TaskOwner, advance: Advance
) -> None:
    waiting, cancelled, long = [await begun(database, owner) for _ in range(3)]
    foreign = await begun(database, owner, lease=OTHER_PROCESS)
    await database.tasks.ask(waiting, LEASE, '{"question": 1}')
    await database.tasks.answer(owner, waiting.id, '{"answer": 1}')
    await database.tasks.cancel(owner, cancelled.id)

    running = {each.id: (owner, None) for each in (waiting, cancelled, foreign)}
    held = await database.tasks.renew(LEASE, {**running, long.id: (owner, "Read 1 of 3 parts")})

    assert held == {waiting.id: '{"answer": 1}', long.id: None}
    found = await database.tasks.find(owner, long.id)
    assert found is not None
    assert found.message == "Read 1 of 3 parts"
    assert await status(database, foreign) is TaskStatus.WORKING
    advance(LIFETIME.total_seconds())
    assert await database.tasks.renew(LEASE, {long.id: (owner, None)}) == {}


async def test_an_answer_is_for_one_question(database: Database, owner: TaskOwner) -> None:
    task = await begun(database, owner)

    assert not await database.tasks.answer(owner, task.id, "{}")
    await database.tasks.ask(task, LEASE, "{}")
    assert await database.tasks.answer(owner, task.id, "{}")
    await database.tasks.go_on(task, LEASE, "Waiting")

    assert await database.tasks.renew(LEASE, {task.id: (owner, None)}) == {task.id: None}
    found = await database.tasks.find(owner, task.id)
    assert found is not None
    assert (found.status, found.outcome, found.message) == (TaskStatus.WORKING, None, "Waiting")


async def test_a_lost_task_is_taken_over_once(database: Database, owner: TaskOwner, advance: Advance) -> None:
    task = await begun(database, owner)
    third = Lease("a third process", timedelta(seconds=30))
    early = await database.tasks.take(task, OTHER_PROCESS)
    advance(30)
    lost = await database.tasks.find(owner, task.id)

    taken = await database.tasks.take(task, OTHER_PROCESS), await database.tasks.take(task, third)

    assert lost is not None
    assert lost.is_lost
    assert (early, taken) == (False, (True, False))
    assert not await database.tasks.finish(task, LEASE, TaskStatus.COMPLETED, outcome="late")
    assert await database.tasks.finish(task, OTHER_PROCESS, TaskStatus.COMPLETED, outcome="in time")


async def test_a_process_that_stops_leaves_its_tasks_to_others_at_once(
    database: Database, owner: TaskOwner
) -> None:
    task, foreign = await begun(database, owner), await begun(database, owner, lease=OTHER_PROCESS)

    await database.tasks.release(LEASE)

    found, other = [await database.tasks.find(owner, each.id) for each in (task, foreign)]
    assert found is not None
    assert other is not None
    assert (found.is_lost, other.is_lost) == (True, False)


async def test_an_ended_task_stays_as_it_is(database: Database, owner: TaskOwner, advance: Advance) -> None:
    task = await begun(database, owner)
    await database.tasks.cancel(owner, task.id)
    advance(31)

    assert not await database.tasks.cancel(owner, task.id)
    assert not await database.tasks.finish(task, LEASE, TaskStatus.COMPLETED, outcome="late")
    assert not await database.tasks.take(task, OTHER_PROCESS)
    found = await database.tasks.find(owner, task.id)
    assert found is not None
    assert (found.status, found.is_lost) == (TaskStatus.CANCELLED, False)


async def test_ending_a_clients_access_deletes_its_tasks_alone(
    database: Database, owner: TaskOwner, alice: Principal, bob: Principal, now: Callable[[], Any]
) -> None:
    own = await ended(database, owner)
    kept = [await ended(database, TaskOwner(alice, "codex")), await ended(database, TaskOwner(bob, "claude"))]

    await database.grants.end_client(
        alice, "claude", audit=AuditEntry(now(), alice, "claude", "permission", "ended", "")
    )

    assert await status(database, own) is None
    assert [await status(database, each) for each in kept] == [TaskStatus.COMPLETED] * 2


async def test_a_disconnect_deletes_all_tasks_of_the_user(
    database: Database, owner: TaskOwner, alice: Principal, bob: Principal, now: Callable[[], Any]
) -> None:
    own = [await ended(database, owner), await begun(database, TaskOwner(alice, "codex"))]
    other = await ended(database, TaskOwner(bob, "claude"))

    await database.grants.disconnect(alice, audit=AuditEntry(now(), alice, "", "disconnect", "ok", ""))

    assert [await status(database, each) for each in own] == [None, None]
    assert await status(database, other) is TaskStatus.COMPLETED


async def test_a_client_that_the_operator_removes_loses_the_tasks_of_all_its_users(
    database: Database, owner: TaskOwner, alice: Principal, bob: Principal, now: Callable[[], datetime]
) -> None:
    await database.clients.save(
        Client(
            "claude",
            "registered",
            "Claude",
            ("http://127.0.0.1/",),
            "none",
            None,
            frozenset(),
            now(),
            None,
            native=True,
        )
    )
    own = [await ended(database, owner), await begun(database, TaskOwner(bob, "claude"))]
    other = await ended(database, TaskOwner(alice, "codex"))

    assert await database.clients.delete("claude")

    assert [await status(database, each) for each in own] == [None, None]
    assert await status(database, other) is TaskStatus.COMPLETED


@pytest.mark.parametrize("end", ["by its user", "not allowed any more", "by itself"])
async def test_a_client_whose_sign_in_is_ended_loses_its_tasks_unless_it_ends_it_itself(
    *,
    database: Database,
    owner: TaskOwner,
    alice: Principal,
    bob: Principal,
    give_tokens: Callable[..., Awaitable[str]],
    end: str,
) -> None:
    await give_tokens(alice, "claude", family="1")
    own, tokens = await ended(database, owner), database.oauth_tokens
    others = [
        await ended(database, TaskOwner(alice, "codex")),
        await ended(database, TaskOwner(bob, "claude")),
    ]

    if end == "by its user":
        assert await tokens.end(alice, client_id="claude") == 1
    else:
        why = None if end == "by itself" else "ended: disabled at Nextcloud"
        await tokens.revoke_family("alice claude 1", client_id="claude", why=why)

    assert await status(database, own) is (TaskStatus.COMPLETED if end == "by itself" else None)
    assert [await status(database, other) for other in others] == [TaskStatus.COMPLETED] * 2


@pytest.mark.parametrize("change", ["paused", "scopes"])
async def test_a_changed_permission_ends_the_tasks_of_its_client(
    database: Database, owner: TaskOwner, alice: Principal, change: str
) -> None:
    own, other = await begun(database, owner), await begun(database, TaskOwner(alice, "codex"))

    if change == "paused":
        await database.grants.set_paused(alice, "claude", paused=True)
    else:
        await database.grants.set_scopes(alice, "claude", frozenset({"notes:read"}))

    assert await status(database, own) is None
    assert await status(database, other) is TaskStatus.WORKING


async def test_a_resumed_client_keeps_its_tasks(
    database: Database, owner: TaskOwner, alice: Principal
) -> None:
    task = await begun(database, owner)

    await database.grants.set_paused(alice, "claude", paused=False)

    assert await status(database, task) is TaskStatus.WORKING


async def test_a_restored_backup_brings_no_tasks_back(database: Database, owner: TaskOwner) -> None:
    task = await ended(database, owner)

    await database.restored.forget()

    assert await status(database, task) is None


@pytest.mark.parametrize("change", ["paused", "scopes", "client", "disconnect", "account", None])
async def test_a_call_whose_permission_ended_while_it_worked_becomes_no_task(
    *,
    database: Database,
    owner: TaskOwner,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    entry: Callable[..., AuditEntry],
    execute: Execute,
    change: str | None,
) -> None:
    """What ends a permission deletes the tasks that are stored by then; a call is stored later."""
    alice, grants = owner.principal, database.grants
    needed = Began("credential-1", frozenset({"notes:read"}))
    await complete(await ask(alice, "notes:read", "files:read"))
    create = partial(
        database.tasks.create, owner, tool="read", arguments=None, lifetime=LIFETIME, lease=LEASE
    )
    assert await create("before", began=needed) is not None

    async def another_account() -> None:
        await grants.disconnect(alice, audit=entry())
        await complete(await ask(alice, "notes:read"), uid="alice2", credential_id="credential-2")

    changes = {
        "paused": lambda: grants.set_paused(alice, "claude", paused=True),
        "scopes": lambda: grants.set_scopes(alice, "claude", frozenset({"files:read"})),
        "client": lambda: grants.end_client(alice, "claude", audit=entry()),
        "disconnect": lambda: grants.disconnect(alice, audit=entry()),
        "account": another_account,
        None: lambda: grants.set_scopes(alice, "claude", needed.scopes),
    }
    await changes[change]()

    if change is None:
        assert await create("after", began=needed) is not None
        assert await create("of-another-tool", began=Began("credential-1", frozenset())) is not None
        return
    with pytest.raises(MissingScope, match="changed what this client may do"):
        await create("after", began=needed)
    assert await execute("SELECT count(*) FROM tasks") == [(0,)]


async def test_a_call_whose_sign_in_ended_while_it_worked_becomes_no_task(
    *,
    database: Database,
    owner: TaskOwner,
    bob: Principal,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    give_tokens: Callable[..., Awaitable[str]],
    execute: Execute,
) -> None:
    """A token that came twice ends the sign-in and leaves the permission."""
    alice = owner.principal
    await complete(await ask())
    create = partial(
        database.tasks.create, owner, tool="read", arguments=None, lifetime=LIFETIME, lease=LEASE
    )

    async def begun(principal: Principal) -> Began:
        live = await database.oauth_tokens.find(await give_tokens(principal, "claude"))
        assert live is not None
        return Began("credential-1", frozenset({"notes:read"}), live.family_hash)

    hers = await begun(alice)
    assert await create("before", began=hers) is not None
    await database.oauth_tokens.end(alice, client_id="claude")

    for began in (hers, await begun(bob)):
        with pytest.raises(MissingScope, match="sign-in of this client has ended"):
            await create("after", began=began)
    assert await execute("SELECT count(*) FROM tasks") == [(0,)]


async def test_a_permission_of_another_client_or_user_makes_no_task(
    database: Database,
    owner: TaskOwner,
    bob: Principal,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
) -> None:
    await complete(await ask())
    create = partial(database.tasks.create, tool="read", arguments=None, lifetime=LIFETIME, lease=LEASE)

    for other in (TaskOwner(owner.principal, "codex"), TaskOwner(bob, "claude")):
        with pytest.raises(MissingScope):
            await create(other, "of-another", began=Began("credential-1", frozenset({"notes:read"})))
