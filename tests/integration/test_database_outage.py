"""PostgreSQL restarts while users consent and tokens are refreshed: nothing is lost, and calls go on by themselves."""

import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth import backchannel_logout
from nextcloud_mcp_server.sandbox.person import Page, Person
from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from tests.integration.personal_app import served, until
from tests.load_cluster import LIST, LoadCluster, note_of, open_cluster
from tests.own_postgres import OwnPostgres, Shutdown, own_postgres

pytestmark = [pytest.mark.process, pytest.mark.postgres]

#: Longer than Nextcloud's access tokens are valid.
HOURS = timedelta(hours=2)
#: They have access when the database stops, and their tokens are being refreshed.
CONNECTED = ("ann", "ben", "cleo")
#: A user whose code is being exchanged then, and one whose call waits for a consent that comes later.
NEW, WAITING = "dan", "eva"
#: A user who is asked while there is no database.
LATE = "finn"


class Gate:
    """Holds Nextcloud's tokens back, after it has given them, until the test lets them through."""

    def __init__(self) -> None:
        self.held = 0
        self.opened = anyio.Event()
        self.opened.set()

    def close(self) -> None:
        self.held, self.opened = 0, anyio.Event()

    def around(self, app: ASGIApp) -> ASGIApp:
        async def passing(scope: Scope, receive: Receive, send: Send) -> None:
            async def later(message: Message) -> None:
                if (
                    scope["path"].endswith("/oauth2/api/v1/token")
                    and message["type"] == "http.response.start"
                ):
                    self.held += 1
                    await self.opened.wait()
                await send(message)

            await app(scope, receive, later)

        return passing


class Outage:
    """Users of a server whose database is stopped and started."""

    def __init__(self, cluster: LoadCluster, postgres: OwnPostgres, browsers: dict[str, Person]) -> None:
        self.cluster, self._postgres, self._browsers = cluster, postgres, browsers
        self.results: dict[str, dict[str, Any]] = {}
        self.pages: dict[str, Page] = {}

    async def call(self, name: str, **again: object) -> None:
        """Read the user's notes, and keep the result."""
        async with self.cluster.asking(name) as client:
            answer = await client.request("tools/call", {"name": LIST, "arguments": {}, **again})
        self.results[name] = answer["result"]

    async def retry(self, name: str) -> None:
        """Call again as clients do after the user was shown a page: the call is held until the consent."""
        asked = self.results.pop(name)
        accepted = {key: {"action": "accept"} for key in asked["inputRequests"]}
        await self.call(name, inputResponses=accepted, requestState=asked["requestState"])

    def link(self, name: str) -> str:
        return self.results[name]["inputRequests"]["provision"]["params"]["url"]

    async def consent(self, name: str, link: str) -> None:
        self.pages[name] = await self._browsers[name].consent(link)

    async def connect(self, name: str) -> None:
        # No call follows: the next one must not find the access token in the server's memory.
        await self.call(name)
        await self.consent(name, self.link(name))

    async def stop(self, shutdown: Shutdown) -> None:
        await anyio.to_thread.run_sync(self._postgres.stop, shutdown)

    async def start(self) -> None:
        await anyio.to_thread.run_sync(self._postgres.start)

    def titles(self, *names: str) -> dict[str, list[str]]:
        """Return the titles of the notes that each user got."""
        content = {name: self.results[name].get("structuredContent", {}) for name in names}
        return {name: [note["title"] for note in found.get("notes", [])] for name, found in content.items()}

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self._postgres.url)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()


def own_notes(names: Sequence[str]) -> dict[str, list[str]]:
    return {name: [note_of(name)] for name in names}


@pytest.fixture
def postgres() -> Generator[OwnPostgres]:
    with own_postgres() as own:
        yield own


@asynccontextmanager
async def open_outage(
    folder: Path, postgres: OwnPostgres, front: Callable[[ASGIApp], ASGIApp]
) -> AsyncGenerator[Outage]:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(open_cluster(folder, front=front))
        names = (*CONNECTED, NEW, WAITING, LATE)
        cluster.move_in(*names)
        config = environment.load(**cluster.settings, database_url=postgres.url, hold_seconds=60)
        site = PublicUrls.of(config, "127.0.0.1", cluster.port)
        app, _ = build_http_app(config, site, overrides=Overrides(clock=cluster.clock))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", cluster.port)))
        await stack.enter_async_context(served(app, listener))
        people = {
            name: Person(name, name, browser=await stack.enter_async_context(httpx2.AsyncClient(timeout=120)))
            for name in names
        }
        yield Outage(cluster, postgres, people)


@pytest.mark.parametrize("shutdown", ["fast", "immediate"])
async def test_a_restart_of_postgresql_loses_no_grant_and_no_consent_request(
    tmp_path: Path, postgres: OwnPostgres, shutdown: Shutdown, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once that time has passed, no token is checked without the database: on a slow machine in the middle of the test.
    monkeypatch.setattr(backchannel_logout, "LOOK_SECONDS", 600)
    gate = Gate()
    async with open_outage(tmp_path, postgres, gate.around) as outage, anyio.create_task_group() as group:
        for name in CONNECTED:
            await outage.connect(name)
        outage.cluster.clock.ahead += HOURS
        for name in (NEW, WAITING):
            await outage.call(name)
        waiting = outage.link(WAITING)
        gate.close()
        group.start_soon(outage.consent, NEW, outage.link(NEW))
        for name in CONNECTED:
            del outage.results[name]
            group.start_soon(outage.call, name)
        group.start_soon(outage.retry, WAITING)
        await until(lambda: gate.held == len(CONNECTED) + 1)

        await outage.stop(shutdown)
        gate.opened.set()
        await outage.call(LATE)
        await outage.consent(WAITING, waiting)
        refused, refusing = outage.results[LATE], outage.pages[WAITING]
        still_held = sorted({*CONNECTED, WAITING} - {*outage.results})
        await outage.start()
        await outage.consent(WAITING, waiting)
        await until(lambda: {*CONNECTED, WAITING} <= {*outage.results} and NEW in outage.pages)
        for name in (NEW, LATE):
            await outage.call(name)

        assert refused["isError"]
        assert "PostgreSQL cannot be used" in refused["content"][0]["text"]
        assert refusing.status == 503
        assert still_held == sorted((*CONNECTED, WAITING))
        assert outage.pages[NEW].status == outage.pages[WAITING].status == 200
        everyone = (*CONNECTED, NEW, WAITING)
        assert outage.titles(*everyone) == own_notes(everyone)
        assert outage.link(LATE)
        assert await outage.rows("SELECT state, count(*) FROM elicitations GROUP BY 1 ORDER BY 1") == [
            ("complete", len(everyone)),
            ("pending", 1),
        ]
        assert await outage.rows("SELECT count(*), sum(needs_reauth::int) FROM credentials") == [
            (len(everyone), 0)
        ]
        assert await outage.rows("SELECT kind FROM outbox") == []
