from contextlib import suppress
from dataclasses import replace

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth import token_refresh
from nextcloud_mcp_server.errors import NextcloudError, StorageError, Throttled, TimedOut, Unavailable
from nextcloud_mcp_server.storage.records import Credential, Tokens
from nextcloud_mcp_server.telemetry import metrics
from tests.auth_fixtures import ProcessHost, together
from tests.counted import Counted
from tests.oauth_fixtures import Office, Replica, caller, is_refresh, new_gate

HOUR = 3600
SOON = HOUR - 30
"""Within the time before the end in which a token is refreshed."""


async def never(request: httpx2.Request) -> None:
    if is_refresh(request):
        await anyio.sleep_forever()


async def test_a_living_token_is_used_as_it_is(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(SOON - 31)

    assert await replica.broker.fresh(grant) is grant.credential
    assert office.refreshes() == 0


async def test_an_app_password_passes_through(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    password = replace(grant.credential, refresh_token=None, expires_at=None)

    assert await replica.broker.fresh(replace(grant, credential=password)) is password
    assert await replica.broker.renew(replace(grant, credential=password)) is password


async def test_a_token_of_unknown_life_is_used_until_it_is_refused(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    endless = replace(grant.credential, expires_at=None)
    office.harness.clock.forward(HOUR)

    assert await replica.broker.fresh(replace(grant, credential=endless)) is endless


@pytest.mark.parametrize("age", [SOON, HOUR, 10 * HOUR])
async def test_a_token_at_its_end_is_refreshed_before_it_is_used(
    office: Office, replica: Replica, age: int
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(age)

    found = await replica.broker.fresh(grant)

    assert found is not None
    assert found == (await replica.grant()).credential
    assert found.version == 2
    assert found.refresh_token != grant.credential.refresh_token
    assert office.opens(found)
    assert office.refreshes() == 1


async def test_tasks_that_come_together_are_served_by_one_refresh(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    found: list[Credential | None] = []

    async def call() -> None:
        found.append(await replica.broker.fresh(grant))

    await together(*[call] * 50)

    assert office.refreshes() == 1
    assert {one.version for one in found if one} == {2}
    assert len(found) == 50


async def test_an_early_refresh_keeps_no_call_waiting(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    other = await office.replica()
    office.harness.clock.forward(SOON)
    office.harness.network.before = gate = new_gate()
    here = there = None

    async with anyio.create_task_group() as group:
        group.start_soon(replica.broker.fresh, grant)
        await gate.came.wait()
        with anyio.fail_after(60):
            here = await replica.broker.fresh(grant)
            there = await other.broker.fresh(grant)
        gate.open.set()

    assert here == there == grant.credential
    assert office.refreshes() == 1


async def test_a_caller_that_goes_away_does_not_take_the_answer_with_it(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.after = gate = new_gate()
    found: list[Credential | None] = []

    async def call() -> None:
        found.append(await replica.broker.fresh(grant))

    async with anyio.create_task_group() as group:
        impatient = anyio.CancelScope()

        async def leave_early() -> None:
            with impatient:
                await replica.broker.fresh(grant)

        group.start_soon(leave_early)
        await gate.came.wait()
        group.start_soon(call)
        impatient.cancel()
        await anyio.lowlevel.checkpoint()
        gate.open.set()

    assert office.refreshes() == 1
    assert office.opens(found[0])


async def test_a_caller_that_goes_away_while_it_waits_leaves_the_others_alone(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = gate = new_gate()
    found: list[Credential | None] = []

    async def call() -> None:
        found.append(await replica.broker.fresh(grant))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.came.wait()
        with anyio.move_on_after(0.01):
            await replica.broker.fresh(grant)
        gate.open.set()

    assert office.opens(found[0])
    assert office.refreshes() == 1


async def test_a_dead_grant_is_asked_about_once_and_needs_the_person_again(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.sandbox.state.oauth_grants.clear()
    office.harness.clock.forward(HOUR)

    first = await replica.broker.fresh(grant)
    later = [await replica.broker.fresh(await replica.grant()) for _ in range(5)]

    assert first is not None
    assert first.needs_reauth
    assert later == [first] * 5
    assert office.refreshes() == 1
    entries = await replica.database.audit.recent(caller().principal, 1)
    assert [(one.action, one.result, one.client_id) for one in entries] == [("refresh", "refused", "claude")]


async def test_a_grant_that_no_client_may_use_is_audited_too(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.sandbox.state.oauth_grants.clear()
    office.harness.clock.forward(HOUR)

    await replica.broker.fresh(replace(grant, permission=None))

    entries = await replica.database.audit.recent(caller().principal, 1)
    assert [(one.action, one.client_id) for one in entries] == [("refresh", "")]


async def test_while_the_old_token_lives_a_failure_is_not_told(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(SOON)
    office.harness.network.before = office.harness.network.cut

    first = await replica.broker.fresh(grant)
    again = await replica.broker.fresh(await replica.grant())

    assert first is not None
    assert first.secret == grant.credential.secret
    assert again is not None
    assert again.version == 1
    assert office.refreshes() == 1


async def test_with_a_dead_token_a_failure_is_told_and_tried_again_later(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = office.harness.network.cut
    failures: list[str] = []

    async def call() -> None:
        with pytest.raises(NextcloudError) as caught:
            await replica.broker.fresh(grant)
        failures.append(str(caught.value))

    await together(*[call] * 20)
    asked = office.refreshes()
    office.harness.network.before = None
    with pytest.raises(Unavailable, match="try again in a minute"):
        await replica.broker.fresh(await replica.grant())
    office.harness.clock.forward(token_refresh.RETRY.total_seconds())

    assert asked == 1
    assert len(failures) == 20
    assert office.opens(await replica.broker.fresh(await replica.grant()))


async def test_an_answer_that_does_not_come_is_not_waited_for(office: Office) -> None:
    replica = await office.replica(request_seconds=0.05)
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = never

    asked_at = anyio.current_time()
    with anyio.fail_after(60), pytest.raises(TimedOut):
        await replica.broker.fresh(grant)

    # The client for Nextcloud gives up by itself, but only after half a minute.
    assert anyio.current_time() - asked_at < 20
    assert not (await replica.grant()).credential.needs_reauth


async def test_after_a_429_no_token_is_refreshed_for_half_an_hour(office: Office, replica: Replica) -> None:
    alice = await office.connect(replica, "alice")
    bob = await office.connect(replica, "bob")
    office.harness.clock.forward(HOUR)
    for _ in range(10):
        office.harness.sandbox.token_throttle.count("127.0.0.1")

    for grant in (alice, bob):
        with pytest.raises(Throttled):
            await replica.broker.fresh(grant)
    office.harness.clock.forward(token_refresh.THROTTLED.total_seconds() - 1)
    with pytest.raises(Unavailable):
        await replica.broker.fresh(await replica.grant("alice"))
    asked = office.refreshes()
    office.harness.clock.forward(1)

    assert asked == 1
    for name in ("alice", "bob"):
        assert office.opens(await replica.broker.fresh(await replica.grant(name)))


async def test_a_pause_that_a_clock_far_ahead_began_is_over_when_the_clock_is_right(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    clock, network = office.harness.clock, office.harness.network
    clock.forward(12 * HOUR)
    network.before = network.cut
    with pytest.raises(NextcloudError):
        await replica.broker.fresh(grant)
    network.before = None
    clock.forward(-11 * HOUR)

    renewed = await replica.broker.fresh(await replica.grant())

    assert office.opens(renewed)


@pytest.mark.parametrize("wait", ["999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_no_call_waits_longer_than_an_hour_whatever_nextcloud_asks_for(
    office: Office, replica: Replica, wait: str
) -> None:
    grant = await office.connect(replica)
    clock, network = office.harness.clock, office.harness.network
    clock.forward(HOUR)

    async def hold_off(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers={"Retry-After": wait, "Date": "Sat, 28 Nov 2026 10:00:00 GMT"})

    network.before = hold_off
    with pytest.raises(Throttled):
        await replica.broker.fresh(grant)
    network.before = None
    clock.forward(token_refresh.LONGEST_PAUSE.total_seconds() - 60)
    with pytest.raises(Unavailable):
        await replica.broker.fresh(await replica.grant())
    clock.forward(60)

    assert office.opens(await replica.broker.fresh(await replica.grant()))


async def test_an_answer_without_a_refresh_token_keeps_the_old_one(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        body = {"access_token": "next", "token_type": "Bearer", "expires_in": 3600}
        return httpx2.Response(200, json=body, request=request)

    office.harness.network.before = answer

    found = await replica.broker.fresh(grant)

    assert found is not None
    assert found.secret.get_secret_value() == "next"
    assert found.refresh_token == grant.credential.refresh_token


async def test_a_refused_token_is_renewed_once_however_many_calls_met_it(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    found: list[Credential | None] = []

    async def call() -> None:
        found.append(await replica.broker.renew(grant))

    await together(*[call] * 10)
    await call()

    assert office.refreshes() == 1
    assert {one.version for one in found if one} == {2}
    assert office.opens(found[-1])


async def test_what_is_refused_is_not_handed_out_because_it_may_still_live(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.network.before = office.harness.network.cut

    with pytest.raises(NextcloudError):
        await replica.broker.renew(grant)
    with pytest.raises(Unavailable):
        await replica.broker.renew(await replica.grant())


async def test_a_provider_that_the_settings_no_longer_name_needs_a_new_consent(office: Office) -> None:
    replica = await office.replica(configured=False)
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)

    found = await replica.broker.fresh(grant)

    assert found is not None
    assert found.needs_reauth
    assert not (await replica.grant()).credential.needs_reauth


async def test_what_cannot_be_stored_is_ended_at_nextcloud(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)

    with office.harness.failing("UPDATE OF secret ON credentials"), pytest.raises(StorageError):
        await replica.broker.fresh(grant)

    assert office.families == 0


async def test_what_cannot_be_stored_is_told_although_nextcloud_is_gone_too(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)

    async def cut_the_rest(request: httpx2.Request) -> httpx2.Response | None:
        return None if is_refresh(request) else await office.harness.network.cut(request)

    office.harness.network.before = cut_the_rest
    with office.harness.failing("UPDATE OF secret ON credentials"), pytest.raises(StorageError):
        await replica.broker.fresh(grant)


async def test_a_call_with_a_dead_token_waits_for_the_process_that_refreshes(
    office: Office, replica: Replica
) -> None:
    other = await office.replica()
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = gate = new_gate()
    found: list[Credential | None] = []

    async def wait() -> None:
        found.append(await other.broker.fresh(grant))

    async with anyio.create_task_group() as group:
        group.start_soon(replica.broker.fresh, grant)
        await gate.came.wait()
        group.start_soon(wait)
        await anyio.sleep(0.1)
        gate.open.set()

    assert found == [(await replica.grant()).credential]
    assert office.refreshes() == 1


async def test_a_call_does_not_wait_for_ever(office: Office) -> None:
    replica = await office.replica(wait_seconds=0.1)
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    await replica.database.grants.lease(grant.credential.id, owner="frozen", lease=token_refresh.LEASE)

    with anyio.fail_after(60), pytest.raises(Unavailable):
        await replica.broker.fresh(grant)

    assert office.refreshes() == 0


async def test_what_another_process_has_just_stored_is_taken_as_it_is(
    office: Office, replica: Replica
) -> None:
    other = await office.replica()
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)

    first = await replica.broker.fresh(grant)
    second = await other.broker.fresh(grant)

    assert first == second
    assert office.refreshes() == 1


async def test_another_process_that_failed_a_moment_ago_is_believed(office: Office, replica: Replica) -> None:
    other = await office.replica()
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = office.harness.network.cut
    with pytest.raises(NextcloudError):
        await replica.broker.fresh(grant)

    with pytest.raises(Unavailable):
        await other.broker.fresh(grant)

    assert office.refreshes() == 1
    assert await replica.database.grants.lease(grant.credential.id, owner="x", lease=token_refresh.LEASE)


async def test_a_credential_that_is_gone_is_none(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    await replica.accounts.disconnect(caller())

    assert await replica.broker.fresh(grant) is None
    assert await replica.broker.renew(grant) is None


async def test_an_alternate_is_tried_before_a_credential_is_given_up(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    living = Tokens(grant.credential.secret, grant.credential.refresh_token, None)
    dead = Tokens(SecretStr("dead"), SecretStr("dead"), office.harness.clock())
    await replica.database.grants.store_refreshed(grant.credential.id, version=1, tokens=dead)
    await replica.database.grants.keep_alternate(grant.credential.id, living)

    found = await replica.broker.fresh(await replica.grant())

    assert office.refreshes() == 2
    assert office.opens(found)
    assert found is not None
    assert found.alternate is None


async def test_an_alternate_that_is_dead_too_is_tried_once(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.sandbox.state.oauth_grants.clear()
    late = Tokens(SecretStr("late"), SecretStr("late"), None)
    await replica.database.grants.keep_alternate(grant.credential.id, late)
    office.harness.clock.forward(HOUR)

    first = await replica.broker.fresh(await replica.grant())
    await replica.broker.fresh(await replica.grant())

    assert office.refreshes() == 2
    assert first is not None
    assert (first.needs_reauth, first.alternate) == (True, None)


async def test_an_alternate_without_a_refresh_token_of_its_own_is_no_second_try(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.sandbox.state.oauth_grants.clear()
    await replica.database.grants.keep_alternate(grant.credential.id, Tokens(SecretStr("late"), None, None))
    office.harness.clock.forward(HOUR)

    found = await replica.broker.fresh(await replica.grant())

    assert found is not None
    assert found.needs_reauth
    assert office.refreshes() == 1


async def test_an_alternate_brings_back_what_was_given_up(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    await replica.database.grants.mark_needs_reauth(grant.credential.id, version=1)
    alternate = Tokens(SecretStr("late"), grant.credential.refresh_token, None)
    await replica.database.grants.keep_alternate(grant.credential.id, alternate)

    found = await replica.broker.fresh(await replica.grant())

    assert found is not None
    assert not found.needs_reauth
    assert office.opens(found)


async def test_a_refresh_that_another_process_overtook_while_it_was_dead_takes_the_newer(
    office: Office, replica: Replica, harness: ProcessHost
) -> None:
    """Its holder was frozen, was taken for dead, and stores just before the other gives up."""
    grant = await office.connect(replica)
    other = await office.replica()
    harness.clock.forward(HOUR)
    harness.network.after = frozen = new_gate()
    stored = anyio.Event()

    async def thaw(request: httpx2.Request) -> httpx2.Response | None:
        if is_refresh(request) and frozen.came.is_set():
            frozen.open.set()
            with anyio.fail_after(60):
                await stored.wait()
        return None

    async def freeze_and_store() -> None:
        await replica.broker.fresh(grant)
        stored.set()

    found = None
    async with anyio.create_task_group() as group:
        group.start_soon(freeze_and_store)
        await frozen.came.wait()
        harness.clock.forward(token_refresh.LEASE.total_seconds())
        harness.network.before = thaw
        found = await other.broker.fresh(grant)

    assert office.opens(found)
    assert found is not None
    assert (found.version, found.needs_reauth) == (2, False)


async def test_a_late_answer_revives_what_another_process_gave_up(
    office: Office, replica: Replica, harness: ProcessHost
) -> None:
    grant = await office.connect(replica)
    other = await office.replica()
    harness.clock.forward(HOUR)
    harness.network.after = frozen = new_gate()
    found: list[Credential | None] = []

    async def freeze() -> None:
        found.append(await replica.broker.fresh(grant))

    async with anyio.create_task_group() as group:
        group.start_soon(freeze)
        await frozen.came.wait()
        harness.clock.forward(token_refresh.LEASE.total_seconds())
        found.append(await other.broker.fresh(grant))
        frozen.open.set()

    assert [one.needs_reauth for one in found if one] == [True, False]
    assert office.opens(found[1])
    assert office.refreshes() == 3


async def test_an_older_look_of_this_process_does_not_hide_what_is_newer(
    office: Office, replica: Replica
) -> None:
    grant = await office.connect(replica)
    office.harness.network.before = gate = new_gate()
    found: list[Credential | None] = []

    async def renew() -> None:
        found.append(await replica.broker.renew(grant))

    async def renew_the_next() -> None:
        newer = replace(grant, credential=replace(grant.credential, version=2))
        found.append(await replica.broker.renew(newer))

    async with anyio.create_task_group() as group:
        group.start_soon(renew)
        await gate.came.wait()
        group.start_soon(renew_the_next)
        gate.open.set()

    assert [one.version for one in found if one] == [2, 3]


@pytest.mark.parametrize("outcome", ["refreshed", "postponed", "refused"])
async def test_each_refresh_is_counted_by_its_outcome(office: Office, replica: Replica, outcome: str) -> None:
    grant, counted = await office.connect(replica), Counted()
    office.harness.clock.forward(HOUR)
    if outcome == "postponed":
        office.harness.network.before = office.harness.network.cut
    elif outcome == "refused":
        office.harness.sandbox.state.oauth_grants.clear()

    with metrics.exported(counted), suppress(NextcloudError):
        await replica.broker.fresh(grant)

    refreshes = {key: value for key, value in counted.sums.items() if key[0] == metrics.REFRESHES.name}
    assert refreshes == {(metrics.REFRESHES.name, outcome): 1}
