"""Passes on changes at remote servers, between `resources/subscribe` and `subscriptions/listen` (2026-07-28)."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import RequestId

from nextcloud_mcp_server.bridge import naming
from nextcloud_mcp_server.bridge.envelope import Message, as_list, as_object
from nextcloud_mcp_server.bridge.remote import Remote

CHANGES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED: Final = "notifications/resources/updated"
TASK: Final = "notifications/tasks"
_URIS: Final = "resourceSubscriptions"
_TASKS: Final = "taskIds"
_AGAIN_SECONDS: Final = 5.0

Notify = Callable[[str, Message | None], Awaitable[None]]


@dataclass(slots=True)
class _Upstream:
    """What one remote server was asked for."""

    wanted: Message
    scope: anyio.CancelScope


class Subscriptions:
    """What the chat client wants to hear of, and what the servers were asked for because of that."""

    def __init__(self, group: TaskGroup, notify: Notify, *, several: bool) -> None:
        self._group = group
        self._notify = notify
        self._several = several
        self._listeners: dict[RequestId, Message] = {}
        self._uris: dict[str, set[str]] = {}
        self._upstream: dict[str, _Upstream] = {}
        self._number = 0

    async def listen(self, request_id: RequestId, params: Message, remotes: Iterable[Remote]) -> Message:
        """Answer `subscriptions/listen` of a chat client: acknowledge it, and keep it open until cancelled."""
        wanted = as_object(params.get("notifications"))
        self._listeners[request_id] = wanted
        try:
            for remote in remotes:
                await self.sync(remote)
            await self._notify(
                "notifications/subscriptions/acknowledged", {"notifications": wanted, **_stamp(request_id)}
            )
            await anyio.sleep_forever()
        finally:
            del self._listeners[request_id]
        raise AssertionError("unreachable")

    async def subscribe(self, remote: Remote, uri: str, params: Message) -> Message:
        """Subscribe to one resource of a server, for a chat client of the handshake era."""
        answer = await self._ask(remote, "resources/subscribe", params)
        self._uris.setdefault(remote.name, set()).add(uri)
        await self.sync(remote)
        return answer

    async def unsubscribe(self, remote: Remote, uri: str, params: Message) -> Message:
        """End a subscription to one resource."""
        self._uris.setdefault(remote.name, set()).discard(uri)
        await self.sync(remote)
        return await self._ask(remote, "resources/unsubscribe", params)

    async def connected(self, remote: Remote, *, chat_is_modern: bool) -> None:
        """Ask a server that was just connected for what the chat client wants to hear of."""
        old = self._upstream.pop(remote.name, None)
        if old is not None:
            old.scope.cancel()
        agreement = remote.agreement
        if agreement is None or (not agreement.modern and not chat_is_modern):
            # The server sends changes by itself; only subscriptions to resources are lost with a connection.
            for uri in self._uris.get(remote.name, set()):
                await remote.request("resources/subscribe", {"uri": uri})
            return
        if not chat_is_modern:
            self._listeners.setdefault(0, dict.fromkeys(CHANGES.values(), True))
        await self.sync(remote)

    async def pass_on(self, remote: Remote, method: str, params: Message | None, *, modern: bool) -> bool:
        """Pass a change on to the streams that asked for it; return whether the notification was one of a change."""
        if method == "notifications/subscriptions/acknowledged":
            return True
        if method not in CHANGES and method not in (UPDATED, TASK):
            return False
        given = dict(params or {})
        meta = {k: v for k, v in as_object(given.pop("_meta", None)).items() if k != SUBSCRIPTION_ID_META_KEY}
        if self._several and isinstance(given.get("uri"), str):
            given["uri"] = naming.join(remote.name, "uri", given["uri"])
        if method == TASK:
            await self._pass_task(remote, given, meta)
            return True
        if not modern:
            rest = given | ({"_meta": meta} if meta else {})
            await self._notify(method, rest or None)
            return True
        for request_id, wanted in list(self._listeners.items()):
            listed = given.get("uri") in as_list(wanted.get(_URIS))
            if wanted.get(CHANGES.get(method, "")) is True or (method == UPDATED and listed):
                await self._notify(method, given | _stamp(request_id, meta))
        return True

    async def _pass_task(self, remote: Remote, given: Message, meta: Message) -> None:
        if self._several:
            given = naming.renamed(remote.name, given)
        for request_id, wanted in list(self._listeners.items()):
            if given.get("taskId") in as_list(wanted.get(_TASKS)):
                await self._notify(TASK, given | _stamp(request_id, meta))

    async def sync(self, remote: Remote) -> None:
        """Ask a server for exactly what is listened for now, if it has to be asked."""
        agreement = remote.agreement
        if agreement is None:
            return
        wanted = self._wanted(remote)
        had = self._upstream.get(remote.name)
        if had is not None and had.wanted == wanted:
            return
        if not agreement.modern:
            asked = set(had.wanted.get(_URIS, [])) if had else set[str]()
            for uri in sorted(set(wanted.get(_URIS, [])) - asked):
                await remote.request("resources/subscribe", {"uri": uri})
            self._upstream[remote.name] = _Upstream(wanted, anyio.CancelScope())
            return
        if had is not None:
            had.scope.cancel()
        if wanted:
            scope = anyio.CancelScope()
            self._upstream[remote.name] = _Upstream(wanted, scope)
            self._group.start_soon(self._stay, remote, wanted, scope)

    def _wanted(self, remote: Remote) -> Message:
        modern = remote.agreement is not None and remote.agreement.modern
        uris = set(self._uris.get(remote.name, ())) if modern else set[str]()
        tasks, wanted = set[str](), Message()
        for listener in self._listeners.values():
            wanted |= {key: True for key in CHANGES.values() if listener.get(key) is True}
            uris |= self._own(remote, "uri", listener.get(_URIS))
            tasks |= self._own(remote, "taskId", listener.get(_TASKS))
        return wanted | ({_URIS: sorted(uris)} if uris else {}) | ({_TASKS: sorted(tasks)} if tasks else {})

    def _own(self, remote: Remote, field: str, names: object) -> set[str]:
        """Return the server's own names for its resources or tasks among those of the chat client."""
        known = {str(name) for name in as_list(names)}
        if not self._several:
            return known
        found = [naming.split(field, name) for name in known]
        return {one[1] for one in found if one is not None and one[0] == remote.name}

    async def _ask(self, remote: Remote, method: str, params: Message) -> Message:
        agreement = await remote.connected()
        # 2026-07-28 has no such request: the next `subscriptions/listen` names the resource.
        return {} if agreement.modern else await remote.request(method, params)

    async def _stay(self, remote: Remote, wanted: Message, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                self._number += 1
                try:
                    # A text that is no number never meets an id that the SDK counts.
                    await remote.request(
                        "subscriptions/listen",
                        {"notifications": wanted},
                        request_id=f"bridge-listen-{self._number}",
                    )
                except MCPError:
                    # It may have been lost for a moment; a server without it is asked rarely.
                    await anyio.sleep(_AGAIN_SECONDS * 12)
                await anyio.sleep(_AGAIN_SECONDS)


def _stamp(request_id: RequestId, meta: Message | None = None) -> Message:
    return {"_meta": {**(meta or {}), SUBSCRIPTION_ID_META_KEY: request_id}}
