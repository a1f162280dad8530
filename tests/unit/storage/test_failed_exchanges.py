from collections.abc import Callable
from datetime import datetime

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import Principal


async def test_failures_are_counted_by_person_by_browser_and_in_total(
    database: Database, alice: Principal, bob: Principal, now: Callable[[], datetime]
) -> None:
    await database.failed_exchanges.failed(alice, sign_in="browser-1")
    await database.failed_exchanges.failed(alice, sign_in="browser-2")
    await database.failed_exchanges.failed(bob, sign_in="browser-2")

    count = database.failed_exchanges.count
    assert await count(since=now()) == 3
    assert await count(since=now(), principal=alice) == 2
    assert await count(since=now(), sign_in="browser-2") == 2
    assert await count(since=now(), principal=alice, sign_in="browser-2") == 1
    assert await count(since=now(), principal=bob, sign_in="browser-1") == 0


async def test_failures_are_counted_by_where_they_came_from(
    database: Database, alice: Principal, now: Callable[[], datetime]
) -> None:
    await database.failed_exchanges.failed(alice, sign_in="browser-1", source="one network")
    await database.failed_exchanges.failed(alice, sign_in="browser-1")

    count = database.failed_exchanges.count
    assert await count(since=now(), source="one network") == 1
    assert await count(since=now(), source="another") == 0


async def test_old_failures_do_not_count_and_are_forgotten(
    database: Database, alice: Principal, now: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    began = now()
    await database.failed_exchanges.failed(alice, sign_in="browser-1")
    advance(60)
    await database.failed_exchanges.failed(alice, sign_in="browser-1")

    recent = await database.failed_exchanges.count(since=now())
    await database.failed_exchanges.purge(before=now())

    assert recent == 1
    assert await database.failed_exchanges.count(since=began) == 1
