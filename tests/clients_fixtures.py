"""Clients in memory, and fake responses of other hosts, for the tests of the authorization server."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.pinned import open_outside
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.storage.oauth_records import Client

START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
#: The scopes of the toolsets that are enabled by default, in the order of the pages.
IN_ORDER = ("notes:read", "notes:write", "files:read", "files:write")
SCOPES = frozenset(IN_ORDER)
RULES = ClientRules(scopes=SCOPES)
PUBLIC = "93.184.216.34"

#: A made-up client with a metadata document.
APP = "https://app.example.org/oauth/client.json"
DOCUMENT: dict[str, Any] = {
    "client_id": APP,
    "client_name": "App",
    "redirect_uris": ["https://app.example.org/callback"],
    "token_endpoint_auth_method": "none",
}


@dataclass
class Clock:
    """Wall clock and monotonic clock in one, moved by a test."""

    passed: float = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return 1000.0 + self.passed

    def go(self, **span: float) -> None:
        self.passed += timedelta(**span).total_seconds()


@dataclass
class MemoryClients:
    """The repository of clients, without a database."""

    rows: dict[str, Client] = field(default_factory=dict[str, Client])
    writes: int = 0

    async def find(self, client_id: str) -> Client | None:
        return self.rows.get(client_id)

    async def save(self, client: Client) -> None:
        self.writes += 1
        known = self.rows.get(client.client_id)
        self.rows[client.client_id] = (
            client if known is None else replace(client, last_used_at=known.last_used_at)
        )

    async def used(self, client_id: str, *, at: datetime) -> None:
        self.writes += 1
        self.rows[client_id] = replace(self.rows[client_id], last_used_at=at)

    async def purge(self, *, unused_before: datetime, idle_before: datetime, most_unused: int) -> int:
        gone = [
            client.client_id
            for client in self.rows.values()
            if client.created_at < (unused_before if client.last_used_at is None else idle_before)
            and (client.last_used_at is None or client.last_used_at < idle_before)
        ]
        unused = [one for one in self.rows.values() if one.last_used_at is None and one.client_id not in gone]
        unused.sort(key=lambda one: one.created_at, reverse=True)
        gone += [client.client_id for client in unused[most_unused:]]
        for client_id in gone:
            del self.rows[client_id]
        return len(gone)


Body = Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True)
class Said:
    """A response that can be returned repeatedly; `body` makes a new stream for each."""

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Body | None = None

    def response(self) -> httpx2.Response:
        content = self.content if self.body is None else self.body()
        return httpx2.Response(self.status, headers=dict(self.headers), content=content)


def json_said(
    content: bytes = b"", headers: Mapping[str, str] | None = None, *, body: Body | None = None
) -> Said:
    return Said(content=content, body=body, headers={"Content-Type": "application/json", **(headers or {})})


@dataclass
class Internet:
    """Other hosts: the addresses of names, and responses by the URL of a document."""

    names: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    answers: dict[str, Said | Exception] = field(default_factory=dict[str, Said | Exception])
    asked: list[httpx2.Request] = field(default_factory=list[httpx2.Request])

    def put(self, url: str, document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self.answers[url] = json_said(json.dumps(document).encode(), headers)

    async def resolve(self, host: str) -> Sequence[str]:
        return self.names.get(host, [PUBLIC])

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers[f"https://{request.headers['Host']}{request.url.raw_path.decode()}"]
        if isinstance(answer, Exception):
            raise answer
        return answer.response()

    def open(self) -> httpx2.AsyncClient:
        return open_outside(user_agent="test", inner=httpx2.MockTransport(self.answer), resolve=self.resolve)


@dataclass
class ClientsFixture:
    """Registration and metadata documents with one repository, one clock and one network."""

    rules: ClientRules = RULES
    hosts: AllowedClients | None = None
    seconds: float = 5.0
    clock: Clock = field(default_factory=Clock)
    records: MemoryClients = field(default_factory=MemoryClients)
    internet: Internet = field(default_factory=Internet)
    registration: Registration = field(init=False)
    documents: ClientDocuments = field(init=False)

    def __post_init__(self) -> None:
        self.registration = Registration(
            self.records, self.rules, clock=self.clock.now, monotonic=self.clock.monotonic
        )
        self.documents = self.another_process()

    def another_process(self) -> ClientDocuments:
        """Return what a second process, or the next start, has: nothing but the stored rows."""
        return ClientDocuments(
            self.records,
            self.rules,
            self.internet.open(),
            clock=self.clock.now,
            hosts=self.hosts,
            seconds=self.seconds,
            monotonic=self.clock.monotonic,
        )

    async def register(self, address: str = "192.0.2.1", /, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        return await self.registration.register(fields, address=address)
