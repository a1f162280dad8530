from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ElicitationUnknown, StorageError, Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    Elicitation,
    ElicitationState,
    LoginFlow,
    LoginResult,
    Principal,
)

Ask = Callable[..., Awaitable[Elicitation]]
Start = Callable[..., Awaitable[LoginFlow]]

LEASE = timedelta(seconds=30)
RESULT = LoginResult(login_name="alice", app_password=SecretStr("app-password"))


async def test_a_flow_is_found_by_its_elicitation(database: Database, ask: Ask, start: Start) -> None:
    asked = await ask()

    started = await start(asked)

    assert await database.login_flows.find(asked.id) == started
    assert started.elicitation_id == asked.id
    assert started.poll_token.get_secret_value() == "poll-token"
    assert (started.discard, started.attempts, started.result) == (False, 0, None)


async def test_an_elicitation_has_one_flow(ask: Ask, start: Start) -> None:
    asked = await ask()

    first = await start(asked, poll_token="first")
    second = await start(asked, poll_token="second")

    assert second == first


async def test_the_account_that_must_come_of_a_flow_stays_what_it_is(
    database: Database, ask: Ask, start: Start
) -> None:
    asked = await ask()

    first = await start(asked, uid="alice")
    second = await start(asked, uid="bob")

    found = await database.login_flows.find(asked.id)
    assert found
    assert [first.uid, second.uid, found.uid] == ["alice"] * 3
    (leased,) = await database.login_flows.lease_due(owner="one", lease=LEASE)
    assert leased.uid == "alice"


async def test_another_choice_replaces_the_first(database: Database, ask: Ask, start: Start) -> None:
    started = await start(await ask())

    await database.login_flows.set_scopes(started.id, frozenset({"files:read"}))

    found = await database.login_flows.find(started.elicitation_id)
    assert found
    assert found.scopes == {"files:read"}


@pytest.mark.parametrize("mine", [True, False])
async def test_a_flow_needs_an_elicitation_of_the_same_person(
    database: Database, ask: Ask, now: Callable[[], datetime], alice: Principal, bob: Principal, *, mine: bool
) -> None:
    asked = await ask(bob)

    with pytest.raises(ElicitationUnknown):
        await database.login_flows.create(
            elicitation_id="unknown" if mine else asked.id,
            principal=alice,
            login_url=SecretStr("https://cloud.example.org/login"),
            poll_token=SecretStr("token"),
            scopes=frozenset(),
            expires_at=now(),
        )


async def test_a_flow_that_starts_after_the_person_declined_is_to_be_discarded(
    database: Database, ask: Ask, start: Start
) -> None:
    asked = await ask()
    await database.elicitations.finish(asked.id, ElicitationState.DECLINED)

    assert (await start(asked)).discard


async def test_a_due_flow_goes_to_one_owner_until_the_lease_ends(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None]
) -> None:
    started = await start(await ask())

    first = await database.login_flows.lease_due(owner="one", lease=LEASE)
    meanwhile = [await database.login_flows.lease_due(owner=owner, lease=LEASE) for owner in ("one", "two")]
    advance(30)
    after = await database.login_flows.lease_due(owner="two", lease=LEASE)

    assert first == after == [started]
    assert meanwhile == [[], []]


async def test_the_longest_due_flows_come_first_and_no_more_than_asked_for(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None], alice: Principal
) -> None:
    flows: list[LoginFlow] = []
    for client_id in ("a", "b", "c"):
        flows.append(await start(await ask(alice, client_id=client_id)))
        advance(1)

    assert await database.login_flows.lease_due(owner="one", lease=LEASE, limit=2) == flows[:2]
    assert await database.login_flows.lease_due(owner="one", lease=LEASE, limit=2) == flows[2:]


async def test_a_postponed_flow_counts_its_attempt_and_comes_back_when_due(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None], now: Callable[[], datetime]
) -> None:
    started = await start(await ask())
    await database.login_flows.lease_due(owner="one", lease=LEASE)

    await database.login_flows.postpone(started.id, owner="one", next_poll_at=now() + timedelta(seconds=5))

    assert await database.login_flows.lease_due(owner="two", lease=LEASE) == []
    assert await database.login_flows.next_due_at() == now() + timedelta(seconds=5)
    advance(5)
    [again] = await database.login_flows.lease_due(owner="two", lease=LEASE)
    assert again.attempts == 1


async def test_a_process_without_the_lease_cannot_postpone(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None], now: Callable[[], datetime]
) -> None:
    started = await start(await ask())
    await database.login_flows.lease_due(owner="one", lease=LEASE)
    advance(30)
    await database.login_flows.lease_due(owner="two", lease=LEASE)

    await database.login_flows.postpone(started.id, owner="one", next_poll_at=now())

    found = await database.login_flows.find(started.elicitation_id)
    assert found is not None
    assert found.attempts == 0
    assert await database.login_flows.lease_due(owner="one", lease=LEASE) == []


async def test_a_saved_result_is_handed_out_again_after_a_crash(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None]
) -> None:
    started = await start(await ask())
    await database.login_flows.lease_due(owner="one", lease=LEASE)

    await database.login_flows.save_result(started.id, RESULT)
    advance(30)

    [after] = await database.login_flows.lease_due(owner="two", lease=LEASE)
    assert after.result == RESULT


async def test_a_result_for_a_forgotten_flow_is_refused_so_that_it_can_be_deleted(database: Database) -> None:
    with pytest.raises(StorageError, match="delete its result"):
        await database.login_flows.save_result("forgotten", RESULT)


async def test_a_deleted_flow_is_gone(database: Database, ask: Ask, start: Start) -> None:
    started = await start(await ask())
    await database.login_flows.lease_due(owner="one", lease=LEASE)

    await database.login_flows.delete(started.id, owner="one")

    assert await database.login_flows.find(started.elicitation_id) is None
    assert await database.login_flows.next_due_at() is None


async def test_a_process_that_slept_through_its_lease_deletes_nothing(
    database: Database, ask: Ask, start: Start, advance: Callable[[float], None]
) -> None:
    started = await start(await ask())
    await database.login_flows.lease_due(owner="one", lease=LEASE)
    advance(31)
    await database.login_flows.lease_due(owner="two", lease=LEASE)

    await database.login_flows.delete(started.id, owner="one")
    await database.login_flows.save_result(started.id, RESULT)
    await database.login_flows.delete(started.id, owner="two")

    kept = await database.login_flows.find(started.elicitation_id)
    assert kept is not None
    assert kept.result == RESULT


async def test_the_next_due_time_is_the_end_of_a_lease_where_one_runs(
    database: Database, ask: Ask, start: Start, now: Callable[[], datetime]
) -> None:
    await start(await ask())
    before = await database.login_flows.next_due_at()
    await database.login_flows.lease_due(owner="one", lease=LEASE)

    assert before == now()
    assert await database.login_flows.next_due_at() == now() + LEASE


async def test_a_flow_whose_key_is_missing_is_left_out(
    ask: Ask, start: Start, open_database: Callable[..., Awaitable[Database]]
) -> None:
    started = await start(await ask())
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await without_key.login_flows.lease_due(owner="one", lease=LEASE) == []
    with pytest.raises(Unsealable):
        await without_key.login_flows.find(started.elicitation_id)


async def test_the_flows_of_one_person_can_be_taken_alone(
    database: Database, ask: Ask, start: Start, alice: Principal, bob: Principal
) -> None:
    mine, _ = await start(await ask(alice)), await start(await ask(bob))
    nobody = Principal("https://issuer.example.org", "nobody")

    assert await database.login_flows.next_due_at(nobody) is None
    assert await database.login_flows.lease_due(owner="one", lease=LEASE, within=nobody) == []
    assert await database.login_flows.next_due_at(alice) is not None
    assert await database.login_flows.lease_due(owner="one", lease=LEASE, within=alice) == [mine]


async def test_throwing_a_flow_away_forgets_it_and_has_its_result_deleted_at_nextcloud(
    database: Database,
    ask: Callable[..., Awaitable[Elicitation]],
    start: Callable[..., Awaitable[LoginFlow]],
) -> None:
    elicitation = await ask()
    flow = await start(elicitation)
    result = LoginResult("alice", SecretStr("app-password"))

    first = await database.login_flows.throw_away(flow, result, nextcloud_url="https://cloud.example.org")
    second = await database.login_flows.throw_away(flow, result, nextcloud_url="https://cloud.example.org")

    items = await database.outbox.lease_due(owner="me", lease=timedelta(minutes=1))
    assert (first, second) == (True, False)
    assert await database.login_flows.find(elicitation.id) is None
    assert [(item.login_name, item.nextcloud_url) for item in items] == [
        ("alice", "https://cloud.example.org")
    ]


async def test_one_flow_is_taken_out_of_turn_and_from_another_only_on_demand(
    database: Database, ask: Ask, start: Start, now: Callable[[], datetime]
) -> None:
    started = await start(await ask())
    flows, id_ = database.login_flows, started.elicitation_id

    await flows.lease_due(owner="one", lease=LEASE)
    await flows.postpone(started.id, owner="one", next_poll_at=now() + timedelta(minutes=1))
    first = await flows.lease_one(id_, owner="one", lease=LEASE, from_others=False)
    taken = [
        await flows.lease_one(id_, owner=owner, lease=LEASE, from_others=False) for owner in ("one", "two")
    ]
    forced = await flows.lease_one(id_, owner="two", lease=LEASE, from_others=True)
    own = await flows.lease_one(id_, owner="two", lease=LEASE, from_others=True)
    unknown = await flows.lease_one("other", owner="two", lease=LEASE, from_others=True)

    assert first is not None
    assert forced is not None
    assert (first.id, forced.id) == (started.id, started.id)
    assert taken == [None, None]
    assert own is unknown is None
