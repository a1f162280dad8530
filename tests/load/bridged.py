"""What the bridge adds to a call of this server over HTTP, how it starts, and what 1,000 calls leave behind in it."""

import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio

from tests.load.client import Client, http_client, stdio_client
from tests.load.process import is_readable, resident_mb
from tests.load.servers import GET_NOTE, ROOT, Server, environment_of, free_port, running, stop

CONCURRENT = 16
_LEFT_BEHIND = 1_000
_SETTLE_SECONDS = 1.0


@dataclass(slots=True)
class Bridged:
    """Calls with and without the bridge, in turns; `left` is what grew over 1,000 calls: descriptors and MB."""

    direct_ms: list[float] = field(default_factory=list[float])
    bridged_ms: list[float] = field(default_factory=list[float])
    direct_rates: list[float] = field(default_factory=list[float])
    bridged_rates: list[float] = field(default_factory=list[float])
    #: From the start of the bridge, and of a bare server over stdio, to the answer to the first `tools/list`.
    start_seconds: list[float] = field(default_factory=list[float])
    floor_start_seconds: list[float] = field(default_factory=list[float])
    descriptors_left: int | None = None
    mb_left: float | None = None

    @property
    def added_ms(self) -> float:
        """What the bridge adds to the median call."""
        return statistics.median(self.bridged_ms) - statistics.median(self.direct_ms)

    @property
    def kept_share(self) -> float:
        """The throughput through the bridge as a share of that without."""
        return statistics.median(self.bridged_rates) / statistics.median(self.direct_rates)


async def bridged(server: Server, folder: Path, *, starts: int, calls: int, rounds: int) -> Bridged:
    """Call one server directly and through the bridge, in turns."""
    found = Bridged()
    async with _served(server, folder) as (direct, url):
        # The server behind the bridge has started before.
        await direct.request("tools/list", {})
        for turn in range(starts):
            for measure in (_start_bridge, _start_floor)[:: 1 if turn % 2 else -1]:
                await measure(found, url, folder)
    async with _served(server, folder) as (direct, url), _bridge(url, folder) as (through, pid):
        for client in (direct, through):
            await _burst(client, 8, 2)
        for turn in range(rounds):
            pairs = [
                (direct, found.direct_ms, found.direct_rates),
                (through, found.bridged_ms, found.bridged_rates),
            ]
            for client, milliseconds, rates in pairs[:: 1 if turn % 2 else -1]:
                times = await _burst(client, max(1, calls // rounds), 1)
                milliseconds.extend(seconds * 1000 for seconds in times)
                began = time.perf_counter()
                number = max(CONCURRENT, calls // rounds)
                await _burst(client, number, CONCURRENT)
                rates.append(number / (time.perf_counter() - began))
        if is_readable():
            await _burst(through, _LEFT_BEHIND, CONCURRENT)
            before = _descriptors(pid), resident_mb(pid)
            await _burst(through, _LEFT_BEHIND, CONCURRENT)
            await anyio.sleep(_SETTLE_SECONDS)
            found.descriptors_left = _descriptors(pid) - before[0]
            found.mb_left = resident_mb(pid) - before[1]
    return found


async def _start_bridge(found: Bridged, url: str, folder: Path) -> None:
    began = time.perf_counter()
    async with _bridge(url, folder) as (client, _):
        await client.request("tools/list", {})
        found.start_seconds.append(time.perf_counter() - began)


async def _start_floor(found: Bridged, url: str, folder: Path) -> None:
    del url
    async with running(Server("floor"), "stdio", folder) as started:
        found.floor_start_seconds.append(started.start_seconds)


async def _burst(client: Client, calls: int, concurrency: int) -> list[float]:
    times: list[float] = []
    numbers = iter(range(calls))

    async def work() -> None:
        for _ in numbers:
            _, seconds = await client.call(GET_NOTE.tool, GET_NOTE.arguments)
            times.append(seconds)

    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(work)
    return times


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@asynccontextmanager
async def _served(server: Server, folder: Path) -> AsyncGenerator[tuple[Client, str]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with (folder / "bridged-server.log").open("wb") as log:
        process = await anyio.open_process(
            server.command("http", port),
            cwd=folder,
            env=environment_of(server, "http"),
            stdin=DEVNULL,
            stdout=log.fileno(),
            stderr=log.fileno(),
        )
    try:
        async with http_client(process, url) as client:
            yield client, url
    finally:
        await stop(process)


@asynccontextmanager
async def _bridge(url: str, folder: Path) -> AsyncGenerator[tuple[Client, int]]:
    command = [sys.executable, "-m", "nextcloud_mcp_server", "bridge", url, "--no-sign-in", "--no-browser"]
    with (folder / "bridge.log").open("wb") as log:
        process = await anyio.open_process(
            command,
            cwd=folder,
            env={**environment_of(Server("floor"), "stdio"), "PYTHONPATH": str(ROOT)},
            stdin=PIPE,
            stdout=PIPE,
            stderr=log.fileno(),
        )
    try:
        async with stdio_client(process) as client:
            yield client, process.pid
    finally:
        await stop(process)
