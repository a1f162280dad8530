"""After a backup was put back, nothing of what was signed out, used or answered since counts again."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, Fresh, Refused
from nextcloud_mcp_server.storage.post_restore import Forgotten
from nextcloud_mcp_server.storage.records import (
    Elicitation,
    ElicitationState,
    GrantRequest,
    PendingGrant,
    Principal,
    SignedIn,
)
from tests.sign_in_fixtures import URL, outbox


async def test_access_stays_and_all_tokens_and_sessions_end(
    *,
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    sign_in: Callable[..., Awaitable[SignedIn]],
    depart: Callable[..., Awaitable[GrantRequest]],
    hold: Callable[..., Awaitable[PendingGrant]],
    alice: Principal,
    bob: Principal,
    now: Callable[[], datetime],
) -> None:
    await complete(await ask())
    for token in ("browser-1", "browser-2"):
        await sign_in(token)
    asked = await ask(bob)
    await depart(asked)
    await hold(asked)
    soon = now() + timedelta(hours=1)
    grant = CodeGrant("codex", alice, "uri", frozenset(), "challenge", "resource", None)
    for code in ("used", "waiting"):
        await database.oauth_tokens.add_code(code, grant, expires_at=soon)
    fresh = Fresh("family", "refresh", "access", soon, soon)
    await database.oauth_tokens.exchange_code("used", client_id="codex", fits=lambda _: True, fresh=fresh)

    forgotten = await database.restored.forget()

    assert forgotten == Forgotten(clients=1, browsers=2)
    assert await database.grants.find(alice, "claude") is not None
    assert await database.sign_ins.find("browser-1") is None
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.pending_grants.release_due(nextcloud_url=URL) == 1
    assert await outbox(database) == ["access-1"]
    ended = await database.elicitations.find(asked.id)
    assert ended is not None
    assert ended.state is ElicitationState.EXPIRED
    assert await database.oauth_tokens.find("access") is None
    assert await database.oauth_tokens.exchange_code(
        "waiting", client_id="codex", fits=lambda _: True, fresh=fresh
    ) == Refused("unknown")
    assert [entry.result for entry in await database.audit.recent(alice, 1)] == [
        "ended: a backup was put back"
    ]


async def test_where_nothing_was_there_is_nothing_to_forget(database: Database) -> None:
    assert await database.restored.forget() == Forgotten(clients=0, browsers=0)
