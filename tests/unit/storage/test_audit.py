from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.audit import UNREADABLE
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from tests.sealed_rows import sealed_values

Entry = Callable[..., AuditEntry]


async def test_a_batch_is_read_back_newest_first_and_no_more_than_asked_for(
    database: Database, entry: Entry, alice: Principal
) -> None:
    entries = [entry(action, detail=f"file {action}") for action in ("one", "two", "three")]

    await database.audit.append(entries)

    assert await database.audit.recent(alice, 10) == entries[::-1]
    assert await database.audit.recent(alice, 2) == [entries[2], entries[1]]


async def test_no_user_reads_the_entries_of_others(
    database: Database, entry: Entry, alice: Principal, bob: Principal
) -> None:
    await database.audit.append([entry("one", alice), entry("two", bob)])

    assert [line.action for line in await database.audit.recent(bob, 10)] == ["two"]


async def test_a_subject_is_found_at_every_issuer_once(
    database: Database, entry: Entry, alice: Principal, bob: Principal
) -> None:
    elsewhere = Principal(f"{alice.issuer}/other", alice.subject)
    await database.audit.append(
        [entry("one", alice), entry("two", alice), entry("three", elsewhere), entry("four", bob)]
    )

    assert await database.audit.with_subject(alice.subject) == [alice, elsewhere]
    assert await database.audit.with_subject("nobody") == []


async def test_an_entry_names_its_object_or_none_and_the_name_is_sealed(
    database: Database, entry: Entry, alice: Principal, url: str
) -> None:
    await database.audit.append([entry("one", object_name="Budget"), entry("two")])

    assert [line.object_name for line in await database.audit.recent(alice, 10)] == ["", "Budget"]
    stored = (await sealed_values(url))["audit", "object_name"]
    assert len(stored) == 1
    assert b"Budget" not in stored[0].value


async def test_an_empty_batch_writes_nothing(database: Database, alice: Principal) -> None:
    await database.audit.append([])

    assert await database.audit.recent(alice, 10) == []


async def test_an_entry_outlives_the_key_of_its_detail(
    database: Database, entry: Entry, alice: Principal, open_database: Callable[..., Awaitable[Database]]
) -> None:
    await database.audit.append([entry("one", detail="secret.txt", object_name="Budget")])
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    [line] = await without_key.audit.recent(alice, 10)

    assert (line.action, line.detail, line.object_name) == ("one", UNREADABLE, "")


async def test_the_operator_reads_everybodys_entries_page_by_page(
    database: Database, entry: Entry, alice: Principal, bob: Principal
) -> None:
    await database.audit.append([entry(f"{number}", (alice, bob)[number % 2]) for number in range(5)])

    first = await database.audit.latest(limit=2)
    rest = await database.audit.latest(limit=10, before=first[-1].number)

    assert [found.entry.action for found in first] == ["4", "3"]
    assert [found.entry.action for found in rest] == ["2", "1", "0"]
    assert rest[1].entry.principal == bob


async def test_the_operator_reads_the_entries_of_a_time_or_of_some_people(
    database: Database, entry: Entry, alice: Principal, bob: Principal, advance: Callable[[float], None]
) -> None:
    await database.audit.append([entry("one", alice), entry("two", bob)])
    advance(60)
    await database.audit.append([late := entry("three", alice)])

    async def actions(*, since: datetime | None = None, people: list[Principal] | None = None) -> list[str]:
        found = await database.audit.latest(limit=10, since=since, people=people)
        return [each.entry.action for each in found]

    assert await actions(since=late.at) == ["three"]
    assert await actions(people=[alice]) == ["three", "one"]
    assert await actions(since=late.at, people=[bob]) == []
    assert await actions(people=[]) == []


@pytest.mark.parametrize("number", [3, 2_500])
async def test_old_entries_are_deleted_and_later_ones_stay(
    database: Database, entry: Entry, alice: Principal, advance: Callable[[float], None], number: int
) -> None:
    await database.audit.append([entry("old") for _ in range(number)])
    advance(60)
    await database.audit.append([late := entry("late")])

    assert await database.audit.purge(before=late.at) == number
    assert await database.audit.purge(before=late.at) == 0
    assert await database.audit.recent(alice, 5_000) == [late]


async def test_numbers_never_return_though_all_entries_are_old(
    database: Database, entry: Entry, alice: Principal, now: Callable[[], datetime]
) -> None:
    # A server looks for entries with a greater number than the last that it saw.
    await database.audit.append([entry("one"), entry("two")])
    last = await database.audit.last_number()

    await database.audit.purge(before=now() + timedelta(days=1))
    await database.audit.append([entry("three")])

    assert await database.audit.last_number() > last
    assert [line.action for line in await database.audit.recent(alice, 10)] == ["three", "two"]
