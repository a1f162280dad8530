from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.spent_codes import KEPT
from tests import sign_in_fixtures

CODE, ANOTHER = "code-of-the-victim", "another-code"


Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]


async def count(execute: Execute) -> int:
    return len(await execute("SELECT * FROM spent_codes"))


async def test_a_spent_code_stays_spent_and_no_other_code_is(database: Database) -> None:
    await database.spent_codes.spend([CODE])

    assert await database.spent_codes.is_spent(CODE)
    assert not await database.spent_codes.is_spent(ANOTHER)


async def test_a_code_may_be_spent_twice_and_beside_others(database: Database, execute: Execute) -> None:
    for codes in ([CODE], [CODE, ANOTHER, CODE], [CODE]):
        await database.spent_codes.spend(codes)

    assert await database.spent_codes.is_spent(ANOTHER)
    assert await count(execute) == 2


async def test_no_code_is_no_row(database: Database, execute: Execute) -> None:
    await database.spent_codes.spend([])

    assert await count(execute) == 0


async def test_spent_codes_are_forgotten_when_no_code_lives_so_long(
    database: Database, execute: Execute, advance: Callable[[float], None]
) -> None:
    await database.spent_codes.spend([CODE])
    advance(KEPT.total_seconds())

    await database.spent_codes.spend([ANOTHER])

    assert await count(execute) == 1
    assert not await database.spent_codes.is_spent(CODE)


async def test_the_database_holds_no_code(database: Database, execute: Execute) -> None:
    await database.spent_codes.spend([CODE])

    assert CODE not in str(await execute("SELECT * FROM spent_codes"))


async def test_a_sign_in_ends_with_its_code_whichever_browser_began_it(
    database: Database, now: Callable[[], datetime]
) -> None:
    await database.auth_transactions.create(sign_in_fixtures.leaving(now), state="c-state", browser="browser")

    first = await database.auth_transactions.end("c-state", codes=[CODE])
    second = await database.auth_transactions.end("c-state", codes=[ANOTHER])

    assert (first, second) == (True, False)
    assert await database.spent_codes.is_spent(CODE)
    assert not await database.spent_codes.is_spent(ANOTHER)
    assert await database.auth_transactions.take("c-state", browser="browser") is None
