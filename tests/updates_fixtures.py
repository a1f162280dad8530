"""A user's clients, the poller and a sandbox, in one process and without relevant timers."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged
from mcp_types import (
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from pydantic import SecretStr

from nextcloud_mcp_server.auth.accounts import Accounts
from nextcloud_mcp_server.auth.operator_accounts import OperatorAccounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import AppList, Apps, Availability
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.resources.catalogue import Catalogue, Ctx
from nextcloud_mcp_server.resources.poller import MAX_PEOPLE, Poller
from nextcloud_mcp_server.resources.updates import Updates
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.tools.state import State
from tests.clients_fixtures import SCOPES
from tests.sdk_request import Channel, request

ALICE = Principal("test", "alice")

Send = Callable[[httpx2.Request], httpx2.Response | None]


class Recorder:
    """Replaces the audit log, which would need a database."""

    def __init__(self) -> None:
        self.results: list[str] = []

    async def record(self, _: Caller, *, result: str, **__: object) -> None:
        self.results.append(result)


class Network(httpx2.AsyncBaseTransport):
    """The network to the sandbox, which records each request, and can answer as another user."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._inner = httpx2.ASGITransport(sandbox.app)
        self.seen: list[str] = []
        self.instead: Send = lambda _: None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(f"{request.method} {request.url.path}")
        return self.instead(request) or await self._inner.handle_async_request(request)


@dataclass(frozen=True)
class FakeServices:
    """The services that polling needs."""

    accounts: Accounts
    audit: Any
    provisioning: None = None
    bound: frozenset[str] = frozenset(SCOPES)


@dataclass
class Client:
    """One client of a user, with a session or with streams."""

    harness: "UpdatesServer"
    channel: Channel
    ctx: Ctx

    async def subscribe(self, *uris: str) -> None:
        for uri in uris:
            await self.harness.updates.subscribe(self.ctx, SubscribeRequestParams(uri=uri))

    def listed(self) -> "Client":
        """Fetch the list of resources."""
        self.harness.state.availability.change_notifier.join(self.ctx, ResourcesListChanged)
        return self

    async def unsubscribe(self, uri: str) -> None:
        await self.harness.updates.unsubscribe(self.ctx, UnsubscribeRequestParams(uri=uri))

    async def leave(self) -> None:
        await wire.connection(self.ctx).exit_stack.aclose()

    async def refusal(self, uri: str) -> str:
        try:
            await self.harness.updates.subscribe(self.ctx, SubscribeRequestParams(uri=uri))
        except MCPError as error:
            return error.error.message
        raise AssertionError("it was not refused")

    async def listen(self, *uris: str, resources: bool = False, tools: bool = False) -> bool:
        """Open a stream until it is closed; False when it is refused."""
        wanted = SubscriptionFilter(
            resource_subscriptions=list(uris) or None,
            resources_list_changed=resources or None,
            tools_list_changed=tools or None,
        )
        try:
            await self.harness.updates.listen(
                self.ctx, SubscriptionsListenRequestParams(notifications=wanted)
            )
        except MCPError:
            return False
        return True

    def attend(self) -> None:
        """Open the stream of the session."""
        self.harness.state.availability.change_notifier.stream_opened(self._key)

    def turn_away(self) -> None:
        """Close the stream of the session."""
        self.harness.state.availability.change_notifier.stream_closed(self._key)

    @property
    def _key(self) -> str:
        return wire.session_key(self.ctx) or ""

    async def subscribed(self, *uris: str) -> None:
        """Subscribe, and wait until the first poll is done."""
        await self.subscribe(*uris)
        await settled()

    def heard(self) -> list[str]:
        """Return the short form of the events since the last call."""
        sent, self.channel.sent[:] = list(self.channel.sent), []
        return [
            str((params or {}).get("uri") or method.removeprefix("notifications/")) for method, params in sent
        ]

    def honored(self) -> Sequence[str]:
        """Return the acknowledged URIs of the stream."""
        ((_, params), *_) = self.channel.sent
        return (params or {})["notifications"].get("resourceSubscriptions", [])


@dataclass
class UpdatesServer:
    """All parts; each request carries the name of its user in a header."""

    sandbox: Sandbox
    network: Network
    accounts: OperatorAccounts
    audit: Recorder
    state: State
    poller: Poller
    updates: Updates
    opened: list[bool]
    _count: int = field(default=0, init=False)

    def client(self, owner: str = "alice", *, modern: bool = False, program: str = "a") -> Client:
        self._count += 1
        channel = Channel()
        ctx = request(
            version="2026-07-28" if modern else "2025-11-25",
            session=f"s{self._count}",
            headers={"owner": owner, "program": program},
            channel=channel,
        )
        return Client(self, channel, replace(ctx, request_id=self._count))

    def connect(self, uid: str) -> None:
        """Connect another account of Alice in place of the one before."""
        self.accounts._credential = BasicCredential(uid, SecretStr(uid))  # pyright: ignore[reportPrivateUsage]
        self.accounts._opened = None  # pyright: ignore[reportPrivateUsage]

    @property
    def notes(self) -> NoteStore:
        return NoteStore(self.sandbox.state.users["alice"], self.sandbox.state.clock)

    def note(self, title: str) -> str:
        """Create a note, and return its URI."""
        return f"nc://notes/{self.notes.create(Changes(title=title)).file_id}"

    def change(self, uri: str) -> None:
        """Change the text of a note."""
        self.notes.update(self.notes.find(int(uri.rpartition("/")[2])), Changes(content=f"{uri} is new"))

    @property
    def kept(self) -> int:
        """Count the users and streams in memory, to detect leaks."""
        return len(self.poller._people) + len(self.updates._streams)  # pyright: ignore[reportPrivateUsage]

    def write(self, uri: str, owner: Principal = ALICE) -> None:
        """Change the text of a note by a call of this user, from any client."""
        began = anyio.current_time()
        self.change(uri)
        self.state.availability.on_write(owner, began)

    async def look(self) -> list[str]:
        """Poll for every user, and return the requests sent."""
        self.network.seen.clear()
        # In place of the time that passes.
        for person in list(self.poller._people.values()):  # pyright: ignore[reportPrivateUsage]
            person.wake.set()
        await settled()
        return list(self.network.seen)

    async def look_again(self) -> None:
        """Poll for every user after a failure, in place of the time that passes until then."""
        for owner, person in list(self.poller._people.items()):  # pyright: ignore[reportPrivateUsage]
            await self.poller._turn(owner, person)  # pyright: ignore[reportPrivateUsage]


async def settled() -> None:
    """Wait until all tasks are idle."""
    with anyio.fail_after(60):
        await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def open_harness(
    toolsets: Sequence[str] = ("notes", "files"),
    *,
    known: bool = True,
    seconds: float = 3600,
    running: bool = True,
    max_people: int = MAX_PEOPLE,
    scopes: frozenset[str] = frozenset(SCOPES),
) -> AsyncGenerator[UpdatesServer]:
    """Build the parts and run the poller; `known`: the apps of Alice's Nextcloud."""
    sandbox = Sandbox.demo(one_second_etags=False)
    network = Network(sandbox)
    nextcloud = Nextcloud(
        NextcloudUrl.parse("http://localhost"), open_pool(ca_bundle=None, user_agent="t", transport=network)
    )
    accounts = OperatorAccounts(nextcloud, login_name="alice", secret=SecretStr("alice"), bound=scopes)
    audit, opened = Recorder(), list[bool]()

    async def services() -> Any:  # noqa: ANN401 - a part of the core stands for it
        opened.append(True)
        return FakeServices(accounts, audit)

    def caller(ctx: Ctx) -> Caller:
        headers = cast("Any", ctx.request).headers
        return Caller(Principal("test", headers["owner"]), headers["program"], "Test")

    async def finished(_: object) -> list[str]:
        return []

    specs = mcp_server.select(toolsets, exclude=(), read_only=False)
    availability = Availability(
        mcp_server.facts(specs), ChangeNotifier(lambda ctx: caller(ctx).principal, caller=caller)
    )
    if known:
        await availability.heard(ALICE, Apps(AppList(frozenset({"notes", "deck"})), account="alice"))
    pending = Pending(finished)
    state = State(services, caller, pending, CompletionNotifier(pending), availability, "text", 0.01)
    catalogue = Catalogue(mcp_server.kinds(specs), availability)
    poller = Poller(catalogue, state, seconds=seconds, gap_seconds=0, max_people=max_people)
    async with anyio.create_task_group() as group:
        group.start_soon(availability.run)
        if running:
            group.start_soon(poller.run)
        updates = Updates(catalogue, state, poller)
        yield UpdatesServer(sandbox, network, accounts, audit, state, poller, updates, opened)
        group.cancel_scope.cancel()
