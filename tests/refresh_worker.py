"""A server process that makes one call per input line, and may be killed or stopped during it.

    reads   {"keys", "database", "nextcloud", "client_id", "client_secret"}     first, once
            {"at": time, "trap": null | "SIGKILL" | "SIGSTOP", "name": uid}
    writes  {"uid"} | {"asked": sentence} | {"failed": sentence}

`at` is the time of its clock; the trap is triggered when the response to a token request has arrived and nothing of
it has been stored yet.
"""

import json
import os
import signal
import sys
from datetime import datetime
from typing import Any

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ElicitationRequired, NextcloudMcpError
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database
from tests.auth_fixtures import READ, Clock
from tests.oauth_fixtures import TOKEN, Registered, caller, replica_of


class Trapped(httpx2.AsyncBaseTransport):
    """The network to Nextcloud, with a trap after each token response."""

    def __init__(self) -> None:
        self._through = httpx2.AsyncHTTPTransport()
        self.trap: str | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._through.handle_async_request(request)
        if self.trap is not None and request.url.path.endswith(TOKEN):
            read = await response.aread()
            trap, self.trap = self.trap, None
            os.kill(os.getpid(), signal.Signals[trap])
            return httpx2.Response(response.status_code, headers=response.headers, content=read)
        return response


async def main() -> None:
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    clock, transport = Clock(), Trapped()
    keys = KeyRing.parse([SecretStr(key) for key in settings["keys"]])
    pool = open_pool(ca_bundle=None, user_agent="Nextcloud MCP server (test)", transport=transport)
    database = await Database.open(settings["database"], keys=keys, clock=clock)
    client = Registered(settings["nextcloud"], settings["client_id"], SecretStr(settings["client_secret"]))
    replica = replica_of(database, pool, client, clock=clock)
    async with pool:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            order: dict[str, Any] = json.loads(line)
            clock.moment, transport.trap = datetime.fromisoformat(order["at"]), order.get("trap")
            replica.accounts.forget()
            try:
                opened = await replica.accounts.open(caller(order.get("name", "alice")), READ)
                answer = {"uid": (await opened.account.user.get()).uid}
            except ElicitationRequired as need:
                answer = {"asked": str(need)}
            except NextcloudMcpError as error:
                answer = {"failed": str(error)}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()
    await database.aclose()


if __name__ == "__main__":
    anyio.run(main)
