from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    Elicitation,
    GrantRequest,
    Logout,
    PendingGrant,
    Principal,
    SignedIn,
)

ISSUER = "https://issuer.example.org"


@pytest.fixture
def logout(now: Callable[[], datetime]) -> Callable[..., Logout]:
    def factory(*, sub: str | None = "s-alice", sid: str | None = None, issuer: str = ISSUER) -> Logout:
        hashes = (None if one is None else hash_of(one) for one in (sub, sid))
        return Logout(issuer, *hashes, issued_at=now(), received_at=now())

    return factory


async def sign_in(
    database: Database,
    now: datetime,
    token: str,
    *,
    sub: str = "s-alice",
    sid: str | None = None,
    issuer: str = ISSUER,
) -> None:
    signed_in = SignedIn(Principal(issuer, "alice"), "Alice", None, now, now + timedelta(minutes=15))
    await database.sign_ins.create(token, signed_in, sub=sub, sid=sid)


async def left(database: Database, *tokens: str) -> list[str]:
    return [token for token in tokens if await database.sign_ins.find(token) is not None]


async def test_a_logout_of_a_user_ends_all_their_sessions_and_no_others(
    database: Database, now: Callable[[], datetime], logout: Callable[..., Logout]
) -> None:
    await sign_in(database, now(), "one", sid="1")
    await sign_in(database, now(), "two")
    await sign_in(database, now(), "bob", sub="s-bob")
    await sign_in(database, now(), "elsewhere", issuer="https://other.example.org")

    counted = await database.logouts.add("j1", logout(), expires_at=now() + timedelta(days=1))

    assert counted
    assert await left(database, "one", "two", "bob", "elsewhere") == ["bob", "elsewhere"]


async def test_a_logout_of_a_session_ends_that_one_and_those_that_name_none(
    database: Database, now: Callable[[], datetime], logout: Callable[..., Logout]
) -> None:
    await sign_in(database, now(), "one", sid="1")
    await sign_in(database, now(), "two", sid="2")
    await sign_in(database, now(), "none")

    await database.logouts.add("j1", logout(sid="1"), expires_at=now() + timedelta(days=1))

    assert await left(database, "one", "two", "none") == ["two"]


async def test_what_was_begun_in_a_session_ends_with_its_logout(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    depart: Callable[..., Awaitable[GrantRequest]],
    hold: Callable[..., Awaitable[PendingGrant]],
    now: Callable[[], datetime],
    logout: Callable[..., Logout],
) -> None:
    await sign_in(database, now(), "browser-1")
    asked = await ask()
    await depart(asked)
    await hold(asked)

    await database.logouts.add("j1", logout(), expires_at=now() + timedelta(days=1))

    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.pending_grants.find(asked.id, sign_in="browser-1") is None


async def test_a_logout_counts_once_for_each_issuer(
    database: Database, now: Callable[[], datetime], logout: Callable[..., Logout]
) -> None:
    until = now() + timedelta(days=1)
    first = await database.logouts.add("j1", logout(), expires_at=until)
    await sign_in(database, now(), "later")
    again = await database.logouts.add("j1", logout(), expires_at=until)
    other = await database.logouts.add("j1", logout(issuer="https://other.example.org"), expires_at=until)

    assert (first, again, other) == (True, False, True)
    assert await left(database, "later") == ["later"]
