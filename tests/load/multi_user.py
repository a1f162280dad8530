"""Measures many users on one server: mixed-up responses, the cost of waiting, and mutual delays."""

import statistics
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient
from nextcloud_mcp_server.protocol.wire import EXTENSION_ID
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.load import process
from tests.load.client import CallFailed, Client, HttpChannel
from tests.load.our_server import our_server
from tests.load_cluster import LIST, LoadCluster, note_of, open_cluster

CALLS_EACH = 20
PENDING = 1000
WAITERS = 200
WATCHED_SECONDS = 20
#: The users whose calls are timed, one after the other each, while another user's are slow.
OTHERS = 4
#: The concurrent calls of the slow user's client: more than the connections to Nextcloud.
SLOW_CALLS = 120
SLOW_SECONDS = 30
#: A server with a smaller share of a processor has finished its incoming work.
IDLE_SHARE = 0.1
SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Crossed:
    """Calls of users whose requests carry the same ids, and how many got another user's result, or none."""

    people: int
    calls: int
    crossed: int
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slow:
    """The 99th percentile of the others' calls in ms, without and with a user whose Nextcloud is slow."""

    quiet: float
    beside: float
    failed: int


@dataclass(frozen=True, slots=True)
class Us:
    """The server under test, which serves a load cluster."""

    cluster: LoadCluster
    pid: int

    @asynccontextmanager
    async def http(self, name: str) -> AsyncGenerator[httpx2.AsyncClient]:
        headers = {"Authorization": f"Bearer {self.cluster.token(name)}"}
        limits = httpx2.Limits(max_connections=2 * SLOW_CALLS)
        async with httpx2.AsyncClient(headers=headers, timeout=120, limits=limits) as http:
            yield http

    @property
    def endpoint(self) -> str:
        return f"{self.cluster.url}/mcp"


async def crossed(folder: Path, people: int) -> Crossed:
    """Let every user call at the same time, with the same ids in every user's own session."""
    names = [f"person{number}" for number in range(people)]
    wrong: list[str] = []
    failed: list[str] = []

    async def call(client: Client, name: str) -> None:
        for _ in range(CALLS_EACH):
            try:
                result, _ = await client.call(LIST, {})
            except CallFailed as error:
                failed.append(str(error))
            else:
                wrong.extend([name] * (_titles(result) != [note_of(name)]))

    async with open_cluster(folder) as cluster:
        cluster.move_in(*names)
        await cluster.connect(*names)
        async with serving(cluster) as us, AsyncExitStack() as stack:
            clients: dict[str, Client] = {}
            for name in names:
                http = await stack.enter_async_context(us.http(name))
                clients[name] = Client(HttpChannel(http, us.endpoint))
                await clients[name].handshake()
            async with anyio.create_task_group() as group:
                for name, client in clients.items():
                    group.start_soon(call, client, name)
    return Crossed(people, people * CALLS_EACH, len(wrong), tuple(failed))


async def pending_mb(folder: Path) -> float:
    """Measure the memory of users who were sent to a page and have not returned yet."""
    names = [f"person{number}" for number in range(PENDING)]
    async with open_cluster(folder) as cluster:
        cluster.move_in(*names)
        async with serving(cluster) as us:
            turns = iter(names)
            await _ask(us, [next(turns) for _ in range(20)])
            before = process.resident_mb(us.pid)
            await _ask(us, list(turns))
            return process.resident_mb(us.pid) - before


async def _ask(us: Us, names: Sequence[str]) -> None:
    """Let these users be sent to a page; their clients get text, so the server has to remember them."""
    for name in names:
        async with us.http(name) as http:
            client = StatelessClient(http, us.endpoint, capabilities={})
            answer = await client.request("tools/call", {"name": LIST, "arguments": {}})
        if "/oauth/provision" not in str(answer):
            raise CallFailed(f"{name} was not sent to a page: {answer}")


async def waiters_share(folder: Path) -> float:
    """Measure the processor share of calls that wait for their users."""
    names = [f"person{number}" for number in range(WAITERS)]
    draft: dict[str, Any] = {"extensions": {EXTENSION_ID: {}}}
    share = 0.0
    async with open_cluster(folder) as cluster:
        cluster.move_in(*names)
        async with serving(cluster) as us, AsyncExitStack() as stack, anyio.create_task_group() as group:
            for name in names:
                http = await stack.enter_async_context(us.http(name))
                client = HandshakeClient(http, us.endpoint, capabilities=draft)
                await client.open()
                asked = await client.request("tools/call", {"name": LIST, "arguments": {}})
                told = anyio.Event()
                client.on_notice = lambda _, told=told: told.set()
                consent_request = asked["error"]["data"]["elicitations"][0]["elicitationId"]
                params = {"elicitationId": consent_request, "_meta": {"progressToken": 1}}
                group.start_soon(client.request, "elicitation/track", params)
                await told.wait()
            used, began = process.cpu_seconds(us.pid), time.perf_counter()
            await anyio.sleep(WATCHED_SECONDS)
            share = (process.cpu_seconds(us.pid) - used) / (time.perf_counter() - began)
            group.cancel_scope.cancel()
    return share


class _Slowness:
    """A proxy of the Nextcloud that delays one user's responses while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.over = anyio.Event()
        self.sandbox: Sandbox | None = None

    def before(self, nextcloud: ASGIApp) -> ASGIApp:
        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            if self.on and scope["type"] == "http" and self._is_slow(scope):
                with anyio.move_on_after(SLOW_SECONDS):
                    await self.over.wait()
            await nextcloud(scope, receive, send)

        return served

    def _is_slow(self, scope: Scope) -> bool:
        secret = dict(scope["headers"]).get(b"authorization", b"").decode().partition(" ")[2]
        found = self.sandbox.state.find_app_password(secret) if self.sandbox else None
        return found is not None and found.uid == SLOW


async def slow(folder: Path, calls: int, rounds: int) -> Slow:
    """Time some users' calls, in turns without and with another user whose Nextcloud is slow."""
    names, slowness = [f"person{number}" for number in range(OTHERS)], _Slowness()
    found: dict[bool, list[float]] = {False: [], True: []}
    failed: list[str] = []

    async with open_cluster(folder, front=slowness.before) as cluster:
        slowness.sandbox = cluster.sandbox
        cluster.move_in(*names, SLOW)
        await cluster.connect(*names, SLOW)
        # They call without a pause, which is above the default limit per user.
        async with serving(cluster, requests_per_minute="600000") as us, AsyncExitStack() as stack:
            clients = [await connected_client(us, stack, name) for name in (*names, SLOW)]
            await _times(clients, 20 * len(clients), failed)
            for turn in range(2 * rounds):
                beside = bool(turn % 2)
                async with anyio.create_task_group() as group:
                    slowness.on, slowness.over = beside, anyio.Event()
                    for _ in range(SLOW_CALLS if beside else 0):
                        group.start_soon(_quietly, clients[-1])
                    await _settled(us)
                    found[beside] += await _times(clients[:-1], calls, failed)
                    slowness.over.set()
    return Slow(_p99(found[False]), _p99(found[True]), len(failed))


async def connected_client(us: Us, stack: AsyncExitStack, name: str) -> Client:
    """Open a session of a user."""
    client = Client(HttpChannel(await stack.enter_async_context(us.http(name)), us.endpoint))
    await client.handshake()
    return client


async def _times(clients: Sequence[Client], calls: int, failed: list[str]) -> list[float]:
    found: list[float] = []
    turns: Iterator[int] = iter(range(calls))

    async def work(client: Client) -> None:
        for _ in turns:
            try:
                found.append((await client.call(LIST, {}))[1] * 1000)
            except CallFailed as error:
                failed.append(str(error))

    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(work, client)
    return found


async def _settled(us: Us) -> None:
    """Wait until the server has received all calls, which is not part of the measurement."""
    used, share = process.cpu_seconds(us.pid), 1.0
    while share > IDLE_SHARE:
        await anyio.sleep(1)
        share, used = process.cpu_seconds(us.pid) - used, process.cpu_seconds(us.pid)


async def _quietly(client: Client) -> None:
    """Make a call that the server may cancel."""
    with suppress(CallFailed):
        await client.call(LIST, {})


def _p99(found: Sequence[float]) -> float:
    return statistics.quantiles(found, n=100)[-1]


def _titles(result: dict[str, Any]) -> list[str]:
    return [note["title"] for note in result["structuredContent"]["notes"]]


@asynccontextmanager
async def serving(cluster: LoadCluster, **settings: str) -> AsyncGenerator[Us]:
    """Start this server as an operator does, and stop it at the end."""
    async with our_server(
        cluster.settings | {"trusted_proxies": "127.0.0.1"} | settings,
        port=cluster.port,
        folder=cluster.folder,
    ) as pid:
        yield Us(cluster, pid)
