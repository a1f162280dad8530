"""Runs a soak, and tells which promises were kept."""

import math
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import anyio
import asyncpg
from starlette.types import ASGIApp

from tests.load import process
from tests.load.metric import Metric
from tests.load.replicas import Replicas, replicas
from tests.load.soak.faults import Faults
from tests.load.soak.ledger import Ledger
from tests.load.soak.rows import beyond, counted
from tests.load.soak.steps import SCOPES, TOOLSETS
from tests.load.soak.user import Kind, User
from tests.load.soak.watch import MOST_DESCRIPTORS, MOST_MB, Watch
from tests.load_cluster import LoadCluster, open_cluster

#: So that a token is refreshed each minute: this server does so half a minute before its end.
_TOKEN_SECONDS = 90
#: A trend needs some.
_LEAST_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much a soak does. `pause` is the mean time between two calls of one client."""

    people: int = 50
    seconds: float = 1800.0
    processes: int = 2
    pause: float = 6.0
    fault_seconds: float = 12.0
    seed: int = 1
    #: Wraps the Nextcloud, and ends the soak early, for the tests of the soak itself.
    front: Callable[[ASGIApp], ASGIApp] | None = None
    until: Callable[[Ledger], bool] | None = None


@dataclass
class Outcome:
    """What a soak found."""

    plan: Plan
    ledger: Ledger
    watch: Watch
    rows_then: dict[str, int]
    rows: dict[str, int]
    cpu_seconds: float
    log_errors: list[str]

    @property
    def metrics(self) -> list[Metric]:
        """The promises, each kept or not."""
        ledger, calls = self.ledger, self.ledger.calls.total()
        rows = beyond(
            self.rows,
            people=self.plan.people,
            consents=ledger.counts["consents"],
            calls=calls,
            sessions=ledger.counts["sessions"],
        )
        found = [
            _none("answers with another user's data", ledger.crossed, calls),
            _none("asked although consent stands", ledger.spurious, calls),
            _none("unexpected errors", ledger.errors, calls),
            _none("errors in the servers' logs", self.log_errors, calls),
            Metric("tables with more rows than explained", "0", str(len(rows)), not rows),
        ]
        for number, pid in enumerate(self.watch.pids):
            memory, descriptors = self.watch.memory(pid), self.watch.descriptors(pid)
            told = f"{memory.added:+.1f} MB ({memory.first:.0f} → {memory.last:.0f})"
            budget = f"≤ {MOST_MB:.0f} MB"
            found.append(Metric(f"memory, process {number}", budget, told, memory.added <= MOST_MB))
            told = f"{descriptors.added:+.1f} ({descriptors.first:.0f} → {descriptors.last:.0f})"
            met = descriptors.added <= MOST_DESCRIPTORS
            found.append(Metric(f"descriptors, process {number}", f"≤ {MOST_DESCRIPTORS:.0f}", told, met))
        return found

    @property
    def exit_code(self) -> int:
        """What the program ends with."""
        return 1 if self.broken else 0

    @property
    def broken(self) -> list[str]:
        """The promises that were broken."""
        return [metric.name for metric in self.metrics if not metric.met]


def _none(name: str, found: list[str], calls: int) -> Metric:
    # Without a single call nothing was tried.
    return Metric(name, "0", f"{len(found)} in {calls} calls", not found and calls > 0)


def name_of(number: int) -> str:
    """Return a user's name; none is the beginning of another one, so that a search finds one user's data."""
    return f"person{number:05}"


async def soak(plan: Plan, folder: Path, database_url: str | None = None) -> Outcome:
    """Let users work with the processes of this server for the time of the plan."""
    names = [name_of(number) for number in range(plan.people)]
    async with open_cluster(folder, front=plan.front, database_url=database_url, scopes=SCOPES) as cluster:
        state = cluster.sandbox.state
        state.oauth_token_seconds = _TOKEN_SECONDS
        # As docs/nextcloud.md advises: ends of access are failures that Nextcloud counts by address.
        state.allow_listed.add("127.0.0.1")
        cluster.move_in(*names)
        await cluster.connect(*names)
        async with replicas(cluster, plan.processes, toolsets=TOOLSETS) as served:
            return await _soaked(plan, served)


async def _soaked(plan: Plan, served: Replicas) -> Outcome:
    cluster, random = served.cluster, Random(plan.seed)
    ledger, watch = Ledger(anyio.current_time), Watch(served.pids)
    users = [
        User(name_of(number), served, ledger, Random(plan.seed + number), plan.pause)
        for number in range(plan.people)
    ]
    kinds: list[Kind] = ["2025-11-25", "text"]
    then = await counted(cluster)
    cpu = sum(map(process.cpu_seconds, served.pids))
    async with anyio.create_task_group() as group:
        for number, user in enumerate(users):
            group.start_soon(user.run, "2026-07-28", number % plan.processes)
            group.start_soon(user.run, kinds[number % 3 == 0], (number + 1) % plan.processes)
        faults = Faults(cluster.sandbox, users, ledger, random)

        async def inject() -> None:
            await faults.run(every_seconds=plan.fault_seconds)

        group.start_soon(inject)
        await _watched(plan, watch, ledger, cluster)
        group.cancel_scope.cancel()
    cpu = sum(map(process.cpu_seconds, served.pids)) - cpu
    return Outcome(plan, ledger, watch, then, await counted(cluster), cpu, _errors_in_logs(cluster.folder))


async def _watched(plan: Plan, watch: Watch, ledger: Ledger, cluster: LoadCluster) -> None:
    """Measure at equal intervals until the time is over; say now and then how it goes."""
    began, told = anyio.current_time(), 0
    every = max(0.5, plan.seconds / 3600)
    for number in range(math.ceil(plan.seconds / every) + 1):
        await anyio.sleep(max(0.0, began + number * every - anyio.current_time()))
        now = anyio.current_time() - began
        watch.look(now)
        if plan.until is not None and plan.until(ledger) and number >= _LEAST_SAMPLES:
            break
        if now // 60 > told:
            told = int(now // 60)
            await _tell(told, watch, ledger, cluster)


async def _tell(minutes: int, watch: Watch, ledger: Ledger, cluster: LoadCluster) -> None:
    last = [watch.samples[pid][-1] for pid in watch.pids]
    held = ", ".join(f"{one.mb:.0f} MB and {one.descriptors} descriptors" for one in last)
    rows = sum((await counted(cluster)).values())
    sys.stderr.write(
        f"{minutes} min: {ledger.calls.total()} calls, {ledger.counts['consents']} consents, "
        f"crossed {len(ledger.crossed)}, spurious {len(ledger.spurious)}, errors {len(ledger.errors)} "
        f"(explained {ledger.excused.total()}); {held}; {rows} rows\n"
    )
    for text in [*ledger.crossed, *ledger.spurious, *ledger.errors][:3]:
        sys.stderr.write(f"  {text[:300]}\n")


def _errors_in_logs(folder: Path) -> list[str]:
    """Return the lines of the servers' logs that tell of an error, and the heads of tracebacks."""
    return [
        line
        for log in sorted(folder.glob("replica*/server.log"))
        for line in log.read_text(errors="replace").splitlines()
        if " ERROR " in line or '"level": "error"' in line.lower() or line.startswith("Traceback")
    ]


@asynccontextmanager
async def postgres_database(server: str | None) -> AsyncGenerator[str | None]:
    """Make an empty database on a PostgreSQL, and drop it at the end; None without one, for SQLite."""
    if not server:
        yield None
        return
    name = f"nextcloud_mcp_soak_{Random().getrandbits(32):x}"
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.close()


async def soak_in_folder(plan: Plan, server: str | None) -> Outcome:
    """Run a soak with data that are gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        async with postgres_database(server) as url:
            return await soak(plan, Path(folder), url)
