"""Runs a sandbox on a loopback port, for `serve --sandbox`, the demo and tests of real sockets."""

import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn
from anyio.from_thread import start_blocking_portal

from nextcloud_mcp_server.sandbox.app import Sandbox

LOOPBACK = "127.0.0.1"


class _Server(uvicorn.Server):
    """A uvicorn server that says when it listens and leaves signals to its host program."""

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
async def serving(sandbox: Sandbox, *, host: str = LOOPBACK, port: int = 0) -> AsyncGenerator[str]:
    """Serve while the block runs, and give the sandbox's URL. Port 0 takes a free one."""
    config = uvicorn.Config(
        sandbox.app,
        # Its own set-up would stay with the program around it.
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    with socket.create_server((host, port)) as listener:
        server = _Server(config)

        async def until_told() -> None:
            # Shielded: cancelled, it would leave its socket behind in the event loop, and a later
            # server that gets the same file number would never hear of its visitors.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])

        async with anyio.create_task_group() as group:
            group.start_soon(until_told)
            try:
                await server.listening.wait()
                yield f"http://{host}:{listener.getsockname()[1]}{sandbox.context.base_path}"
            finally:
                server.should_exit = True


async def serve(sandbox: Sandbox, host: str = LOOPBACK, port: int = 0) -> None:
    """Serve until cancelled."""
    async with serving(sandbox, host=host, port=port):
        await anyio.sleep_forever()


@contextmanager
def running(sandbox: Sandbox, *, host: str = LOOPBACK, port: int = 0) -> Generator[str]:
    """Serve from a thread of its own while the block runs, and give the sandbox's URL."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(sandbox, host=host, port=port)) as url,
    ):
        yield url
