"""One user of a soak: two clients, one of each era, a browser for consents, and what is known of the consent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from random import Random
from typing import Any, Literal

import anyio
import httpx2

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from tests.load.replicas import Replicas
from tests.load.soak.ledger import Ledger
from tests.load.soak.steps import STEPS, Fields, Task
from tests.load_cluster import URL_MODE

Kind = Literal["2025-11-25", "2026-07-28", "text"]

#: After this many pieces of work a client ends its session, and opens another one.
_STEPS_OF_SESSION = 8
#: A call that needs more consents than these goes wrong for ever.
_MOST_CONSENTS = 5
#: After so many seconds a grant that was ended somewhere is in no cache of any replica.
_SETTLED_SECONDS = 10.0
_LINK = re.compile(r"https?://\S+/oauth/provision\S*")
_FAILED = (httpx2.HTTPError, NotAsPromised, TimeoutError, RuntimeError)


class Session(HandshakeClient):
    """A client of the handshake era that ends its session."""

    async def end(self) -> None:
        """End the session, and with it its stream."""
        await self._http.delete(self._url, headers=self._headers("", {}))


@dataclass
class User:
    """A user; `epoch` grows with each consent and each end of access, so that a call can tell what happened."""

    name: str
    replicas: Replicas
    ledger: Ledger
    random: Random
    pause: float
    stands: bool = True
    epoch: int = 0
    changed_at: float = float("-inf")
    consenting: anyio.Lock = field(default_factory=anyio.Lock)
    tasks: int = 0

    def ended(self) -> None:
        """Note that access ends now, somewhere."""
        self.stands = False
        self._change()

    def _change(self) -> None:
        self.epoch += 1
        self.changed_at = self.ledger.clock()

    def revoke_at_nextcloud(self) -> None:
        """End the access on Nextcloud's page of devices and sessions."""
        self.ended()
        state = self.replicas.cluster.sandbox.state
        for one in [one for one in state.app_passwords.values() if one.uid == self.name]:
            state.remove_app_password(one)

    def let_token_expire(self) -> None:
        """Let Nextcloud refuse the access token from now on, before its time; the refresh token stays good."""
        state = self.replicas.cluster.sandbox.state
        now = state.clock()
        for secret, one in list(state.app_passwords.items()):
            if one.uid == self.name:
                state.app_passwords[secret] = replace(one, expires_at=now)

    def worked(self, since: float) -> None:
        """Note that a call worked, which began at `since`: an end of access that failed has ended nothing."""
        if since > self.changed_at + _SETTLED_SECONDS:
            self.stands = True

    async def consent(self, url: str, epoch: int) -> None:
        """Open a link and agree on every page, unless the user has just done so for another call."""
        async with self.consenting:
            if self.epoch != epoch and self.stands:
                return
            since = self.ledger.clock()
            self.ledger.counts["consents"] += 1
            transport = self.replicas.balancer(self.random.randrange(len(self.replicas.ports)))
            try:
                async with httpx2.AsyncClient(timeout=100, transport=transport) as browser:
                    person = Person(self.name, self.name, browser=browser)
                    page = await person.consent(url, only=self.replicas.cluster.scopes)
            except _FAILED as error:
                self.ledger.error(f"consent: {error!r}", since)
                return
            if page.status != HTTPStatus.OK:
                self.ledger.error(f"consent: {page.status} {page.text[:200]}", since)
                return
            self.stands = True
            self._change()

    async def run(self, kind: Kind, first: int) -> None:
        """Work with one client until cancelled."""
        while True:
            async with self.replicas.http(self.name, first) as http, anyio.create_task_group() as group:
                client = Client(self, kind, http)
                since = self.ledger.clock()
                try:
                    await client.open()
                    if kind != "2026-07-28":
                        group.start_soon(client.listen)
                    for _ in range(_STEPS_OF_SESSION):
                        await self._step(client)
                    await client.close()
                except _FAILED as error:
                    self.ledger.error(f"{kind}: {error!r}", since)
                group.cancel_scope.cancel()
            # A client whose server is gone does not try again at once, either.
            await anyio.sleep(self.random.expovariate(1 / self.pause))

    async def _step(self, client: "Client") -> None:
        self.tasks += 1
        task = Task(self.name, self.tasks)
        await self.random.choice(STEPS)(client, task)


class Client:
    """A client of a user: calls tools, and sends the user to the page where it is asked for consent."""

    def __init__(self, user: User, kind: Kind, http: httpx2.AsyncClient) -> None:
        self._user = user
        self._ledger = user.ledger
        self._kind = kind
        self._http = http
        made = StatelessClient if kind == "2026-07-28" else Session
        capabilities: Mapping[str, Any] = {} if kind == "text" else URL_MODE
        self._wire = made(http, user.replicas.endpoint, capabilities=capabilities)
        self._renewed_at = self._ledger.clock()

    async def open(self) -> None:
        """Begin: the handshake, or a look at what the server offers."""
        await self._wire.open()

    async def listen(self) -> None:
        """Keep the session's stream open, as the SDK's clients do."""
        since = self._ledger.clock()
        try:
            await self._wire.listen()
        except httpx2.HTTPError as error:
            self._ledger.error(f"stream: {error!r}", since)

    async def close(self) -> None:
        """End the session; the other era has none."""
        if isinstance(self._wire, Session):
            self._ledger.counts["sessions"] += 1
            await self._wire.end()

    async def ask(self, method: str, params: dict[str, Any]) -> None:
        """See `Caller.ask`."""
        await self._pause()
        since = self._ledger.clock()
        answer = await self._wire.request(method, params)
        if "error" in answer:
            self._ledger.error(f"{method}: {answer['error']}", since)
        else:
            self._ledger.answer(self._user.name, method, answer, own=False)

    async def call(self, tool: str, arguments: dict[str, Any], *, own: bool = True) -> Fields:
        """See `Caller.call`."""
        await self._pause()
        user, extra, since = self._user, dict[str, Any](), self._ledger.clock()
        for _ in range(_MOST_CONSENTS):
            since, epoch, stood = self._ledger.clock(), user.epoch, user.stands
            answer = await self._wire.request("tools/call", {"name": tool, "arguments": arguments, **extra})
            link = _link(answer)
            result = answer.get("result", {})
            if link is None and "requestState" not in result:
                return self._result(tool, answer, since, own=own)
            self._ledger.counts["asked"] += 1
            if stood and user.epoch == epoch and not user.consenting.locked():
                user.ledger.asked(user.name, f"{self._kind} {tool}: {str(answer)[:300]}")
            if link is not None:
                await user.consent(link, epoch)
            extra = _retry(result)
        self._ledger.error(f"{self._kind} {tool}: asked again and again", since)
        return None

    def _result(self, tool: str, answer: dict[str, Any], since: float, *, own: bool) -> Fields:
        result: dict[str, Any] = answer.get("result", {})
        if "error" in answer or result.get("isError"):
            self._ledger.answer(self._user.name, tool, answer, own=False)
            texts = [one.get("text", "") for one in result.get("content", [])]
            self._ledger.error(f"{self._kind} {tool}: {answer.get('error') or texts}", since)
            return None
        if own:
            # The data came from Nextcloud.
            self._user.worked(since)
        self._ledger.answer(self._user.name, tool, result, own=own)
        return result.get("structuredContent") or {}

    async def _pause(self) -> None:
        await anyio.sleep(self._user.random.expovariate(1 / self._user.pause))
        # Each minute a new access token, as from an identity provider whose tokens last so long.
        if self._ledger.clock() - self._renewed_at > 60:
            self._renewed_at = self._ledger.clock()
            token = self._user.replicas.cluster.token(self._user.name)
            self._http.headers["Authorization"] = f"Bearer {token}"


async def disconnect(user: User) -> None:
    """Let a client end its access by the tool for that."""
    since = user.ledger.clock()
    user.ended()
    async with user.replicas.http(user.name, user.random.randrange(len(user.replicas.ports))) as http:
        wire = StatelessClient(http, user.replicas.endpoint, capabilities={})
        try:
            answer = await wire.request("tools/call", {"name": "revoke_nextcloud_access", "arguments": {}})
        except _FAILED as error:
            user.ledger.error(f"disconnect: {error!r}", since)
            return
    if "error" in answer or answer["result"].get("isError"):
        user.ledger.error(f"disconnect: {answer}", since)
    user.ended()


def _link(answer: dict[str, Any]) -> str | None:
    """Return the link to a consent request, in whatever form it comes."""
    if "error" in answer:
        data: dict[str, Any] = answer["error"].get("data") or {}
        asked: list[dict[str, Any]] = data.get("elicitations") or []
        return asked[0]["url"] if asked else None
    result = answer["result"]
    if requests := result.get("inputRequests"):
        return requests["provision"]["params"]["url"]
    if result.get("isError"):
        found = _LINK.search(" ".join(one.get("text", "") for one in result["content"]))
        return found[0] if found else None
    return None


def _retry(result: dict[str, Any]) -> dict[str, Any]:
    if "requestState" not in result:
        return {}
    accepted = {"provision": {"action": "accept"}} if result.get("inputRequests") else {}
    return {"requestState": result["requestState"], **({"inputResponses": accepted} if accepted else {})}
