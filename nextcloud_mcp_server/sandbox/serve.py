"""Runs a sandbox or its issuer on a loopback port: for `serve --sandbox`, the demo, tests of real sockets."""

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio
import uvicorn
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"

#: Longer than clients keep an idle connection for: a request that comes while it is closed is lost.
KEEP_ALIVE_SECONDS = 75


class Servable(Protocol):
    """A `Sandbox` or an `Issuer`."""

    @property
    def app(self) -> ASGIApp:
        """The ASGI application."""
        ...

    def served_at(self, origin: str) -> str:
        """Set the origin at which it is served, and return its URL."""
        ...


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and handles no signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serving(sandbox: Servable, *, host: str = LOOPBACK, port: int = 0) -> AsyncGenerator[str]:
    """Serve while the block runs, and yield the URL. Port 0 means a free one."""
    config = uvicorn.Config(
        sandbox.app,
        # Its own set-up would stay with the program around it.
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    with socket.create_server((host, port)) as listener:
        # asyncio does so only for sockets that know their protocol (`base_events._set_nodelay`); without it the end of
        # an answer waits up to 40 ms for an acknowledgement of its beginning.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = _Server(config)

        async def until_told() -> None:
            # Shielded: cancelled, it would leave its socket behind in the event loop, and a later
            # server that gets the same file number would never be told of its connections.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])

        async with anyio.create_task_group() as group:
            group.start_soon(until_told)
            try:
                await server.listening.wait()
                yield sandbox.served_at(f"http://{host}:{listener.getsockname()[1]}")
            finally:
                server.should_exit = True


async def serve(sandbox: Servable, host: str = LOOPBACK, port: int = 0) -> None:
    """Serve until cancelled."""
    async with serving(sandbox, host=host, port=port):
        await anyio.sleep_forever()


@contextmanager
def running(sandbox: Servable, *, host: str = LOOPBACK, port: int = 0) -> Generator[str]:
    """Serve in a thread while the block runs, and yield the URL."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(sandbox, host=host, port=port)) as url,
    ):
        yield url
