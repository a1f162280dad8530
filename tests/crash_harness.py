"""Kills the server at some point during the requests of two users, and checks the remaining state.

The requests are a whole consent, from a first call to the first notes, and the refresh of an expired access token.
Points are counted (see tests/crashing_server.py), so a kill is repeatable except for the order of the two users'
steps.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nextcloud_mcp_server.auth.token_refresh import LEASE
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from tests.load_cluster import LIST, LoadCluster, note_of

ROOT = Path(__file__).parents[1]
BYSTANDER = "bystander"
NEVER = 1_000_000_000
#: After this every access token has expired.
HOUR = timedelta(hours=1)
#: Rows that are never deleted, or only when their user demands it.
_PERMANENT = {
    "accounts": "SELECT id FROM accounts",
    "permissions": "SELECT issuer, subject, client_id FROM permissions",
    "audit": "SELECT number FROM audit",
}


@dataclass
class Toll:
    """The results of all kills; only the first three may be more than zero.

    `asked_again` counts users who had to repeat a consent request, `asked_anew` those who had access and lost it.
    """

    kills: int = 0
    asked_again: int = 0
    asked_anew: int = 0
    rows_lost: int = 0
    wrong_people: int = 0
    broken_databases: int = 0
    stuck: list[str] = field(default_factory=list[str])

    @property
    def harmless(self) -> bool:
        """Tell whether no user lost data or access, and everyone could try again."""
        return not (self.rows_lost or self.wrong_people or self.broken_databases or self.stuck)


class Killed:
    """The process that starts one server after the other, with its output."""

    def __init__(self, cluster: LoadCluster, process: Process) -> None:
        assert process.stdout is not None
        self._cluster, self._process = cluster, process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._pid = 0

    async def start(self) -> None:
        """Start a server with the cluster's clock."""
        await self.write({"ahead": self._cluster.clock.ahead.total_seconds()})
        self._pid = await self._hear("listens")

    async def count(self, goes_off_at: int = NEVER) -> int:
        """Set the point at which the server dies; return how many points it has passed so far."""
        await self.write(goes_off_at)
        return await self._hear("passed")

    async def stop(self) -> None:
        """Kill the server, at any point, if it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        assert await self._hear("ended") == signal.SIGKILL

    async def write(self, message: Any) -> None:  # noqa: ANN401 - whatever is JSON
        """Send it one line."""
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(message).encode() + b"\n")

    async def _hear(self, name: str) -> int:
        with anyio.fail_after(100):
            return json.loads(await self._lines.receive_until(b"\n", 1000))[name]


class Killing:
    """Kills servers during the requests of two users, and checks the remaining state."""

    def __init__(self, cluster: LoadCluster, server: Killed) -> None:
        self._cluster, self._server = cluster, server
        self._people: list[str] = []
        self._sitting: dict[str, Person] = {}
        self.toll = Toll()

    async def points(self) -> tuple[int, int]:
        """Run consent and refresh without a kill; return the number of points of each."""
        self._cluster.move_in(BYSTANDER)
        await self._cluster.connect(BYSTANDER)
        names = self._newcomers()
        await self._serve()
        async with self._browsers(names):
            await self._all(names, self._try_hard)
        consent = await self._server.count()
        await self._server.stop()
        self._cluster.clock.ahead += HOUR
        await self._serve()
        await self._all(names, self._try_hard)
        refresh = await self._server.count()
        await self._server.stop()
        return consent, refresh

    async def during_consent(self, point: int) -> None:
        """Kill the server at this point of the consent of two new users."""
        self.toll.asked_again += await self._kill(self._newcomers(), point)

    async def during_refresh(self, point: int) -> None:
        """Kill the server at this point of two users' calls with expired access tokens."""
        self._cluster.clock.ahead += HOUR
        self.toll.asked_anew += await self._kill(self._people[-2:], point)

    async def _kill(self, names: Sequence[str], point: int) -> int:
        """Kill the server during these users' requests; return how many are asked when they try again."""
        asked: list[str] = []

        async def try_again(name: str) -> None:
            if await self._try_hard(name):
                asked.append(name)

        known = self._permanent_rows()
        async with self._browsers(names):
            await self._serve()
            await self._server.count(point)
            await self._all(names, self._try_to)
            await self._server.stop()
            self.toll.kills += 1
            known |= self._permanent_rows()
            # The lease of a killed process lasts this long.
            self._cluster.clock.ahead += LEASE
            await self._serve()
            await self._all(names, try_again)
            await self._server.stop()
        self.toll.rows_lost += len(known - self._permanent_rows())
        self.toll.broken_databases += self._cluster.rows("PRAGMA integrity_check") != [("ok",)]
        return len(asked)

    async def _serve(self) -> None:
        """Start a server, and let it open everything for a user whose access must survive every kill."""
        await self._server.start()
        await self._server.count()
        if await self._call(BYSTANDER) is not None:
            self.toll.stuck.append("the bystander was asked")

    async def _all(self, names: Sequence[str], go: Callable[[str], Coroutine[Any, Any, object]]) -> None:
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(go, name)

    async def _try_to(self, name: str) -> None:
        """Run the requests of a user, unless the server dies."""
        with suppress(httpx2.TransportError, NotAsPromised):
            await self._try_hard(name)

    async def _try_hard(self, name: str) -> bool:
        """Call, give consent where it is asked for, and call again; return whether it was asked for."""
        link = await self._call(name)
        if link is None:
            return False
        page = await self._sitting[name].consent(link)
        if page.status != HTTPStatus.OK:
            self.toll.stuck.append(f"{name}: {page.status} {page.text}")
        elif await self._call(name) is not None:
            self.toll.stuck.append(f"{name}: asked twice")
        return True

    async def _call(self, name: str) -> str | None:
        """Read the user's notes; return the link of a consent request, if there is one."""
        async with self._cluster.asking(name) as client:
            answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
        result: dict[str, Any] = answer["result"]
        if result.get("resultType") == "input_required":
            return result["inputRequests"]["provision"]["params"]["url"]
        if result.get("isError"):
            self.toll.stuck.append(f"{name}: {result['content'][0]['text']}")
        else:
            titles = {note["title"] for note in result["structuredContent"]["notes"]}
            self.toll.wrong_people += titles != {note_of(name)}
        return None

    @asynccontextmanager
    async def _browsers(self, names: Sequence[str]) -> AsyncGenerator[None]:
        """Give each user a browser, which outlives the server."""
        async with AsyncExitStack() as stack:
            for name in names:
                browser = await stack.enter_async_context(httpx2.AsyncClient(timeout=100))
                self._sitting[name] = Person(name, name, browser=browser)
            yield

    def _newcomers(self) -> list[str]:
        names = [f"person{len(self._people) + number}" for number in range(2)]
        self._cluster.move_in(*names)
        self._people += names
        return names

    def _permanent_rows(self) -> set[tuple[Any, ...]]:
        return {(table, *row) for table, query in _PERMANENT.items() for row in self._cluster.rows(query)}


@asynccontextmanager
async def open_killed(cluster: LoadCluster, **settings: object) -> AsyncGenerator[Killed]:
    """Start the process that starts the servers, by default with the cluster's settings."""
    command = [sys.executable, "-m", "tests.crashing_server"]
    with (cluster.folder / "servers.log").open("ab") as log:
        process = await anyio.open_process(command, cwd=ROOT, stderr=log)
    async with process:
        try:
            server = Killed(cluster, process)
            await server.write({"port": cluster.port, "settings": settings or cluster.settings})
            yield server
        finally:
            # Without its input and its parent, a running server ends as well.
            process.kill()


async def play(cluster: LoadCluster, kills: int, *, seed: int) -> Toll:
    """Kill `kills` servers, at random points of consent and refresh in turn."""
    random = Random(seed)
    async with open_killed(cluster) as server:
        killing = Killing(cluster, server)
        consent, refresh = await killing.points()
        for number in range(kills):
            if number % 2:
                await killing.during_refresh(random.randint(1, refresh))
            else:
                await killing.during_consent(random.randint(1, consent))
    return killing.toll
