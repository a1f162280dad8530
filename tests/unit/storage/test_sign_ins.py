from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import Elicitation, GrantRequest, PendingGrant, Principal, SignedIn

Ask = Callable[..., Awaitable[Elicitation]]
Depart = Callable[..., Awaitable[GrantRequest]]
Hold = Callable[..., Awaitable[PendingGrant]]
Open = Callable[..., Awaitable[Database]]
SignIn = Callable[..., Awaitable[SignedIn]]

URL = "https://cloud.example.org"


@pytest.mark.parametrize("uid", ["alice", None])
async def test_a_browser_is_known_by_the_value_of_its_cookie(
    database: Database, sign_in: SignIn, bob: Principal, uid: str | None
) -> None:
    first = await sign_in("browser-1", uid=uid)
    second = await sign_in("browser-2", bob)

    assert await database.sign_ins.find("browser-1") == first
    assert await database.sign_ins.find("browser-2") == second
    assert await database.sign_ins.find("browser-3") is None


async def test_a_fault_of_the_database_repeats_nothing_of_the_row(
    database: Database, sign_in: SignIn
) -> None:
    await sign_in("browser-1")

    with pytest.raises(StorageError) as caught:
        await sign_in("browser-1")

    assert caught.value.__cause__ is None
    assert hash_of("browser-1") not in str(caught.value)


async def test_a_sign_in_ends_with_its_time(
    database: Database, sign_in: SignIn, advance: Callable[[float], None]
) -> None:
    await sign_in("browser-1")

    advance(15 * 60)

    assert await database.sign_ins.find("browser-1") is None


async def test_a_sign_in_whose_key_is_missing_counts_as_none(sign_in: SignIn, open_database: Open) -> None:
    await sign_in("browser-1")
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await without_key.sign_ins.find("browser-1") is None


async def test_signing_out_ends_what_this_browser_started_and_nothing_else(
    *, database: Database, sign_in: SignIn, ask: Ask, depart: Depart, hold: Hold
) -> None:
    await sign_in("browser-1")
    other = await sign_in("browser-2")
    asked = await ask()
    await depart(asked, state="state-1", sign_in="browser-1")
    grant_request = await depart(asked, state="state-2", sign_in="browser-2")
    await hold(asked, sign_in="browser-1")

    await database.sign_ins.delete("browser-1")

    assert await database.sign_ins.find("browser-1") is None
    assert await database.sign_ins.find("browser-2") == other
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.grant_requests.take("state-2", sign_in="browser-2") == grant_request
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None
    assert await database.pending_grants.release_due(nextcloud_url=URL) == 1


async def test_signing_out_everywhere_ends_everything_of_that_person(
    *, database: Database, sign_in: SignIn, ask: Ask, depart: Depart, hold: Hold, bob: Principal
) -> None:
    await sign_in("browser-1")
    await sign_in("browser-2")
    of_bob = await sign_in("browser-3", bob)
    asked, asked_of_bob = await ask(), await ask(bob)
    await depart(asked, state="state-1", sign_in="browser-1")
    request_of_bob = await depart(asked_of_bob, state="state-3", sign_in="browser-3")
    await hold(asked, sign_in="browser-2")
    pending_grant_of_bob = await hold(asked_of_bob, sign_in="browser-3")

    ended = await database.sign_ins.delete_all(asked.principal)

    assert ended == 2
    assert await database.sign_ins.find("browser-1") is None
    assert await database.sign_ins.find("browser-2") is None
    assert await database.sign_ins.find("browser-3") == of_bob
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.grant_requests.take("state-3", sign_in="browser-3") == request_of_bob
    assert await database.pending_grants.find(asked.id, sign_in="browser-2") is None
    assert await database.pending_grants.find(asked_of_bob.id, sign_in="browser-3") == pending_grant_of_bob


async def test_what_is_old_is_forgotten_and_what_is_not_stays(
    *, database: Database, sign_in: SignIn, ask: Ask, depart: Depart, advance: Callable[[float], None]
) -> None:
    await sign_in("browser-1")
    asked = await ask()
    await depart(asked, state="state-1")
    advance(15 * 60)
    late = await sign_in("browser-2")
    grant_request = await depart(asked, state="state-2")

    await database.sign_ins.purge()

    # Going back in time shows what is stored, whatever its time.
    advance(-15 * 60)
    assert await database.sign_ins.find("browser-1") is None
    assert await database.sign_ins.find("browser-2") == late
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.grant_requests.take("state-2", sign_in="browser-1") == grant_request


async def test_a_user_sees_each_of_their_browsers_with_its_place_and_last_use(
    database: Database, sign_in: SignIn, bob: Principal, alice: Principal, advance: Callable[[float], None]
) -> None:
    first = await sign_in("browser-1", place="192.0.2.0/24")
    await sign_in("browser-3", bob)
    advance(120)
    second = await sign_in("browser-2")
    await database.sign_ins.used("browser-2")
    advance(30)
    # Less than a minute after the last time it is not worth a write.
    await database.sign_ins.used("browser-2")
    before = await database.sign_ins.open(alice)
    advance(60)
    await database.sign_ins.used("browser-1")
    after = await database.sign_ins.open(alice)

    assert [(one.place, one.created_at, one.last_used_at) for one in before] == [
        ("", second.created_at, second.created_at),
        ("192.0.2.0/24", first.created_at, first.created_at),
    ]
    assert [one.place for one in after] == ["192.0.2.0/24", ""]
    assert after[0].last_used_at - first.created_at == timedelta(seconds=210)


async def test_a_browser_session_is_ended_by_its_own_user_alone(
    *, database: Database, sign_in: SignIn, alice: Principal, bob: Principal, ask: Ask, depart: Depart
) -> None:
    await sign_in("browser-1")
    await sign_in("browser-2")
    await depart(await ask(), state="state-1", sign_in="browser-1")
    chosen = hash_of("browser-1")

    assert not await database.sign_ins.end(bob, chosen)
    assert await database.sign_ins.find("browser-1") is not None
    assert await database.sign_ins.end(alice, chosen)
    assert await database.sign_ins.find("browser-1") is None
    assert await database.sign_ins.find("browser-2") is not None
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None


async def test_a_place_whose_key_is_missing_is_not_shown(
    sign_in: SignIn, open_database: Open, alice: Principal
) -> None:
    await sign_in("browser-1", place="192.0.2.0/24")
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert [one.place for one in await without_key.sign_ins.open(alice)] == [""]
