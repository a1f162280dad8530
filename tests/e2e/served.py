"""Serves ASGI applications on loopback ports, in an event loop of their own, for synchronous tests."""

import inspect
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp

T = TypeVar("T")


class Blocking:
    """A fixture that lives in another thread's event loop: its asynchronous methods block here."""

    def __init__(self, portal: BlockingPortal, fixture: object) -> None:
        self._portal = portal
        self._fixture = fixture

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the fixture has
        value = getattr(self._fixture, name)
        if not inspect.iscoroutinefunction(value):
            return value

        def call(*args: object, **fields: object) -> Any:  # noqa: ANN401 - whatever the method returns
            method: Callable[[], Awaitable[Any]] = partial(value, *args, **fields)
            return self._portal.call(method)

        return call


@contextmanager
def in_a_loop_of_its_own(opened: AbstractAsyncContextManager[T]) -> Generator[tuple[BlockingPortal, T]]:
    """Enter an asynchronous context in a new thread's event loop."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as value:
        yield portal, value


def listener() -> socket.socket:
    """Open a free port of this computer."""
    return socket.create_server(("127.0.0.1", 0))


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


@asynccontextmanager
async def serving(served: Sequence[tuple[ASGIApp, socket.socket]]) -> AsyncGenerator[None]:
    """Serve each application on its port while the block runs."""
    servers = [
        uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
        for app, _ in served
    ]
    async with anyio.create_task_group() as group:
        for server, (_, listening) in zip(servers, served, strict=True):
            group.start_soon(partial(server.serve, sockets=[listening]))
        try:
            yield
        finally:
            for server in servers:
                server.should_exit = True
