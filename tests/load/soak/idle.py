"""Measures what clients cost that only hold a stream open: `python -m tests.load.soak.idle`.

By default 200 users with ten clients each, because one client of a user may hold half of a user's 32 streams.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient
from tests.load import process
from tests.load.replicas import Replicas, replicas
from tests.load.soak.run import name_of, postgres_database
from tests.load.soak.watch import sample
from tests.load_cluster import LIST, open_cluster

_AT_ONCE = 16
_SETTLE_SECONDS = 15.0
_WATCHED_SECONDS = 30.0
LISTEN = {"notifications": {"toolsListChanged": True}}


@dataclass(frozen=True, slots=True)
class Idle:
    """What so many idle clients of an era add to one process; `called_mb` is what they add after a call each."""

    era: str
    clients: int
    base_mb: float
    added_mb: float
    descriptors: int
    cpu_share: float
    left_mb: float


@asynccontextmanager
async def _one_client(served: Replicas, name: str, era: str) -> AsyncGenerator[None]:
    """Begin as a client does, call a tool, and hold a stream open."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(served.http(name))
        group = await stack.enter_async_context(anyio.create_task_group())
        made = HandshakeClient if era == "2025-11-25" else StatelessClient
        client = made(http, served.endpoint, capabilities={})
        await client.open()
        await client.request("tools/list", {})
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(str(answer)[:300])
        if isinstance(client, HandshakeClient):
            await group.start(client.listen)
        else:
            acknowledged = anyio.Event()
            client.on_notice = lambda _: acknowledged.set()
            group.start_soon(_listen, client)
            with anyio.fail_after(120):
                await acknowledged.wait()
        yield
        group.cancel_scope.cancel()


async def _listen(client: StatelessClient) -> None:
    params: dict[str, Any] = LISTEN
    answer = await client.request("subscriptions/listen", params)
    raise RuntimeError(f"a stream ended: {answer}")


async def _hold(served: Replicas, era: str, names: list[str], each: int, *, measure: Any) -> Any:  # noqa: ANN401 - whatever it measures
    """Let every user's clients hold streams, and measure meanwhile."""
    ready, todo = 0, [name for _ in range(each) for name in names]
    found: Any = None
    done, whole = anyio.Event(), len(todo)
    room = anyio.CapacityLimiter(_AT_ONCE)

    async def hold(name: str) -> None:
        nonlocal ready
        async with AsyncExitStack() as stack:
            async with room:
                await stack.enter_async_context(_one_client(served, name, era))
            ready += 1
            if ready == whole:
                done.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for name in todo:
            group.start_soon(hold, name)
        await done.wait()
        found = await measure()
        group.cancel_scope.cancel()
    return found


async def idle(era: str, people: int, each: int, folder: Path, url: str | None) -> Idle:
    """Start one process, and let clients of one era hold streams."""
    names = [name_of(number) for number in range(people)]
    async with open_cluster(folder, database_url=url) as cluster:
        cluster.move_in(*names)
        await cluster.connect(*names)
        async with replicas(cluster, 1) as served:
            pid = served.pids[0]

            async def nothing() -> None:
                return

            await _hold(served, era, names[:20], 1, measure=nothing)
            await anyio.sleep(3)
            base = sample(pid, 0)

            async def measure() -> tuple[float, int, float]:
                await anyio.sleep(_SETTLE_SECONDS)
                used, began = process.cpu_seconds(pid), time.perf_counter()
                await anyio.sleep(_WATCHED_SECONDS)
                share = (process.cpu_seconds(pid) - used) / (time.perf_counter() - began)
                held = sample(pid, 0)
                return held.mb - base.mb, held.descriptors - base.descriptors, share

            added, descriptors, share = await _hold(served, era, names, each, measure=measure)
            await anyio.sleep(_SETTLE_SECONDS)
            left = sample(pid, 0).mb - base.mb
    return Idle(era, people * each, base.mb, added, descriptors, share, left)


async def main(people: int, each: int, eras: list[str], server: str | None) -> int:
    """Measure each era in a process of its own."""
    worst = 0.0
    for era in eras:
        with tempfile.TemporaryDirectory() as folder:
            async with postgres_database(server) as url:
                found = await idle(era, people, each, Path(folder), url)
        worst = max(worst, found.added_mb)
        sys.stdout.write(
            f"{found.era}: {found.clients} idle clients of {people} people add {found.added_mb:.0f} MB to "
            f"{found.base_mb:.0f} MB ({found.added_mb / found.clients * 1024:.0f} kB each), {found.descriptors} "
            f"descriptors, {found.cpu_share:.1%} of a processor; {found.left_mb:.0f} MB are left when they are gone\n"
        )
        sys.stdout.flush()
    return 1 if worst > 200 else 0


def _run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak.idle", description=__doc__)
    parser.add_argument("--people", type=int, default=200, help="users (200)")
    parser.add_argument("--each", type=int, default=10, help="clients of each user (10)")
    parser.add_argument("--eras", nargs="*", default=["2025-11-25", "2026-07-28"], help="both")
    options = parser.parse_args()
    server = os.environ.get("TEST_POSTGRES_URL")
    return anyio.run(main, options.people, options.each, options.eras, server)


if __name__ == "__main__":
    sys.exit(_run())
