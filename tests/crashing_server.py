"""The multi-user server as a process that kills itself at a given point.

    reads   {"port", "settings"}        first, once
            {"ahead": seconds}          starts a server whose clock is so much ahead
            a number                    the server dies at the point of this number from now on
    writes  {"listens": pid}            it serves
            {"passed": points}          how many points it passed since the number before, or its start
            {"ended": status}           it has ended, and another may be started

A point is before a statement or a commit at the database, before a request to Nextcloud or the identity provider,
after their response, and before each part of the server's own response. Servers are forked from a process that has
imported everything, so that a start is cheap.
"""

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx2
import uvicorn
from sqlalchemy import Engine, event
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.modes import builtin, oidc
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.storage import engine, migration

#: Imported before the fork; the servers would otherwise import them at their first call.
LATE = (engine, migration, builtin, oidc)


class Trap:
    """Counts the points, and kills the process at one of them."""

    def __init__(self) -> None:
        self.passed, self.goes_off_at = 0, 0

    def set(self, number: int) -> int:
        """Restart the count, and set the point of the kill; return the count so far."""
        passed, self.passed, self.goes_off_at = self.passed, 0, number
        return passed

    def point(self, *_: object) -> None:
        """Die if this is the point."""
        self.passed += 1
        if self.passed == self.goes_off_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Trapped(httpx2.AsyncBaseTransport):
    """The network to Nextcloud and the identity provider, with points."""

    def __init__(self, trap: Trap) -> None:
        self._through = httpx2.AsyncHTTPTransport()
        self._trap = trap

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._trap.point()
        response = await self._through.handle_async_request(request)
        self._trap.point()
        return response


def answering(served: ASGIApp, trap: Trap) -> ASGIApp:
    """Add a point before each part of each response."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if scope["type"] == "http":
                trap.point()
            await send(message)

        await served(scope, receive, sending)

    return wrapped


async def serve(port: int, given: dict[str, Any], ahead: timedelta) -> None:
    """Serve until killed, or until the parent process has ended."""
    trap = Trap()
    for name in ("before_cursor_execute", "commit"):
        event.listen(Engine, name, trap.point)

    def clock() -> datetime:
        return datetime.now(UTC) + ahead

    config = environment.load(**given)
    site = PublicUrls.of(config, "127.0.0.1", port)
    made, _ = build_http_app(config, site, overrides=Overrides(transport=Trapped(trap), clock=clock))
    server = uvicorn.Server(
        uvicorn.Config(answering(made, trap), host="127.0.0.1", port=port, log_config=None)
    )
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        while not server.started:  # noqa: ASYNC110 - uvicorn gives no event for it
            await anyio.sleep(0.01)
        say({"listens": os.getpid()})
        while line := await anyio.to_thread.run_sync(read_line):
            say({"passed": trap.set(int(line))})
        os._exit(0)


def say(message: dict[str, int]) -> None:
    """Write one line."""
    os.write(1, f"{json.dumps(message)}\n".encode())


def read_line() -> bytes:
    """Read one line and nothing after it, which may be for another process."""
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line


def main() -> None:
    """Fork one server after the other."""
    cluster = json.loads(read_line())
    while line := read_line():
        pid = os.fork()
        if pid == 0:
            ahead = timedelta(seconds=json.loads(line)["ahead"])
            anyio.run(serve, cluster["port"], cluster["settings"], ahead)
            sys.exit()
        say({"ended": os.waitpid(pid, 0)[1]})


if __name__ == "__main__":
    main()
