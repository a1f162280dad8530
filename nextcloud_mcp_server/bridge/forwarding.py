"""Forwards every message between a chat client and the remote servers behind the bridge.

Messages pass as the objects they are: the bridge looks only at what it must change, so that fields it does not know
arrive as they were sent. Ids of requests are new on each side; the SDK's dispatcher keeps them, and ends a request on
one side when it is cancelled on the other.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp.client._transport import TransportStreams
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, RequestId

from nextcloud_mcp_server.bridge import naming
from nextcloud_mcp_server.bridge.chat import ChatClient
from nextcloud_mcp_server.bridge.elicitation import is_url_request, page_of
from nextcloud_mcp_server.bridge.envelope import Agreement, Message, as_list, as_object, for_chat
from nextcloud_mcp_server.bridge.introduction import introduce
from nextcloud_mcp_server.bridge.journey import CONSENT_SECONDS, Completed, Journey, Means
from nextcloud_mcp_server.bridge.pages import Browser, Browsing, Pages, Policy, Shown, host_of
from nextcloud_mcp_server.bridge.remote import START_SECONDS, Peer, Remote, Say, Way
from nextcloud_mcp_server.bridge.subscriptions import CHANGES, TASK, Subscriptions
from nextcloud_mcp_server.bridge.task_calls import TaskCalls, for_everyone
from nextcloud_mcp_server.bridge.tasks import NOTICES, offers
from nextcloud_mcp_server.bridge.waiting import BEAT_SECONDS, Progress

_COMPLETE: Final = "notifications/elicitation/complete"
#: Chat clients end a server whose handshake takes too long; a sign-in in the browser may take longer.
GREETING_SECONDS = 20.0
#: Progress of more calls and tasks at once is not passed on.
_MOST_TOKENS: Final = 1000
#: Requests that every server gets.
_TO_ALL: Final = frozenset({"logging/setLevel"})


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose for a bridge."""

    policy: Policy = "auto"
    browsing: Browsing = "open"
    consent_seconds: float = CONSENT_SECONDS
    beat_seconds: float = BEAT_SECONDS
    greeting_seconds: float = GREETING_SECONDS
    start_seconds: float = START_SECONDS


@dataclass(frozen=True, slots=True)
class Backend:
    """A configured server: its name, how it is connected, and what of it the chat client may use.

    `hidden` are parts of the protocol: tools, resources, prompts.
    """

    name: str
    way: Way
    hidden: frozenset[str] = frozenset()
    sampling: bool = True
    elicitation: bool = True
    #: Whether its pages are opened without asking.
    trusted: bool = False
    #: Why a tool may not be called; nothing if it may.
    denial: Callable[[str], str] = lambda _tool: ""


class Bridge:
    """One chat client and its servers."""

    def __init__(
        self,
        streams: TransportStreams,
        backends: Sequence[Backend],
        browser: Browser,
        options: Options,
        say: Say,
    ) -> None:
        self._backends = {backend.name: backend for backend in backends}
        self._options = options
        self._say = say
        self._chat = ChatClient(streams)
        pages = Pages(
            self._chat,
            browser,
            policy=options.policy,
            browsing=options.browsing,
            trusted=frozenset(backend.name for backend in backends if backend.trusted),
            barred=frozenset(backend.name for backend in backends if not backend.elicitation),
        )
        self._tasks = TaskCalls(options.beat_seconds)
        self._means = Means(
            pages,
            Completed(),
            self._answer_input,
            self._tasks,
            options.consent_seconds,
            options.beat_seconds,
        )
        self._remotes: dict[str, Remote] = {}
        self._progress: dict[RequestId, tuple[Remote, Progress]] = {}
        self._several = len(backends) > 1
        self._log_level: str | None = None
        #: Servers that were not connected when the chat client was told what there is.
        self._late = set[str]()
        self._group: TaskGroup
        self._subscriptions: Subscriptions

    async def run(self) -> None:
        """Serve the chat client until it closes its input."""
        async with anyio.create_task_group() as self._group:
            self._subscriptions = Subscriptions(self._group, self._chat.notify, several=self._several)
            await self._chat.run(self._group, self._on_request, self._on_notification)

    # What the chat client sends.

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Message:
        if self._chat.greet(method, params):
            await self._begin()
        given = dict(params or {})
        if method in ("initialize", "server/discover"):
            remotes = list(self._remotes.values())
            answer = await introduce(self._chat.hello, remotes, seconds=self._options.greeting_seconds)
            self._late = {remote.name for remote in remotes if remote.agreement is None}
            return answer
        if method != "ping":
            # Some chat clients never say that the handshake is over.
            await self._chat.begin()
        if method == "subscriptions/listen" and context.request_id is not None:
            return await self._subscriptions.listen(context.request_id, given, self._agreed())
        if method == "ping" or method in _TO_ALL:
            return await self._to_all(method, given)
        if self._several and method in naming.LISTS:
            return await self._list(method)
        return await self._to_one(method, given)

    async def _to_one(self, method: str, given: Message) -> Message:
        remote, own = self._addressed(method, given)
        part = method.partition("/")[0]
        # Only tools run as tasks.
        if ("tools" if part == "tasks" else part) in self._backends[remote.name].hidden:
            raise MCPError(METHOD_NOT_FOUND, f"{method} is off for “{remote.name}” in the configuration.")
        denial = self._backends[remote.name].denial
        if method == "tools/call" and (sentence := denial(str(own.get("name")))):
            raise MCPError(INVALID_PARAMS, sentence)
        if method == "resources/subscribe":
            return await self._subscriptions.subscribe(remote, str(own.get("uri")), own)
        if method == "resources/unsubscribe":
            return await self._subscriptions.unsubscribe(remote, str(own.get("uri")), own)
        result = await self._travel(remote, method, own)
        return naming.renamed(remote.name, result) if self._several else result

    async def _on_notification(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        del context
        if method == "notifications/initialized":
            # Each server got its own.
            await self._chat.begin()
        elif method != "notifications/cancelled":
            # That was applied by the dispatcher.
            for remote in self._remotes.values():
                await remote.notify(method, params)

    async def _begin(self) -> None:
        hello = self._chat.hello
        peer = Peer(
            hello=hello,
            acts=self._means.pages.acts,
            on_request=self._on_remote_request,
            on_notification=self._on_remote_notification,
            on_connected=self._on_connected,
            say=self._say,
        )
        for backend in self._backends.values():
            remote = Remote(
                backend.name,
                backend.way,
                peer,
                hidden=backend.hidden,
                start_seconds=self._options.start_seconds,
            )
            self._remotes[backend.name] = remote
            await self._group.start(remote.run)

    async def _travel(self, remote: Remote, method: str, params: Message) -> Message:
        """Send a request to a server, with its consent requests on the way."""
        progress, goes_on = Progress(params, self._chat.notify), False
        if progress.token is not None:
            self._progress[progress.token] = (remote, progress)
        try:
            result = await Journey(remote, method, params, progress, self._means).run()
            # The token of a call that became a task holds until the task is over.
            goes_on = "task" in result and method == "tools/call"
        finally:
            if progress.token is not None and not goes_on:
                self._progress.pop(progress.token, None)
        while len(self._progress) > _MOST_TOKENS:
            del self._progress[next(iter(self._progress))]
        if method == "tools/list":
            result = self._allowed(remote, result)
        agreement = remote.agreement
        return result if agreement is None else for_chat(method, result, self._chat.hello, agreement)

    def _allowed(self, remote: Remote, result: Message) -> Message:
        """Leave out tools that may not be called."""
        if (envelope := remote.envelope) is not None:
            envelope.learn(result)
        denial, tools = self._backends[remote.name].denial, as_list(result.get("tools"))
        kept = [tool for tool in tools if not denial(str(as_object(tool).get("name")))]
        shown = result if len(kept) == len(tools) else {**result, "tools": kept}
        return for_everyone(shown, remote.agreement)

    async def _list(self, method: str) -> Message:
        """Join the lists of all servers; one that cannot be used is left out."""
        found: dict[str, list[Message]] = {}

        async def ask(remote: Remote) -> None:
            cursor: Message = {}
            found[remote.name] = []
            if remote.agreement is None:
                with anyio.move_on_after(self._options.greeting_seconds), suppress(MCPError):
                    await remote.connected()
            if remote.agreement is None or not _may_list(method, remote.agreement):
                return
            try:
                while True:
                    page = await self._travel(remote, method, cursor)
                    found[remote.name] += naming.listed(method, remote.name, page)
                    if (
                        not isinstance(page.get("nextCursor"), str)
                        or cursor.get("cursor") == page["nextCursor"]
                    ):
                        return
                    cursor = {"cursor": page["nextCursor"]}
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    self._say(f"{remote.name}: {error.error.message}")

        async with anyio.create_task_group() as group:
            for remote in self._remotes.values():
                group.start_soon(ask, remote)
        joined = [item for name in self._remotes for item in found[name]]
        kept = (
            {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self._chat.hello.modern else {}
        )
        return {**kept, naming.LISTS[method][0]: joined}

    async def _to_all(self, method: str, params: Message) -> Message:
        if method == "ping":
            # The bridge lives; a server that went away is connected again with the next call.
            return {}
        self._log_level = str(params.get("level"))
        for remote in self._agreed():
            if (envelope := remote.envelope) is not None and envelope.agreement.modern:
                envelope.log_level = self._log_level
            elif "logging" in (remote.agreement.capabilities if remote.agreement else {}):
                await remote.request(method, params)
        return {}

    def _addressed(self, method: str, params: Message) -> tuple[Remote, Message]:
        if not self._several:
            return next(iter(self._remotes.values())), params
        found = naming.address(method, params)
        if found is not None and found[0] in self._remotes:
            return self._remotes[found[0]], found[1]
        known = ", ".join(self._remotes)
        raise MCPError(
            INVALID_PARAMS if found or {"name", "uri", "taskId"} & params.keys() else METHOD_NOT_FOUND,
            f"{method} names none of the servers behind this bridge: {known}.",
        )

    def _agreed(self) -> list[Remote]:
        return [remote for remote in self._remotes.values() if remote.agreement is not None]

    # What the remote servers send.

    async def _on_remote_request(self, remote: Remote, method: str, params: Message) -> Message:
        if method == "ping":
            return {}
        backend, hello = self._backends[remote.name], self._chat.hello
        if self._several:
            params = naming.related(remote.name, params)
        if method == "elicitation/create":
            return await self._elicit(remote, params)
        capability = {"sampling/createMessage": "sampling", "roots/list": "roots"}.get(method)
        allowed = backend.sampling or capability != "sampling"
        if hello.modern or (capability is not None and not (allowed and hello.can(capability))):
            raise MCPError(METHOD_NOT_FOUND, f"The chat client behind this bridge takes no {method}.")
        return await self._chat.request(method, params)

    async def _elicit(self, remote: Remote, params: Message) -> Message:
        hello = self._chat.hello
        if not self._backends[remote.name].elicitation:
            return {"action": "decline"}
        if not is_url_request(params):
            if hello.shows_forms and not hello.modern:
                return await self._chat.request("elicitation/create", params)
            self._say(
                f"{remote.name} asked for input ({page_of(params).message!r}), which this chat client cannot show; "
                "the bridge declined. `nextcloud-mcp-server client call` asks in the terminal."
            )
            return {"action": "decline"}
        if hello.shows_urls and not hello.modern:
            return await self._chat.request("elicitation/create", params)
        page, urls = page_of(params), set[str]()
        shown = await self._means.pages.show(remote.name, page, urls)
        if shown is Shown.OPEN:
            self._group.start_soon(self._wait_visibly, remote, host_of(page.url))
        return {"action": "decline" if shown is Shown.REFUSED else shown.value}

    async def _wait_visibly(self, remote: Remote, host: str) -> None:
        """Report progress for the calls of a server that waits for a page by itself, until they have ended."""
        started_at, limit = anyio.current_time(), self._options.consent_seconds
        calls = [progress for owner, progress in self._progress.values() if owner is remote]
        while calls and (waited := anyio.current_time() - started_at) < limit:
            for progress in calls:
                await progress.say(
                    f"Waiting for you in the browser, at {host}. Cancel the call to stop.", waited
                )
            await anyio.sleep(self._options.beat_seconds)
            live = [progress for _, progress in self._progress.values()]
            calls = [progress for progress in calls if progress in live]

    async def _answer_input(self, remote: Remote, request: Message) -> Message:
        """Answer an input request of 2026-07-28 through a chat client of the handshake era."""
        try:
            return await self._on_remote_request(
                remote, str(request.get("method")), as_object(request.get("params"))
            )
        except MCPError:
            return {"action": "decline"}

    async def _on_remote_notification(self, remote: Remote, method: str, params: Message | None) -> None:
        modern = self._chat.hello.modern
        if method == _COMPLETE:
            self._means.completed.add(str((params or {}).get("elicitationId")))
            if modern:
                # 2026-07-28 has no such notification.
                return
        elif method == "notifications/progress":
            token = (params or {}).get("progressToken")
            known = self._progress.get(token) if isinstance(token, int | str) else None
            if known is not None and known[0] is remote:
                await known[1].pass_on(params or {})
            return
        if method in NOTICES:
            self._tasks.news.tell(params)
            if self._tasks.news.is_awaited((params or {}).get("taskId")) or (modern and method != TASK):
                return
            if self._several and method != TASK:
                params = naming.renamed(remote.name, params or {})
        if await self._subscriptions.pass_on(remote, method, params, modern=modern):
            return
        if self._several and method == "notifications/message":
            params = {
                **(params or {}),
                "logger": f"{remote.name}/{(params or {}).get('logger', '')}".rstrip("/"),
            }
        await self._chat.notify(method, params)

    async def _on_connected(self, remote: Remote) -> None:
        modern, agreement = self._chat.hello.modern, remote.agreement
        try:
            if self._log_level is not None and agreement is not None:
                if (envelope := remote.envelope) is not None and agreement.modern:
                    envelope.log_level = self._log_level
                elif "logging" in agreement.capabilities:
                    await remote.request("logging/setLevel", {"level": self._log_level})
            await self._subscriptions.connected(remote, chat_is_modern=modern)
            if remote.name in self._late:
                self._late.discard(remote.name)
                for changed in CHANGES:
                    await self._subscriptions.pass_on(remote, changed, None, modern=modern)
        except MCPError as error:
            self._say(f"{remote.name}: {error.error.message}")


def _may_list(method: str, agreement: Agreement) -> bool:
    """Tell whether a server can be asked for a list; that of tasks exists only where it is declared."""
    return method != "tasks/list" or offers(agreement.capabilities, "list")
