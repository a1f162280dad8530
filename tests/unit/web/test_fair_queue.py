from functools import partial

import anyio
import anyio.lowlevel
import pytest

from nextcloud_mcp_server.web.fair_queue import FairQueue

FOREVER = 3600.0


class Requests:
    """Requests that begin when the queue lets them and end when they are told to."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.begun: list[str] = []
        self.ends: dict[str, anyio.Event] = {}

    async def run(self, name: str) -> None:
        self.ends[name] = anyio.Event()
        async with self.queue.slot(name[0]):
            self.begun.append(name)
            await self.ends[name].wait()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await anyio.wait_all_tasks_blocked()


async def test_people_take_turns_and_each_one_s_requests_keep_their_order() -> None:
    requests = Requests(FairQueue(most_fresh=1, fresh_seconds=FOREVER))
    async with anyio.create_task_group() as group:
        for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
            group.start_soon(requests.run, name)
            await anyio.wait_all_tasks_blocked()
        for done in range(6):
            await requests.end(requests.begun[done])

    assert requests.begun == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_long_request_delays_no_other() -> None:
    requests = Requests(FairQueue(most_fresh=1, fresh_seconds=0.001))
    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            for name in ("a1", "a2", "b1"):
                group.start_soon(requests.run, name)
            while len(requests.begun) < 3:
                await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert sorted(requests.begun) == ["a1", "a2", "b1"]


@pytest.mark.parametrize("gone", ["a1", "b1", "b2", "c1"])
async def test_a_client_that_disconnects_delays_no_other(gone: str) -> None:
    requests = Requests(FairQueue(most_fresh=1, fresh_seconds=FOREVER))
    scopes = {name: anyio.CancelScope() for name in ("a1", "b1", "b2", "c1")}

    async def run(name: str) -> None:
        with scopes[name]:
            await requests.run(name)

    async with anyio.create_task_group() as group:
        for name in scopes:
            group.start_soon(run, name)
            await anyio.wait_all_tasks_blocked()
        scopes[gone].cancel()
        await anyio.wait_all_tasks_blocked()
        for done in range(4 - (gone != "a1")):
            await requests.end(requests.begun[done]) if requests.begun[done] != gone else None

    assert sorted({*requests.begun, gone}) == ["a1", "b1", "b2", "c1"]


async def test_one_who_watches_the_clock_and_leaves_passes_that_on() -> None:
    requests = Requests(FairQueue(most_fresh=1, fresh_seconds=0.05))
    scope = anyio.CancelScope()

    async def leaving() -> None:
        with scope:
            await requests.run("b1")

    async with anyio.create_task_group() as group:
        with anyio.fail_after(60):
            group.start_soon(requests.run, "a1")
            await anyio.wait_all_tasks_blocked()
            group.start_soon(leaving)
            await anyio.lowlevel.checkpoint()
            group.start_soon(requests.run, "c1")
            await anyio.lowlevel.checkpoint()
            scope.cancel()
            while "c1" not in requests.begun:
                await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert requests.begun[-1] == "c1"


async def test_streams_begin_though_the_request_before_them_ended_at_once() -> None:
    queue = FairQueue(most_fresh=1, fresh_seconds=0.01)
    begun: list[str] = []

    async def run(name: str, *, long: bool) -> None:
        async with queue.slot(name):
            begun.append(name)
            if long:
                await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c", "d"):
            group.start_soon(partial(run, name, long=name != "b"))
        with anyio.move_on_after(60):
            while len(begun) < 4:  # noqa: ASYNC110 - the queue gives no event
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    assert begun == ["a", "b", "c", "d"]
