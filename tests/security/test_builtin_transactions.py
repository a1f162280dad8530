"""What users bring back from Nextcloud: at rest, in the hands of who writes to the database, killed, at once."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of, new_key
from nextcloud_mcp_server.storage.engine import Database, backend_of, file_url
from nextcloud_mcp_server.storage.oauth_records import ClientRequest, CompletedTransaction
from nextcloud_mcp_server.storage.records import AuditEntry, Principal, Tokens
from tests.sign_in_fixtures import BROWSER, CLIENT, STATE, URL, back, connect, leaving, outbox
from tests.tokens_fixtures import ALICE, BOB, NOW, Moment, TokenWorker, open_token_workers

CANARY = "canary-3d9a"
ROUNDS = 12
#: The first and the last thing that each of them writes.
CONNECTING = ("UPDATE authorization_transactions", "INSERT INTO accounts", "INSERT INTO audit")
DISCARDING = (
    "DELETE FROM authorization_transactions WHERE authorization_transactions.id_hash",
    "INSERT INTO outbox",
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")


@pytest.fixture
def key() -> str:
    return new_key()


@pytest.fixture
def moment() -> Moment:
    return Moment()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mcp.db"


@pytest.fixture
def sqlite_url(path: Path) -> str:
    return file_url(path)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@asynccontextmanager
async def opened(url: str, key: str, moment: Moment) -> AsyncGenerator[Database]:
    database = await Database.open(url, keys=KeyRing.parse([SecretStr(key)]), clock=moment)
    yield database
    await database.aclose()


@pytest.fixture
async def database(sqlite_url: str, key: str, moment: Moment) -> AsyncGenerator[Database]:
    async with opened(sqlite_url, key, moment) as database:
        yield database


@pytest.fixture
async def shared(url: str, key: str, moment: Moment) -> AsyncGenerator[Database]:
    """Open a database of either kind that other processes share."""
    async with opened(url, key, moment) as database:
        yield database


@asynccontextmanager
async def workers(url: str, key: str, count: int) -> AsyncGenerator[list[TokenWorker]]:
    async with open_token_workers(url, key, count, module="tests.sign_in_worker") as started:
        yield started


async def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement behind the server's back."""
    engine = backend_of(url).engine()
    async with engine.begin() as connection:
        result = await connection.execute(text(statement))
        rows = [tuple(row) for row in result.all()] if result.returns_rows else []
    await engine.dispose()
    return rows


async def hold(
    database: Database,
    moment: Moment,
    name: str = "1",
    principal: Principal = ALICE,
    *,
    browser: str = BROWSER,
) -> CompletedTransaction:
    """Let a user come back and be asked whether it is them."""
    completed = back(leaving(moment, name), principal, moment, name=name)
    await database.auth_transactions.hold(completed, browser=browser)
    return completed


async def told(worker: TokenWorker, do: str, **order: object) -> bool:
    """Have a process do something, and wait for what came of it."""
    await worker.order(do=do, at=NOW.isoformat(), **order)
    (happened,) = await worker.answer()
    return happened


async def at_once(started: list[TokenWorker], *orders: dict[str, object]) -> list[bool]:
    """Have each process do something at the same time."""
    for worker, order in zip(started, orders, strict=True):
        await worker.order(at=NOW.isoformat(), **order)
    return [happened for worker in started for happened in await worker.answer()]


async def stored(database: Database) -> list[str]:
    """Name the access tokens that are in use or to be ended, in order; nothing may be lost or doubled."""
    used = [grant.credential.secret.get_secret_value() for grant in await database.grants.all()]
    return sorted([*used, *await outbox(database)], key=lambda name: int(name.rpartition("-")[2]))


async def test_no_token_state_cookie_name_or_address_stands_in_clear_in_the_database_or_its_log(
    database: Database, path: Path, moment: Moment
) -> None:
    request = ClientRequest(
        client_id=CLIENT,
        redirect_uri=f"https://{CANARY}.example.org/callback",
        state=f"{CANARY} state of the client",
        code_challenge=f"{CANARY} challenge",
        resource=f"https://{CANARY}.example.org/mcp",
        scopes=frozenset({"notes:read"}),
    )
    given = Tokens(SecretStr(f"{CANARY} access"), SecretStr(f"{CANARY} refresh"), NOW + timedelta(hours=1))
    browser = f"{CANARY} browser"
    away = leaving(moment, f"{CANARY} away", request=request)
    await database.auth_transactions.create(away, state=f"c-{CANARY}", browser=browser)
    for ending in ("connected", "replaced", "discarded", "released", "waiting"):
        auth_transaction = leaving(moment, f"{CANARY} {ending}", request=request)
        completed = replace(
            back(auth_transaction, ALICE, moment),
            tokens=given,
            display_name=f"{CANARY} name",
            storage_id=f"{CANARY} home" if ending == "discarded" else None,
        )
        await database.auth_transactions.hold(completed, browser=browser)
        if ending in {"connected", "replaced"}:
            moment.forward(timedelta(seconds=1))
            assert await connect(database, completed, moment, browser=browser, row=ending)
        if ending == "discarded":
            assert await database.auth_transactions.discard(
                auth_transaction.id, browser=browser, nextcloud_url=URL
            )
        if ending == "released":
            moment.forward(timedelta(minutes=11))
            assert await database.auth_transactions.release_due(nextcloud_url=URL) == 1

    dump = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))

    assert b"authorization_transactions" in dump
    assert path.with_name("mcp.db-wal").stat().st_size > 0
    assert CANARY.encode() not in dump


async def test_what_a_person_brought_does_not_open_in_a_browser_that_the_database_was_told_of(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    """Anyone who can write to the database, and has no key, must not get a code for another user."""
    await hold(database, moment)
    mine = (await hold(database, moment, "of-mallory", BOB, browser="browser of mallory")).auth_transaction.id

    await execute(
        sqlite_url,
        "UPDATE authorization_transactions SET browser_hash ="
        " (SELECT browser_hash FROM authorization_transactions WHERE subject = 'bob')",
    )

    assert await database.auth_transactions.find(mine, browser="browser of mallory") is not None
    with pytest.raises(Unsealable):
        await database.auth_transactions.find("1", browser="browser of mallory")


async def test_what_one_person_brought_does_not_open_in_the_place_of_what_another_did(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    await hold(database, moment, "of-alice")
    await hold(database, moment, "of-bob", BOB)
    of_alice = "(SELECT details FROM authorization_transactions WHERE subject = 'alice')"

    await execute(
        sqlite_url, f"UPDATE authorization_transactions SET details = {of_alice} WHERE subject = 'bob'"
    )

    with pytest.raises(Unsealable):
        await database.auth_transactions.find("of-bob", browser=BROWSER)


async def test_what_one_person_brought_is_not_found_by_the_id_of_what_another_did(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    await hold(database, moment, "of-bob", BOB)

    await execute(sqlite_url, f"UPDATE authorization_transactions SET id_hash = '{hash_of('of-alice')}'")

    with pytest.raises(Unsealable):
        await database.auth_transactions.find("of-alice", browser=BROWSER)


async def test_the_user_of_a_callback_is_the_one_that_nextcloud_named_whatever_the_row_says(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    await hold(database, moment, "of-bob", BOB)

    await execute(sqlite_url, "UPDATE authorization_transactions SET subject = 'alice'")

    found = await database.auth_transactions.find("of-bob", browser=BROWSER)
    assert found is not None
    assert found.principal == BOB


async def test_an_authorization_transaction_that_the_database_gave_to_another_browser_is_not_finished_in_it(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    await database.auth_transactions.create(leaving(moment), state=STATE, browser=BROWSER)
    await hold(database, moment, "of-mallory", BOB, browser="browser of mallory")

    await execute(
        sqlite_url,
        "UPDATE authorization_transactions SET browser_hash ="
        " (SELECT browser_hash FROM authorization_transactions WHERE subject = 'bob')",
    )

    assert await database.auth_transactions.take(STATE, browser="browser of mallory") is None


async def test_a_transaction_without_a_callback_has_no_user_whatever_the_row_says(
    database: Database, sqlite_url: str, moment: Moment
) -> None:
    await database.auth_transactions.create(leaving(moment), state=STATE, browser=BROWSER)

    await execute(sqlite_url, "UPDATE authorization_transactions SET state_hash = NULL, subject = 'alice'")

    with pytest.raises(Unsealable):
        await database.auth_transactions.find("transaction-1", browser=BROWSER)
    moment.forward(timedelta(minutes=10))
    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 0


@pytest.mark.process
async def test_of_three_processes_that_one_state_reaches_one_gets_it(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    async with workers(url, key, 3) as started:
        for number in range(ROUNDS):
            await shared.auth_transactions.create(
                leaving(moment, f"{number}"), state=f"c-{number}", browser=BROWSER
            )
            order: dict[str, object] = {"do": "take", "state": f"c-{number}"}

            taken = await at_once(started, order, order, order)

            assert sorted(taken) == [False, False, True]


@pytest.mark.process
async def test_a_confirmation_in_two_processes_at_once_connects_once(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    async with workers(url, key, 2) as started:
        for number in range(ROUNDS):
            await hold(shared, moment, f"{number}")
            orders: list[dict[str, object]] = [
                {"do": "connect", "auth_transaction": f"{number}", "row": f"{number} {row}"} for row in "ab"
            ]

            assert await at_once(started, *orders) == [True, True]

    connected = [entry for entry in await shared.audit.recent(ALICE, 100) if entry.action == "consent"]
    assert len(connected) == ROUNDS
    # A clock that stands still: of grants of the same moment the first stays, and no other is lost.
    assert await stored(shared) == [f"access-{number}" for number in range(ROUNDS)]


@pytest.mark.process
async def test_of_mine_and_not_mine_at_once_one_counts_and_no_token_is_lost(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    async with workers(url, key, 2) as started:
        for number in range(ROUNDS):
            await hold(shared, moment, f"{number}")
            orders: list[dict[str, object]] = [
                {"do": "connect", "auth_transaction": f"{number}", "row": f"{number}"},
                {"do": "discard", "auth_transaction": f"{number}"},
            ]

            said = await at_once(started, *(orders if number % 2 else reversed(orders)))

            connected, discarded = said if number % 2 else reversed(said)
            found = await shared.auth_transactions.find(f"{number}", browser=BROWSER)
            assert connected is not discarded
            assert (found is not None and found.connected) is connected

    assert await stored(shared) == [f"access-{number}" for number in range(ROUNDS)]


@pytest.mark.process
async def test_what_two_processes_find_over_is_ended_once(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    async with workers(url, key, 2) as started:
        for number in range(ROUNDS):
            await hold(shared, moment, f"{number}")
            await execute(url, "UPDATE authorization_transactions SET expires_at = '2026-11-27 11:00:00'")

            assert sorted(await at_once(started, {"do": "release"}, {"do": "release"})) == [False, True]

    assert await stored(shared) == [f"access-{number}" for number in range(ROUNDS)]


@pytest.mark.process
@posix
@pytest.mark.parametrize("place", CONNECTING)
async def test_killed_while_it_connects_nothing_is_connected_and_the_next_confirmation_connects(
    *, shared: Database, url: str, key: str, moment: Moment, place: str
) -> None:
    completed = await hold(shared, moment)
    async with workers(url, key, 2) as (killed, other):
        await killed.order(do="connect", auth_transaction="1", row="a", at=NOW.isoformat(), kill=place)
        await killed.process.wait()
        kept = await shared.auth_transactions.find("1", browser=BROWSER)
        left = await execute(
            url, "SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM permissions)"
        )
        connected = await told(other, "connect", auth_transaction="1", row="b")

    assert killed.process.returncode == -9
    assert kept == completed
    assert left == [(0, 0)]
    assert connected
    assert await stored(shared) == ["access-1"]


@pytest.mark.process
@posix
@pytest.mark.parametrize("place", DISCARDING)
@pytest.mark.parametrize("do", ["discard", "release"])
async def test_killed_while_it_takes_back_nothing_is_lost_and_the_next_one_takes_it_back(
    *, shared: Database, url: str, key: str, moment: Moment, place: str, do: str
) -> None:
    completed = await hold(shared, moment)
    at = NOW if do == "discard" else completed.auth_transaction.expires_at
    async with workers(url, key, 2) as (killed, other):
        await killed.order(do=do, auth_transaction="1", at=at.isoformat(), kill=place)
        await killed.process.wait()
        kept = await shared.auth_transactions.find("1", browser=BROWSER)
        waiting = await outbox(shared)
        await other.order(do=do, auth_transaction="1", at=at.isoformat())
        (ended,) = await other.answer()

    assert killed.process.returncode == -9
    assert kept == completed
    assert waiting == []
    assert ended
    moment.now = at
    assert await stored(shared) == ["access-1"]


@pytest.mark.process
@posix
async def test_killed_while_it_takes_a_state_the_callback_still_succeeds(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    await shared.auth_transactions.create(leaving(moment), state=STATE, browser=BROWSER)
    async with workers(url, key, 2) as (killed, other):
        await killed.order(
            do="take", state=STATE, at=NOW.isoformat(), kill="DELETE FROM authorization_transactions"
        )
        await killed.process.wait()

        assert await told(other, "take", state=STATE)


@pytest.mark.process
async def test_a_confirmation_while_all_of_a_users_access_ends_connects_nothing(
    shared: Database, url: str, key: str, moment: Moment
) -> None:
    async with workers(url, key, 1) as (worker,):
        for number in range(ROUNDS):
            await hold(shared, moment, f"{number}")
            await worker.order(
                do="connect", auth_transaction=f"{number}", row=f"{number}", at=NOW.isoformat()
            )
            ended = AuditEntry(NOW, ALICE, "", "disconnect", "done")

            await shared.grants.disconnect(ALICE, audit=ended)

            (connected,) = await worker.answer()

            # Whether it came first and was ended, or came too late.
            assert await shared.grants.find(ALICE, CLIENT) is None
            assert await shared.auth_transactions.find(f"{number}", browser=BROWSER) is None
            assert await shared.auth_transactions.release_due(nextcloud_url=URL) == (not connected)
