"""The measurements. All servers take turns within a round, so that noise affects all of them alike."""

import json
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import httpx2

from tests import crash_harness
from tests.crash_harness import Toll
from tests.load import bearer, felt, multi_user, process, token_refresh
from tests.load import year as years
from tests.load.attack import Attack, attack
from tests.load.bridged import Bridged, bridged
from tests.load.client import CallFailed, Client, Result, http_pool
from tests.load.fake_responses import BIG_FILE_BYTES, PASSWORD, USER
from tests.load.felt import Felt
from tests.load.multi_user import Crossed, Slow
from tests.load.servers import (
    GET_NOTE,
    LIST_1000,
    LIST_NOTES,
    READ_10_KB,
    READ_BIG,
    TIMED,
    Running,
    Scenario,
    Server,
    Transport,
    reason,
    running,
)
from tests.load.token_refresh import Refreshes
from tests.load.token_requests import TokenRequests, token_requests
from tests.load_cluster import open_cluster

TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")
CONCURRENCY = (1, 16)


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work; more of it gives steadier measurements."""

    starts: int
    calls: int
    rounds: int
    tries: int
    people: int
    expiries: int
    kills: int
    attack_seconds: int


@dataclass
class Starts:
    """The resources of one server with one transport, one entry per start."""

    seconds: list[float] = field(default_factory=list[float])
    listed_mb: list[float] = field(default_factory=list[float])
    called_mb: list[float] = field(default_factory=list[float])


@dataclass(frozen=True, slots=True)
class Listed:
    """The response of one server to `tools/list`."""

    tools: int
    size: int
    largest: int


@dataclass
class Calls:
    """The calls of one server in one scenario at one concurrency."""

    milliseconds: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])
    cpu_milliseconds: list[float] = field(default_factory=list[float])
    requests_per_call: float = 0.0

    @property
    def cpu(self) -> float | None:
        """The server's processor time for one call, which other work on the machine hardly changes."""
        return statistics.median(self.cpu_milliseconds) if self.cpu_milliseconds else None

    @property
    def p50(self) -> float:
        """The median over all calls."""
        return statistics.median(self.milliseconds)

    @property
    def rate(self) -> float:
        """Calls per second, the median of the rounds."""
        return statistics.median(self.rates)


@dataclass
class Pages:
    """The pages of one tool when a model follows them to the end."""

    count: int
    requests: int
    largest_bytes: int


@dataclass
class Measured:
    """All results of one run."""

    starts: dict[tuple[str, Transport], Starts] = field(default_factory=lambda: defaultdict(Starts))
    calls: dict[tuple[str, str, Transport, int], Calls] = field(default_factory=lambda: defaultdict(Calls))
    pages: dict[str, Pages] = field(default_factory=dict[str, Pages])
    listed: dict[str, Listed] = field(default_factory=dict[str, Listed])
    big_page_mb: float | None = None
    year: tuple[float, int] | None = None
    felt: list[Felt] = field(default_factory=list[Felt])
    token_milliseconds: float | None = None
    token_requests: TokenRequests | None = None
    refreshes: Refreshes | None = None
    toll: Toll | None = None
    crossed: Crossed | None = None
    pending_mb: float | None = None
    waiters_share: float | None = None
    slow: Slow | None = None
    attack: Attack | None = None
    bridged: Bridged | None = None
    packages: int | None = None
    unknown_requests: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])


class Bench:
    """Measures the servers with one fake Nextcloud."""

    def __init__(self, upstream: str, servers: list[Server], folder: Path, effort: Effort) -> None:
        self._upstream = upstream
        self._servers = {server.name: server for server in servers}
        self._folder = folder
        self._effort = effort
        self.measured = Measured()

    async def start(self) -> None:
        """Measure the time from spawn to the first `tools/list`, and the memory then and a call later."""
        for turn in range(self._effort.starts):
            for transport in TRANSPORTS:
                for name in ("floor", "ours", "everything")[:: 1 if turn % 2 else -1]:
                    async with self._noting_failure("start"):
                        await self._start_once(self._servers[name], transport)

    async def _start_once(self, server: Server, transport: Transport) -> None:
        async with running(server, transport, self._folder) as started:
            row = self.measured.starts[server.name, transport]
            row.seconds.append(started.start_seconds)
            if transport == "stdio":
                tools = started.tools["tools"]
                self.measured.listed[server.name] = Listed(
                    len(tools), _compact(started.tools), max(map(_compact, tools))
                )
            if process.is_readable():
                row.listed_mb.append(process.resident_mb(started.pid))
                await started.run(GET_NOTE)
                row.called_mb.append(process.resident_mb(started.pid))

    async def call(self) -> None:
        """Measure latency and throughput, also of the baseline, the thin server and a bare request."""
        servers = [server for name, server in self._servers.items() if name != "everything"]
        for transport in TRANSPORTS:
            async with AsyncExitStack() as stack:
                http = http_pool(auth=(USER, PASSWORD), base_url=self._upstream)
                players = {"bare": _bare(await stack.enter_async_context(http))}
                for server in servers:
                    async with self._noting_failure("call"):
                        alive = await stack.enter_async_context(running(server, transport, self._folder))
                        players[server.name] = _served(alive)
                for scenario, concurrency in product(TIMED, CONCURRENCY):
                    await self._rounds(players, scenario, transport, concurrency)

    async def _rounds(
        self, players: Mapping[str, "_Player"], scenario: Scenario, transport: Transport, concurrency: int
    ) -> None:
        fit: list[str] = []
        for name, player in players.items():
            async with self._noting_failure(f"{scenario.name}, {name} over {transport}"):
                await _burst(player.play, scenario, max(2, concurrency), concurrency)
                fit.append(name)
        calls = max(concurrency, self._effort.calls // self._effort.rounds)
        for turn in range(self._effort.rounds):
            for name in fit[:: 1 if turn % 2 else -1]:
                row = self.measured.calls[name, scenario.name, transport, concurrency]
                await self._reset_count()
                player = players[name]
                used, began = player.cpu_seconds(), time.perf_counter()
                row.milliseconds += await _burst(player.play, scenario, calls, concurrency)
                row.rates.append(calls / (time.perf_counter() - began))
                if player.pid is not None:
                    row.cpu_milliseconds.append((player.cpu_seconds() - used) / calls * 1000)
                row.requests_per_call = await self._count() / calls

    async def pages(self) -> None:
        """Follow the pages of long results: their size, and the requests that each of them costs."""
        async with running(self._servers["ours"], "stdio", self._folder) as ours:
            for scenario in (LIST_NOTES, LIST_1000, READ_10_KB):
                async with self._noting_failure(f"pages of {scenario.name}"):
                    await ours.run(scenario)
                    await self._reset_count()
                    sizes = [_compact(page) async for page in _follow(ours.client, scenario)]
                    requests = await self._count()
                    self.measured.pages[scenario.name] = Pages(len(sizes), requests, max(sizes))

    async def big(self) -> None:
        """Measure the memory and the size of a page of a 200 MB file."""
        async with running(self._servers["ours"], "stdio", self._folder) as ours:
            await ours.run(READ_10_KB)
            await self._reset_count()
            sizes: list[int] = []
            added = 0.0
            for offset in (0, BIG_FILE_BYTES // 2, BIG_FILE_BYTES - 100_000):
                before = process.resident_mb(ours.pid)
                process.forget_peak(ours.pid)
                page, _ = await ours.client.call(READ_BIG.tool, {**READ_BIG.arguments, "offset": offset})
                added = max(added, process.peak_mb(ours.pid) - before)
                sizes.append(_compact(page))
            self.measured.big_page_mb = added
            self.measured.pages[READ_BIG.name] = Pages(len(sizes), await self._count(), max(sizes))

    async def year(self) -> None:
        """Measure listing a year of recurring events."""
        self.measured.year = years.milliseconds()

    async def felt(self) -> None:
        """Measure how long a user waits, compared with a single request."""
        self.measured.felt = await felt.felt()

    async def token(self) -> None:
        """Measure verifying a signed token with known keys."""
        self.measured.token_milliseconds = await bearer.milliseconds()

    async def refresh(self) -> None:
        """Measure refreshes of this server's tokens."""
        self.measured.token_requests = await token_requests(self._apart("refresh"), self._effort.tries)

    async def renew(self) -> None:
        """Count the token refreshes of one grant that several processes share."""
        self.measured.refreshes = await token_refresh.refreshes(self._apart("renew"), self._effort.expiries)

    async def kill(self) -> None:
        """Kill servers during users' requests, and count what was lost."""
        async with open_cluster(self._apart("kill")) as cluster:
            self.measured.toll = await crash_harness.play(cluster, self._effort.kills, seed=1)

    async def cross(self) -> None:
        """Count the responses that reach another user when every user's requests carry the same ids."""
        self.measured.crossed = found = await multi_user.crossed(self._apart("cross"), self._effort.people)
        for failure in found.failures:
            self.note(failure)

    async def pending(self) -> None:
        """Measure the memory of users with pending consent requests."""
        self.measured.pending_mb = await multi_user.pending_mb(self._apart("pending"))

    async def wait(self) -> None:
        """Measure the processor time of held calls."""
        self.measured.waiters_share = await multi_user.waiters_share(self._apart("wait"))

    async def slow(self) -> None:
        """Time calls while another user's Nextcloud is slow."""
        effort = self._effort
        self.measured.slow = await multi_user.slow(self._apart("slow"), effort.calls, effort.rounds)

    async def attack(self) -> None:
        """Time calls while another user's client sends as many requests as it can."""
        self.measured.attack = await attack(self._apart("attack"), self._effort.attack_seconds)

    async def bridge(self) -> None:
        """Measure how the bridge starts, what it adds to a call, and what many calls leave behind in it."""
        effort = self._effort
        self.measured.bridged = await bridged(
            self._servers["ours"],
            self._apart("bridge"),
            starts=effort.starts,
            calls=effort.calls,
            rounds=effort.rounds,
        )

    def _apart(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    def note(self, failure: str) -> None:
        """Record a failure for the report, once."""
        if failure not in self.measured.failures:
            self.measured.failures.append(failure)

    @asynccontextmanager
    async def _noting_failure(self, what: str) -> AsyncGenerator[None]:
        """Continue with the next measurement after a failure."""
        try:
            yield
        except* CallFailed as group:
            self.note(f"{what}: {reason(group)}")

    async def _reset_count(self) -> None:
        async with httpx2.AsyncClient() as http:
            await http.get(f"{self._upstream}/-/reset")

    async def _count(self) -> int:
        async with httpx2.AsyncClient() as http:
            counts: Result = (await http.get(f"{self._upstream}/-/count")).json()
        self.measured.unknown_requests |= set(counts["unknown"])
        return counts["requests"]


_Play = Callable[[Scenario], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class _Player:
    """Can run a scenario; has the process whose processor time counts."""

    play: _Play
    pid: int | None = None

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self.pid) if self.pid is not None else 0.0


def _bare(http: httpx2.AsyncClient) -> _Player:
    async def play(scenario: Scenario) -> float:
        headers = {"OCS-APIRequest": "true"} | ({"Depth": scenario.depth} if scenario.depth else {})
        began = time.perf_counter()
        response = await http.request(scenario.method, scenario.path, headers=headers)
        response.raise_for_status()
        return time.perf_counter() - began

    return _Player(play)


def _served(alive: Running) -> _Player:
    async def play(scenario: Scenario) -> float:
        return (await alive.run(scenario))[1]

    return _Player(play, alive.pid if process.is_readable() else None)


async def _burst(play: _Play, scenario: Scenario, calls: int, concurrency: int) -> list[float]:
    """Run a scenario `calls` times, `concurrency` at once; return the milliseconds of each."""
    found: list[float] = []
    turns: Iterator[int] = iter(range(calls))

    async def work() -> None:
        found.extend([await play(scenario) * 1000 for _ in turns])

    async with anyio.create_task_group() as tasks:
        for _ in range(concurrency):
            tasks.start_soon(work)
    return found


async def _follow(client: Client, scenario: Scenario) -> AsyncIterator[Result]:
    """Read page after page, like a model that wants everything."""
    arguments = dict(scenario.arguments)
    while True:
        page, _ = await client.call(scenario.tool, arguments)
        yield page
        told: dict[str, Any] = page.get("structuredContent") or {}
        if cursor := told.get("cursor"):
            arguments["cursor"] = cursor
        elif offset := told.get("next_offset"):
            arguments["offset"] = offset
        else:
            return


def _compact(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
