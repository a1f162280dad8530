"""Who holds living tokens of whom: for the account page, and for the operator."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, Fresh, Given, Holder
from nextcloud_mcp_server.storage.records import Principal

HOUR = timedelta(hours=1)
RESOURCE = "https://mcp.example.org/mcp"

Advance = Callable[[float], None]
Now = Callable[[], datetime]
Give = Callable[..., Awaitable[None]]


@pytest.fixture
def give(database: Database, now: Now) -> Give:
    """Give a user's client tokens that live for so many hours."""

    async def factory(principal: Principal, client_id: str, *, hours: int = 5, family: str = "1") -> None:
        name = f"{principal.subject} {client_id} {family}"
        grant = CodeGrant(client_id, principal, "uri", frozenset(), "challenge", RESOURCE, None)
        await database.oauth_tokens.add_code(name, grant, expires_at=now() + HOUR)
        fresh = Fresh(name, f"refresh of {name}", f"access of {name}", now() + hours * HOUR, now() + HOUR)
        given = await database.oauth_tokens.exchange_code(
            name, client_id=client_id, fits=lambda _: True, fresh=fresh
        )
        assert isinstance(given, Given)

    return factory


async def test_clients_that_hold_tokens_are_listed_the_longest_known_first(
    *, database: Database, give: Give, advance: Advance, now: Now, alice: Principal, bob: Principal
) -> None:
    began = now()
    await give(alice, "codex")
    await give(alice, "claude")
    await give(bob, "cursor")
    advance(60)
    await give(alice, "codex", family="2")

    assert await database.oauth_tokens.holders(alice) == [
        Holder("claude", began, began),
        Holder("codex", began, began + timedelta(minutes=1)),
    ]


async def test_the_last_use_is_the_last_refresh(
    *, database: Database, give: Give, advance: Advance, now: Now, alice: Principal
) -> None:
    began = now()
    await give(alice, "codex")
    advance(90)
    name = "alice codex 1"
    await database.oauth_tokens.rotate(
        f"refresh of {name}",
        client_id="codex",
        resource=RESOURCE,
        scopes=None,
        successors=["refresh-2"],
        grace=HOUR,
        lifetime=90 * 24 * HOUR,
        fresh=Fresh(name, "refresh-2", "access-2", now() + 5 * HOUR, now() + HOUR),
    )

    assert await database.oauth_tokens.holders(alice) == [Holder("codex", began, now())]


async def test_a_client_without_valid_tokens_is_not_listed(
    *, database: Database, give: Give, advance: Advance, alice: Principal, bob: Principal
) -> None:
    await give(alice, "codex", hours=1)
    await give(alice, "claude")
    await give(bob, "codex")
    advance(HOUR.total_seconds())
    await database.oauth_tokens.end(alice, client_id="claude")

    assert await database.oauth_tokens.holders(alice) == []
    assert await database.oauth_tokens.people() == {"codex": 1}


async def test_people_are_counted_once_however_often_they_signed_in(
    *, database: Database, give: Give, alice: Principal, bob: Principal
) -> None:
    await give(alice, "codex")
    await give(alice, "codex", family="2")
    await give(bob, "codex")
    await give(bob, "claude")

    assert await database.oauth_tokens.people() == {"codex": 2, "claude": 1}
