"""Restarts two replicas one after the other under 20 calls a second, and counts the calls that fail.

Run by hand: `.ci/postgres .venv/bin/python -m tests.load.rolling_restart` (with `--kill` and `--sticky`). The
figures are in docs/performance.md, section Replicas.
"""

import argparse
import os
import signal
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient, WireClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.replica_processes import URL, Pair, open_pair

#: Of each kind; each makes one call a second.
CLIENTS = 10
STEADY_SECONDS = 10.0
LIST: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}


@dataclass
class Caller:
    """One client, and how its calls went."""

    client: WireClient
    seconds: list[float] = field(default_factory=list[float])
    failed: list[str] = field(default_factory=list[str])
    last_failed: bool = False

    async def run(self, done: anyio.Event, *, after: float) -> None:
        """Make a call each second until told otherwise."""
        await anyio.sleep(after)
        while not done.is_set():
            began = time.monotonic()
            why = await self._call()
            self.last_failed = why is not None
            if why is None:
                self.seconds.append(time.monotonic() - began)
            else:
                self.failed.append(why)
            await anyio.sleep(max(0.0, began + 1 - time.monotonic()))

    async def _call(self) -> str | None:
        try:
            answer = await self.client.request("tools/call", LIST)
        except (httpx2.HTTPError, NotAsPromised) as error:
            return f"{type(error).__name__}: {error}"
        return None if "structuredContent" in answer.get("result", {}) else str(answer)[:200]


async def _callers(stack: AsyncExitStack, pair: Pair, kind: type[WireClient]) -> list[Caller]:
    callers: list[Caller] = []
    for _ in range(CLIENTS):
        http = await stack.enter_async_context(pair.http(token=pair.token("load")))
        client = kind(http, f"{URL}/mcp", capabilities={"elicitation": {"url": {}}})
        await client.open()
        callers.append(Caller(client))
    return callers


async def _consent(pair: Pair) -> None:
    async with pair.http(token=pair.token("load")) as http, pair.http() as browser:
        client = StatelessClient(http, f"{URL}/mcp", capabilities={"elicitation": {"url": {}}})
        asked = await client.request("tools/call", LIST)
        url = asked["result"]["inputRequests"]["provision"]["params"]["url"]
        await Person("alice", "alice", browser=browser).consent(url)


async def _restart(pair: Pair, number: signal.Signals) -> None:
    for replica in pair.replicas:
        await anyio.sleep(STEADY_SECONDS)
        began = time.monotonic()
        await replica.end(number)
        ended = time.monotonic()
        await replica.start()
        _say(f"ended after {ended - began:.1f} s, ready {time.monotonic() - ended:.1f} s later")
    await anyio.sleep(STEADY_SECONDS)


def _report(name: str, callers: list[Caller]) -> None:
    took = sorted(second for caller in callers for second in caller.seconds)
    failed = [why for caller in callers for why in caller.failed]
    p99 = took[int(len(took) * 0.99)]
    _say(
        f"{name}: {len(took) + len(failed)} calls, {len(failed)} failed, at most "
        f"{max(len(caller.failed) for caller in callers)} of one client, "
        f"{sum(caller.last_failed for caller in callers)} clients not recovered; "
        f"p50 {statistics.median(took) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, longest {took[-1] * 1000:.0f} ms"
    )
    for why in sorted(set(failed)):
        _say(f"  {failed.count(why)} times {why}")


async def measure(server: str, *, kill: bool, sticky: bool) -> None:
    """Run both kinds of clients through two restarts, and report."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_pair(Path(folder), server, in_turn=not sticky) as pair, AsyncExitStack() as stack:
            await _consent(pair)
            kinds = {
                "2026-07-28": await _callers(stack, pair, StatelessClient),
                "handshake": await _callers(stack, pair, HandshakeClient),
            }
            done = anyio.Event()
            async with anyio.create_task_group() as group:
                for number, caller in enumerate(each for callers in kinds.values() for each in callers):
                    group.start_soon(partial(caller.run, done, after=number / (2 * CLIENTS)))
                await _restart(pair, signal.SIGKILL if kill else signal.SIGTERM)
                done.set()
            for name, callers in kinds.items():
                _report(name, callers)


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill", action="store_true", help="SIGKILL in place of SIGTERM")
    parser.add_argument(
        "--sticky",
        action="store_true",
        help="keep each session at one replica, as docs/operate/replicas.md says",
    )
    options = parser.parse_args()
    server = os.environ["TEST_POSTGRES_URL"]
    anyio.run(partial(measure, server, kill=options.kill, sticky=options.sticky))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a report


if __name__ == "__main__":
    main()
