"""Measures some users' calls while another user's client sends as many requests as it can."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from tests.load import process
from tests.load.client import CallFailed, Client
from tests.load.multi_user import Us, connected_client, serving
from tests.load.servers import ROOT
from tests.load_cluster import LIST, open_cluster

#: The users whose calls are timed, and the pause of each between two calls.
OTHERS = 8
PAUSE_SECONDS = 0.2
ATTACKER = "attacker"


@dataclass
class Attack:
    """The times of other users' calls in ms, without and during the attack, and its effects.

    `cpu` and `quiet_cpu` are the server's shares of a processor.
    """

    seconds: int
    quiet: list[float] = field(default_factory=list[float])
    beside: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    added_mb: float = 0.0
    cpu: float = 0.0
    quiet_cpu: float = 0.0
    answers: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def ratio(self) -> float:
        """How many times longer the others wait during the attack."""
        return p99(self.beside) / p99(self.quiet)


def p99(found: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(found, n=100)[-1]


async def attack(folder: Path, seconds: int) -> Attack:
    """Time the others' calls: half of `seconds` before the attack, all of it during, and half after it."""
    found = Attack(seconds)
    names = [f"person{number}" for number in range(OTHERS)]
    async with open_cluster(folder) as cluster:
        cluster.move_in(*names, ATTACKER)
        await cluster.connect(*names, ATTACKER)
        async with serving(cluster) as us, AsyncExitStack() as stack:
            clients = [await connected_client(us, stack, name) for name in names]
            await _times(clients, 3, [], found)
            before = process.resident_mb(us.pid)
            used = process.cpu_seconds(us.pid)
            await _times(clients, seconds / 2, found.quiet, found)
            found.quiet_cpu = (process.cpu_seconds(us.pid) - used) / (seconds / 2)
            used = process.cpu_seconds(us.pid)
            async with anyio.create_task_group() as group:
                group.start_soon(_attacker, us, found)
                watching = anyio.CancelScope()
                group.start_soon(_watch, us.pid, before, found, watching)
                await _times(clients, seconds, found.beside, found)
                found.cpu = (process.cpu_seconds(us.pid) - used) / seconds
                watching.cancel()
            await _times(clients, seconds / 2, found.quiet, found)
    return found


async def _times(clients: Sequence[Client], seconds: float, into: list[float], found: Attack) -> None:
    async def work(client: Client) -> None:
        while True:
            try:
                spent = (await client.call(LIST, {}))[1] * 1000
                into.append(spent)
            except CallFailed as error:
                found.failures.append(str(error))
            await anyio.sleep(PAUSE_SECONDS)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(work, client)
                await anyio.sleep(PAUSE_SECONDS / len(clients))


async def _attacker(us: Us, found: Attack) -> None:
    command = [sys.executable, "-m", "tests.load.attacker", us.endpoint, str(found.seconds)]
    token = us.cluster.token(ATTACKER).encode() + b"\n"
    ended = await anyio.run_process(command, input=token, stderr=subprocess.STDOUT, check=False, cwd=ROOT)
    try:
        found.answers = json.loads(ended.stdout)
    except ValueError:
        found.failures.append(f"the attacker failed: {ended.stdout[-300:].decode(errors='replace')}")


async def _watch(pid: int, before: float, found: Attack, watching: anyio.CancelScope) -> None:
    with watching:
        while True:
            found.added_mb = max(found.added_mb, process.resident_mb(pid) - before)
            await anyio.sleep(0.5)
