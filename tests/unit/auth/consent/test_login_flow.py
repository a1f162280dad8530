import logging
from datetime import timedelta

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent import login_flow as module
from nextcloud_mcp_server.auth.consent import policy
from nextcloud_mcp_server.errors import ElicitationUnknown, ProgramRefused
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import Elicitation, ElicitationState, LoginFlow
from tests.auth_fixtures import READ, WRITE, Process, ProcessHost, together

POLL = "/login/v2/poll"


async def confirm_at_nextcloud(harness: ProcessHost, process: Process) -> Elicitation:
    """A consent request whose page at Nextcloud is open."""
    consent_request = await process.ask(harness.caller)
    await process.approve(consent_request.id, READ)
    return consent_request


async def found(process: Process, consent_request: Elicitation) -> Elicitation:
    read = await process.database.elicitations.find(consent_request.id)
    assert read is not None
    return read


async def flow_of(process: Process, consent_request: Elicitation) -> LoginFlow | None:
    return await process.database.login_flows.find(consent_request.id)


async def turn_later(harness: ProcessHost, process: Process, seconds: float = 15.0) -> float:
    harness.clock.forward(seconds)
    return await process.poller.run_once()


async def test_what_the_person_confirms_is_stored_and_the_flow_forgotten(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    await process.poller.run_once()
    pending = await found(process, consent_request)
    secret = harness.confirm()

    await turn_later(harness, process)

    grant = await process.grant(harness.caller)
    complete = await found(process, consent_request)
    assert pending.state is ElicitationState.OPENED
    assert (complete.state, complete.account_name) == (ElicitationState.COMPLETE, "Alice Example")
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == secret
    assert (grant.account.uid, grant.credential.provider) == ("alice", "login_flow")
    assert grant.account.storage_id
    assert await flow_of(process, consent_request) is None
    assert process.finished == [consent_request.id]


@pytest.mark.parametrize(("first", "last"), [(READ | WRITE, READ), (READ, READ | WRITE)])
async def test_of_a_person_who_went_back_and_chose_again_the_last_choice_counts(
    harness: ProcessHost, process: Process, first: frozenset[str], last: frozenset[str]
) -> None:
    consent_request = await process.ask(harness.caller, READ | WRITE)
    await process.approve(consent_request.id, first)
    await process.approve(consent_request.id, last)
    harness.confirm()

    await turn_later(harness, process)

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == last


async def test_the_login_name_is_kept_apart_from_the_user_id(harness: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(harness, process)
    alice = harness.sandbox.state.users["alice"]
    harness.sandbox.state.login_flows[-1].granted = harness.sandbox.state.new_app_password(
        alice, login_name=alice.email or "ALICE"
    )

    await process.poller.run_once()

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.account.uid == "alice"
    assert grant.credential.login_name == (alice.email or "ALICE")


async def test_polls_become_rarer_while_the_person_is_away(harness: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(harness, process)
    pauses: list[float] = []

    for _ in range(30):
        pauses.append(await process.poller.run_once())
        harness.clock.forward(pauses[-1])

    assert 0.8 <= pauses[0] <= 1.2
    assert 8 <= pauses[-1] <= 12
    assert len(harness.network.to(POLL)) == 30


async def test_a_turn_before_its_time_asks_nothing(harness: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(harness, process)
    await process.poller.run_once()

    await process.poller.run_once()

    assert len(harness.network.to(POLL)) == 1


async def test_of_two_processes_one_polls(harness: ProcessHost, process: Process) -> None:
    other = await harness.process()
    await confirm_at_nextcloud(harness, process)

    await together(
        process.poller.run_once, other.poller.run_once, process.poller.run_once, other.poller.run_once
    )

    assert len(harness.network.to(POLL)) == 1


async def test_the_result_is_stored_before_nextcloud_is_asked_whose_it_is(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()
    seen: list[LoginFlow | None] = []

    async def look(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            seen.append(await flow_of(process, consent_request))

    harness.network.before = look
    await process.poller.run_once()

    assert [flow is not None and flow.result is not None for flow in seen] == [True]


async def test_a_result_that_a_dead_process_left_is_taken_up_by_another(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()

    async def die(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    harness.network.before = die
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run_once)
    harness.network.before = None
    other = await harness.process()
    await other.poller.run_once()
    leased = await found(other, consent_request)
    harness.clock.forward(module.LEASE.total_seconds())
    await other.poller.run_once()

    assert leased.state is ElicitationState.OPENED
    assert (await found(other, consent_request)).state is ElicitationState.COMPLETE
    assert len(harness.network.to(POLL)) == 1


async def test_a_stop_in_the_middle_of_an_answer_loses_nothing(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()

    async def stop(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    harness.network.after = stop
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run_once)

    flow = await flow_of(process, consent_request)
    assert flow is not None
    assert flow.result is not None


async def test_one_broken_flow_does_not_cut_off_the_answer_to_another(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    direct = await harness.process(direct=True)
    broken = await direct.ask(harness.caller)
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()
    answered = anyio.Event()

    async def order(request: httpx2.Request) -> httpx2.Response | None:
        if not request.url.path.endswith(POLL):
            return None
        flow = await flow_of(process, consent_request)
        assert flow is not None
        if flow.poll_token.get_secret_value() in (await request.aread()).decode():
            await answered.wait()
            return None
        answered.set()
        raise ZeroDivisionError

    harness.network.before = order
    with anyio.fail_after(60):
        await process.poller.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert (await found(process, broken)).state is ElicitationState.PENDING
    assert "a login flow could not be taken further" in caplog.text


async def test_what_cannot_be_stored_is_deleted_at_nextcloud_at_once(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()

    with harness.failing("UPDATE OF result ON login_flows"):
        await process.poller.run_once()

    assert harness.app_passwords == set()
    assert (await found(process, consent_request)).state is ElicitationState.OPENED


async def test_declining_while_nextcloud_answers_deletes_what_it_gave(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()

    async def decline(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            harness.network.before = None
            await process.decline(consent_request.id)

    harness.network.before = decline
    await process.poller.run_once()
    await process.outbox.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.DECLINED
    assert await process.grant(harness.caller) is None
    assert harness.app_passwords == set()
    assert await flow_of(process, consent_request) is None


async def test_granting_after_declining_is_deleted_without_asking_whose_it_was(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    await process.decline(consent_request.id)
    harness.confirm()

    await process.poller.run_once()
    await process.outbox.run_once()

    assert harness.app_passwords == set()
    assert harness.network.to("/cloud/user") == []


async def test_expiry_between_the_answer_and_its_use_deletes_the_callback_result(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm()

    async def too_late(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            harness.clock.forward(policy.LIFETIME.total_seconds())

    harness.network.before = too_late
    await process.poller.run_once()
    harness.network.before = None
    await process.outbox.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.EXPIRED
    assert await process.grant(harness.caller) is None
    assert harness.app_passwords == set()


async def test_a_late_answer_is_polled_for_and_deleted(harness: ProcessHost, process: Process) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    await turn_later(harness, process, policy.LIFETIME.total_seconds() + 1)
    expired = await found(process, consent_request)
    harness.confirm()

    await turn_later(harness, process)
    await process.outbox.run_once()

    assert expired.state is ElicitationState.EXPIRED
    assert harness.app_passwords == set()
    assert await flow_of(process, consent_request) is None


async def test_a_flow_is_polled_to_nextclouds_end_and_then_forgotten(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)

    await turn_later(harness, process, module.FLOW_LIFETIME.total_seconds() - 1)
    kept = await flow_of(process, consent_request)
    seconds = await turn_later(harness, process)

    assert kept is not None
    assert await flow_of(process, consent_request) is None
    assert seconds == module.IDLE_SECONDS


async def test_a_consent_request_that_outlives_its_flow_fails_with_a_sentence(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.sql(f"UPDATE elicitations SET expires_at = '{harness.clock() + timedelta(days=1)}'")

    await turn_later(harness, process, module.FLOW_LIFETIME.total_seconds())

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert failed.error is not None
    assert failed.error.startswith("The sign-in at Nextcloud took too long; ask your assistant again.")
    assert "has to allow the program name 'Nextcloud MCP server'" in failed.error


async def test_a_flow_is_not_polled_for_ever_at_a_nextcloud_that_is_gone(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.network.before = harness.network.cut

    await turn_later(harness, process)
    kept = await flow_of(process, consent_request)
    await turn_later(harness, process, module.FLOW_LIFETIME.total_seconds())

    assert kept is not None
    assert await flow_of(process, consent_request) is None


async def test_another_account_than_the_first_is_refused_and_its_access_deleted(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.connect(process)
    await process.accounts.disconnect(harness.caller)
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.confirm("bob")

    await process.poller.run_once()
    await process.outbox.run_once()

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert "'alice' is connected here" in str(failed.error)
    assert harness.app_passwords == set()
    assert await process.grant(harness.caller) is None
    assert "another account was refused" in caplog.text


async def test_access_that_is_refused_right_after_it_was_given_fails_the_consent_request(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    harness.sandbox.state.app_passwords.pop(harness.confirm())

    await process.poller.run_once()
    await process.outbox.run_once()

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert failed.error == "Nextcloud did not accept the access it had just given."
    # What was refused by mistake must not live on, and what was refused twice is not sent again at once.
    assert await process.outbox.waiting(harness.caller.principal)
    assert harness.refusals() == 2
    harness.clock.forward(3601)
    await process.outbox.run_once()
    assert not await process.outbox.waiting(harness.caller.principal)


async def test_a_nextcloud_that_cannot_say_whose_access_it_is_is_asked_again(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    secret = harness.confirm()
    harness.sandbox.faults.status(503, area="ocs")

    await process.poller.run_once()
    waiting = await found(process, consent_request)
    harness.sandbox.faults.clear()
    await turn_later(harness, process)

    assert waiting.state is ElicitationState.OPENED
    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert harness.app_passwords == {secret}
    assert len(harness.network.to(POLL)) == 1


@pytest.mark.parametrize(
    ("header", "shortest", "longest"),
    [({}, 30, 61), ({"Retry-After": "5"}, 30, 61), ({"Retry-After": "7200"}, 30, 30)],
)
async def test_a_nextcloud_that_asks_for_a_pause_gets_one(
    harness: ProcessHost, process: Process, header: dict[str, str], shortest: float, longest: float
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    harness.network.before = throttle
    seconds = await process.poller.run_once()
    polls = len(harness.network.to(POLL))
    await turn_later(harness, process, max(module.THROTTLED_SECONDS, float(header.get("Retry-After", 0))) - 1)

    assert shortest <= seconds <= longest
    assert polls == len(harness.network.to(POLL)) == 1
    assert await flow_of(process, consent_request) is not None


async def test_a_pause_of_thousands_of_years_ends_after_two_hours(
    harness: ProcessHost, process: Process
) -> None:
    """A proxy whose clock is wrong may write any date into Retry-After (RFC 9110 §10.2.3)."""
    consent_request = await confirm_at_nextcloud(harness, process)
    header = {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT", "Date": "Sat, 28 Nov 2026 10:00:00 GMT"}

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    harness.network.before = throttle
    await process.poller.run_once()

    assert await process.database.login_flows.next_due_at() == harness.clock() + timedelta(hours=2)
    assert await flow_of(process, consent_request) is not None


async def test_a_slow_process_that_comes_second_does_not_delete_what_the_first_stored(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process()
    consent_request = await confirm_at_nextcloud(harness, process)
    secret = harness.confirm()

    async def overtaken(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            harness.network.before = None
            harness.clock.forward(module.LEASE.total_seconds())
            await other.poller.run_once()

    harness.network.before = overtaken
    await process.poller.run_once()
    await together(process.outbox.run_once, other.outbox.run_once)

    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert harness.app_passwords == {secret}
    assert (await process.accounts.open(harness.caller, READ)).account.uid == "alice"


async def test_access_given_anew_replaces_the_old_one_at_nextcloud_too(
    harness: ProcessHost, process: Process
) -> None:
    direct = await harness.process(direct=True)
    await harness.connect(process)
    await direct.ask(harness.caller, frozenset({"files:read"}))
    secret = harness.confirm()
    await process.poller.run_once()

    await process.outbox.run_once()

    assert harness.app_passwords == {secret}


async def test_flows_of_another_nextcloud_are_left_to_its_own_server(
    harness: ProcessHost, process: Process
) -> None:
    elsewhere = await harness.process(url="http://elsewhere.test")
    await confirm_at_nextcloud(harness, process)

    seconds = await elsewhere.poller.run_once()

    assert seconds == module.IDLE_SECONDS
    assert harness.network.to(POLL) == []


async def test_a_flow_whose_key_is_lost_is_left_alone_without_a_busy_loop(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process(keys=KeyRing.parse([SecretStr(new_key())]))
    await confirm_at_nextcloud(harness, process)
    turns, end = 0, harness.clock() + timedelta(minutes=5)

    while harness.clock() < end:
        harness.clock.forward(await other.poller.run_once())
        turns += 1

    # It is looked at once for each lease, and the idle poller looks around in between.
    assert turns <= 2 * timedelta(minutes=5) / module.LEASE + 1
    assert harness.network.to(POLL) == []


async def test_a_flow_for_a_consent_request_that_ended_meanwhile_is_discarded(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)

    async def decline(request: httpx2.Request) -> None:
        harness.network.after = None
        await process.decline(consent_request.id)

    harness.network.after = decline
    await process.approve(consent_request.id, READ)
    flow = await flow_of(process, consent_request)

    assert flow is not None
    assert flow.discard


async def test_a_consent_request_that_is_unknown_by_now_gets_no_flow(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)
    harness.sql("DELETE FROM elicitations")

    with pytest.raises(ElicitationUnknown):
        await process.provider.authorize_url(consent_request, READ)


async def test_the_result_for_a_consent_request_that_is_gone_is_deleted(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)
    flow = await flow_of(process, consent_request)
    harness.sandbox.state.app_passwords.pop(harness.confirm())
    harness.sql("DELETE FROM elicitations")
    assert flow is not None

    await process.poller.run_once()
    await process.provisioning.failed(flow, Failure("took_too_long"))

    assert process.finished == []
    assert await process.grant(harness.caller) is None


async def test_the_background_wakes_when_a_consent_request_starts(
    harness: ProcessHost, process: Process
) -> None:
    polled = anyio.Event()

    async def poll(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            polled.set()

    harness.network.after = poll
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run)
        await anyio.lowlevel.checkpoint()
        await confirm_at_nextcloud(harness, process)
        with anyio.fail_after(60):
            await polled.wait()
        group.cancel_scope.cancel()

    assert len(harness.network.to(POLL)) == 1


async def test_the_background_survives_a_bad_turn_and_waits_before_the_next(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    polled = anyio.Event()
    consent_request = await process.ask(harness.caller)

    async def poll(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            polled.set()

    harness.network.after = poll
    async with anyio.create_task_group() as group:
        harness.sql("ALTER TABLE login_flows RENAME TO hidden")
        group.start_soon(process.poller.run)
        with anyio.fail_after(60):
            while "polling login flows failed" not in caplog.text:  # noqa: ASYNC110 - a log gives no event
                await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        harness.sql("ALTER TABLE hidden RENAME TO login_flows")
        await process.approve(consent_request.id, READ)
        with anyio.fail_after(60):
            await polled.wait()
        group.cancel_scope.cancel()

    assert caplog.text.count("polling login flows failed") == 1
    assert caplog.records[0].levelno == logging.ERROR


async def test_a_poll_that_nextcloud_does_not_answer_is_given_up(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(harness, process)

    async def never(request: httpx2.Request) -> None:
        await anyio.sleep_forever()

    harness.network.before = never
    poller = module.Poller(
        process.database,
        process.provider,
        process.provisioning,
        clock=harness.clock,
        wake=process.provider.next_start,
        outbox=process.outbox,
        within=harness.caller.principal,
        answer_seconds=0.05,
    )
    with anyio.fail_after(60):
        await poller.run_once()

    flow = await flow_of(process, consent_request)
    assert flow is not None
    assert flow.attempts == 1


async def test_a_program_that_is_not_on_nextclouds_list_is_told_before_the_person_is_sent_there(
    harness: ProcessHost, process: Process
) -> None:
    """The list of the administrator shows itself only on Nextcloud's page; a poll is answered as if it had none."""
    consent_request = await process.ask(harness.caller)
    harness.sandbox.state.allowed_user_agents.append("Nextcloud-android")

    with pytest.raises(ProgramRefused, match="'/\\^Nextcloud MCP server/'"):
        await process.approve(consent_request.id, READ)
    told = await process.provisioning.ask(harness.caller, READ, grant=None)
    flow = await flow_of(process, consent_request)
    harness.sandbox.state.allowed_user_agents.append("Nextcloud MCP server")
    await process.approve(consent_request.id, READ)
    after = await process.provisioning.ask(harness.caller, READ, grant=None)

    assert "The last try did not work: Nextcloud lets only the programs on its list sign in" in str(told)
    assert (flow, await flow_of(process, consent_request) is None) == (None, False)
    assert str(after) == policy.ASK
