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


async def confirm_at_nextcloud(stage: ProcessHost, process: Process) -> Elicitation:
    """A consent request whose page at Nextcloud is open."""
    consent_request = await process.ask(stage.caller)
    await process.approve(consent_request.id, READ)
    return consent_request


async def found(process: Process, consent_request: Elicitation) -> Elicitation:
    read = await process.database.elicitations.find(consent_request.id)
    assert read is not None
    return read


async def flow_of(process: Process, consent_request: Elicitation) -> LoginFlow | None:
    return await process.database.login_flows.find(consent_request.id)


async def turn_later(stage: ProcessHost, process: Process, seconds: float = 15.0) -> float:
    stage.clock.forward(seconds)
    return await process.poller.run_once()


async def test_what_the_person_confirms_is_stored_and_the_flow_forgotten(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    await process.poller.run_once()
    pending = await found(process, consent_request)
    secret = stage.confirm()

    await turn_later(stage, process)

    grant = await process.grant(stage.caller)
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
    stage: ProcessHost, process: Process, first: frozenset[str], last: frozenset[str]
) -> None:
    consent_request = await process.ask(stage.caller, READ | WRITE)
    await process.approve(consent_request.id, first)
    await process.approve(consent_request.id, last)
    stage.confirm()

    await turn_later(stage, process)

    grant = await process.grant(stage.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == last


async def test_the_login_name_is_kept_apart_from_the_user_id(stage: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(stage, process)
    alice = stage.sandbox.state.users["alice"]
    stage.sandbox.state.login_flows[-1].granted = stage.sandbox.state.new_app_password(
        alice, login_name=alice.email or "ALICE"
    )

    await process.poller.run_once()

    grant = await process.grant(stage.caller)
    assert grant is not None
    assert grant.account.uid == "alice"
    assert grant.credential.login_name == (alice.email or "ALICE")


async def test_polls_become_rarer_while_the_person_is_away(stage: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(stage, process)
    pauses: list[float] = []

    for _ in range(30):
        pauses.append(await process.poller.run_once())
        stage.clock.forward(pauses[-1])

    assert 0.8 <= pauses[0] <= 1.2
    assert 8 <= pauses[-1] <= 12
    assert len(stage.network.to(POLL)) == 30


async def test_a_turn_before_its_time_asks_nothing(stage: ProcessHost, process: Process) -> None:
    await confirm_at_nextcloud(stage, process)
    await process.poller.run_once()

    await process.poller.run_once()

    assert len(stage.network.to(POLL)) == 1


async def test_of_two_processes_one_polls(stage: ProcessHost, process: Process) -> None:
    other = await stage.process()
    await confirm_at_nextcloud(stage, process)

    await together(
        process.poller.run_once, other.poller.run_once, process.poller.run_once, other.poller.run_once
    )

    assert len(stage.network.to(POLL)) == 1


async def test_the_result_is_stored_before_nextcloud_is_asked_whose_it_is(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()
    seen: list[LoginFlow | None] = []

    async def look(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            seen.append(await flow_of(process, consent_request))

    stage.network.before = look
    await process.poller.run_once()

    assert [flow is not None and flow.result is not None for flow in seen] == [True]


async def test_a_result_that_a_dead_process_left_is_taken_up_by_another(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()

    async def die(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    stage.network.before = die
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run_once)
    stage.network.before = None
    other = await stage.process()
    await other.poller.run_once()
    leased = await found(other, consent_request)
    stage.clock.forward(module.LEASE.total_seconds())
    await other.poller.run_once()

    assert leased.state is ElicitationState.OPENED
    assert (await found(other, consent_request)).state is ElicitationState.COMPLETE
    assert len(stage.network.to(POLL)) == 1


async def test_a_stop_in_the_middle_of_an_answer_loses_nothing(stage: ProcessHost, process: Process) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()

    async def stop(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    stage.network.after = stop
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run_once)

    flow = await flow_of(process, consent_request)
    assert flow is not None
    assert flow.result is not None


async def test_one_broken_flow_does_not_cut_off_the_answer_to_another(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    direct = await stage.process(direct=True)
    broken = await direct.ask(stage.caller)
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()
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

    stage.network.before = order
    with anyio.fail_after(60):
        await process.poller.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert (await found(process, broken)).state is ElicitationState.PENDING
    assert "a login flow could not be taken further" in caplog.text


async def test_what_cannot_be_stored_is_deleted_at_nextcloud_at_once(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()

    with stage.failing("UPDATE OF result ON login_flows"):
        await process.poller.run_once()

    assert stage.app_passwords == set()
    assert (await found(process, consent_request)).state is ElicitationState.OPENED


async def test_declining_while_nextcloud_answers_deletes_what_it_gave(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()

    async def decline(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            stage.network.before = None
            await process.decline(consent_request.id)

    stage.network.before = decline
    await process.poller.run_once()
    await process.outbox.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.DECLINED
    assert await process.grant(stage.caller) is None
    assert stage.app_passwords == set()
    assert await flow_of(process, consent_request) is None


async def test_granting_after_declining_is_deleted_without_asking_whose_it_was(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    await process.decline(consent_request.id)
    stage.confirm()

    await process.poller.run_once()
    await process.outbox.run_once()

    assert stage.app_passwords == set()
    assert stage.network.to("/cloud/user") == []


async def test_expiry_between_the_answer_and_its_use_deletes_the_callback_result(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm()

    async def too_late(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            stage.clock.forward(policy.LIFETIME.total_seconds())

    stage.network.before = too_late
    await process.poller.run_once()
    stage.network.before = None
    await process.outbox.run_once()

    assert (await found(process, consent_request)).state is ElicitationState.EXPIRED
    assert await process.grant(stage.caller) is None
    assert stage.app_passwords == set()


async def test_a_late_answer_is_polled_for_and_deleted(stage: ProcessHost, process: Process) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    await turn_later(stage, process, policy.LIFETIME.total_seconds() + 1)
    expired = await found(process, consent_request)
    stage.confirm()

    await turn_later(stage, process)
    await process.outbox.run_once()

    assert expired.state is ElicitationState.EXPIRED
    assert stage.app_passwords == set()
    assert await flow_of(process, consent_request) is None


async def test_a_flow_is_polled_to_nextclouds_end_and_then_forgotten(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)

    await turn_later(stage, process, module.FLOW_LIFETIME.total_seconds() - 1)
    kept = await flow_of(process, consent_request)
    seconds = await turn_later(stage, process)

    assert kept is not None
    assert await flow_of(process, consent_request) is None
    assert seconds == module.IDLE_SECONDS


async def test_a_consent_request_that_outlives_its_flow_fails_with_a_sentence(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.sql(f"UPDATE elicitations SET expires_at = '{stage.clock() + timedelta(days=1)}'")

    await turn_later(stage, process, module.FLOW_LIFETIME.total_seconds())

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert failed.error is not None
    assert failed.error.startswith("The sign-in at Nextcloud took too long; ask your assistant again.")
    assert "has to allow the program name 'Nextcloud MCP server'" in failed.error


async def test_a_flow_is_not_polled_for_ever_at_a_nextcloud_that_is_gone(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.network.before = stage.network.cut

    await turn_later(stage, process)
    kept = await flow_of(process, consent_request)
    await turn_later(stage, process, module.FLOW_LIFETIME.total_seconds())

    assert kept is not None
    assert await flow_of(process, consent_request) is None


async def test_another_account_than_the_first_is_refused_and_its_access_deleted(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.connect(process)
    await process.accounts.disconnect(stage.caller)
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.confirm("bob")

    await process.poller.run_once()
    await process.outbox.run_once()

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert "'alice' is connected here" in str(failed.error)
    assert stage.app_passwords == set()
    assert await process.grant(stage.caller) is None
    assert "another account was refused" in caplog.text


async def test_access_that_is_refused_right_after_it_was_given_fails_the_consent_request(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    stage.sandbox.state.app_passwords.pop(stage.confirm())

    await process.poller.run_once()
    await process.outbox.run_once()

    failed = await found(process, consent_request)
    assert failed.state is ElicitationState.FAILED
    assert failed.error == "Nextcloud did not accept the access it had just given."
    # What was refused by mistake must not live on, and what was refused twice is not sent again at once.
    assert await process.outbox.waiting(stage.caller.principal)
    assert stage.refusals() == 2
    stage.clock.forward(3601)
    await process.outbox.run_once()
    assert not await process.outbox.waiting(stage.caller.principal)


async def test_a_nextcloud_that_cannot_say_whose_access_it_is_is_asked_again(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    secret = stage.confirm()
    stage.sandbox.faults.status(503, area="ocs")

    await process.poller.run_once()
    waiting = await found(process, consent_request)
    stage.sandbox.faults.clear()
    await turn_later(stage, process)

    assert waiting.state is ElicitationState.OPENED
    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert stage.app_passwords == {secret}
    assert len(stage.network.to(POLL)) == 1


@pytest.mark.parametrize(
    ("header", "shortest", "longest"),
    [({}, 30, 61), ({"Retry-After": "5"}, 30, 61), ({"Retry-After": "7200"}, 30, 30)],
)
async def test_a_nextcloud_that_asks_for_a_pause_gets_one(
    stage: ProcessHost, process: Process, header: dict[str, str], shortest: float, longest: float
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    stage.network.before = throttle
    seconds = await process.poller.run_once()
    polls = len(stage.network.to(POLL))
    await turn_later(stage, process, max(module.THROTTLED_SECONDS, float(header.get("Retry-After", 0))) - 1)

    assert shortest <= seconds <= longest
    assert polls == len(stage.network.to(POLL)) == 1
    assert await flow_of(process, consent_request) is not None


async def test_a_pause_of_thousands_of_years_ends_after_a_day(stage: ProcessHost, process: Process) -> None:
    """A proxy whose clock is wrong may write any date into Retry-After (RFC 9110 §10.2.3)."""
    consent_request = await confirm_at_nextcloud(stage, process)
    header = {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT", "Date": "Sat, 28 Nov 2026 10:00:00 GMT"}

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    stage.network.before = throttle
    await process.poller.run_once()

    assert await process.database.login_flows.next_due_at() == stage.clock() + timedelta(days=1)
    assert await flow_of(process, consent_request) is not None


async def test_a_slow_process_that_comes_second_does_not_delete_what_the_first_stored(
    stage: ProcessHost, process: Process
) -> None:
    other = await stage.process()
    consent_request = await confirm_at_nextcloud(stage, process)
    secret = stage.confirm()

    async def overtaken(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            stage.network.before = None
            stage.clock.forward(module.LEASE.total_seconds())
            await other.poller.run_once()

    stage.network.before = overtaken
    await process.poller.run_once()
    await together(process.outbox.run_once, other.outbox.run_once)

    assert (await found(process, consent_request)).state is ElicitationState.COMPLETE
    assert stage.app_passwords == {secret}
    assert (await process.accounts.open(stage.caller, READ)).account.uid == "alice"


async def test_access_given_anew_replaces_the_old_one_at_nextcloud_too(
    stage: ProcessHost, process: Process
) -> None:
    direct = await stage.process(direct=True)
    await stage.connect(process)
    await direct.ask(stage.caller, frozenset({"files:read"}))
    secret = stage.confirm()
    await process.poller.run_once()

    await process.outbox.run_once()

    assert stage.app_passwords == {secret}


async def test_flows_of_another_nextcloud_are_left_to_its_own_server(
    stage: ProcessHost, process: Process
) -> None:
    elsewhere = await stage.process(url="http://elsewhere.test")
    await confirm_at_nextcloud(stage, process)

    seconds = await elsewhere.poller.run_once()

    assert seconds == module.IDLE_SECONDS
    assert stage.network.to(POLL) == []


async def test_a_flow_whose_key_is_lost_is_left_alone_without_a_busy_loop(
    stage: ProcessHost, process: Process
) -> None:
    other = await stage.process(keys=KeyRing.parse([SecretStr(new_key())]))
    await confirm_at_nextcloud(stage, process)
    turns, end = 0, stage.clock() + timedelta(minutes=5)

    while stage.clock() < end:
        stage.clock.forward(await other.poller.run_once())
        turns += 1

    # It is looked at once for each lease, and the idle poller looks around in between.
    assert turns <= 2 * timedelta(minutes=5) / module.LEASE + 1
    assert stage.network.to(POLL) == []


async def test_a_flow_for_a_consent_request_that_ended_meanwhile_is_discarded(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(stage.caller)

    async def decline(request: httpx2.Request) -> None:
        stage.network.after = None
        await process.decline(consent_request.id)

    stage.network.after = decline
    await process.approve(consent_request.id, READ)
    flow = await flow_of(process, consent_request)

    assert flow is not None
    assert flow.discard


async def test_a_consent_request_that_is_unknown_by_now_gets_no_flow(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(stage.caller)
    stage.sql("DELETE FROM elicitations")

    with pytest.raises(ElicitationUnknown):
        await process.provider.authorize_url(consent_request, READ)


async def test_the_result_for_a_consent_request_that_is_gone_is_deleted(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)
    flow = await flow_of(process, consent_request)
    stage.sandbox.state.app_passwords.pop(stage.confirm())
    stage.sql("DELETE FROM elicitations")
    assert flow is not None

    await process.poller.run_once()
    await process.provisioning.failed(flow, Failure("took_too_long"))

    assert process.finished == []
    assert await process.grant(stage.caller) is None


async def test_the_background_wakes_when_a_consent_request_starts(
    stage: ProcessHost, process: Process
) -> None:
    polled = anyio.Event()

    async def poll(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            polled.set()

    stage.network.after = poll
    async with anyio.create_task_group() as group:
        group.start_soon(process.poller.run)
        await anyio.lowlevel.checkpoint()
        await confirm_at_nextcloud(stage, process)
        with anyio.fail_after(60):
            await polled.wait()
        group.cancel_scope.cancel()

    assert len(stage.network.to(POLL)) == 1


async def test_the_background_survives_a_bad_turn_and_waits_before_the_next(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    polled = anyio.Event()
    consent_request = await process.ask(stage.caller)

    async def poll(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            polled.set()

    stage.network.after = poll
    async with anyio.create_task_group() as group:
        stage.sql("ALTER TABLE login_flows RENAME TO hidden")
        group.start_soon(process.poller.run)
        with anyio.fail_after(60):
            while "polling login flows failed" not in caplog.text:  # noqa: ASYNC110 - a log gives no event
                await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        stage.sql("ALTER TABLE hidden RENAME TO login_flows")
        await process.approve(consent_request.id, READ)
        with anyio.fail_after(60):
            await polled.wait()
        group.cancel_scope.cancel()

    assert caplog.text.count("polling login flows failed") == 1
    assert caplog.records[0].levelno == logging.ERROR


async def test_a_poll_that_nextcloud_does_not_answer_is_given_up(
    stage: ProcessHost, process: Process
) -> None:
    consent_request = await confirm_at_nextcloud(stage, process)

    async def never(request: httpx2.Request) -> None:
        await anyio.sleep_forever()

    stage.network.before = never
    poller = module.Poller(
        process.database,
        process.provider,
        process.provisioning,
        clock=stage.clock,
        wake=process.provider.next_start,
        outbox=process.outbox,
        within=stage.caller.principal,
        answer_seconds=0.05,
    )
    with anyio.fail_after(60):
        await poller.run_once()

    flow = await flow_of(process, consent_request)
    assert flow is not None
    assert flow.attempts == 1


async def test_a_program_that_is_not_on_nextclouds_list_is_told_before_the_person_is_sent_there(
    stage: ProcessHost, process: Process
) -> None:
    """The list of the administrator shows itself only on Nextcloud's page; a poll is answered as if it had none."""
    consent_request = await process.ask(stage.caller)
    stage.sandbox.state.allowed_user_agents.append("Nextcloud-android")

    with pytest.raises(ProgramRefused, match="'/\\^Nextcloud MCP server/'"):
        await process.approve(consent_request.id, READ)
    told = await process.provisioning.ask(stage.caller, READ, grant=None)
    flow = await flow_of(process, consent_request)
    stage.sandbox.state.allowed_user_agents.append("Nextcloud MCP server")
    await process.approve(consent_request.id, READ)
    after = await process.provisioning.ask(stage.caller, READ, grant=None)

    assert "The last try did not work: Nextcloud lets only the programs on its list sign in" in str(told)
    assert (flow, await flow_of(process, consent_request) is None) == (None, False)
    assert str(after) == policy.ASK
