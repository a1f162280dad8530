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
import httpx2

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient
from tests.load import process
from tests.load.replicas import Replicas, replicas
from tests.load.soak.run import name_of, postgres_database
from tests.load.soak.watch import sample
from tests.load_cluster import LIST, open_cluster

_AT_ONCE = 24
_MOST_TRIES = 5
#: What the clients may add to one process.
MOST_MB = 200.0
_SETTLE_SECONDS = 15.0
_WATCHED_SECONDS = 30.0
LISTEN = {"notifications": {"toolsListChanged": True}}


@dataclass(frozen=True, slots=True)
class Idle:
    """What so many idle clients of an era add to each process; `again` of them had to begin again."""

    era: str
    clients: int
    again: int
    base_mb: list[float]
    added_mb: list[float]
    descriptors: list[int]
    cpu_share: float


@asynccontextmanager
async def _one_client(served: Replicas, name: str, era: str, first: int) -> AsyncGenerator[None]:
    """Begin as a client does, call a tool, and hold a stream open."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(served.http(name, first))
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


class Holders:
    """Clients that hold streams until the measurement is done."""

    def __init__(self, served: Replicas, era: str, names: list[str]) -> None:
        self._served = served
        self._era = era
        self._names = names
        self._room = anyio.CapacityLimiter(_AT_ONCE)
        self._left = len(names)
        self._all_hold = anyio.Event()
        self.again = 0

    @asynccontextmanager
    async def holding(self) -> AsyncGenerator[None]:
        """Run the block while all of them hold their streams."""
        async with anyio.create_task_group() as group:
            for number, name in enumerate(self._names):
                group.start_soon(self._hold, name, number)
            await self._all_hold.wait()
            yield
            group.cancel_scope.cancel()

    async def _hold(self, name: str, number: int) -> None:
        async with AsyncExitStack() as stack:
            async with self._room:
                await self._begin(stack, name, number)
            self._left -= 1
            if not self._left:
                self._all_hold.set()
            await anyio.sleep_forever()

    async def _begin(self, stack: AsyncExitStack, name: str, number: int) -> None:
        first = number % len(self._served.ports)
        for _ in range(_MOST_TRIES):
            try:
                await stack.enter_async_context(_one_client(self._served, name, self._era, first))
            except* httpx2.TransportError:
                self.again += 1
            else:
                return
        raise RuntimeError(f"{name} cannot connect")


async def idle(era: str, folder: Path, url: str | None, *, people: int, each: int, processes: int) -> Idle:
    """Start the processes, and let clients of one era hold streams, as many at each process."""
    names = [name_of(number) for number in range(people)]
    async with open_cluster(folder, database_url=url) as cluster:
        cluster.move_in(*names)
        await cluster.connect(*names)
        async with replicas(cluster, processes) as served:
            async with Holders(served, era, names[: 10 * processes]).holding():
                pass
            await anyio.sleep(3)
            base = [sample(pid, 0) for pid in served.pids]
            holders = Holders(served, era, [name for _ in range(each) for name in names])
            async with holders.holding():
                await anyio.sleep(_SETTLE_SECONDS)
                used, began = sum(map(process.cpu_seconds, served.pids)), time.perf_counter()
                await anyio.sleep(_WATCHED_SECONDS)
                used = sum(map(process.cpu_seconds, served.pids)) - used
                share = used / (time.perf_counter() - began)
                held = [sample(pid, 0) for pid in served.pids]
    both = list(zip(held, base, strict=True))
    added = [now.mb - before.mb for now, before in both]
    descriptors = [now.descriptors - before.descriptors for now, before in both]
    clients = people * each
    return Idle(era, clients, holders.again, [one.mb for one in base], added, descriptors, share)


async def main(people: int, each: int, processes: int, eras: list[str], server: str | None) -> int:
    """Measure each era in processes of its own."""
    worst = 0.0
    for era in eras:
        with tempfile.TemporaryDirectory() as folder:
            async with postgres_database(server) as url:
                found = await idle(era, Path(folder), url, people=people, each=each, processes=processes)
        worst = max(worst, *found.added_mb)
        added = " and ".join(f"{one:.0f} MB" for one in found.added_mb)
        base = " and ".join(f"{one:.0f} MB" for one in found.base_mb)
        sys.stdout.write(
            f"{found.era}: {found.clients} idle clients of {people} people on {processes} processes add {added} to "
            f"{base} ({sum(found.added_mb) / found.clients * 1024:.0f} kB each), {sum(found.descriptors)} "
            f"descriptors, {found.cpu_share:.1%} of a processor; {found.again} had to begin again\n"
        )
        sys.stdout.flush()
    return 1 if worst > MOST_MB else 0


def _run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak.idle", description=__doc__)
    parser.add_argument("--people", type=int, default=200, help="users (200)")
    parser.add_argument("--each", type=int, default=10, help="clients of each user (10)")
    parser.add_argument("--processes", type=int, default=2, help="processes of this server (2)")
    parser.add_argument("--eras", nargs="*", default=["2025-11-25", "2026-07-28"], help="both")
    options = parser.parse_args()
    server = os.environ.get("TEST_POSTGRES_URL")
    return anyio.run(main, options.people, options.each, options.processes, options.eras, server)


if __name__ == "__main__":
    sys.exit(_run())
