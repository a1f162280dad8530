from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import Elicitation, Principal

WEEK = timedelta(days=7)
BOB = Principal("https://issuer.example.org", "bob")

Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]


async def test_an_ended_session_stays_ended_and_no_other_session_is(
    database: Database, now: Callable[[], datetime], alice: Principal
) -> None:
    await database.ended_sessions.end("one", expires_at=now() + WEEK)
    await database.ended_sessions.end("one", expires_at=now() + WEEK)

    assert await database.ended_sessions.is_ended("one", alice, begun_at=now())
    assert not await database.ended_sessions.is_ended("two", alice, begun_at=now())


async def test_all_that_a_user_began_until_now_ends_and_what_others_or_they_begin_later_does_not(
    database: Database, now: Callable[[], datetime], advance: Callable[[float], None], alice: Principal
) -> None:
    await database.ended_sessions.end_all(alice, expires_at=now() + WEEK)
    advance(60)
    await database.ended_sessions.end_all(alice, expires_at=now() + WEEK)
    before, after = now() - timedelta(seconds=30), now() + timedelta(seconds=1)

    assert await database.ended_sessions.is_ended("one", alice, begun_at=before)
    assert not await database.ended_sessions.is_ended("one", alice, begun_at=after)
    assert not await database.ended_sessions.is_ended("one", BOB, begun_at=before)


async def test_all_that_a_user_began_ends_with_the_release_of_the_account(
    *,
    database: Database,
    now: Callable[[], datetime],
    alice: Principal,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
) -> None:
    await complete(await ask())
    (holding,) = await database.accounts.all()

    assert await database.accounts.release(holding)

    assert await database.ended_sessions.is_ended("one", alice, begun_at=now())
    assert not await database.ended_sessions.is_ended("one", alice, begun_at=now() + timedelta(seconds=1))
    assert not await database.ended_sessions.is_ended("one", BOB, begun_at=now())


async def test_of_many_sessions_those_are_found_that_ended_by_themselves_or_with_all_of_their_user(
    database: Database, now: Callable[[], datetime], advance: Callable[[float], None], alice: Principal
) -> None:
    before = now()
    advance(60)
    await database.ended_sessions.end("own", expires_at=now() + WEEK)
    await database.ended_sessions.end_all(alice, expires_at=now() + WEEK)
    after = now() + timedelta(seconds=1)
    sessions = [
        ("own", BOB, before),
        ("earlier", alice, before),
        ("later", alice, after),
        ("bob", BOB, before),
    ]

    assert await database.ended_sessions.ended_of(sessions) == ["own", "earlier"]
    assert await database.ended_sessions.ended_of([]) == []


async def test_rows_whose_ids_are_no_longer_valid_are_deleted_with_the_next_end(
    database: Database, now: Callable[[], datetime], advance: Callable[[float], None], execute: Execute
) -> None:
    await database.ended_sessions.end("one", expires_at=now() + WEEK)
    advance(WEEK.total_seconds())

    await database.ended_sessions.end("two", expires_at=now() + WEEK)

    assert len(await execute("SELECT * FROM ended_sessions")) == 1


async def test_the_database_holds_no_session_id_and_no_user(
    database: Database, now: Callable[[], datetime], alice: Principal, execute: Execute
) -> None:
    await database.ended_sessions.end("look-for-me", expires_at=now() + WEEK)
    await database.ended_sessions.end_all(alice, expires_at=now() + WEEK)

    stored = str(await execute("SELECT * FROM ended_sessions"))

    assert "look-for-me" not in stored
    assert "alice" not in stored
