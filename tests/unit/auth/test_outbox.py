from datetime import timedelta
from functools import partial
from itertools import pairwise

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth import outbox as module
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.outbox import DELETE_APP_PASSWORD
from tests.auth_fixtures import NEXTCLOUD, Process, ProcessHost, together

DELETION = "/core/apppassword"


async def put(harness: ProcessHost, process: Process, name: str = "alice") -> str:
    """Put the deletion of a new app password into the outbox."""
    made = harness.sandbox.state.new_app_password(harness.sandbox.state.users[name])
    await process.database.outbox.add(
        principal=harness.caller.principal,
        kind=DELETE_APP_PASSWORD,
        nextcloud_url=NEXTCLOUD,
        login_name=made.login_name,
        secret=SecretStr(made.secret),
    )
    return made.secret


async def waiting(harness: ProcessHost, process: Process) -> bool:
    return await process.outbox.waiting(harness.caller.principal)


async def test_what_is_due_is_done_and_forgotten(harness: ProcessHost, process: Process) -> None:
    await put(harness, process)
    await put(harness, process, "bob")

    seconds = await process.outbox.run_once()

    assert harness.app_passwords == set()
    assert not await waiting(harness, process)
    assert seconds == module.IDLE_SECONDS


async def test_an_app_password_that_is_gone_already_counts_as_done(
    harness: ProcessHost, process: Process
) -> None:
    harness.sandbox.state.app_passwords.pop(await put(harness, process))

    await process.outbox.run_once()

    assert not await waiting(harness, process)
    # Confirmed by a probe: refused by mistake, it would live on.
    assert harness.refusals() == 2


async def test_an_unreachable_nextcloud_is_tried_again_with_growing_pauses(
    harness: ProcessHost, process: Process
) -> None:
    await put(harness, process)
    harness.network.before = harness.network.cut
    tries: list[float] = []
    start = harness.clock()

    while harness.clock() - start < timedelta(hours=6):
        asked = len(harness.network.asked)
        seconds = await process.outbox.run_once()
        if len(harness.network.asked) > asked:
            tries.append((harness.clock() - start).total_seconds())
        harness.clock.forward(seconds)
    harness.network.before = None
    harness.clock.forward(module.SLOWEST_RETRY_SECONDS)
    await process.outbox.run_once()

    assert tries[:4] == [0, 5, 15, 35]
    assert max(b - a for a, b in pairwise(tries)) == module.SLOWEST_RETRY_SECONDS
    assert harness.app_passwords == set()


async def test_thousands_of_failed_tries_are_no_trouble(harness: ProcessHost, process: Process) -> None:
    await put(harness, process)
    harness.sql("UPDATE outbox SET attempts = 5000")
    harness.network.before = harness.network.cut

    await process.outbox.run_once()

    assert await process.outbox.run_once() == module.IDLE_SECONDS


@pytest.mark.parametrize(("header", "pause"), [({}, 60), ({"Retry-After": "1800"}, 1800)])
async def test_a_nextcloud_that_asks_for_a_pause_gets_one(
    harness: ProcessHost, process: Process, header: dict[str, str], pause: float
) -> None:
    await put(harness, process)

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    harness.network.before = throttle
    await process.outbox.run_once()
    harness.clock.forward(pause - 1)
    await process.outbox.run_once()
    early = len(harness.network.to(DELETION))
    harness.clock.forward(1)
    await process.outbox.run_once()

    assert early == 1
    assert len(harness.network.to(DELETION)) == 2


async def test_two_processes_do_each_thing_once(harness: ProcessHost, process: Process) -> None:
    other = await harness.process()
    await put(harness, process)

    await together(process.outbox.run_once, other.outbox.run_once, process.outbox.run_once)

    assert len(harness.network.to(DELETION)) == 1


async def test_what_a_dead_process_had_taken_is_done_by_another(
    harness: ProcessHost, process: Process
) -> None:
    await put(harness, process)

    async def die(request: httpx2.Request) -> None:
        group.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()

    harness.network.before = die
    async with anyio.create_task_group() as group:
        group.start_soon(process.outbox.run_once)
    harness.network.before = None
    other = await harness.process()
    await other.outbox.run_once()
    too_early = harness.app_passwords
    harness.clock.forward(module.LEASE.total_seconds())
    await other.outbox.run_once()

    assert len(too_early) == 1
    assert harness.app_passwords == set()


async def test_an_app_password_goes_to_no_other_nextcloud(harness: ProcessHost, process: Process) -> None:
    elsewhere = await harness.process(url="http://elsewhere.test")
    await put(harness, process)

    seconds = await elsewhere.outbox.run_once()

    assert seconds == module.IDLE_SECONDS
    assert harness.network.asked == []


async def test_work_whose_key_is_lost_is_left_alone_without_a_busy_loop(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process(keys=KeyRing.parse([SecretStr(new_key())]))
    await put(harness, process)
    turns, end = 0, harness.clock() + timedelta(minutes=10)

    while harness.clock() < end:
        harness.clock.forward(await other.outbox.run_once())
        turns += 1

    assert turns <= 11
    assert harness.network.asked == []


async def test_the_background_starts_when_it_is_woken(harness: ProcessHost, process: Process) -> None:
    done = anyio.Event()

    async def deleted(request: httpx2.Request) -> None:
        done.set()

    harness.network.after = deleted
    async with anyio.create_task_group() as group:
        group.start_soon(process.outbox.run)
        await anyio.lowlevel.checkpoint()
        await put(harness, process)
        process.outbox.wake()
        with anyio.fail_after(60):
            await done.wait()
        group.cancel_scope.cancel()

    assert len(harness.network.to(DELETION)) == 1


async def test_the_background_survives_a_bad_turn_and_waits_before_the_next(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await put(harness, process)
    done = anyio.Event()

    async def deleted(request: httpx2.Request) -> None:
        done.set()

    harness.network.after = deleted
    async with anyio.create_task_group() as group:
        harness.sql("ALTER TABLE outbox RENAME TO hidden")
        group.start_soon(process.outbox.run)
        with anyio.fail_after(60):
            while "the outbox could not be processed" not in caplog.text:  # noqa: ASYNC110 - a log gives no event
                await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        harness.sql("ALTER TABLE hidden RENAME TO outbox")
        process.outbox.wake()
        with anyio.fail_after(60):
            await done.wait()
        group.cancel_scope.cancel()

    assert caplog.text.count("the outbox could not be processed") == 1


async def test_turns_of_one_process_do_not_overlap(harness: ProcessHost, process: Process) -> None:
    for _ in range(3):
        await put(harness, process)

    await together(*[partial(process.outbox.run_once)] * 3)

    assert len(harness.network.to(DELETION)) == 3
