from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from nextcloud_mcp_server.errors import Unsealable, WrongAccount
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    ElicitationState,
    GrantRequest,
    LoginFlow,
    LoginResult,
    OutboxItem,
    Principal,
)

Ask = Callable[..., Awaitable[Elicitation]]
Start = Callable[..., Awaitable[LoginFlow]]
Complete = Callable[..., Awaitable[bool]]
Open = Callable[..., Awaitable[Database]]


async def outbox_of(database: Database) -> list[OutboxItem]:
    return await database.outbox.lease_due(owner="test", lease=timedelta(seconds=1))


async def test_no_user_is_connected_at_first(database: Database, alice: Principal) -> None:
    assert await database.grants.find(alice, "claude") is None
    assert await database.grants.all() == []
    assert await database.grants.permissions(alice) == []


async def test_a_finished_consent_request_becomes_a_grant(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    asked = await ask()
    flow = await start(asked)

    stored = await complete(asked, flow)

    grant = await database.grants.find(alice, "claude")
    ended = await database.elicitations.find(asked.id)
    assert stored
    assert grant is not None
    assert (grant.account.uid, grant.account.display_name) == ("alice", "Alice")
    assert grant.credential.login_name == "alice@example.org"
    assert grant.credential.secret.get_secret_value() == "app-password"
    assert grant.credential.account_id == grant.account.id
    assert grant.permission is not None
    assert grant.permission.scopes == asked.scopes
    assert ended is not None
    assert (ended.state, ended.account_name) == (ElicitationState.COMPLETE, "Alice")
    assert await database.login_flows.find(asked.id) is None
    assert [line.action for line in await database.audit.recent(alice, 10)] == ["grant"]
    assert await database.grants.all() == [grant]


async def test_a_grant_is_found_with_one_query(
    database: Database, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    statements: list[str] = []

    def record(connection: Connection, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", record)
    try:
        await database.grants.find(alice, "claude")
    finally:
        event.remove(Engine, "before_cursor_execute", record)

    assert len(statements) == 1


@pytest.mark.parametrize(
    "state", [ElicitationState.DECLINED, ElicitationState.FAILED, ElicitationState.COMPLETE]
)
async def test_nothing_is_stored_for_a_request_that_has_ended(
    database: Database, ask: Ask, complete: Complete, alice: Principal, state: ElicitationState
) -> None:
    asked = await ask()
    await database.elicitations.finish(asked.id, state)

    assert not await complete(asked)

    assert await database.grants.find(alice, "claude") is None
    assert await database.audit.recent(alice, 10) == []


async def test_nothing_is_stored_after_the_time_of_a_request(
    database: Database, ask: Ask, complete: Complete, alice: Principal, advance: Callable[[float], None]
) -> None:
    asked = await ask()
    advance(600)

    assert not await complete(asked)
    assert await database.grants.find(alice, "claude") is None


async def test_a_person_is_pinned_to_the_first_account(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    before = await database.grants.find(alice, "claude")
    again = await ask(alice, "files:read")
    flow = await start(again)

    with pytest.raises(WrongAccount, match="'alice' is connected here"):
        await complete(again, flow, uid="mallory", credential_id="credential-2", secret="of mallory")

    pending = await database.elicitations.find(again.id)
    assert await database.grants.find(alice, "claude") == before
    assert await outbox_of(database) == []
    assert pending is not None
    assert pending.state is ElicitationState.PENDING
    assert await database.login_flows.find(again.id) == flow


async def test_a_person_is_pinned_to_the_first_nextcloud(
    ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())

    with pytest.raises(WrongAccount):
        await complete(await ask(alice, "files:read"), nextcloud_url="https://other.example.org")


async def test_an_account_belongs_to_one_person(
    database: Database, ask: Ask, complete: Complete, bob: Principal
) -> None:
    await complete(await ask())

    with pytest.raises(WrongAccount, match="another person"):
        await complete(await ask(bob), uid="alice", credential_id="credential-2")

    assert await database.grants.find(bob, "claude") is None


async def test_two_people_have_grants_of_their_own(
    database: Database, ask: Ask, complete: Complete, alice: Principal, bob: Principal
) -> None:
    await complete(await ask())
    await complete(await ask(bob), uid="bob", credential_id="credential-2", secret="of bob")

    first = await database.grants.find(alice, "claude")
    second = await database.grants.find(bob, "claude")

    assert first is not None
    assert second is not None
    assert (first.account.uid, second.account.uid) == ("alice", "bob")
    assert await database.grants.all() == [first, second]


async def test_a_replaced_credential_goes_to_the_outbox(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    again = await ask(alice, "files:read")

    await complete(again, await start(again), credential_id="credential-2", secret="new")

    grant = await database.grants.find(alice, "claude")
    [work] = await outbox_of(database)
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "new"
    assert grant.credential.version == 2
    assert grant.permission is not None
    assert grant.permission.scopes == {"notes:read", "files:read"}
    assert (work.kind, work.login_name) == ("delete_app_password", "alice@example.org")
    assert work.secret.get_secret_value() == "app-password"


async def test_the_same_secret_is_not_deleted_at_nextcloud(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    again = await ask(alice, "files:read")

    await complete(again, await start(again), credential_id="credential-2")

    assert await outbox_of(database) == []


async def test_a_second_client_needs_no_new_credential(
    database: Database, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    first = await database.grants.find(alice, "claude")
    unused = await database.grants.find(alice, "codex")

    await complete(await ask(alice, client_id="codex"), credential_id="credential-1")

    second = await database.grants.find(alice, "codex")
    assert first is not None
    assert unused is not None
    assert unused.permission is None
    assert second is not None
    assert second.credential == first.credential
    assert [permission.client_id for permission in await database.grants.permissions(alice)] == [
        "claude",
        "codex",
    ]
    assert len(await database.grants.all()) == 2


async def test_a_credential_that_was_read_before_never_replaces_a_newer_one(
    *,
    database: Database,
    ask: Ask,
    start: Start,
    complete: Complete,
    alice: Principal,
    now: Callable[[], datetime],
    advance: Callable[[float], None],
) -> None:
    await complete(await ask())
    read_at = now()
    advance(1)
    renewed = await ask(alice, "files:read")
    await complete(renewed, await start(renewed), credential_id="credential-2", secret="newer")

    await complete(await ask(alice, client_id="codex"), created_at=read_at)

    grant = await database.grants.find(alice, "codex")
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "newer"


async def test_a_newer_credential_without_a_flow_replaces_the_stored_one(
    database: Database, ask: Ask, complete: Complete, alice: Principal, advance: Callable[[float], None]
) -> None:
    await complete(await ask())
    advance(1)

    await complete(await ask(alice, "files:read"), credential_id="credential-2", secret="given")

    grant = await database.grants.find(alice, "claude")
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "given"


async def test_a_flow_that_was_not_needed_is_to_be_discarded(
    database: Database, ask: Ask, start: Start, complete: Complete
) -> None:
    asked = await ask()
    await start(asked)

    await complete(asked, None)

    flow = await database.login_flows.find(asked.id)
    assert flow is not None
    assert flow.discard


async def test_a_user_who_was_made_again_starts_without_permissions(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    await complete(await ask(), storage_id="7")
    other = await ask(alice, client_id="codex")
    again = await ask(alice, "files:read")

    await complete(again, await start(again), storage_id="8", credential_id="credential-2", secret="new")

    grant = await database.grants.find(alice, "claude")
    ended = await database.elicitations.find(other.id)
    assert grant is not None
    assert grant.account.storage_id == "8"
    assert grant.permission is not None
    assert grant.permission.scopes == {"files:read"}
    assert ended is not None
    assert ended.state is ElicitationState.EXPIRED


@pytest.mark.parametrize("second", ["7", None])
async def test_a_home_that_is_the_same_or_unknown_changes_nothing(
    database: Database, ask: Ask, complete: Complete, alice: Principal, second: str | None
) -> None:
    await complete(await ask(), storage_id="7")

    await complete(await ask(alice, "files:read"), storage_id=second)

    grant = await database.grants.find(alice, "claude")
    assert grant is not None
    assert grant.account.storage_id == "7"
    assert grant.permission is not None
    assert grant.permission.scopes == {"notes:read", "files:read"}


async def test_a_refused_credential_is_marked_once_and_only_in_the_version_that_was_used(
    database: Database, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())

    answers = [
        await database.grants.mark_needs_reauth("credential-1", version=version) for version in (7, 1, 1)
    ]

    grant = await database.grants.find(alice, "claude")
    assert answers == [False, True, False]
    assert grant is not None
    assert grant.credential.needs_reauth
    assert grant.credential.version == 2


@pytest.mark.parametrize("version", [1, 7])
async def test_a_credential_that_is_given_up_is_ended_later_if_it_is_still_the_one(
    database: Database, ask: Ask, complete: Complete, alice: Principal, version: int
) -> None:
    await complete(await ask())

    marked = await database.grants.mark_needs_reauth(
        "credential-1", version=version, end_after=timedelta(hours=1)
    )

    assert marked == (version == 1)
    assert await outbox_of(database) == []
    assert await database.outbox.holds(alice) == (version == 1)


async def test_what_is_not_there_or_cannot_be_opened_is_not_ended(
    database: Database, ask: Ask, complete: Complete, open_database: Open, alice: Principal
) -> None:
    await complete(await ask())
    stranger = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    nothing = await database.grants.mark_needs_reauth("other", version=1, end_after=timedelta(hours=1))
    marked = await stranger.grants.mark_needs_reauth("credential-1", version=1, end_after=timedelta(hours=1))

    assert (nothing, marked) == (False, True)
    assert not await database.outbox.holds(alice)


async def test_a_refused_credential_is_not_sent_to_nextcloud_again(
    database: Database, ask: Ask, start: Start, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())
    await database.grants.mark_needs_reauth("credential-1", version=1)
    again = await ask(alice, "files:read")

    await complete(again, await start(again), credential_id="credential-2", secret="new")

    grant = await database.grants.find(alice, "claude")
    assert await outbox_of(database) == []
    assert grant is not None
    assert not grant.credential.needs_reauth
    assert grant.credential.version == 3


async def test_disconnecting_takes_back_everything_but_the_pin(
    *,
    database: Database,
    ask: Ask,
    start: Start,
    complete: Complete,
    alice: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await complete(await ask())
    pending = await ask(alice, client_id="codex")
    flow = await start(pending)
    await database.login_flows.save_result(flow.id, LoginResult("alice", SecretStr("late")))

    ended = await database.grants.disconnect(alice, audit=entry("disconnect"))

    [work] = await outbox_of(database)
    shown = await database.elicitations.find(pending.id)
    late = await database.login_flows.find(pending.id)
    assert ended is not None
    assert ended.credential.secret.get_secret_value() == "app-password"
    assert await database.grants.find(alice, "claude") is None
    assert await database.grants.permissions(alice) == []
    assert work.secret.get_secret_value() == "app-password"
    assert shown is not None
    assert shown.state is ElicitationState.EXPIRED
    assert late is not None
    assert late.discard
    assert [line.action for line in await database.audit.recent(alice, 1)] == ["disconnect"]
    again = await ask()
    with pytest.raises(WrongAccount):
        await complete(again, await start(again), uid="mallory")


async def test_a_browser_that_is_at_nextcloud_during_a_disconnect_connects_nothing(
    *,
    database: Database,
    ask: Ask,
    depart: Callable[..., Awaitable[GrantRequest]],
    alice: Principal,
    bob: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await depart(await ask())
    of_bob = await depart(await ask(bob), state="state-2")

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    assert await database.grant_requests.take("state-1", sign_in="browser-1") is None
    assert await database.grant_requests.take("state-2", sign_in="browser-1") == of_bob


async def test_disconnecting_twice_finds_nothing_the_second_time(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    alice: Principal,
    bob: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await complete(await ask())
    await complete(await ask(bob), uid="bob", credential_id="credential-2")

    first = await database.grants.disconnect(alice, audit=entry("disconnect"))
    second = await database.grants.disconnect(alice, audit=entry("disconnect"))

    assert first is not None
    assert second is None
    assert len(await outbox_of(database)) == 1
    assert await database.grants.find(bob, "claude") is not None
    assert [line.action for line in await database.audit.recent(alice, 10)] == ["disconnect", "grant"]


async def test_scopes_can_be_replaced_for_one_client(
    database: Database, ask: Ask, complete: Complete, alice: Principal, bob: Principal
) -> None:
    await complete(await ask())
    await complete(await ask(bob), uid="bob", credential_id="credential-2")

    await database.grants.set_scopes(alice, "claude", frozenset({"files:read"}))

    assert [permission.scopes for permission in await database.grants.permissions(alice)] == [{"files:read"}]
    assert [permission.scopes for permission in await database.grants.permissions(bob)] == [{"notes:read"}]


async def test_the_time_of_last_use_only_moves_forward(
    database: Database, ask: Ask, complete: Complete, alice: Principal, now: Callable[[], datetime]
) -> None:
    await complete(await ask())

    await database.grants.touch(alice, "claude", now() + timedelta(hours=1))
    await database.grants.touch(alice, "claude", now())

    [permission] = await database.grants.permissions(alice)
    assert permission.last_used_at == now() + timedelta(hours=1)


async def test_a_missing_key_disables_the_grant_and_a_new_consent_repairs_it(
    ask: Ask, start: Start, complete: Complete, open_database: Open, alice: Principal
) -> None:
    await complete(await ask())
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await without_key.grants.find(alice, "claude")
    assert await without_key.grants.all() == []
    assert await without_key.grants.permissions(alice) == []
    again = await ask(through=without_key)
    await complete(again, through=without_key, credential_id="credential-2", secret="new")

    grant = await without_key.grants.find(alice, "claude")
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "new"
    assert await outbox_of(without_key) == []


async def test_a_grant_whose_key_is_missing_can_be_disconnected(
    ask: Ask, complete: Complete, open_database: Open, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    await complete(await ask())
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    ended = await without_key.grants.disconnect(alice, audit=entry("disconnect"))

    assert ended is not None
    assert (ended.account.uid, ended.account.display_name) == ("alice", "alice")
    assert not ended.credential.secret
    assert await without_key.grants.find(alice, "claude") is None
    assert await outbox_of(without_key) == []
