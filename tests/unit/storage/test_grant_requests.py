from collections.abc import Awaitable, Callable

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, GrantRequest, Principal

Ask = Callable[..., Awaitable[Elicitation]]
Depart = Callable[..., Awaitable[GrantRequest]]
Open = Callable[..., Awaitable[Database]]


async def test_a_flow_comes_back_as_it_left(database: Database, ask: Ask, depart: Depart) -> None:
    plain = await depart(await ask(), state="state-1")
    full = await depart(await ask(), state="state-2", verifier="verifier", nonce="nonce")

    assert await database.grant_requests.take("state-1", sign_in="browser-1") == plain
    assert await database.grant_requests.take("state-2", sign_in="browser-1") == full


async def test_a_state_is_accepted_once(database: Database, ask: Ask, depart: Depart) -> None:
    await depart(await ask())

    first = await database.grant_requests.take("state-1", sign_in="browser-1")
    second = await database.grant_requests.take("state-1", sign_in="browser-1")

    assert first is not None
    assert second is None


async def test_of_two_that_bring_the_same_state_at_once_one_gets_the_flow(
    database: Database, open_database: Open, ask: Ask, depart: Depart
) -> None:
    other = await open_database()
    grant_request = await depart(await ask())
    taken: list[GrantRequest | None] = []

    async def take(through: Database) -> None:
        taken.append(await through.grant_requests.take("state-1", sign_in="browser-1"))

    async with anyio.create_task_group() as tasks:
        for through in (database, other) * 2:
            tasks.start_soon(take, through)

    assert sorted(taken, key=lambda one: one is None) == [grant_request, None, None, None]


async def test_a_state_from_another_browser_is_refused_and_stays(
    database: Database, ask: Ask, depart: Depart
) -> None:
    grant_request = await depart(await ask())

    assert await database.grant_requests.take("state-1", sign_in="browser-2") is None
    assert await database.grant_requests.take("state-1", sign_in="browser-1") == grant_request


async def test_a_flow_that_is_ended_from_another_browser_spends_its_codes(
    database: Database, ask: Ask, depart: Depart
) -> None:
    grant_request = await depart(await ask())

    ended = await database.grant_requests.end("state-1", codes=["code-of-the-victim"])
    again = await database.grant_requests.end("state-1", codes=["another-code"])

    assert (ended, again) == (grant_request, None)
    assert await database.spent_codes.is_spent("code-of-the-victim")
    assert not await database.spent_codes.is_spent("another-code")
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None


async def test_an_unknown_state_is_refused(database: Database, ask: Ask, depart: Depart) -> None:
    await depart(await ask())

    assert await database.grant_requests.take("state-2", sign_in="browser-1") is None


async def test_an_old_state_is_refused(
    database: Database, ask: Ask, depart: Depart, advance: Callable[[float], None]
) -> None:
    await depart(await ask())

    advance(10 * 60)

    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None


async def test_disconnecting_ends_the_flows_of_that_person(
    *,
    database: Database,
    ask: Ask,
    depart: Depart,
    alice: Principal,
    bob: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await depart(await ask(), state="state-1")
    of_bob = await depart(await ask(bob), state="state-2")

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.grant_requests.take("state-2", sign_in="browser-1") == of_bob


async def test_a_flow_whose_key_is_missing_is_refused(ask: Ask, depart: Depart, open_database: Open) -> None:
    await depart(await ask())
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await without_key.grant_requests.take("state-1", sign_in="browser-1") is None
