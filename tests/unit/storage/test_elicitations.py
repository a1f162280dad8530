import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Elicitation,
    ElicitationState,
    LoginFlow,
    Principal,
)

Ask = Callable[..., Awaitable[Elicitation]]
Open = Callable[..., Awaitable[Database]]
Start = Callable[..., Awaitable[LoginFlow]]

FINAL = [state for state in ElicitationState if state.final]

BOB = Failure("other_connected", {"answered": "bob", "connected": "alice"})


async def test_a_new_request_is_pending_and_found_by_its_id(
    database: Database, ask: Ask, alice: Principal
) -> None:
    asked = await ask()

    found = await database.elicitations.find(asked.id)

    assert found == asked
    assert asked.principal == alice
    assert asked.state is ElicitationState.PENDING
    assert asked.url.endswith(asked.id)
    assert re.fullmatch(r"[0-9a-f-]{36}", asked.id)
    assert asked.expires_at - asked.created_at == timedelta(minutes=10)


async def test_an_unknown_id_is_not_found(database: Database, ask: Ask) -> None:
    await ask()

    assert await database.elicitations.find("unknown") is None
    assert not await database.elicitations.mark_opened("unknown")
    assert not await database.elicitations.finish("unknown", ElicitationState.DECLINED)
    await database.elicitations.set_url("unknown", "https://nowhere.example.org")
    await database.elicitations.set_failure("unknown", Failure("not_accepted"))


async def test_an_open_request_is_used_again_while_it_covers_the_scopes(ask: Ask, alice: Principal) -> None:
    wide = await ask(alice, "notes:read", "notes:write")

    again = await ask(alice, "notes:read")

    assert again == wide


async def test_the_second_part_of_the_answer_says_whether_it_is_new(
    database: Database, alice: Principal
) -> None:
    answers = [
        await database.elicitations.open(
            principal=alice,
            client_id="claude",
            client_name="Claude",
            kind="provision",
            scopes=frozenset({"notes:read"}),
            ttl=timedelta(minutes=10),
            new_url=str.upper,
        )
        for _ in range(2)
    ]

    assert [created for _, created in answers] == [True, False]


async def test_an_open_request_is_widened_in_place(database: Database, ask: Ask, alice: Principal) -> None:
    narrow = await ask(alice, "notes:read")

    wide = await ask(alice, "files:read")

    assert (wide.id, wide.url) == (narrow.id, narrow.url)
    assert wide.scopes == {"notes:read", "files:read"}
    assert await database.elicitations.find(narrow.id) == wide


async def test_a_request_the_person_is_at_is_widened_and_its_flow_goes_on(
    database: Database, ask: Ask, start: Start, alice: Principal
) -> None:
    narrow = await ask(alice, "notes:read")
    flow = await start(narrow)

    wide = await ask(alice, "files:read")

    assert wide.id == narrow.id
    assert wide.scopes == {"notes:read", "files:read"}
    assert await database.login_flows.find(narrow.id) == flow


async def test_people_clients_and_kinds_have_requests_of_their_own(
    ask: Ask, alice: Principal, bob: Principal
) -> None:
    asked = [
        await ask(alice),
        await ask(bob),
        await ask(alice, client_id="codex"),
        await ask(alice, kind="reauth"),
        await ask(Principal("https://other.example.org", alice.subject)),
    ]

    assert len({elicitation.id for elicitation in asked}) == 5


async def test_an_expired_request_is_shown_as_expired_and_replaced(
    database: Database, ask: Ask, advance: Callable[[float], None], alice: Principal
) -> None:
    old = await ask()
    advance(600)

    shown = await database.elicitations.find(old.id)
    new = await ask()

    assert shown is not None
    assert shown.state is ElicitationState.EXPIRED
    assert new.id != old.id
    assert (
        await database.elicitations.find_active(principal=alice, client_id="claude", kind="provision") == new
    )


async def test_the_open_request_is_found_by_person_client_and_kind(
    database: Database, ask: Ask, advance: Callable[[float], None], alice: Principal, bob: Principal
) -> None:
    asked = await ask()

    assert (
        await database.elicitations.find_active(principal=alice, client_id="claude", kind="provision")
        == asked
    )
    assert (
        await database.elicitations.find_active(principal=bob, client_id="claude", kind="provision") is None
    )
    advance(600)
    assert (
        await database.elicitations.find_active(principal=alice, client_id="claude", kind="provision") is None
    )


async def test_of_many_requests_those_that_have_not_ended_are_found_at_once(
    *, database: Database, open_database: Open, ask: Ask, alice: Principal, bob: Principal
) -> None:
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))
    still_open = [await ask(alice), await ask(bob)]
    ended = await ask(alice, client_id="other")
    await database.elicitations.finish(ended.id, ElicitationState.DECLINED)
    over = await ask(bob, client_id="other", ttl=timedelta())
    ids = [elicitation.id for elicitation in (*still_open, ended, over)]

    found = await database.elicitations.still_open([*ids, "unknown"])

    assert found == {elicitation.id for elicitation in still_open}
    assert await database.elicitations.still_open(ids, within=alice) == {still_open[0].id}
    assert await without_key.elicitations.still_open(ids) == set()
    assert await database.elicitations.still_open([]) == set()


async def test_disconnecting_ends_the_open_requests_of_that_person_alone(
    database: Database, ask: Ask, alice: Principal, bob: Principal
) -> None:
    hers, his = await ask(alice), await ask(bob)

    await database.grants.disconnect(
        alice, audit=AuditEntry(hers.created_at, alice, "", "disconnect", "done")
    )

    assert await database.elicitations.still_open([hers.id, his.id]) == {his.id}


async def test_a_url_can_be_set_later(database: Database, ask: Ask) -> None:
    asked = await ask()

    await database.elicitations.set_url(asked.id, "https://cloud.example.org/login/v2/flow/x")

    found = await database.elicitations.find(asked.id)
    assert found is not None
    assert found.url == "https://cloud.example.org/login/v2/flow/x"


async def test_what_went_wrong_is_kept_while_a_request_is_open_and_no_longer(
    database: Database, ask: Ask
) -> None:
    asked = await ask()

    await database.elicitations.set_failure(asked.id, BOB)
    opened = await database.elicitations.find(asked.id)
    await database.elicitations.finish(asked.id, ElicitationState.COMPLETE)
    await database.elicitations.set_failure(asked.id, Failure("took_too_long"))

    ended = await database.elicitations.find(asked.id)
    assert opened is not None
    assert (opened.state, opened.failure) == (ElicitationState.PENDING, BOB)
    assert ended is not None
    assert (ended.state, ended.failure) == (ElicitationState.COMPLETE, None)


async def test_a_request_is_opened_once(database: Database, ask: Ask) -> None:
    asked = await ask()

    answers = [await database.elicitations.mark_opened(asked.id) for _ in range(2)]

    found = await database.elicitations.find(asked.id)
    assert answers == [True, False]
    assert found is not None
    assert found.state is ElicitationState.OPENED


async def test_an_expired_request_is_not_opened(
    database: Database, ask: Ask, advance: Callable[[float], None]
) -> None:
    asked = await ask()
    advance(600)

    assert not await database.elicitations.mark_opened(asked.id)


@pytest.mark.parametrize("first", FINAL)
@pytest.mark.parametrize("second", FINAL)
async def test_a_final_state_is_reached_once(
    database: Database, ask: Ask, first: ElicitationState, second: ElicitationState
) -> None:
    asked = await ask()
    await database.elicitations.mark_opened(asked.id)

    answers = [await database.elicitations.finish(asked.id, state) for state in (first, second)]

    found = await database.elicitations.find(asked.id)
    assert answers == [True, False]
    assert found is not None
    assert found.state is first
    assert not await database.elicitations.mark_opened(asked.id)


async def test_finishing_stores_error_account_and_audit(
    database: Database, ask: Ask, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    asked = await ask()

    await database.elicitations.finish(
        asked.id, ElicitationState.FAILED, failure=BOB, account_name="alice", audit=entry("failed")
    )
    await database.elicitations.finish(asked.id, ElicitationState.DECLINED, audit=entry("declined"))

    found = await database.elicitations.find(asked.id)
    assert found is not None
    assert (found.failure, found.account_name) == (BOB, "alice")
    assert [line.action for line in await database.audit.recent(alice, 10)] == ["failed"]


@pytest.mark.parametrize("state", FINAL)
async def test_what_a_flow_brings_is_kept_only_when_the_request_is_complete(
    database: Database, ask: Ask, start: Start, state: ElicitationState
) -> None:
    asked = await ask()
    await start(asked)

    await database.elicitations.finish(asked.id, state)

    flow = await database.login_flows.find(asked.id)
    assert flow is not None
    assert flow.discard is (state is not ElicitationState.COMPLETE)


@pytest.mark.parametrize("state", FINAL)
async def test_the_time_of_completion_is_stored_for_complete_requests_alone(
    *,
    database: Database,
    ask: Ask,
    advance: Callable[[float], None],
    now: Callable[[], datetime],
    state: ElicitationState,
) -> None:
    asked = await ask()
    advance(30)

    await database.elicitations.finish(asked.id, state)
    at = now()
    advance(30)

    ended = await database.elicitations.find(asked.id)
    assert ended is not None
    assert ended.completed_at == (at if state is ElicitationState.COMPLETE else None)


async def test_after_its_time_a_request_can_only_expire(
    database: Database, ask: Ask, advance: Callable[[float], None]
) -> None:
    asked = await ask()
    advance(600)

    assert not await database.elicitations.finish(asked.id, ElicitationState.COMPLETE)
    assert await database.elicitations.finish(asked.id, ElicitationState.EXPIRED)


async def test_due_requests_expire_together_and_their_ids_are_answered(
    *,
    database: Database,
    ask: Ask,
    start: Start,
    advance: Callable[[float], None],
    alice: Principal,
    bob: Principal,
) -> None:
    due = [await ask(alice), await ask(bob)]
    await start(due[0])
    later = await ask(alice, client_id="codex", ttl=timedelta(hours=1))
    advance(600)

    expired = await database.elicitations.expire_due()

    flow = await database.login_flows.find(due[0].id)
    assert sorted(expired) == sorted(elicitation.id for elicitation in due)
    assert await database.elicitations.expire_due() == []
    assert await database.elicitations.find(later.id) == later
    assert flow is not None
    assert flow.discard


async def test_a_missing_key_disables_the_row_and_makes_room_for_a_new_one(
    *,
    database: Database,
    ask: Ask,
    open_database: Callable[..., Awaitable[Database]],
    advance: Callable[[float], None],
    alice: Principal,
    bob: Principal,
) -> None:
    old, other = await ask(alice), await ask(bob)
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await without_key.elicitations.find(old.id)
    assert (
        await without_key.elicitations.find_active(principal=alice, client_id="claude", kind="provision")
        is None
    )
    new = await ask(alice, through=without_key)
    advance(600)

    assert new.id != old.id
    assert await without_key.elicitations.expire_due() == [new.id]
    shown = await database.elicitations.find(other.id)
    assert shown is not None
    assert shown.state is ElicitationState.EXPIRED


async def test_those_who_were_turned_away_are_counted_for_each_request(
    database: Database, ask: Ask, alice: Principal
) -> None:
    first, second = await ask(), await ask(alice, client_id="codex")

    counts = [await database.elicitations.count_refusal(asked.id) for asked in (first, first, second)]

    assert counts == [1, 2, 1]
    assert await database.elicitations.count_refusal("unknown") == 0


async def test_requests_that_expired_long_ago_are_deleted_unless_nextcloud_must_still_end_something(
    *,
    database: Database,
    ask: Ask,
    start: Start,
    alice: Principal,
    bob: Principal,
    advance: Callable[[float], None],
) -> None:
    old, waiting = await ask(alice), await ask(bob)
    await start(waiting)
    advance(timedelta(days=8).total_seconds())
    recent = await ask(alice)

    gone = await database.elicitations.purge(before=recent.created_at - timedelta(days=7))

    assert gone == 1
    assert await database.elicitations.find(old.id) is None
    assert await database.elicitations.find(waiting.id) is not None
    assert await database.elicitations.find(recent.id) is not None
