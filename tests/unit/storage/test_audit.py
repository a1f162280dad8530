from collections.abc import Awaitable, Callable

from pydantic import SecretStr

from nextcloud_mcp_server.storage.audit import UNREADABLE
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Principal

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


async def test_an_empty_batch_writes_nothing(database: Database, alice: Principal) -> None:
    await database.audit.append([])

    assert await database.audit.recent(alice, 10) == []


async def test_an_entry_outlives_the_key_of_its_detail(
    database: Database, entry: Entry, alice: Principal, open_database: Callable[..., Awaitable[Database]]
) -> None:
    await database.audit.append([entry("one", detail="secret.txt")])
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    [line] = await without_key.audit.recent(alice, 10)

    assert (line.action, line.detail) == ("one", UNREADABLE)
