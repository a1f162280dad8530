import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import (
    CodeGrant,
    Fresh,
    Given,
    LiveToken,
    Refused,
    TokenGrant,
)
from nextcloud_mcp_server.storage.records import Elicitation, Principal

Advance = Callable[[float], None]
Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
Execute = Callable[..., Awaitable[object]]
Now = Callable[[], datetime]
Open = Callable[..., Awaitable[Database]]

HOUR, DAY, GRACE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=10)
LIFETIME = timedelta(days=2)
BOTH = frozenset({"notes:read", "notes:write"})
READ = frozenset({"notes:read"})
RESOURCE = "https://mcp.example.org/mcp"


@pytest.fixture
def grant(alice: Principal) -> CodeGrant:
    return CodeGrant("claude", alice, "http://127.0.0.1/", BOTH, "challenge", RESOURCE, "home")


@pytest.fixture
def token_grant(alice: Principal) -> TokenGrant:
    return TokenGrant("claude", alice, BOTH, RESOURCE, "home")


@pytest.fixture
def fresh(now: Now) -> Callable[..., Fresh]:
    def factory(refresh: str = "refresh-1", access: str = "access-1", *, family: str = "family") -> Fresh:
        return Fresh(family, refresh, access, now() + DAY, now() + HOUR)

    return factory


@pytest.fixture
def add(database: Database, grant: CodeGrant, now: Now) -> Callable[..., Awaitable[None]]:
    """Store a code that is good for a minute."""

    async def factory(code: str = "code", given: CodeGrant = grant) -> None:
        await database.oauth_tokens.add_code(code, given, expires_at=now() + timedelta(minutes=1))

    return factory


@pytest.fixture
def exchange_code(
    database: Database, fresh: Callable[..., Fresh]
) -> Callable[..., Awaitable[Given | Refused]]:
    async def factory(
        code: str = "code",
        *,
        client_id: str = "claude",
        fits: bool = True,
        new: Fresh | None = None,
        through: Database = database,
    ) -> Given | Refused:
        return await through.oauth_tokens.exchange_code(
            code, client_id=client_id, fits=lambda _: fits, fresh=new or fresh()
        )

    return factory


@pytest.fixture
def rotate(database: Database, fresh: Callable[..., Fresh]) -> Callable[..., Awaitable[Given | Refused]]:
    async def factory(
        token: str,
        *successors: str,
        client_id: str = "claude",
        resource: str = RESOURCE,
        scopes: frozenset[str] | None = None,
        access: str = "access-2",
        through: Database = database,
    ) -> Given | Refused:
        return await through.oauth_tokens.rotate(
            token,
            client_id=client_id,
            resource=resource,
            scopes=scopes,
            successors=successors,
            grace=GRACE,
            lifetime=LIFETIME,
            fresh=fresh(successors[0], access),
        )

    return factory


Add = Callable[..., Awaitable[None]]
TokenRefresh = Callable[..., Awaitable[Given | Refused]]


async def test_what_a_code_gives_is_found_by_the_access_token(
    *, database: Database, add: Add, exchange_code: TokenRefresh, token_grant: TokenGrant, now: Now
) -> None:
    await add()

    given = await exchange_code()

    assert given == Given("refresh-1", BOTH)
    assert await database.oauth_tokens.find("access-1") == LiveToken(token_grant, now(), now() + HOUR)
    assert await database.oauth_tokens.find("access-2") is None


async def test_a_code_shows_what_it_was_given_for(
    database: Database, add: Add, grant: CodeGrant, fresh: Callable[..., Fresh]
) -> None:
    await add()
    shown: list[CodeGrant] = []

    await database.oauth_tokens.exchange_code(
        "code", client_id="claude", fits=lambda given: bool(shown.append(given)), fresh=fresh()
    )

    assert shown == [grant]


async def test_a_code_is_good_once_for_its_client_and_in_time(
    *, database: Database, add: Add, exchange_code: TokenRefresh, advance: Advance, alice: Principal
) -> None:
    for code in ("code", "late", "unfit"):
        await add(code)

    foreign = await exchange_code(client_id="codex")
    unfit = await exchange_code("unfit", fits=False)
    spent = await exchange_code("unfit")
    given = await exchange_code()
    foreign_again = await exchange_code(client_id="codex")
    kept = await database.oauth_tokens.find("access-1")
    twice = await exchange_code()
    advance(60)
    late = await exchange_code("late")

    assert [foreign, unfit, spent] == [Refused("unknown"), Refused("unfit"), Refused("unknown")]
    assert given == Given("refresh-1", BOTH)
    assert (foreign_again, kept is not None) == (Refused("unknown"), True)
    assert (twice, await database.oauth_tokens.find("access-1")) == (Refused("used"), None)
    assert late == Refused("unknown")
    assert [one.result for one in await database.audit.recent(alice, 5)] == ["ended: a code was used twice"]


async def test_a_code_whose_key_is_missing_gives_nothing(
    add: Add, exchange_code: TokenRefresh, open_database: Open
) -> None:
    await add()

    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await exchange_code(through=other) == Refused("unknown")


async def test_a_code_whose_client_was_changed_in_the_database_gives_nothing(
    add: Add, exchange_code: TokenRefresh, execute: Execute
) -> None:
    await add()

    await execute("UPDATE codes SET client_id = 'codex'")

    assert await exchange_code(client_id="codex") == Refused("unknown")


async def test_a_token_and_the_one_before_it_have_the_same_successor_for_some_time(
    *, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh, advance: Advance, database: Database
) -> None:
    await add()
    await exchange_code()

    first = await rotate("refresh-1", "refresh-2")
    advance(GRACE.total_seconds())
    again = await rotate("refresh-1", "of-another-key", "refresh-2", access="access-3")
    then = await rotate("refresh-2", "refresh-3", access="access-4")

    assert first == again == Given("refresh-2", BOTH)
    assert then == Given("refresh-3", BOTH)
    assert [await database.oauth_tokens.find(f"access-{number}") is not None for number in range(1, 5)] == [
        True
    ] * 4


@pytest.mark.parametrize(
    ("token", "successor", "seconds"),
    [
        ("refresh-1", "refresh-2", 601),
        ("refresh-1", "of-a-key-that-is-gone", 0),
        ("refresh-0", "refresh-1", 0),
    ],
)
async def test_a_token_that_was_replaced_before_ends_the_family(
    *,
    database: Database,
    add: Add,
    exchange_code: TokenRefresh,
    rotate: TokenRefresh,
    advance: Advance,
    alice: Principal,
    token: str,
    successor: str,
    seconds: float,
) -> None:
    await add()
    await exchange_code()
    await rotate("refresh-1", "refresh-2")
    advance(seconds)

    refused = await rotate(token, successor, access="access-3")

    assert refused == Refused("used")
    assert await rotate("refresh-2", "refresh-3", access="access-4") == Refused("unknown")
    assert await database.oauth_tokens.find("access-2") is None
    assert [one.result for one in await database.audit.recent(alice, 5)] == [
        "ended: an old refresh token was used"
    ]


async def test_the_first_use_of_what_came_with_the_successor_ends_the_grace(
    *, database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh
) -> None:
    await add()
    await exchange_code()
    await rotate("refresh-1", "refresh-2")
    looked_at = await database.oauth_tokens.find("access-2")
    await database.oauth_tokens.use("access-1")
    again = await rotate("refresh-1", "refresh-2", access="access-3")

    used = await database.oauth_tokens.use("access-3")
    late = await rotate("refresh-1", "refresh-2", access="access-4")

    assert looked_at is not None
    assert again == Given("refresh-2", BOTH), "the access token of before the refresh ends no grace"
    assert used is not None
    assert late == Refused("used")


async def test_only_the_newest_access_token_of_a_family_can_end_its_grace(
    *, database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh
) -> None:
    """A request with an older one writes nothing, however many there are."""
    await add()
    await exchange_code()

    await rotate("refresh-1", "refresh-2")

    found = [await database.oauth_tokens.find(token) for token in ("access-1", "access-2")]
    assert [live and live.in_grace for live in found] == [False, True]


async def test_a_family_is_over_after_its_lifetime_however_often_it_was_used(
    *,
    database: Database,
    add: Add,
    exchange_code: TokenRefresh,
    rotate: TokenRefresh,
    fresh: Callable[..., Fresh],
    advance: Advance,
    now: Now,
) -> None:
    await add()
    await exchange_code(new=dataclasses.replace(fresh(), refresh_until=now() + 3 * LIFETIME))
    began = now()
    advance((LIFETIME - HOUR / 2).total_seconds())
    await rotate("refresh-1", "refresh-2")
    last = await database.oauth_tokens.find("access-2")

    advance(HOUR.total_seconds() / 2)

    assert last is not None
    assert last.expires_at == began + LIFETIME
    assert await rotate("refresh-2", "refresh-3", access="access-3") == Refused("unknown")


async def test_a_refresh_token_is_valid_while_it_is_the_newest_or_the_one_before(
    *, database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh, alice: Principal
) -> None:
    await add()
    await exchange_code()
    await rotate("refresh-1", "refresh-2")

    async def whose(token: str, *, family: str = "family", client_id: str = "claude") -> Principal | None:
        return await database.oauth_tokens.whose(token, family=family, client_id=client_id)

    assert [await whose("refresh-1"), await whose("refresh-2")] == [alice, alice]
    assert await whose("refresh-3") is None
    assert await whose("refresh-2", client_id="codex") is None
    assert await whose("refresh-2", family="other") is None


@pytest.mark.parametrize("wrong", [{"client_id": "codex"}, {"resource": "https://other.example.org/mcp"}])
async def test_a_family_of_another_client_or_address_stays_as_it_is(
    add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh, wrong: dict[str, str]
) -> None:
    await add()
    await exchange_code()

    for token in ("refresh-0", "refresh-1"):
        assert await rotate(token, "refresh-2", **wrong) == Refused("unknown")
    assert await rotate("refresh-1", "refresh-2") == Given("refresh-2", BOTH)


async def test_a_family_whose_key_is_missing_counts_as_none(
    *, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh, open_database: Open
) -> None:
    await add()
    await exchange_code()

    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.oauth_tokens.find("access-1") is None
    assert await rotate("refresh-1", "refresh-2", through=other) == Refused("unknown")
    assert await rotate("refresh-1", "refresh-2") == Given("refresh-2", BOTH)


async def test_scopes_narrow_an_answer_and_none_of_them_refuses_it(
    *, database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh
) -> None:
    await add()
    await exchange_code()

    refused = await rotate("refresh-1", "refresh-2", scopes=frozenset({"files:read"}))
    narrowed = await rotate("refresh-1", "refresh-2", scopes=READ | {"files:read"})

    live = await database.oauth_tokens.find("access-2")
    assert (refused, narrowed) == (Refused("scope"), Given("refresh-2", READ))
    assert live is not None
    assert live.grant.scopes == READ


async def test_a_family_and_its_tokens_end_with_their_time(
    *, database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh, advance: Advance
) -> None:
    await add()
    await exchange_code()

    advance(HOUR.total_seconds())
    access = await database.oauth_tokens.find("access-1")
    advance(DAY.total_seconds())

    assert access is None
    assert await rotate("refresh-1", "refresh-2") == Refused("unknown")


async def test_purging_takes_what_is_over_and_nothing_else(
    *,
    database: Database,
    add: Add,
    exchange_code: TokenRefresh,
    fresh: Callable[..., Fresh],
    advance: Advance,
    execute: Execute,
) -> None:
    for code in ("one", "two", "three"):
        await add(code)
    await exchange_code("one")
    await exchange_code("two", new=dataclasses.replace(fresh("refresh-2", "access-2", family="other")))
    await execute("UPDATE token_families SET expires_at = '2026-11-27 12:30:00' WHERE generation = 1")
    advance(59)
    await add("four")
    await exchange_code("four", new=fresh("refresh-4", "access-4", family="fourth"))
    await database.oauth_tokens.purge()
    before = await execute("SELECT count(*) FROM codes")
    advance(30 * 60)

    await database.oauth_tokens.purge()

    assert before == [(1,)]
    assert await execute("SELECT count(*) FROM codes") == [(0,)]
    assert await execute("SELECT count(*) FROM token_families") == [(1,)]
    assert await execute("SELECT count(*) FROM access_tokens") == [(1,)]
    assert await database.oauth_tokens.find("access-4") is not None


async def test_a_token_ends_for_its_client_only(
    database: Database, add: Add, exchange_code: TokenRefresh, rotate: TokenRefresh
) -> None:
    await add()
    await exchange_code()
    await rotate("refresh-1", "refresh-2")

    await database.oauth_tokens.revoke_access("access-1", client_id="codex")
    await database.oauth_tokens.revoke_family("family", client_id="codex")
    kept = await database.oauth_tokens.find("access-1")
    await database.oauth_tokens.revoke_access("access-1", client_id="claude")
    ended = await database.oauth_tokens.find("access-1")
    other = await database.oauth_tokens.find("access-2")
    await database.oauth_tokens.revoke_family("family", client_id="claude")

    assert (kept is not None, ended, other is not None) == (True, None, True)
    assert await database.oauth_tokens.find("access-2") is None


async def test_everything_of_a_person_or_of_one_of_their_clients_ends(
    *,
    database: Database,
    add: Add,
    exchange_code: TokenRefresh,
    fresh: Callable[..., Fresh],
    grant: CodeGrant,
    bob: Principal,
    alice: Principal,
) -> None:
    people = {"alice": alice, "bob": bob}
    await add("alice claude too", grant)
    for name, client_id in (("alice", "claude"), ("alice", "codex"), ("bob", "claude")):
        given = dataclasses.replace(grant, principal=people[name], client_id=client_id)
        code = f"{name} {client_id}"
        await add(code, given)
        await add(f"{code} waiting", given)
        await exchange_code(
            code, client_id=client_id, new=fresh(f"refresh {code}", f"access {code}", family=code)
        )

    of_codex = await database.oauth_tokens.end(alice, client_id="codex")
    kept = await database.oauth_tokens.find("access alice claude")
    waiting = await exchange_code("alice codex waiting", client_id="codex")
    other = await exchange_code("alice claude too", new=fresh("refresh too", "access too", family="too"))
    rest = await database.oauth_tokens.end(alice)

    assert (of_codex, kept is not None, waiting, rest) == (1, True, Refused("unknown"), 2)
    assert isinstance(other, Given)
    assert await database.oauth_tokens.end(alice) == 0
    assert await exchange_code("alice claude waiting") == Refused("unknown")
    assert await database.oauth_tokens.find("access bob claude") is not None


async def test_a_user_made_anew_at_nextcloud_holds_none_of_the_former_ones_tokens(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    add: Add,
    exchange_code: TokenRefresh,
    alice: Principal,
) -> None:
    await complete(await ask(), storage_id="home")
    await add()
    await exchange_code()

    await complete(await ask(alice, "files:read"), storage_id="home", credential_id="credential-2")
    kept = await database.oauth_tokens.find("access-1")
    await complete(await ask(alice, "files:read"), storage_id="another", credential_id="credential-3")

    assert kept is not None
    assert await database.oauth_tokens.find("access-1") is None
