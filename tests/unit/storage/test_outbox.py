from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import Principal, Tokens
from nextcloud_mcp_server.storage.tokens import REVOKE_TOKENS, load_tokens

LEASE = timedelta(seconds=30)


async def add(database: Database, principal: Principal, secret: str = "app-password") -> None:
    await database.outbox.add(
        principal=principal,
        kind="delete_app_password",
        nextcloud_url="https://cloud.example.org",
        login_name="alice@example.org",
        secret=SecretStr(secret),
    )


async def test_work_is_due_at_once_and_goes_to_one_owner(
    database: Database, alice: Principal, now: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    await add(database, alice)

    [item] = await database.outbox.lease_due(owner="one", lease=LEASE)
    meanwhile = await database.outbox.lease_due(owner="two", lease=LEASE)

    assert (item.principal, item.kind, item.attempts) == (alice, "delete_app_password", 0)
    assert (item.login_name, item.secret.get_secret_value()) == ("alice@example.org", "app-password")
    assert item.lease_id == "one"
    assert meanwhile == []
    assert await database.outbox.next_due_at() == now() + LEASE
    advance(30)
    assert len(await database.outbox.lease_due(owner="two", lease=LEASE)) == 1


async def test_failed_work_comes_back_with_its_attempts_counted(
    database: Database, alice: Principal, now: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    await add(database, alice)
    [item] = await database.outbox.lease_due(owner="one", lease=LEASE)

    await database.outbox.retry(item.id, now() + timedelta(minutes=1))

    assert await database.outbox.lease_due(owner="one", lease=LEASE) == []
    assert await database.outbox.next_due_at() == now() + timedelta(minutes=1)
    advance(60)
    [again] = await database.outbox.lease_due(owner="two", lease=LEASE)
    assert again.attempts == 1


async def test_finished_work_is_forgotten(database: Database, alice: Principal) -> None:
    await add(database, alice)
    [item] = await database.outbox.lease_due(owner="one", lease=LEASE)

    await database.outbox.done(item.id)

    assert await database.outbox.next_due_at() is None


async def test_work_whose_key_is_missing_is_left_out(
    database: Database, alice: Principal, open_database: Callable[..., Awaitable[Database]]
) -> None:
    await add(database, alice, "before")
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))
    await add(without_key, alice, "after")

    items = await without_key.outbox.lease_due(owner="one", lease=LEASE)

    assert [item.secret.get_secret_value() for item in items] == ["after"]


async def test_the_work_of_one_person_can_be_taken_alone(
    database: Database, alice: Principal, bob: Principal
) -> None:
    await add(database, alice)

    assert await database.outbox.holds(alice)
    assert not await database.outbox.holds(bob)
    assert await database.outbox.next_due_at(bob) is None
    assert await database.outbox.lease_due(owner="one", lease=LEASE, within=bob) == []
    assert len(await database.outbox.lease_due(owner="one", lease=LEASE, within=alice)) == 1


async def test_tokens_that_were_never_stored_are_work_too(database: Database, alice: Principal) -> None:
    tokens = Tokens(SecretStr("access"), SecretStr("refresh"), None)

    await database.outbox.add_tokens(
        principal=alice, nextcloud_url="https://cloud.example.org", provider="nextcloud_oauth2", tokens=tokens
    )

    [item] = await database.outbox.lease_due(owner="one", lease=LEASE)
    assert (item.principal, item.kind, item.login_name) == (alice, REVOKE_TOKENS, "nextcloud_oauth2")
    assert load_tokens(item.secret) == tokens
