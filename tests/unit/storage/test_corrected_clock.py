"""A clock that was a day ahead for a while blocks nothing once it is right again."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pydantic import SecretStr

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import Elicitation, LoginFlow, Principal

DAY = timedelta(days=1).total_seconds()
LEASE = timedelta(seconds=30)
Ask = Callable[..., Awaitable[Elicitation]]
Start = Callable[..., Awaitable[LoginFlow]]
Complete = Callable[..., Awaitable[bool]]


async def add_work(database: Database, principal: Principal) -> None:
    await database.outbox.add(
        principal=principal,
        kind="delete_app_password",
        nextcloud_url="https://cloud.example.org",
        login_name="alice",
        secret=SecretStr("app-password"),
    )


async def test_work_of_a_process_that_died_with_a_wrong_clock_is_taken_over(
    database: Database, alice: Principal, advance: Callable[[float], None]
) -> None:
    await add_work(database, alice)
    advance(DAY)
    await database.outbox.lease_due(owner="one", lease=LEASE)
    advance(-DAY)

    assert len(await database.outbox.lease_due(owner="two", lease=LEASE)) == 1


async def test_a_lease_that_ends_soon_is_kept(
    database: Database, alice: Principal, advance: Callable[[float], None]
) -> None:
    await add_work(database, alice)
    await database.outbox.lease_due(owner="one", lease=LEASE)

    early = await database.outbox.lease_due(owner="two", lease=LEASE)
    advance(30)

    assert early == []
    assert len(await database.outbox.lease_due(owner="two", lease=LEASE)) == 1


async def test_work_that_was_put_off_with_a_wrong_clock_is_due(
    database: Database,
    alice: Principal,
    now: Callable[[], datetime],
    advance: Callable[[float], None],
) -> None:
    await add_work(database, alice)
    advance(DAY)
    [item] = await database.outbox.lease_due(owner="one", lease=LEASE)
    await database.outbox.retry(item.id, now() + timedelta(minutes=1))
    advance(-DAY)

    assert len(await database.outbox.lease_due(owner="two", lease=LEASE)) == 1


async def test_a_login_flow_that_was_leased_with_a_wrong_clock_is_taken_out_of_turn(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None]
) -> None:
    elicitation = await ask()
    await start(elicitation)
    advance(DAY)
    await database.login_flows.lease_due(owner="one", lease=LEASE)
    advance(-DAY)

    taken = await database.login_flows.lease_one(elicitation.id, owner="two", lease=LEASE, from_others=False)

    assert taken is not None


async def test_a_credential_that_was_leased_with_a_wrong_clock_can_be_refreshed(
    database: Database, ask: Ask, complete: Complete, advance: Callable[[float], None]
) -> None:
    await complete(await ask())
    [grant] = await database.grants.all()
    advance(DAY)
    await database.grants.lease(grant.credential.id, owner="one", lease=LEASE)
    advance(-DAY)

    assert await database.grants.lease(grant.credential.id, owner="two", lease=LEASE) is not None


async def test_a_consent_request_from_the_future_expires_and_its_user_gets_a_new_one(
    database: Database, ask: Ask, advance: Callable[[float], None]
) -> None:
    advance(DAY)
    future, other = await ask(), await ask(client_id="other")
    advance(-DAY)

    again = await ask()

    assert again.id != future.id
    assert await database.elicitations.expire_due() == [other.id]


async def test_failures_from_the_future_do_not_count(
    database: Database, alice: Principal, now: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    advance(DAY)
    await database.failed_exchanges.failed(alice, sign_in="browser")
    advance(-DAY)
    await database.failed_exchanges.failed(alice, sign_in="browser")

    assert await database.failed_exchanges.count(since=now() - timedelta(minutes=30)) == 1
