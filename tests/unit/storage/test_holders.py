"""Who holds living tokens of whom: for the account page, and for the operator."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import Fresh, Holder
from nextcloud_mcp_server.storage.records import Principal

HOUR = timedelta(hours=1)

Advance = Callable[[float], None]
Now = Callable[[], datetime]
Give = Callable[..., Awaitable[str]]


async def test_clients_that_hold_tokens_are_listed_the_longest_known_first(
    *, database: Database, give_tokens: Give, advance: Advance, now: Now, alice: Principal, bob: Principal
) -> None:
    began = now()
    await give_tokens(alice, "codex")
    await give_tokens(alice, "claude")
    await give_tokens(bob, "cursor")
    advance(60)
    await give_tokens(alice, "codex", family="2")

    assert await database.oauth_tokens.holders(alice) == [
        Holder("claude", began, began),
        Holder("codex", began, began + timedelta(minutes=1)),
    ]


async def test_the_last_use_is_the_last_refresh(
    *, database: Database, give_tokens: Give, advance: Advance, now: Now, alice: Principal
) -> None:
    began = now()
    await give_tokens(alice, "codex")
    advance(90)
    name = "alice codex 1"
    await database.oauth_tokens.rotate(
        f"refresh of {name}",
        client_id="codex",
        resource="https://mcp.example.org/mcp",
        scopes=None,
        successors=["refresh-2"],
        grace=HOUR,
        lifetime=90 * 24 * HOUR,
        fresh=Fresh(name, "refresh-2", "access-2", now() + 5 * HOUR, now() + HOUR),
    )

    assert await database.oauth_tokens.holders(alice) == [Holder("codex", began, now())]


async def test_a_client_without_valid_tokens_is_not_listed(
    *, database: Database, give_tokens: Give, advance: Advance, alice: Principal, bob: Principal
) -> None:
    await give_tokens(alice, "codex", hours=1)
    await give_tokens(alice, "claude")
    await give_tokens(bob, "codex")
    advance(HOUR.total_seconds())
    await database.oauth_tokens.end(alice, client_id="claude")

    assert await database.oauth_tokens.holders(alice) == []
    assert await database.oauth_tokens.count_users() == {"codex": 1}


async def test_people_are_counted_once_however_often_they_signed_in(
    *, database: Database, give_tokens: Give, alice: Principal, bob: Principal
) -> None:
    await give_tokens(alice, "codex")
    await give_tokens(alice, "codex", family="2")
    await give_tokens(bob, "codex")
    await give_tokens(bob, "claude")

    assert await database.oauth_tokens.count_users() == {"codex": 2, "claude": 1}
