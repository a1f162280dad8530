"""Kills the server at some point of its clients' sign-in, and checks the remaining state.

The requests are a client's whole sign-in (registration, authorization request, Nextcloud, confirmation of the
account, code, tokens, a first call), and the refresh of expired tokens, of this server and of Nextcloud. The clients
behave like real ones: they use the tokens they have, refresh rejected ones, and begin again when that fails too.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from random import Random
from typing import Any

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import LIFETIME
from nextcloud_mcp_server.auth.token_refresh import LEASE
from nextcloud_mcp_server.demo.wire_client import StatelessClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database, file_url
from tests.crash_harness import BYSTANDER, HOUR, Killed, open_killed
from tests.integration.builtin_app import CALLBACK, authorize_url, code_in
from tests.integration.personal_app import until
from tests.load_cluster import LIST, URL_MODE, LoadCluster, note_of
from tests.tokens_fixtures import VERIFIER

#: Rows that none of these requests deletes.
_PERMANENT = {
    "accounts": "SELECT id FROM accounts",
    "permissions": "SELECT issuer, subject, client_id FROM permissions",
    "audit": "SELECT number FROM audit",
    "clients": "SELECT client_id FROM clients",
}
#: What the server still has to revoke, or what waits for a user's confirmation.
_WAITING = (
    "SELECT id FROM outbox UNION ALL SELECT id_hash FROM authorization_transactions WHERE state_hash IS NULL"
)
#: Rows without their counterpart.
_HALVES = (
    "SELECT id FROM credentials WHERE account_id NOT IN (SELECT id FROM accounts)",
    "SELECT token_hash FROM access_tokens WHERE family_hash NOT IN (SELECT family_hash FROM token_families)",
    "SELECT 1 FROM token_families WHERE (subject, client_id) NOT IN (SELECT subject, client_id FROM permissions)",
    "SELECT subject FROM permissions WHERE subject NOT IN (SELECT subject FROM credentials)",
)


@dataclass
class Toll:
    """The results of all kills.

    `began_anew` counts clients whose code or token was rejected, so that they asked their user again; `asked` counts
    users whose access at Nextcloud was lost and who had to open a page. `unknown` are accesses that Nextcloud created
    and this server does not know: they cannot be used.
    """

    kills: int = 0
    began_anew: int = 0
    asked: int = 0
    unknown: int = 0
    rows_lost: int = 0
    halves: int = 0
    wrong_people: int = 0
    broken_databases: int = 0
    stuck: list[str] = field(default_factory=list[str])

    @property
    def harmless(self) -> bool:
        """Tell whether no user lost data or access, and everyone could try again."""
        lost = self.rows_lost + self.halves + self.wrong_people + self.broken_databases
        return not (lost or self.stuck)


@dataclass
class Program:
    """A client and its user's browser, which outlive the server."""

    cluster: LoadCluster
    name: str
    toll: Toll
    http: httpx2.AsyncClient
    browser: httpx2.AsyncClient
    client_id: str = ""
    code: str = ""
    tokens: dict[str, Any] = field(default_factory=dict[str, Any])
    last: httpx2.Request | None = None

    def __post_init__(self) -> None:
        self.browser.event_hooks = {"request": [self._remember]}
        self.person = Person(self.name, self.name, browser=self.browser)

    async def work(self) -> None:
        """Read the user's notes, with all requests that this takes."""
        for _ in range(5):
            if not self.tokens:
                await self._sign_in()
            elif (answer := await self._call()) is None:
                await self._ask("refresh_token", refresh_token=self.tokens["refresh_token"])
            elif answer.get("resultType") == "input_required":
                self.toll.asked += 1
                await self._consent_request(answer["inputRequests"]["provision"]["params"]["url"])
            else:
                self._look(answer)
                return
        self.toll.stuck.append(f"{self.name}: comes to no end")

    async def reload(self) -> None:
        """Let the browser repeat a request that the server did not answer."""
        if self.last is not None:
            again = await self.browser.request(
                self.last.method, self.last.url, content=self.last.content, headers=self.last.headers
            )
            if again.is_server_error:
                self.toll.stuck.append(f"{self.name}: {again.status_code} {again.text}")

    async def _remember(self, request: httpx2.Request) -> None:
        self.last = request

    async def _sign_in(self) -> None:
        if not self.client_id:
            described = {"client_name": self.name, "redirect_uris": [CALLBACK]}
            public = {**described, "token_endpoint_auth_method": "none"}
            answer = await self.http.post(f"{self.cluster.url}/register", json=public)
            self.client_id = str(answer.raise_for_status().json()["client_id"])
        if not self.code:
            url = authorize_url(self.cluster.url, self.client_id)
            self.code = code_in(await self.person.sign_in(url, until=CALLBACK))
            self.last = None
        await self._ask("authorization_code", code=self.code, code_verifier=VERIFIER)

    async def _ask(self, grant_type: str, **form: str) -> None:
        """Request tokens; after a rejection the client has to discard what it sent."""
        form |= {"grant_type": grant_type, "client_id": self.client_id}
        answer = await self.http.post(f"{self.cluster.url}/token", data=form)
        if answer.is_success:
            self.tokens = answer.json()
        elif answer.json()["error"] == "invalid_grant":
            self.tokens = {}
            self.toll.began_anew += 1
        else:
            self.toll.stuck.append(f"{self.name}: {answer.status_code} {answer.text}")
        self.code = ""

    async def _call(self) -> dict[str, Any] | None:
        """Call a tool; None when the token is rejected."""
        headers = {"Authorization": f"Bearer {self.tokens['access_token']}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
            wire = StatelessClient(http, f"{self.cluster.url}/mcp", capabilities=URL_MODE)
            try:
                return (await wire.request("tools/call", {"name": LIST, "arguments": {}}))["result"]
            except NotAsPromised as error:
                if f"status {HTTPStatus.UNAUTHORIZED}" in str(error):
                    return None
                raise

    async def _consent_request(self, link: str) -> None:
        page = await self.person.consent(link)
        self.last = None
        if page.status != HTTPStatus.OK:
            self.toll.stuck.append(f"{self.name}: {page.status} {page.text}")

    def _look(self, result: dict[str, Any]) -> None:
        if result.get("isError"):
            self.toll.stuck.append(f"{self.name}: {result['content'][0]['text']}")
        else:
            titles = {note["title"] for note in result["structuredContent"]["notes"]}
            self.toll.wrong_people += titles != {note_of(self.name)}


class Killing:
    """Kills servers during the requests of several clients, and checks the remaining state."""

    def __init__(self, cluster: LoadCluster, server: Killed, stack: AsyncExitStack, at_once: int) -> None:
        self._cluster, self._server, self._stack, self._at_once = cluster, server, stack, at_once
        self._programs: list[Program] = []
        self.toll = Toll()

    async def points(self) -> tuple[int, int]:
        """Run sign-in and refresh without a kill; return the number of points of each for all clients."""
        self._bystander = await self._moved_in(BYSTANDER)
        sign_in = await self._counted()
        self._cluster.clock.ahead += HOUR
        return sign_in * self._at_once, await self._counted() * self._at_once

    async def _counted(self) -> int:
        await self._server.start()
        await self._bystander.work()
        passed = await self._server.count()
        await self._server.stop()
        return passed

    async def during_sign_in(self, point: int) -> None:
        """Kill the server at this point of the sign-in of new clients."""
        await self._kill(await self._newcomers(), point)

    async def during_renewal(self, point: int) -> None:
        """Kill the server at this point of the calls of clients with expired tokens."""
        self._cluster.clock.ahead += HOUR
        await self._kill(self._programs[-self._at_once :], point)

    async def _kill(self, programs: Sequence[Program], point: int) -> None:
        known = self._permanent_rows()
        await self._serve()
        await self._server.count(point)
        await self._all(programs, dies=True)
        await self._server.stop()
        self.toll.kills += 1
        known |= self._permanent_rows()
        self._check()
        # The lease of a killed process lasts this long.
        self._cluster.clock.ahead += LEASE
        await self._serve()
        for program in programs:
            await program.reload()
        await self._all(programs)
        await self._server.stop()
        self.toll.rows_lost += len(known - self._permanent_rows())
        self._check()

    async def settle(self) -> None:
        """Let the server revoke what no user has confirmed, and count what it does not know."""
        self._cluster.clock.ahead += LIFETIME + timedelta(seconds=1)
        await self._serve()
        await until(lambda: not self._cluster.rows(_WAITING))
        await self._server.stop()
        keys = KeyRing.parse([SecretStr(self._cluster.key)])
        database = await Database.open(
            file_url(self._cluster.database_file), keys=keys, clock=self._cluster.clock
        )
        known = {grant.credential.secret.get_secret_value() for grant in await database.grants.all()}
        await database.aclose()
        state = self._cluster.sandbox.state
        living = {one.access_token for one in state.oauth_grants if one.access_token in state.app_passwords}
        self.toll.unknown = len(living - known)
        if known - living:
            self.toll.stuck.append(f"{len(known - living)} accesses are dead")

    def _check(self) -> None:
        self.toll.broken_databases += self._cluster.rows("PRAGMA integrity_check") != [("ok",)]
        self.toll.halves += sum(len(self._cluster.rows(query)) for query in _HALVES)

    async def _serve(self) -> None:
        """Start a server, and let it open everything for a user whose tokens must survive every kill."""
        await self._server.start()
        await self._server.count()
        began_anew, asked = self.toll.began_anew, self.toll.asked
        await self._bystander.work()
        if (began_anew, asked) != (self.toll.began_anew, self.toll.asked):
            self.toll.stuck.append("the bystander was asked")
        await self._server.count()

    async def _all(self, programs: Sequence[Program], *, dies: bool = False) -> None:
        async def work(program: Program) -> None:
            if not dies:
                await program.work()
                return
            with suppress(httpx2.TransportError, NotAsPromised):
                await program.work()

        async with anyio.create_task_group() as group:
            for program in programs:
                group.start_soon(work, program)

    async def _newcomers(self) -> list[Program]:
        count = len(self._programs)
        self._programs += [await self._moved_in(f"person{count + number}") for number in range(self._at_once)]
        return self._programs[-self._at_once :]

    async def _moved_in(self, name: str) -> Program:
        self._cluster.move_in(name)
        http, browser = [
            await self._stack.enter_async_context(httpx2.AsyncClient(timeout=100)) for _ in range(2)
        ]
        return Program(self._cluster, name, self.toll, http, browser)

    def _permanent_rows(self) -> set[tuple[Any, ...]]:
        return {(table, *row) for table, query in _PERMANENT.items() for row in self._cluster.rows(query)}


@asynccontextmanager
async def open_killing(cluster: LoadCluster, at_once: int = 2) -> AsyncGenerator[Killing]:
    """Start the process that starts the servers, in mode `builtin`."""
    settings = {name: value for name, value in cluster.settings.items() if not name.startswith("oidc_")}
    async with AsyncExitStack() as stack, open_killed(cluster, **{**settings, "mode": "builtin"}) as server:
        yield Killing(cluster, server, stack, at_once)


async def play(cluster: LoadCluster, kills: int, *, seed: int, at_once: int = 2) -> Toll:
    """Kill `kills` servers, at random points of sign-in and refresh in turn."""
    random = Random(seed)
    async with open_killing(cluster, at_once) as killing:
        sign_in, renewal = await killing.points()
        for number in range(kills):
            if number % 2:
                await killing.during_renewal(random.randint(1, renewal))
            else:
                await killing.during_sign_in(random.randint(1, sign_in))
        await killing.settle()
    return killing.toll
