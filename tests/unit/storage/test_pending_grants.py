from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable, WrongAccount
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    ElicitationState,
    PendingGrant,
    PendingGrantState,
    Principal,
)
from nextcloud_mcp_server.storage.tokens import load_tokens

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
Hold = Callable[..., Awaitable[PendingGrant]]
Open = Callable[..., Awaitable[Database]]

URL = "https://cloud.example.org"


async def released(database: Database) -> list[str]:
    """Release what is due, and list the access tokens that are to be ended at Nextcloud."""
    await database.pending_grants.release_due(nextcloud_url=URL)
    items = await database.outbox.lease_due(owner="test", lease=timedelta(minutes=5))
    assert {(item.kind, item.login_name, item.nextcloud_url) for item in items} <= {
        ("revoke_tokens", "nextcloud_oauth2", URL)
    }
    return sorted(load_tokens(item.secret).access_token.get_secret_value() for item in items)


@pytest.mark.parametrize("storage_id", ["7", None])
async def test_a_grant_waits_in_the_browser_that_brought_it(
    database: Database, ask: Ask, hold: Hold, storage_id: str | None
) -> None:
    asked = await ask()

    held = await hold(asked, storage_id=storage_id)

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") == held
    assert await database.pending_grants.find(asked.id, sign_in="browser-2") is None
    assert await database.pending_grants.find("another", sign_in="browser-1") is None
    assert await database.pending_grants.take(asked.id, sign_in="browser-2") is None
    assert await released(database) == []


async def test_a_grant_whose_note_is_being_worked_off_is_not_held(
    database: Database, ask: Ask, hold: Hold, alice: Principal
) -> None:
    asked = await ask()
    held = await hold(asked)
    note = await database.outbox.add_tokens(
        principal=alice, nextcloud_url=URL, provider="nextcloud_oauth2", tokens=held.tokens
    )

    held_now = await database.pending_grants.hold(held, sign_in="browser-2", note=note)

    assert held_now is PendingGrantState.NOT_STORED
    assert await database.pending_grants.find(asked.id, sign_in="browser-2") is None


async def test_of_two_that_take_a_grant_at_once_one_gets_it(
    database: Database, open_database: Open, ask: Ask, hold: Hold
) -> None:
    other = await open_database()
    asked = await ask()
    held = await hold(asked)
    taken: list[PendingGrant | None] = []

    async def take(through: Database) -> None:
        taken.append(await through.pending_grants.take(asked.id, sign_in="browser-1"))

    async with anyio.create_task_group() as tasks:
        for through in (database, other):
            tasks.start_soon(take, through)

    assert sorted(taken, key=lambda one: one is None) == [held, None]
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None


async def test_a_second_grant_replaces_the_first_which_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold
) -> None:
    asked = await ask()
    await hold(asked, access="first")

    second = await hold(asked, access="second", sign_in="browser-2")

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await database.pending_grants.find(asked.id, sign_in="browser-2") == second
    assert await released(database) == ["first"]


async def test_an_unconfirmed_grant_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, advance: Callable[[float], None]
) -> None:
    asked = await ask()
    held = await hold(asked)

    advance(5 * 60)

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await database.pending_grants.take(asked.id, sign_in="browser-1") is None
    assert await database.pending_grants.release_due(nextcloud_url=URL) == 1
    [item] = await database.outbox.lease_due(owner="test", lease=timedelta(minutes=5))
    assert load_tokens(item.secret) == held.tokens
    assert item.principal == held.principal
    assert await database.pending_grants.release_due(nextcloud_url=URL) == 0


@pytest.mark.parametrize("state", [ElicitationState.DECLINED, ElicitationState.FAILED])
async def test_a_grant_of_a_consent_request_that_ends_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, state: ElicitationState
) -> None:
    asked = await ask()
    await hold(asked)

    await database.elicitations.finish(asked.id, state)

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_a_grant_of_a_consent_request_that_expires_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, advance: Callable[[float], None]
) -> None:
    asked = await ask(ttl=timedelta(minutes=1))
    await hold(asked)
    advance(60)

    await database.elicitations.expire_due()

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_disconnecting_ends_pending_grants(
    database: Database, ask: Ask, hold: Hold, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    asked = await ask()
    await hold(asked)

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_a_grant_for_a_consent_request_that_has_ended_already_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold
) -> None:
    asked = await ask()
    await database.elicitations.finish(asked.id, ElicitationState.DECLINED)

    await hold(asked)

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_a_grant_for_a_consent_request_whose_time_is_over_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, advance: Callable[[float], None]
) -> None:
    asked = await ask(ttl=timedelta(minutes=1))
    advance(60)

    await hold(asked)

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_a_grant_for_the_consent_request_of_another_user_is_ended_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, bob: Principal
) -> None:
    asked = await ask()
    of_alice = await hold(asked)

    await hold(asked, principal=bob, access="of bob", sign_in="browser-2")

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") == of_alice
    assert await database.pending_grants.find(asked.id, sign_in="browser-2") is None
    assert await released(database) == ["of bob"]


async def test_completing_uses_the_grant_up(
    database: Database, ask: Ask, hold: Hold, complete: Complete, alice: Principal
) -> None:
    asked = await ask()
    held = await hold(asked)

    await complete(asked, tokens=held.tokens)

    grant = await database.grants.find(alice, "claude")
    assert grant is not None
    assert grant.credential.secret == held.tokens.access_token
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == []


async def test_completing_with_something_else_ends_the_grant_at_nextcloud(
    database: Database, ask: Ask, hold: Hold, complete: Complete
) -> None:
    asked = await ask()
    await hold(asked)

    await complete(asked, secret="app-password")

    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == ["access-1"]


async def test_a_grant_for_the_wrong_account_is_neither_stored_nor_lost(
    *, database: Database, ask: Ask, hold: Hold, complete: Complete, bob: Principal
) -> None:
    await complete(await ask(bob), uid="bob")
    asked = await ask()
    held = await hold(asked)

    with pytest.raises(WrongAccount):
        await complete(asked, uid="bob", tokens=held.tokens)

    assert await database.pending_grants.take(asked.id, sign_in="browser-1") == held


async def test_a_grant_whose_key_is_missing_stays_until_the_key_is_back(
    *, database: Database, ask: Ask, hold: Hold, open_database: Open, complete: Complete
) -> None:
    asked = await ask()
    await hold(asked)
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await without_key.pending_grants.find(asked.id, sign_in="browser-1")
    with pytest.raises(Unsealable):
        await without_key.pending_grants.take(asked.id, sign_in="browser-1")
    await complete(asked, through=without_key)

    assert await without_key.pending_grants.release_due(nextcloud_url=URL) == 0
    assert await released(database) == ["access-1"]


async def test_what_its_person_does_not_own_is_ended_in_their_browser_only(
    database: Database, ask: Ask, hold: Hold
) -> None:
    asked = await ask()
    held = await hold(asked)

    await database.pending_grants.discard(asked.id, sign_in="browser-2")
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") == held

    await database.pending_grants.discard(asked.id, sign_in="browser-1")
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await released(database) == [held.tokens.access_token.get_secret_value()]
