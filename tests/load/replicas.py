"""Several processes of this server on one database, and a client's connections that are spread over them."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx2

from tests.load.our_server import our_server
from tests.load.servers import free_port
from tests.load_cluster import LoadCluster

_SESSION = "mcp-session-id"


class Balancer(httpx2.AsyncHTTPTransport):
    """Does a load balancer's work in the client: each request goes to the next replica, those of a session to one."""

    def __init__(self, port: int, replicas: Sequence[int], *, first: int = 0) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # Nothing here is encrypted, and reading the trusted certificates takes 30 ms and half a megabyte.
        super().__init__(verify=False, limits=limits)
        self._port = port
        self._turns = itertools.islice(itertools.cycle(replicas), first, None)
        self._sessions: dict[str, int] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send what is meant for the public port to a replica; the Host stays."""
        if request.url.port != self._port:
            return await super().handle_async_request(request)
        session = request.headers.get(_SESSION, "")
        port = self._sessions.get(session) or next(self._turns)
        response = await super().handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(port=port),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )
        if request.method == "DELETE":
            self._sessions.pop(session, None)
        elif opened := response.headers.get(_SESSION):
            self._sessions[opened] = port
        return response


@dataclass(frozen=True, slots=True)
class Replicas:
    """The running processes of this server."""

    cluster: LoadCluster
    ports: tuple[int, ...]
    pids: tuple[int, ...]

    @property
    def endpoint(self) -> str:
        """The public address of the MCP endpoint."""
        return f"{self.cluster.url}/mcp"

    def balancer(self, first: int = 0) -> Balancer:
        """Return the connections of one client or browser; its first request goes to the replica `first`."""
        return Balancer(self.cluster.port, self.ports, first=first)

    def http(self, name: str, first: int = 0) -> httpx2.AsyncClient:
        """Return a user's connections, with an access token."""
        headers = {"Authorization": f"Bearer {self.cluster.token(name)}"}
        return httpx2.AsyncClient(headers=headers, timeout=120, transport=self.balancer(first))


@asynccontextmanager
async def replicas(cluster: LoadCluster, number: int, **settings: str) -> AsyncGenerator[Replicas]:
    """Start so many processes of this server, and stop them at the end."""
    ports = [cluster.port, *(free_port() for _ in range(number - 1))]
    given = cluster.settings | {"trusted_proxies": "127.0.0.1"} | settings
    async with AsyncExitStack() as stack:
        pids: list[int] = []
        for turn, port in enumerate(ports):
            folder = cluster.folder / f"replica{turn}"
            folder.mkdir(exist_ok=True)
            pids.append(await stack.enter_async_context(our_server(given, port=port, folder=folder)))
        yield Replicas(cluster, tuple(ports), tuple(pids))
