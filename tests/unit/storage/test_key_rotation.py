from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
from pydantic import SecretStr
from sqlalchemy.dialects.sqlite import dialect

from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.key_rotation import (
    BATCH,
    Rotated,
    SealedRows,
    sealed_columns,
    sealed_tables,
)
from nextcloud_mcp_server.storage.models import credentials, metadata, sign_ins
from nextcloud_mcp_server.storage.oauth_records import Given
from nextcloud_mcp_server.storage.records import Principal, SignedIn, Tokens
from tests.sealed_rows import Rows, opened_values, sealed_values

Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]
Now = Callable[[], datetime]
Open = Callable[..., Awaitable[Database]]

NEW = SecretStr(new_key())
OLD = SecretStr(new_key())
OLD_RING, BOTH, NEW_RING = KeyRing.parse([OLD]), KeyRing.parse([NEW, OLD]), KeyRing.parse([NEW])


@pytest.fixture
def keys() -> KeyRing:
    return OLD_RING


@pytest.fixture
async def rows(database: Database, now: Now) -> Rows:
    filled = Rows(database, now)
    await filled.fill()
    return filled


async def rotate(database: Database, *, batch_size: int = BATCH) -> Rotated:
    return await database.key_rotation.rotate(
        pause=anyio.lowlevel.checkpoint, progress=lambda _: None, batch_size=batch_size
    )


def test_every_column_of_bytes_is_a_sealed_one_that_rotation_knows() -> None:
    known = {(table.name, column.name) for table in sealed_tables() for column in sealed_columns(table)}

    binary = {
        (table.name, column.name)
        for table in metadata.tables.values()
        for column in table.columns
        if column.type.compile(dialect()).startswith("BLOB")
    }

    # The ids of keys are no secret; the values that they sealed have them, too.
    assert known == binary - {("sealing_keys", "key_id")}
    assert len(known) > 30


async def test_every_sealed_column_is_sealed_again_and_its_row_is_read_with_the_new_key_alone(
    url: str, rows: Rows, open_database: Open
) -> None:
    before = await opened_values(url, OLD_RING)
    columns = await sealed_values(url)

    rotated = await rotate(await open_database(other_keys=BOTH), batch_size=2)

    # A column that is empty here would be left out of what this test says.
    assert [place for place, values in columns.items() if not values] == []
    assert {each.key_id for values in (await sealed_values(url)).values() for each in values} == set(
        NEW_RING.ids
    )
    assert await opened_values(url, NEW_RING) == before
    assert await opened_values(url, OLD_RING) == []
    assert rotated == Rotated(resealed=sum(row.rows for row in await counts(open_database)))
    read = await rows.read(await open_database(other_keys=NEW_RING))
    assert [name for name, found in read.items() if not found] == []
    assert isinstance(read["token_families"], Given)
    assert isinstance(read["codes"], Given)
    assert "no longer configured" not in str(read["audit"])


async def counts(open_database: Open) -> list[SealedRows]:
    return await (await open_database(other_keys=BOTH)).key_rotation.counts()


async def test_a_second_rotation_has_nothing_to_do(rows: Rows, open_database: Open) -> None:
    database = await open_database(other_keys=BOTH)
    await rotate(database)

    assert await rotate(database) == Rotated()


async def test_rows_are_counted_by_the_keys_that_have_sealed_them(
    database: Database, open_database: Open, alice: Principal, now: Now
) -> None:
    signed_in = SignedIn(alice, "Alice", None, now(), now() + timedelta(minutes=1))
    both = await open_database(other_keys=BOTH)
    for token, through in (("a", database), ("b", database), ("c", both)):
        await through.sign_ins.create(token, signed_in)

    counted = await both.key_rotation.counts()

    assert sorted(counted, key=lambda one: one.rows) == [
        SealedRows("sign_ins", NEW_RING.ids[0], 1),
        SealedRows("sign_ins", OLD_RING.ids[0], 2),
    ]
    assert both.key_rotation.key_ids == [*NEW_RING.ids, *OLD_RING.ids]


async def test_a_row_whose_values_have_two_keys_counts_for_both_and_is_sealed_again(
    url: str, rows: Rows, open_database: Open, tokens: Callable[..., Tokens]
) -> None:
    both = await open_database(other_keys=BOTH)
    # A refresh writes the tokens anew, and leaves the login name and the tokens of the late answer.
    assert await both.grants.store_refreshed("credential-1", version=1, tokens=tokens("fresh"))
    counted = {each.key_id for each in await both.key_rotation.counts() if each.table == "credentials"}

    await rotate(both)

    assert counted == set(BOTH.ids)
    assert {each.key_id for each in (await sealed_values(url))["credentials", "login_name"]} == set(
        NEW_RING.ids
    )
    grant = await (await open_database(other_keys=NEW_RING)).grants.find(
        Principal("https://issuer.example.org", "alice"), "claude"
    )
    assert grant
    assert grant.credential.secret.get_secret_value() == "fresh"


async def test_a_row_of_which_the_first_value_alone_has_the_new_key_is_sealed_again(
    rows: Rows, open_database: Open
) -> None:
    rotation = (await open_database(other_keys=BOTH)).key_rotation
    for table in sealed_tables():
        batch = await rotation.read(table, limit=BATCH)
        assert batch
        first = {sealed_columns(table)[0].name}
        firsts = [
            replace(
                row,
                old={name: row.old[name] for name in first & row.old.keys()},
                new={name: row.new[name] for name in first & row.new.keys()},
            )
            for row in batch.rows
        ]
        await rotation.store(replace(batch, rows=[row for row in firsts if row.new]))
    before = {each.key_id for each in await rotation.counts()}

    await rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=lambda _: None)

    assert before == set(BOTH.ids)
    assert {each.key_id for each in await rotation.counts()} == set(NEW_RING.ids)


async def test_a_rotation_ends_though_a_server_goes_on_with_the_old_key(
    *, database: Database, open_database: Open, sign_in: Callable[..., Awaitable[SignedIn]], execute: Execute
) -> None:
    await sign_in("browser")
    later = ("z1", "z2", "z3")
    waiting = list(later)

    async def go_on() -> None:
        if waiting:
            token = waiting.pop(0)
            await sign_in(token)
            # A hash comes before or after another one; this place is after all of them.
            await execute(f"UPDATE sign_ins SET token_hash = '{token}' WHERE token_hash = '{hash_of(token)}'")

    operator = await open_database(other_keys=BOTH)
    rotated = await operator.key_rotation.rotate(pause=go_on, progress=lambda _: None, batch_size=1)

    assert (rotated.resealed, rotated.unreadable) == (1, 0)
    assert [each.rows for each in await operator.key_rotation.counts()] == [1, 1]


async def test_what_a_running_server_changes_meanwhile_is_not_put_back(
    rows: Rows, open_database: Open, tokens: Callable[..., Tokens], alice: Principal
) -> None:
    server, operator = await open_database(other_keys=BOTH), await open_database(other_keys=BOTH)
    batch = await operator.key_rotation.read(credentials, limit=1)
    assert batch
    await server.grants.store_refreshed("credential-1", version=1, tokens=tokens("fresh", "refresh-fresh"))

    stored = await operator.key_rotation.store(batch)

    assert stored == 0
    grant = await server.grants.find(alice, "claude")
    assert grant
    assert grant.credential.secret.get_secret_value() == "fresh"
    assert grant.credential.version == 2


async def test_what_a_running_server_deletes_meanwhile_does_not_come_back(
    rows: Rows, open_database: Open, execute: Execute
) -> None:
    server, operator = await open_database(other_keys=BOTH), await open_database(other_keys=BOTH)
    batch = await operator.key_rotation.read(sign_ins, limit=10)
    assert batch
    await server.sign_ins.delete("browser-1")

    stored = await operator.key_rotation.store(batch)

    assert stored == 0
    assert await execute("SELECT token_hash FROM sign_ins") == []


async def test_a_row_that_was_changed_meanwhile_is_counted_and_the_next_pass_finds_it(
    rows: Rows, open_database: Open, database: Database, tokens: Callable[..., Tokens]
) -> None:
    operator = await open_database(other_keys=BOTH)

    async def refresh() -> None:
        # A server that does not have the new key yet.
        version = 1
        while not await database.grants.store_refreshed(
            "credential-1", version=version, tokens=tokens("late")
        ):
            version += 1

    async with anyio.create_task_group() as group:
        group.start_soon(refresh)
        await rotate(operator, batch_size=1)
    await rotate(operator)

    assert {each.key_id for each in await operator.key_rotation.counts()} == set(NEW_RING.ids)


async def test_a_value_that_does_not_open_stays_as_it_is_and_does_not_keep_the_others_from_it(
    url: str, database: Database, open_database: Open, alice: Principal, now: Now
) -> None:
    signed_in = SignedIn(alice, "Alice", "uid", now(), now() + timedelta(minutes=1))
    lost = KeyRing.parse([SecretStr(new_key())])
    for token, through in (("a", await open_database(other_keys=lost)), ("b", database)):
        await through.sign_ins.create(token, signed_in)
    operator = await open_database(other_keys=BOTH)

    rotated = await rotate(operator, batch_size=1)

    assert rotated == Rotated(resealed=1, unreadable=3, unreadable_tables={"sign_ins"})
    assert {each.key_id for each in (await sealed_values(url))["sign_ins", "uid"]} == {
        *NEW_RING.ids,
        *lost.ids,
    }
    assert {each.key_id for each in await operator.key_rotation.counts()} == {*NEW_RING.ids, *lost.ids}


async def test_a_value_that_was_moved_does_not_open_after_a_rotation_either(
    rows: Rows, open_database: Open, execute: Execute, alice: Principal
) -> None:
    await execute("UPDATE credentials SET login_name = secret")

    rotated = await rotate(await open_database(other_keys=BOTH))

    assert (rotated.unreadable, rotated.unreadable_tables) == (1, {"credentials"})
    (row,) = await execute("SELECT count(*) FROM credentials WHERE login_name = secret")
    assert row == (0,)


async def test_a_row_with_the_values_of_another_row_is_left_as_it_is(
    open_database: Open, sign_in: Callable[..., Awaitable[SignedIn]], execute: Execute, alice: Principal
) -> None:
    await sign_in("browser-1", uid="alice")
    await sign_in("browser-2", uid="alice")
    source = f"(SELECT {{}} FROM sign_ins WHERE token_hash = '{hash_of('browser-1')}')"
    columns = [column.name for column in sealed_columns(sign_ins)]
    copied = ", ".join(f"{name} = {source.format(name)}" for name in columns)
    await execute(f"UPDATE sign_ins SET {copied}")

    rotated = await rotate(await open_database(other_keys=BOTH))

    expected = Rotated(resealed=1, unreadable=len(columns), unreadable_tables={"sign_ins"})
    assert rotated == expected
    new = await open_database(other_keys=NEW_RING)
    assert await new.sign_ins.find("browser-1") is not None
    assert await new.sign_ins.find("browser-2") is None


async def test_progress_is_told_after_each_batch(rows: Rows, open_database: Open) -> None:
    operator, told = await open_database(other_keys=BOTH), list[int]()
    total = sum(each.rows for each in await operator.key_rotation.counts())

    await operator.key_rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=told.append, batch_size=2)

    assert told == sorted(told)
    assert told[-1] == total
    assert len(told) > len(list(sealed_tables()))
