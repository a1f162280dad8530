from collections.abc import Awaitable, Callable
from datetime import datetime

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, GrantRequest, Principal, SignedIn

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
GiveTokens = Callable[..., Awaitable[str]]
Depart = Callable[..., Awaitable[GrantRequest]]
SignIn = Callable[..., Awaitable[SignedIn]]


async def connect_two_clients(ask: Ask, complete: Complete, alice: Principal, bob: Principal) -> None:
    await complete(await ask())
    await complete(await ask(alice, client_id="codex"))
    await complete(await ask(bob), uid="bob", credential_id="credential-2")


async def test_pausing_stops_one_client_of_one_person_and_keeps_what_it_may_do(
    database: Database, ask: Ask, complete: Complete, alice: Principal, bob: Principal
) -> None:
    await connect_two_clients(ask, complete, alice, bob)

    await database.grants.set_paused(alice, "claude", paused=True)

    of_alice = {one.client_id: one for one in await database.grants.permissions(alice)}
    [of_bob] = await database.grants.permissions(bob)
    grant = await database.grants.find(alice, "claude")
    assert {name: one.paused for name, one in of_alice.items()} == {"claude": True, "codex": False}
    assert of_alice["claude"].scopes == {"notes:read"}
    assert not of_bob.paused
    assert grant is not None
    assert grant.permission == of_alice["claude"]


async def test_a_paused_client_goes_on_when_the_person_says_so_and_not_before(
    database: Database, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    await database.grants.set_paused(alice, "claude", paused=True)

    await complete(await ask(alice, "files:read"))
    [after_consent] = await database.grants.permissions(alice)
    await database.grants.set_paused(alice, "claude", paused=False)
    [at_last] = await database.grants.permissions(alice)

    assert after_consent.paused
    assert not at_last.paused
    assert at_last.scopes == {"notes:read", "files:read"}


async def test_one_client_of_one_person_can_be_removed(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    now: Callable[[], datetime],
    alice: Principal,
    bob: Principal,
) -> None:
    await connect_two_clients(ask, complete, alice, bob)

    removed = AuditEntry(now(), alice, "claude", "permission", "removed")
    ended = await database.grants.end_client(alice, "claude", audit=removed)
    again = await database.grants.end_client(alice, "claude", audit=removed)

    grant = await database.grants.find(alice, "claude")
    assert (ended, again) == (True, False)
    assert grant is not None
    assert grant.permission is None
    assert [one.client_id for one in await database.grants.permissions(alice)] == ["codex"]
    assert [one for one in await database.audit.recent(alice, 10) if one.action == "permission"] == [removed]
    assert [one.client_id for one in await database.grants.permissions(bob)] == ["claude"]


async def test_the_tokens_and_open_requests_of_a_removed_client_end_and_no_others(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    give_tokens: GiveTokens,
    entry: Callable[..., AuditEntry],
    alice: Principal,
    bob: Principal,
) -> None:
    await connect_two_clients(ask, complete, alice, bob)
    clients = {"hers": (alice, "claude"), "her other": (alice, "codex"), "his": (bob, "claude")}
    asked = {name: await ask(who, client_id=client_id) for name, (who, client_id) in clients.items()}
    access = {name: await give_tokens(who, client_id) for name, (who, client_id) in clients.items()}

    await database.grants.end_client(alice, "claude", audit=entry("permission"))

    signed_in = {name for name, token in access.items() if await database.oauth_tokens.find(token)}
    still_open = await database.elicitations.still_open([one.id for one in asked.values()])
    assert signed_in == {"her other", "his"}
    assert still_open == {asked["her other"].id, asked["his"].id}


async def test_a_user_who_was_made_again_is_signed_in_nowhere(
    *, database: Database, ask: Ask, complete: Complete, sign_in: SignIn, depart: Depart, bob: Principal
) -> None:
    await complete(await ask(), storage_id="7")
    await sign_in("browser-1")
    of_bob = await sign_in("browser-2", bob)
    again = await ask()
    await depart(again)

    await complete(again, storage_id="8")

    assert await database.sign_ins.find("browser-1") is None
    assert await database.sign_ins.find("browser-2") == of_bob
    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
