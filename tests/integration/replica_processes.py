"""Two server processes of one PostgreSQL, behind Debian's nginx: as an operator runs replicas."""

import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from urllib.parse import urlsplit

import anyio
import asyncpg
import httpx2
from anyio.abc import Process

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.settings.names import known_variables
from nextcloud_mcp_server.storage.crypto import new_key
from tests.clients_fixtures import IN_ORDER
from tests.integration.reverse_proxies import NAME, ROOT, Place, ThroughProxy, running

URL = f"https://{NAME}"
EVERYTHING = " ".join(IN_ORDER)


def free_port() -> int:
    """Return a port that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Way(httpx2.AsyncBaseTransport):
    """Sends requests for the name through the proxy, or to the `port` of one replica, as the proxy does."""

    def __init__(self, place: Place, port: int | None = None) -> None:
        self.port = port
        self._proxy = ThroughProxy(place)
        self._directly = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Connect to the port in place of the name; the headers say how the proxy was asked."""
        if self.port is None:
            return await self._proxy.handle_async_request(request)
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port)
        headers = {**request.headers, "host": NAME, "x-forwarded-proto": "https"}
        stream, extensions = request.stream, request.extensions
        return await self._directly.handle_async_request(
            httpx2.Request(request.method, url, headers=headers, stream=stream, extensions=extensions)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._proxy.aclose()
        await self._directly.aclose()


@dataclass
class ReplicaProcess:
    """One server process, which can be ended and started again on its port."""

    settings: dict[str, str]
    port: int
    folder: Path
    metrics_port: int = field(default_factory=free_port)
    process: Process | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self.folder / "server.log"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self.folder.mkdir(exist_ok=True)
        known = known_variables()
        kept = {name: value for name, value in os.environ.items() if name not in known}
        command = [sys.executable, "-m", "nextcloud_mcp_server", "serve", "--transport", "http"]
        with self.log.open("ab") as log:
            self.process = await anyio.open_process(
                [*command, "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=ROOT,
                env={**kept, **self.settings, **self._own(), "PYTHONPATH": str(ROOT)},
                stdin=DEVNULL,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        with anyio.fail_after(120):
            while not await self.is_ready():
                assert self.process.returncode is None, self.log.read_text(errors="replace")
                await anyio.sleep(0.05)

    async def is_ready(self) -> bool:
        """Ask `/readyz`."""
        async with httpx2.AsyncClient(timeout=60) as http:
            try:
                return (await http.get(f"http://127.0.0.1:{self.port}/readyz")).status_code == 200
            except httpx2.TransportError:
                return False

    def _own(self) -> dict[str, str]:
        return {"DATA_DIR": str(self.folder), "METRICS_PORT": str(self.metrics_port)}

    async def held_calls(self) -> int:
        """Return how many calls it holds for a consent, by its metrics."""
        async with httpx2.AsyncClient(timeout=60) as http:
            text = (await http.get(f"http://127.0.0.1:{self.metrics_port}/metrics")).text
        return sum(
            int(float(line.split()[-1]))
            for line in text.splitlines()
            if line.startswith("nextcloud_mcp_held_calls")
        )

    async def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait for the end of the process."""
        assert self.process is not None
        self.process.send_signal(number)
        with anyio.fail_after(60):
            await self.process.wait()

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.returncode is None

    def kill(self) -> None:
        """Kill it, and return when it takes no request any more; for a callback that cannot wait otherwise."""
        assert self.process is not None
        self.process.kill()
        with suppress(OSError):
            while True:
                socket.create_connection(("127.0.0.1", self.port), timeout=60).close()

    async def aclose(self) -> None:
        """End it, if it runs."""
        if self.runs:
            with anyio.CancelScope(shield=True):
                await self.end(signal.SIGKILL)


@dataclass
class Pair:
    """Two replicas, what they use, and the proxy."""

    sandbox: Sandbox
    issuer: Issuer
    place: Place
    replicas: tuple[ReplicaProcess, ReplicaProcess]
    database_url: str

    def token(self, client_id: str, name: str = "alice") -> str:
        """Let the identity provider issue an access token."""
        return self.issuer.access_token(name, audience=f"{URL}/mcp", client_id=client_id, scope=EVERYTHING)

    @asynccontextmanager
    async def http(
        self, way: Way | None = None, *, token: str | None = None
    ) -> AsyncGenerator[httpx2.AsyncClient]:
        """Connect through the proxy or another way, and directly to everything else."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        mounts = {f"all://{NAME}": way or Way(self.place)}
        async with httpx2.AsyncClient(headers=headers, mounts=mounts, timeout=60) as http:
            yield http

    async def both_run(self) -> None:
        """Start what a test has ended."""
        async with anyio.create_task_group() as group:
            for replica in self.replicas:
                if not replica.runs:
                    group.start_soon(replica.start)

    async def count(self, query: str, *arguments: object) -> int:
        """Count rows of the database."""
        connection = await asyncpg.connect(self.database_url)
        try:
            return await connection.fetchval(query, *arguments)
        finally:
            await connection.close()


@asynccontextmanager
async def open_pair(
    folder: Path, postgres_server: str, *, in_turn: bool = True, **settings: str
) -> AsyncGenerator[Pair]:
    """Serve a Nextcloud, an identity provider, two replicas on a new database, and nginx in front of them.

    `in_turn` sends each request to the next replica; else sessions stay at one.
    """
    sandbox, issuer = Sandbox.demo(), Issuer(scopes=IN_ORDER)
    issuer.add_client("front", redirect_uris=[f"{URL}/oauth/callback/sign-in"], secret="secret")
    known = sandbox.state.new_oauth_client("Front", f"{URL}/oauth/callback/nextcloud")
    async with AsyncExitStack() as stack:
        nextcloud_url = await stack.enter_async_context(serving(sandbox))
        await stack.enter_async_context(serving(issuer))
        database_url = await stack.enter_async_context(_database(postgres_server))
        own = {
            "MODE": "oidc",
            "NEXTCLOUD_HOST": nextcloud_url,
            "NEXTCLOUD_MCP_SERVER_URL": URL,
            "TRUSTED_PROXIES": "127.0.0.1",
            "OIDC_ISSUER": issuer.url,
            "OIDC_CLIENT_ID": "front",
            "OIDC_CLIENT_SECRET": "secret",
            "NEXTCLOUD_OAUTH_CLIENT_ID": known.client_id,
            "NEXTCLOUD_OAUTH_CLIENT_SECRET": known.client_secret,
            "TOKEN_ENCRYPTION_KEYS": new_key(),
            "DATABASE_URL": database_url,
            "HOLD_SECONDS": "50",
            **settings,
        }
        ports = free_port(), free_port()
        one, other = (ReplicaProcess(own, port, folder / f"replica-{port}") for port in ports)
        place = Place(folder / "nginx", free_port(), ports[0], ports[1], in_turn=in_turn)
        place.folder.mkdir()
        pair = Pair(sandbox, issuer, place, (one, other), database_url)
        stack.push_async_callback(one.aclose)
        stack.push_async_callback(other.aclose)
        await pair.both_run()
        await stack.enter_async_context(running("nginx", place))
        yield pair


@asynccontextmanager
async def _database(server: str) -> AsyncGenerator[str]:
    """Create a database, and drop it at the end."""
    name = f"nextcloud_mcp_replicas_{os.getpid()}"
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f"DROP DATABASE IF EXISTS {name}")
        await connection.execute(f"CREATE DATABASE {name}")
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()
