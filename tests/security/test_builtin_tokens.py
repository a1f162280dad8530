"""Codes and tokens of our own in the wrong hands, at the wrong time, twice, at once, and half stored."""

import sys
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from nextcloud_mcp_server.auth.builtin.tokens import GRACE
from nextcloud_mcp_server.errors import OAuthRefusal, TokenRefused
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import backend_of, file_url
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.task_records import Lease, TaskOwner
from tests.tokens_fixtures import (
    ALICE,
    BOB,
    CALLBACK,
    CLIENT,
    NOW,
    OTHER_CLIENT,
    VERIFIER,
    Desk,
    Moment,
    access_of,
    challenge_of,
    code_grant,
    converge,
    open_desk,
    open_token_workers,
    refresh_of,
)

MINUTE = timedelta(minutes=1)
CANARY = "canary-b70c"
ROUNDS = 20

posix = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")


@pytest.fixture
def key() -> str:
    return new_key()


@pytest.fixture
def keys(key: str) -> KeyRing:
    return KeyRing.parse([SecretStr(key)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mcp.db"


@pytest.fixture
def sqlite_url(path: Path) -> str:
    return file_url(path)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def desk(sqlite_url: str, keys: KeyRing) -> AsyncGenerator[Desk]:
    async with open_desk(sqlite_url, keys, Moment()) as made:
        yield made


@pytest.fixture
async def shared(url: str, keys: KeyRing) -> AsyncGenerator[Desk]:
    """Open a database of either kind that other processes share."""
    async with open_desk(url, keys, Moment()) as made:
        yield made


def refused(error: str) -> pytest.RaisesExc[OAuthRefusal]:
    return pytest.raises(OAuthRefusal, check=lambda caught: caught.error == error)


async def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = backend_of(url).engine()
    async with engine.begin() as connection:
        result = await connection.execute(text(statement))
        rows = [tuple(row) for row in result.all()] if result.returns_rows else []
    await engine.dispose()
    return rows


async def test_a_code_that_comes_twice_gives_nothing_and_ends_what_it_gave(desk: Desk) -> None:
    code = await desk.code()
    issued = await desk.exchange_code(code)
    other = await desk.issue()

    with refused("invalid_grant"):
        await desk.exchange_code(code)

    assert not await desk.is_good(issued)
    with refused("invalid_grant"):
        await desk.refresh(issued)
    assert await desk.is_good(other)
    entry = (await desk.database.audit.recent(ALICE, 1))[0]
    assert (entry.action, entry.result) == ("tokens", "ended: a code was used twice")


async def test_a_refresh_token_that_comes_twice_ends_the_tasks_of_its_client(desk: Desk) -> None:
    """The second party may have started them, and their results are kept for a day."""
    first = await desk.issue()
    second = await desk.refresh(first)
    kept = dict[tuple[Principal, str], str]()
    for user, client_id in ((ALICE, CLIENT), (ALICE, OTHER_CLIENT), (BOB, CLIENT)):
        task_id = kept[user, client_id] = f"task {len(kept)}"
        assert await desk.database.tasks.create(
            TaskOwner(user, client_id),
            task_id,
            began=None,
            tool="move",
            arguments=None,
            lifetime=MINUTE,
            lease=Lease("this process", MINUTE),
        )
    await desk.refresh(second)

    with refused("invalid_grant"):
        await desk.refresh(first)

    left = [key for key, each in kept.items() if await desk.database.tasks.find(TaskOwner(*key), each)]
    assert left == [(ALICE, OTHER_CLIENT), (BOB, CLIENT)]


async def test_a_code_that_comes_again_long_after_ends_what_it_gave(desk: Desk) -> None:
    code = await desk.code()
    refreshed = await desk.refresh(await desk.exchange_code(code))
    desk.moment.forward(30 * MINUTE)
    await desk.tokens.purge()

    with refused("invalid_grant"):
        await desk.exchange_code(code)

    assert not await desk.is_good(refreshed)


async def test_of_two_clients_that_exchange_one_code_at_once_neither_keeps_its_tokens(shared: Desk) -> None:
    code = await shared.code()
    answers: list[str] = []

    async def exchange_code() -> None:
        try:
            answers.append(refresh_of(await shared.exchange_code(code)))
        except OAuthRefusal as refusal:
            answers.append(refusal.error)

    async with anyio.create_task_group() as group:
        group.start_soon(exchange_code)
        group.start_soon(exchange_code)

    assert answers.count("invalid_grant") == 1
    assert await shared.tokens.end(ALICE) == 0


@pytest.mark.parametrize("challenge", ["", "short", VERIFIER, f"{challenge_of(VERIFIER)}=", "ä" * 43])
async def test_a_challenge_that_is_none_of_s256_gets_no_code(desk: Desk, challenge: str) -> None:
    with refused("invalid_request"):
        await desk.give(code_grant(code_challenge=challenge))


async def test_a_plain_challenge_opens_nothing(desk: Desk) -> None:
    """Anyone who saw the authorization request would otherwise know the verifier."""
    plain = "p" * 43
    code = await desk.give(code_grant(code_challenge=plain))

    with refused("invalid_grant"):
        await desk.exchange_code(code, verifier=plain)


async def test_a_code_without_a_verifier_gives_nothing_and_can_still_be_exchanged(desk: Desk) -> None:
    code = await desk.code()

    with refused("invalid_request"):
        await desk.exchange_code(code, verifier=None)

    assert await desk.is_good(await desk.exchange_code(code))


@pytest.mark.parametrize(
    "wrong",
    [
        {"verifier": f"{VERIFIER}x"},
        {"verifier": ""},
        {"verifier": "v" * 129},
        {"redirect_uri": f"{CALLBACK}/"},
        {"redirect_uri": CALLBACK.replace("33418", "33419")},
        {"redirect_uri": ""},
    ],
    ids=str,
)
async def test_a_code_shown_with_something_wrong_is_spent(desk: Desk, wrong: dict[str, str]) -> None:
    code = await desk.code()

    with refused("invalid_grant"):
        await desk.exchange_code(code, **wrong)

    with refused("invalid_grant"):
        await desk.exchange_code(code)


async def test_a_short_verifier_is_refused_even_when_its_hash_is_right(desk: Desk) -> None:
    code = await desk.give(code_grant(code_challenge=challenge_of("guessable")))

    with refused("invalid_grant"):
        await desk.exchange_code(code, verifier="guessable")


async def test_another_clients_code_looks_unknown_and_stays_as_it_is(desk: Desk) -> None:
    code = await desk.code()

    with refused("invalid_grant"):
        await desk.exchange_code(code, client_id=OTHER_CLIENT)

    issued = await desk.exchange_code(code)
    with refused("invalid_grant"):
        await desk.exchange_code(code, client_id=OTHER_CLIENT)
    assert await desk.is_good(issued)


async def test_another_clients_refresh_token_looks_unknown_and_stays_as_it_is(desk: Desk) -> None:
    issued = await desk.issue()
    old, issued = issued, await desk.refresh(issued)
    desk.moment.forward(GRACE + MINUTE)

    for one in (old, issued):
        with refused("invalid_grant"):
            await desk.refresh(one, client_id=OTHER_CLIENT)
        await desk.tokens.revoke(refresh_of(one), client_id=OTHER_CLIENT)
    await desk.tokens.revoke(access_of(issued), client_id=OTHER_CLIENT)

    assert await desk.is_good(issued)
    assert await desk.is_good(await desk.refresh(issued))


@pytest.mark.parametrize(
    "resource",
    ["https://cloud.example.org", "https://mcp.example.org", "https://mcp.example.org/mcp/x", "/mcp", ""],
)
async def test_a_wrong_resource_is_told_before_anything_is_spent(desk: Desk, resource: str) -> None:
    code, issued = await desk.code(), await desk.issue()

    with refused("invalid_target"):
        await desk.give(code_grant(resource=resource))
    with refused("invalid_target"):
        await desk.exchange_code(code, resource=resource)
    with refused("invalid_target"):
        await desk.refresh(issued, resource=resource)

    assert await desk.is_good(await desk.exchange_code(code))
    assert await desk.is_good(await desk.refresh(issued))


@pytest.mark.parametrize("generations", [2, 3])
async def test_a_refresh_token_from_before_the_last_ends_the_family(desk: Desk, generations: int) -> None:
    first = await desk.issue()
    last = first
    for _ in range(generations):
        last = await desk.refresh(last)

    with refused("invalid_grant"):
        await desk.refresh(first)

    assert not await desk.is_good(last)
    with refused("invalid_grant"):
        await desk.refresh(last)
    entry = (await desk.database.audit.recent(ALICE, 1))[0]
    assert (entry.action, entry.result) == ("tokens", "ended: an old refresh token was used")


async def test_the_last_refresh_token_after_the_grace_ends_the_family(desk: Desk) -> None:
    first = await desk.issue()
    last = await desk.refresh(first)
    desk.moment.forward(GRACE + timedelta(seconds=1))

    with refused("invalid_grant"):
        await desk.refresh(first)

    assert not await desk.is_good(last)


async def test_a_made_up_token_of_a_family_ends_it(desk: Desk) -> None:
    """The family's part is known only to those who saw one of its tokens."""
    issued = await desk.issue()
    token = refresh_of(issued)
    changed = f"{token[:-1]}{'A' if token[-1] != 'A' else 'B'}"

    with refused("invalid_grant"):
        await desk.tokens.refresh(changed, client_id="mcp-claude", scopes=None, resource=None)

    assert not await desk.is_good(issued)


async def test_ending_one_users_tokens_leaves_those_of_all_others(desk: Desk) -> None:
    of_alice, of_bob = await desk.issue(), await desk.issue(BOB)
    code = await desk.code()

    ended = await desk.tokens.end(ALICE)

    assert ended == 1
    with pytest.raises(TokenRefused):
        await desk.tokens.verify(access_of(of_alice))
    with refused("invalid_grant"):
        await desk.exchange_code(code)
    assert (await desk.tokens.verify(access_of(of_bob))).principal == BOB


@pytest.mark.parametrize("count", [1, 2])
async def test_the_previous_token_within_the_grace_gets_the_same_successor(desk: Desk, count: int) -> None:
    first = await desk.issue()
    second = await desk.refresh(first)

    for _ in range(count):
        desk.moment.forward(GRACE / count)
        again = await desk.refresh(first)
        assert refresh_of(again) == refresh_of(second)
        assert access_of(again) != access_of(second)
        assert await desk.is_good(again)

    assert refresh_of(await desk.refresh(second)) != refresh_of(second)


@pytest.mark.process
async def test_five_parallel_refreshes_by_two_processes_converge_on_one_successor(
    shared: Desk, url: str, key: str
) -> None:
    token = refresh_of(await shared.issue())
    async with open_token_workers(url, key, 2) as workers:
        for _ in range(ROUNDS):
            (successor,) = await converge(workers, token, at=NOW)
            assert successor.startswith("ncr_")
            assert successor != token
            token = successor

    assert await execute(url, "SELECT generation FROM token_families") == [(ROUNDS + 1,)]


@pytest.mark.process
@posix
async def test_killed_between_its_writes_a_refresh_has_not_happened(shared: Desk, url: str, key: str) -> None:
    issued = await shared.issue()
    before = await execute(url, "SELECT * FROM token_families")
    async with open_token_workers(url, key, 2) as (killed, other):
        await killed.order(refresh=refresh_of(issued), at=NOW.isoformat(), kill=True)
        await killed.process.wait()
        after = await execute(url, "SELECT * FROM token_families")
        await other.order(refresh=refresh_of(issued), at=NOW.isoformat())
        (successor,) = await other.answer()

    assert after == before
    assert killed.process.returncode == -9
    assert successor.startswith("ncr_")
    assert await execute(url, "SELECT count(*) FROM access_tokens") == [(2,)]


@pytest.mark.process
@posix
async def test_killed_between_its_writes_a_code_is_not_spent(shared: Desk, url: str, key: str) -> None:
    code = await shared.code()
    async with open_token_workers(url, key, 2) as (killed, other):
        await killed.order(exchange_code=code, at=NOW.isoformat(), kill=True)
        await killed.process.wait()
        left = await execute(
            url, "SELECT (SELECT count(*) FROM codes), (SELECT count(*) FROM token_families)"
        )
        await other.order(exchange_code=code, at=NOW.isoformat())
        (token,) = await other.answer()

    assert left == [(1, 0)]
    assert token.startswith("ncr_")


async def test_no_token_code_name_or_address_stands_in_clear_in_the_database_or_its_log(
    desk: Desk, path: Path
) -> None:
    client = Client(
        client_id="mcp-claude",
        kind="registered",
        name=f"{CANARY} name",
        redirect_uris=(f"https://{CANARY}.example.org/callback",),
        auth_method="client_secret_post",
        secret_hash=f"{CANARY} hash",
        scopes=None,
        created_at=NOW,
        last_used_at=None,
        native=False,
    )
    await desk.database.clients.save(client)
    callback = f"https://{CANARY}.example.org/callback"
    grant = code_grant(storage_id=f"{CANARY} home", redirect_uri=callback)
    code, waiting = await desk.give(grant), await desk.give(grant)
    issued = await desk.exchange_code(code, redirect_uri=callback)
    refreshed = await desk.refresh(issued)

    files = [path.with_name(f"mcp.db{suffix}") for suffix in ("", "-wal", "-shm")]
    dump = b"".join(file.read_bytes() for file in files)

    tokens = [code, waiting, *map(access_of, (issued, refreshed)), *map(refresh_of, (issued, refreshed))]
    secrets = [part for token in tokens for part in (token, token.partition("_")[2], token[4:26])]
    assert b"token_families" in dump
    assert path.with_name("mcp.db-wal").stat().st_size > 0
    assert [one for one in (CANARY, VERIFIER, *secrets) if one.encode() in dump] == []


@pytest.mark.parametrize("table", ["access_tokens", "token_families"])
async def test_tokens_handed_to_another_person_in_the_database_open_nothing(
    desk: Desk, sqlite_url: str, table: str
) -> None:
    """Anyone who can write to the database, and has no key, must not get in as another user."""
    issued = await desk.issue(BOB)

    await execute(sqlite_url, f"UPDATE {table} SET subject = 'alice'")

    with pytest.raises(TokenRefused):
        await desk.tokens.verify(access_of(issued))


@pytest.mark.parametrize("both", ["UPDATE access_tokens", "UPDATE token_families"])
async def test_the_tokens_of_one_user_open_nothing_for_another(
    desk: Desk, sqlite_url: str, both: str
) -> None:
    of_bob, of_alice = await desk.issue(BOB), await desk.issue()
    table = both.removeprefix("UPDATE ")

    await execute(
        sqlite_url,
        f"{both} SET details = (SELECT details FROM {table} WHERE subject = 'alice') WHERE subject = 'bob'",
    )

    if table == "access_tokens":
        assert not await desk.is_good(of_bob)
        assert await desk.is_good(of_alice)
    else:
        with refused("invalid_grant"):
            await desk.refresh(of_bob)
        assert await desk.is_good(await desk.refresh(of_alice))
