"""A call that finds an open consent request polls it before it gives its link again."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.consent import login_flow as module
from nextcloud_mcp_server.auth.consent.login_flow import LEASE, Poller
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import ElicitationRequired
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.records import Grant
from tests.auth_fixtures import READ, Process, ProcessHost

POLL = "/login/v2/poll"


@asynccontextmanager
async def running(
    harness: ProcessHost, process: Process, *, seconds: float = 15.0
) -> AsyncGenerator[GrantedAccounts]:
    """Run the poller of a process, and lend accounts that use it."""
    poller = Poller(
        process.database,
        process.provider,
        process.provisioning,
        clock=harness.clock,
        wake=process.provider.next_start,
        outbox=process.outbox,
        within=harness.caller.principal,
        answer_seconds=seconds,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(poller.run)
        yield GrantedAccounts(
            process.database,
            process.nextcloud,
            process.provisioning,
            process.outbox,
            process.audit,
            monotonic=harness.clock.seconds,
            poll_now=poller.poll_now,
        )
        group.cancel_scope.cancel()


async def uid(harness: ProcessHost, accounts: GrantedAccounts) -> str:
    with anyio.fail_after(60):
        return (await accounts.open(harness.caller, READ)).account.uid


async def asked(harness: ProcessHost, accounts: GrantedAccounts) -> ElicitationRequired:
    with anyio.fail_after(60), pytest.raises(ElicitationRequired) as caught:
        await accounts.open(harness.caller, READ)
    return caught.value


async def begun(harness: ProcessHost) -> Process:
    """Ask for consent as a process does that is started for one call and ends after it."""
    process = await harness.process(direct=True)
    await process.ask(harness.caller)
    return process


async def later(harness: ProcessHost) -> Process:
    return await harness.process(direct=True)


async def test_what_was_granted_while_no_process_ran_is_found_out_by_the_next_call(
    harness: ProcessHost,
) -> None:
    await begun(harness)
    harness.confirm()

    async with running(harness, await later(harness)) as accounts:
        found = await uid(harness, accounts)

    assert found == "alice"


async def test_a_flow_is_polled_though_it_is_not_due_for_a_while(harness: ProcessHost) -> None:
    process = await begun(harness)
    await process.poller.run_once()
    harness.confirm()

    async with running(harness, process) as accounts:
        found = await uid(harness, accounts)

    assert found == "alice"


async def test_the_same_link_is_given_while_it_is_pending_and_the_poll_counts_as_one_in_turn(
    harness: ProcessHost,
) -> None:
    process = await begun(harness)
    first = await process.ask(harness.caller)
    # Not due yet, so that only a poll out of turn is made.
    await process.poller.run_once()

    async with running(harness, process) as accounts:
        again = await asked(harness, accounts)

    flow = await process.database.login_flows.find(first.id)
    assert (again.url, again.elicitation_id) == (first.url, first.id)
    assert again.reused
    assert flow is not None
    assert flow.attempts == len(harness.network.to(POLL)) == 2


async def test_a_request_that_was_just_made_is_not_polled_for_its_own_call(harness: ProcessHost) -> None:
    process = await harness.process()

    async with running(harness, process) as accounts:
        first, second = await asked(harness, accounts), await asked(harness, accounts)

    assert (first.reused, second.reused) == (False, True)
    # Through our own page nothing is at Nextcloud before the user allows it there.
    assert harness.network.to(POLL) == []


async def test_a_flow_that_a_dead_process_holds_is_taken_after_a_moment(harness: ProcessHost) -> None:
    process = await begun(harness)
    await process.database.login_flows.lease_due(owner="dead", lease=LEASE)
    harness.confirm()

    async with running(harness, await later(harness)) as accounts:
        found = await uid(harness, accounts)

    assert found == "alice"


async def test_calls_that_come_while_a_flow_is_polled_wait_for_that_poll(harness: ProcessHost) -> None:
    process = await begun(harness)
    polled, go_on = anyio.Event(), anyio.Event()

    async def slowly(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            polled.set()
            await go_on.wait()

    harness.network.before = slowly
    harness.confirm()
    found: list[str] = []

    async def call(accounts: GrantedAccounts) -> None:
        found.append(await uid(harness, accounts))

    async with running(harness, process) as accounts, anyio.create_task_group() as group:
        await polled.wait()
        for _ in range(3):
            group.start_soon(call, accounts)
        await anyio.sleep(0.1)
        go_on.set()

    assert found == ["alice"] * 3
    assert len(harness.network.to(POLL)) == 1


async def test_a_nextcloud_that_does_not_answer_does_not_hold_a_call(
    harness: ProcessHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_NOW_SECONDS", 0.05)
    process = await begun(harness)

    async def never(request: httpx2.Request) -> None:
        if request.url.path.endswith(POLL):
            await anyio.sleep_forever()

    harness.network.before = never
    async with running(harness, process, seconds=0.5) as accounts:
        question = await asked(harness, accounts)

    assert question


async def test_calls_keep_the_pause_that_nextcloud_asks_for(harness: ProcessHost) -> None:
    process = await begun(harness)
    harness.sandbox.faults.status(429, area="login")

    async with running(harness, process) as accounts:
        for _ in range(3):
            await asked(harness, accounts)
        during = len(harness.network.to(POLL))
        harness.clock.forward(module.THROTTLED_SECONDS + 1)
        await asked(harness, accounts)

    assert (during, len(harness.network.to(POLL))) == (1, 2)


@pytest.mark.parametrize("settle_seconds", [0.05, 60.0])
async def test_a_flow_that_was_granted_is_waited_for_a_little_longer(
    harness: ProcessHost, monkeypatch: pytest.MonkeyPatch, settle_seconds: float
) -> None:
    monkeypatch.setattr(module, "POLL_NOW_SECONDS", 0.2)
    monkeypatch.setattr(module, "SETTLE_SECONDS", settle_seconds)
    process = await begun(harness)

    async def slowly(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            await anyio.sleep(1)

    harness.network.before = slowly
    harness.confirm()
    async with running(harness, process) as accounts:
        if settle_seconds < 1:
            await asked(harness, accounts)
        else:
            assert await uid(harness, accounts) == "alice"


async def test_a_link_that_ended_without_access_is_followed_by_a_new_one(harness: ProcessHost) -> None:
    connected = await harness.process()
    await harness.connect(connected)
    # Connected as alice, whose access no longer works; bob grants it this time.
    harness.sql("UPDATE credentials SET needs_reauth = 1")
    process = await begun(harness)
    before = await process.ask(harness.caller)
    harness.confirm("bob")

    async with running(harness, process) as accounts:
        after = await asked(harness, accounts)

    assert after.url != before.url
    assert not after.reused


async def test_a_database_that_fails_leaves_the_link_and_is_logged(
    harness: ProcessHost, caplog: pytest.LogCaptureFixture
) -> None:
    process = await begun(harness)

    async with running(harness, process) as accounts:
        with harness.failing("UPDATE ON login_flows"):
            again = await asked(harness, accounts)

    assert again.reused
    assert "a login flow could not be polled out of turn" in caplog.text


async def test_a_flow_that_ends_between_the_look_at_its_request_and_the_poll_is_found_out(
    harness: ProcessHost,
) -> None:
    """The poller of the same process, or of another, may get there first."""
    process = await begun(harness)
    harness.confirm()

    async def settled_first(elicitation_id: str) -> bool:
        await process.poller.run_once()
        return await process.poller.poll_now(elicitation_id)

    accounts = GrantedAccounts(
        process.database,
        process.nextcloud,
        process.provisioning,
        process.outbox,
        process.audit,
        monotonic=harness.clock.seconds,
        poll_now=settled_first,
    )

    assert await uid(harness, accounts) == "alice"


async def test_access_that_is_granted_before_its_request_is_looked_at_needs_no_new_one(
    harness: ProcessHost,
) -> None:
    process = await begun(harness)
    harness.confirm()
    late = GrantedMeanwhile.of(process)
    accounts = GrantedAccounts(
        process.database,
        process.nextcloud,
        late,
        process.outbox,
        process.audit,
        monotonic=harness.clock.seconds,
        poll_now=process.poller.poll_now,
    )

    assert await uid(harness, accounts) == "alice"


class GrantedMeanwhile(Provisioning):
    """Comes to each question only after the poller has had its turn."""

    run_once: Callable[[], Awaitable[float]]

    @classmethod
    def of(cls, process: Process) -> "GrantedMeanwhile":
        made = cls.__new__(cls)
        vars(made).update(vars(process.provisioning), run_once=process.poller.run_once)
        return made

    async def ask(
        self, caller: Caller, scopes: frozenset[str], *, grant: Grant | None
    ) -> ElicitationRequired:
        await self.run_once()
        return await super().ask(caller, scopes, grant=grant)


async def test_a_flow_whose_key_is_missing_counts_as_none_and_its_request_as_ended(
    harness: ProcessHost,
) -> None:
    consent_request = await (await begun(harness)).ask(harness.caller)
    other = await harness.process(direct=True, keys=KeyRing.parse([SecretStr(new_key())]))

    with anyio.fail_after(60):
        assert await other.poller.poll_now(consent_request.id)
