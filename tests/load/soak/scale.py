"""Measures what calls cost with more people and more processes: `python -m tests.load.soak.scale`.

Processor time is the figure that other work on the machine changes least; it is what a machine is bought for.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from subprocess import DEVNULL

import anyio
import asyncpg
import httpx2

from nextcloud_mcp_server.demo.wire_client import StatelessClient
from tests.load import process
from tests.load.replicas import Replicas, replicas
from tests.load.report import markdown
from tests.load.soak.rows import counted
from tests.load.soak.run import name_of, postgres_database
from tests.load_cluster import LIST, URL_MODE, LoadCluster, note_of, open_cluster

#: A user calls so often in a busy hour: 36 times.
CALLS_PER_SECOND_OF_PERSON = 0.01
LEAST_RATE = 2.0
_AT_ONCE = 16
#: More requests than any limit of one user allows.
_UNLIMITED = {"requests_per_minute": "600000"}


@dataclass(frozen=True, slots=True)
class Spent:
    """What some calls took: seconds, and seconds of a processor, of the servers, the database and all else here."""

    calls: int
    seconds: float
    servers: float
    database: float
    bench: float

    def row(self) -> tuple[str, ...]:
        """Return calls per second, and the milliseconds of each call."""
        each = (1000 * cost / self.calls for cost in (self.servers, self.database, self.bench))
        return (f"{self.calls / self.seconds:.1f}", *(f"{one:.1f} ms" for one in each))


class Meter:
    """Reads the processor time of the servers, of PostgreSQL's processes for the database, and of this process."""

    def __init__(self, served: Replicas, cluster: LoadCluster) -> None:
        self._served = served
        self._url = cluster.database_url

    async def read(self) -> tuple[float, float, float]:
        """Return the seconds so far."""
        servers = sum(map(process.cpu_seconds, self._served.pids))
        return servers, await self._database(), time.process_time()

    async def _database(self) -> float:
        if self._url is None:
            return 0.0
        connection = await asyncpg.connect(self._url)
        try:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            pids = [row["pid"] for row in await connection.fetch(query)]
        finally:
            await connection.close()
        return sum(process.cpu_seconds(pid) for pid in pids if process.is_alive(pid))


class Load:
    """Calls of many users, each with a token of its own."""

    def __init__(self, served: Replicas) -> None:
        self._served = served
        self._tokens: dict[str, str] = {}

    async def calls(self, names: list[str], *, rate: float | None) -> None:
        """Let each of these users call once, so many a second, or as fast as it goes."""
        todo, began = iter(enumerate(names)), anyio.current_time()

        async def work(http: httpx2.AsyncClient) -> None:
            for number, name in todo:
                if rate is not None:
                    await anyio.sleep(max(0.0, began + number / rate - anyio.current_time()))
                await self._call(http, name)

        async with AsyncExitStack() as stack:
            clients: list[httpx2.AsyncClient] = []
            for number in range(_AT_ONCE):
                transport = self._served.balancer(number % len(self._served.ports))
                http = httpx2.AsyncClient(timeout=120, transport=transport)
                clients.append(await stack.enter_async_context(http))
            async with anyio.create_task_group() as group:
                for http in clients:
                    group.start_soon(work, http)

    async def _call(self, http: httpx2.AsyncClient, name: str) -> None:
        token = self._tokens.get(name) or self._served.cluster.token(name)
        self._tokens[name] = token
        client = _OfUser(http, self._served.endpoint, token)
        answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
        if note_of(name) not in str(answer):
            raise RuntimeError(f"{name} got {str(answer)[:300]}")


class _OfUser(StatelessClient):
    """A client on connections that several users share, as behind a chat service."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: str) -> None:
        super().__init__(http, url, capabilities=URL_MODE)
        self._token = token

    def _headers(self, method: str, params: dict[str, object]) -> dict[str, str]:
        return super()._headers(method, params) | {"Authorization": f"Bearer {self._token}"}


async def spent(meter: Meter, calls: int, work: Callable[[], Awaitable[None]]) -> Spent:
    """Measure what some calls took."""
    before, began = await meter.read(), time.perf_counter()
    await work()
    seconds, after = time.perf_counter() - began, await meter.read()
    servers, database, bench = (then - now for then, now in zip(after, before, strict=True))
    return Spent(calls, seconds, servers, database, bench)


@asynccontextmanager
async def _served(people: int, processes: int, server: str | None) -> AsyncGenerator[Replicas]:
    names = [name_of(number) for number in range(people)]
    with tempfile.TemporaryDirectory() as folder:
        async with postgres_database(server) as url, open_cluster(Path(folder), database_url=url) as cluster:
            cluster.move_in(*names)
            await cluster.connect(*names)
            async with replicas(cluster, processes, **_UNLIMITED) as served:
                yield served


@asynccontextmanager
async def _limited(pids: tuple[int, ...], percent: int | None) -> AsyncGenerator[None]:
    """Let each process have only a part of a processor (`apt-get install cpulimit`)."""
    async with AsyncExitStack() as stack:
        for pid in pids if percent is not None else ():
            command = ["cpulimit", "--pid", str(pid), "--limit", str(percent)]
            running = await stack.enter_async_context(await anyio.open_process(command, stdout=DEVNULL))
            stack.callback(running.terminate)
        yield


async def throughput(server: str | None, *, calls: int, rounds: int, percent: int | None) -> None:
    """Let one process, and then two, answer as many calls as they can; twice.

    Two processes, the database and the clients need more than two cores. Where each process has only a part of one,
    as with `percent`, two answer twice as many calls unless they wait for something that they share.
    """
    people = 200
    rows: list[tuple[str, ...]] = [("processes", "calls per second", "servers", "database", "bench", "busy")]
    for processes in (1, 2) * rounds:
        async with _served(people, processes, server) as served:
            names = [name_of(number % people) for number in range(calls)]
            load, meter = Load(served), Meter(served, served.cluster)
            # Each user is known to each process before.
            await load.calls(names[:people] * 2 * processes, rate=None)
            async with _limited(served.pids, percent):
                found = await spent(meter, calls, partial(load.calls, names, rate=None))
        busy = (found.servers + found.database + found.bench) / found.seconds
        rows.append((str(processes), *found.row(), f"{busy:.2f} cores"))
        _say(markdown(rows))


async def cost(server: str | None, sizes: list[int], *, seconds: float) -> None:
    """Let more and more people call now and then, and measure a first call and a later one."""
    head = (
        "people",
        "call",
        "calls per second",
        "servers",
        "database",
        "bench",
        "memory",
        "rows",
        "database size",
    )
    rows: list[tuple[str, ...]] = [head]
    for people in sizes:
        async with _served(people, 1, server) as served:
            load, meter, pid = Load(served), Meter(served, served.cluster), served.pids[0]
            await load.calls([name_of(0)] * 20, rate=None)
            rate = max(LEAST_RATE, people * CALLS_PER_SECOND_OF_PERSON)
            calls = min(people, round(rate * seconds))
            names = Random(1).sample([name_of(number) for number in range(people)], calls)
            for kind, repeated in (("first", 1), ("later", max(1, round(rate * seconds / calls)))):
                found = await spent(meter, calls * repeated, partial(load.calls, names * repeated, rate=rate))
                told = await counted(served.cluster)
                size = await _size(served.cluster)
                held = f"{process.resident_mb(pid):.0f} MB"
                rows.append((f"{people:,}", kind, *found.row(), held, f"{sum(told.values()):,}", size))
            _say(f"{ {name: number for name, number in told.items() if number} }")
        _say(markdown(rows))


async def _size(cluster: LoadCluster) -> str:
    if cluster.database_url is None:
        return f"{cluster.database_file.stat().st_size / 1e6:.1f} MB"
    connection = await asyncpg.connect(cluster.database_url)
    try:
        return f"{await connection.fetchval('SELECT pg_database_size(current_database())') / 1e6:.1f} MB"
    finally:
        await connection.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure one or both."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak.scale", description=__doc__)
    parser.add_argument("--steps", nargs="*", choices=["throughput", "cost"], default=["throughput", "cost"])
    parser.add_argument("--sizes", nargs="*", type=int, default=[10, 100, 1000, 5000], help="people")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each size (30)")
    parser.add_argument("--calls", type=int, default=2000, help="calls for the throughput (2000)")
    parser.add_argument("--rounds", type=int, default=2, help="times that the throughput is measured (2)")
    parser.add_argument("--percent", type=int, help="of a core that each process has for the throughput")
    options = parser.parse_args()
    server = os.environ.get("TEST_POSTGRES_URL")

    async def run() -> None:
        if "throughput" in options.steps:
            await throughput(server, calls=options.calls, rounds=options.rounds, percent=options.percent)
        if "cost" in options.steps:
            await cost(server, options.sizes, seconds=options.seconds)

    anyio.run(run)


if __name__ == "__main__":
    main()
