"""What the operator is told of a database: counts and times, of every user together."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.storage.overview import Grants, Overview, Requests
from nextcloud_mcp_server.storage.postgres import process_name
from nextcloud_mcp_server.storage.records import Elicitation, ElicitationState, Principal, SignedIn, Tokens
from nextcloud_mcp_server.storage.task_records import Lease, TaskOwner

WEEK = timedelta(days=7)


async def overview(database: Database, *, audit_kept: timedelta | None = None) -> Overview:
    return await database.overview.read(requests_kept=WEEK, audit_kept=audit_kept)


async def test_an_empty_database_has_nothing_but_a_size(database: Database) -> None:
    found = await overview(database)

    assert found.grants == Grants(0, 0, 0, permissions=0, paused=0, clients=0)
    assert found.requests == Requests(0, {}, {})
    assert (found.clients, found.revocations, found.failed_revocations, found.stale_since) == (0, 0, 0, None)
    assert found.size > 10_000


async def test_grants_are_counted_by_their_state(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    tokens: Callable[..., Tokens],
    execute: Callable[..., Awaitable[list[tuple[object, ...]]]],
    advance: Callable[[float], None],
) -> None:
    for name in ("alice", "bob", "carol", "dave"):
        user = Principal("https://issuer.example.org", name)
        await complete(await ask(user), uid=name, credential_id=f"of {name}", tokens=tokens())
    await execute(
        "UPDATE credentials SET needs_reauth = TRUE WHERE subject = 'bob'",
        "UPDATE credentials SET retry_at = '2026-11-27 12:00:20+00:00' WHERE subject IN ('bob', 'carol')",
        "UPDATE permissions SET paused = TRUE WHERE subject = 'dave'",
    )

    found = (await overview(database)).grants
    advance(60)
    later = (await overview(database)).grants

    assert found == Grants(working=2, postponed=1, refused=1, permissions=4, paused=1, clients=1)
    assert later == Grants(working=3, postponed=0, refused=1, permissions=4, paused=1, clients=1)


async def test_consent_requests_are_counted_for_a_day(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    advance: Callable[[float], None],
) -> None:
    await complete(await ask(client_id="connected"))
    await database.elicitations.finish((await ask(client_id="declined")).id, ElicitationState.DECLINED)
    for client_id, failure in (
        ("first", Failure("not_yours", {"answered": "mallory", "yours": "alice"})),
        ("second", Failure("", {"sentence": "Alice was not let in."})),
    ):
        asked = await ask(client_id=client_id)
        await database.elicitations.finish(asked.id, ElicitationState.FAILED, failure=failure)
    await ask(client_id="open")
    await ask(client_id="over", ttl=timedelta(minutes=1))
    advance(90)
    await database.elicitations.expire_due()

    found = (await overview(database)).requests
    advance(24 * 3600)
    later = (await overview(database)).requests

    assert found.open == 1
    assert found.ended == {
        ElicitationState.COMPLETE: 1,
        ElicitationState.DECLINED: 1,
        ElicitationState.FAILED: 2,
        ElicitationState.EXPIRED: 1,
    }
    assert found.reasons == {"not_yours": 1, "": 1}
    assert later == Requests(0, {}, {})


async def test_a_reason_that_does_not_open_is_counted_without_a_code(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    open_database: Callable[..., Awaitable[Database]],
) -> None:
    asked = await ask()
    await database.elicitations.finish(asked.id, ElicitationState.FAILED, failure=Failure("not_accepted"))
    stranger = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert (await overview(stranger)).requests.reasons == {"": 1}


async def test_the_oldest_row_that_should_be_gone_is_found(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    sign_in: Callable[..., Awaitable[SignedIn]],
    give_tokens: Callable[..., Awaitable[str]],
    alice: Principal,
    advance: Callable[[float], None],
) -> None:
    start = (await sign_in("browser")).created_at
    await complete(await ask())
    await give_tokens(alice, "claude", hours=5)
    assert (await overview(database)).stale_since is None
    advance(3600)
    assert (await overview(database)).stale_since == start + timedelta(minutes=15)
    await database.sign_ins.purge()
    await database.oauth_tokens.purge()
    assert (await overview(database)).stale_since is None
    advance(8 * 24 * 3600)
    await database.oauth_tokens.purge()
    assert (await overview(database)).stale_since == start + timedelta(minutes=10) + WEEK
    assert (await overview(database, audit_kept=timedelta(days=1))).stale_since == start + timedelta(days=1)


@pytest.mark.parametrize("of", ["tasks", "ended_sessions"])
async def test_tasks_and_ended_sessions_that_should_be_gone_are_found(
    database: Database,
    alice: Principal,
    now: Callable[[], datetime],
    advance: Callable[[float], None],
    of: str,
) -> None:
    over = now() + timedelta(hours=24)
    if of == "tasks":
        owner, lease, day = TaskOwner(alice, "claude"), Lease("process", timedelta(seconds=30)), over - now()
        assert await database.tasks.create(
            owner, "id", began=None, tool="read", arguments=None, lifetime=day, lease=lease
        )
    else:
        await database.ended_sessions.end("session", expires_at=over)

    advance(23 * 3600)
    assert (await overview(database)).stale_since is None
    advance(2 * 3600)
    assert (await overview(database)).stale_since == over
    await database.tasks.purge()
    await database.ended_sessions.purge()
    assert (await overview(database)).stale_since is None


async def test_revocations_and_clients_are_counted(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> None:
    for name in ("first", "second"):
        await database.outbox.add(
            principal=alice,
            kind="delete_app_password",
            nextcloud_url="https://cloud.example.org",
            login_name=name,
            secret=SecretStr("secret"),
        )
    (item, _) = await database.outbox.lease_due(owner="us", lease=timedelta(minutes=1))
    await database.outbox.retry(item.id, item.next_try_at + timedelta(minutes=1))
    await database.clients.save(
        Client(
            "nc-mcp-1",
            "registered",
            "Claude",
            ("https://claude.ai/cb",),
            "none",
            None,
            None,
            now(),
            None,
            native=False,
        )
    )

    found = await overview(database)

    assert (found.clients, found.revocations, found.failed_revocations) == (1, 2, 1)


async def test_other_processes_are_seen_where_the_database_knows_them(
    url: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    open_database: Callable[..., Awaitable[Database]],
) -> None:
    own = (await overview(database)).other_processes
    monkeypatch.setattr("socket.gethostname", lambda: "a-host-with-a-long-name" * 5 + "-replica-2")
    other = await open_database()
    seen = (await overview(other)).other_processes

    assert len(process_name()) == 63
    assert process_name().endswith("-replica-2")
    if url.startswith("sqlite"):
        assert (own, seen) == (None, None)
    else:
        # Other tests of this cluster have databases of their own.
        assert (own, seen) == (0, 1)
