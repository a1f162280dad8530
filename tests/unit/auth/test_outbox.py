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


async def put(stage: ProcessHost, process: Process, name: str = "alice") -> str:
    """Put the deletion of a new app password into the outbox."""
    made = stage.sandbox.state.new_app_password(stage.sandbox.state.users[name])
    await process.database.outbox.add(
        principal=stage.caller.principal,
        kind=DELETE_APP_PASSWORD,
        nextcloud_url=NEXTCLOUD,
        login_name=made.login_name,
        secret=SecretStr(made.secret),
    )
    return made.secret


async def waiting(stage: ProcessHost, process: Process) -> bool:
    return await process.outbox.waiting(stage.caller.principal)


async def test_what_is_due_is_done_and_forgotten(stage: ProcessHost, process: Process) -> None:
    await put(stage, process)
    await put(stage, process, "bob")

    seconds = await process.outbox.turn()

    assert stage.app_passwords == set()
    assert not await waiting(stage, process)
    assert seconds == module.IDLE_SECONDS


async def test_an_app_password_that_is_gone_already_counts_as_done(
    stage: ProcessHost, process: Process
) -> None:
    stage.sandbox.state.app_passwords.pop(await put(stage, process))

    await process.outbox.turn()

    assert not await waiting(stage, process)
    # Confirmed by a probe: refused by mistake, it would live on.
    assert stage.refusals() == 2


async def test_an_unreachable_nextcloud_is_tried_again_with_growing_pauses(
    stage: ProcessHost, process: Process
) -> None:
    await put(stage, process)
    stage.network.before = stage.network.cut
    tries: list[float] = []
    start = stage.clock()

    while stage.clock() - start < timedelta(hours=6):
        asked = len(stage.network.asked)
        seconds = await process.outbox.turn()
        if len(stage.network.asked) > asked:
            tries.append((stage.clock() - start).total_seconds())
        stage.clock.forward(seconds)
    stage.network.before = None
    stage.clock.forward(module.SLOWEST_RETRY_SECONDS)
    await process.outbox.turn()

    assert tries[:4] == [0, 5, 15, 35]
    assert max(b - a for a, b in pairwise(tries)) == module.SLOWEST_RETRY_SECONDS
    assert stage.app_passwords == set()


async def test_thousands_of_failed_tries_are_no_trouble(stage: ProcessHost, process: Process) -> None:
    await put(stage, process)
    stage.sql("UPDATE outbox SET attempts = 5000")
    stage.network.before = stage.network.cut

    await process.outbox.turn()

    assert await process.outbox.turn() == module.IDLE_SECONDS


@pytest.mark.parametrize(("header", "pause"), [({}, 60), ({"Retry-After": "1800"}, 1800)])
async def test_a_nextcloud_that_asks_for_a_pause_gets_one(
    stage: ProcessHost, process: Process, header: dict[str, str], pause: float
) -> None:
    await put(stage, process)

    async def throttle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(429, headers=header, request=request)

    stage.network.before = throttle
    await process.outbox.turn()
    stage.clock.forward(pause - 1)
    await process.outbox.turn()
    early = len(stage.network.to(DELETION))
    stage.clock.forward(1)
    await process.outbox.turn()

    assert early == 1
    assert len(stage.network.to(DELETION)) == 2


async def test_two_processes_do_each_thing_once(stage: ProcessHost, process: Process) -> None:
    other = await stage.process()
    await put(stage, process)

    await together(process.outbox.turn, other.outbox.turn, process.outbox.turn)

    assert len(stage.network.to(DELETION)) == 1


async def test_what_a_dead_process_had_taken_is_done_by_another(stage: ProcessHost, process: Process) -> None:
    await put(stage, process)

    async def die(request: httpx2.Request) -> None:
        group.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()

    stage.network.before = die
    async with anyio.create_task_group() as group:
        group.start_soon(process.outbox.turn)
    stage.network.before = None
    other = await stage.process()
    await other.outbox.turn()
    too_early = stage.app_passwords
    stage.clock.forward(module.LEASE.total_seconds())
    await other.outbox.turn()

    assert len(too_early) == 1
    assert stage.app_passwords == set()


async def test_an_app_password_goes_to_no_other_nextcloud(stage: ProcessHost, process: Process) -> None:
    elsewhere = await stage.process(url="http://elsewhere.test")
    await put(stage, process)

    seconds = await elsewhere.outbox.turn()

    assert seconds == module.IDLE_SECONDS
    assert stage.network.asked == []


async def test_work_whose_key_is_lost_is_left_alone_without_a_busy_loop(
    stage: ProcessHost, process: Process
) -> None:
    other = await stage.process(keys=KeyRing.parse([SecretStr(new_key())]))
    await put(stage, process)
    turns, end = 0, stage.clock() + timedelta(minutes=10)

    while stage.clock() < end:
        stage.clock.forward(await other.outbox.turn())
        turns += 1

    assert turns <= 11
    assert stage.network.asked == []


async def test_the_background_starts_when_it_is_woken(stage: ProcessHost, process: Process) -> None:
    done = anyio.Event()

    async def deleted(request: httpx2.Request) -> None:
        done.set()

    stage.network.after = deleted
    async with anyio.create_task_group() as group:
        group.start_soon(process.outbox.run)
        await anyio.lowlevel.checkpoint()
        await put(stage, process)
        process.outbox.wake()
        with anyio.fail_after(60):
            await done.wait()
        group.cancel_scope.cancel()

    assert len(stage.network.to(DELETION)) == 1


async def test_the_background_survives_a_bad_turn_and_waits_before_the_next(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await put(stage, process)
    done = anyio.Event()

    async def deleted(request: httpx2.Request) -> None:
        done.set()

    stage.network.after = deleted
    async with anyio.create_task_group() as group:
        stage.sql("ALTER TABLE outbox RENAME TO hidden")
        group.start_soon(process.outbox.run)
        with anyio.fail_after(60):
            while "the outbox could not be processed" not in caplog.text:  # noqa: ASYNC110 - a log gives no event
                await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        stage.sql("ALTER TABLE hidden RENAME TO outbox")
        process.outbox.wake()
        with anyio.fail_after(60):
            await done.wait()
        group.cancel_scope.cancel()

    assert caplog.text.count("the outbox could not be processed") == 1


async def test_turns_of_one_process_do_not_overlap(stage: ProcessHost, process: Process) -> None:
    for _ in range(3):
        await put(stage, process)

    await together(*[partial(process.outbox.turn)] * 3)

    assert len(stage.network.to(DELETION)) == 3
