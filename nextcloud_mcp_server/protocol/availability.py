"""Which tools a client sees: those its token allows and the person's Nextcloud has, narrowed by its headers.

What is not known yet is shown: hiding a tool because nobody has asked would hide the way to ask.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import INVALID_PARAMS

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.protocol import wire

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 3600.0

TOOLSETS_HEADER = "x-mcp-toolsets"
READ_ONLY_HEADER = "x-mcp-readonly"

#: Sessions told of a change at most; the oldest are forgotten first.
MAX_SESSIONS = 1000

FetchApps = Callable[[], Awaitable[frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a tool's availability depends on.

    `app` must be installed at Nextcloud, `always` is true of the connection tools. `scopes` are what
    a token must allow, where tokens limit anything.
    """

    toolset: str
    app: str | None
    read_only: bool
    always: bool
    scopes: frozenset[str] = frozenset()


def unlimited(_: ServerRequestContext[Any, Any]) -> frozenset[str] | None:
    """Say that no token limits a request: personal mode."""
    return None


class Availability:
    """Knows the apps of each person's Nextcloud, and filters `tools/list` and `tools/call` by them."""

    def __init__(
        self,
        tools: Mapping[str, Facts],
        owner: Callable[[ServerRequestContext[Any, Any]], Hashable],
        bus: SubscriptionBus,
        *,
        scopes: Callable[[ServerRequestContext[Any, Any]], frozenset[str] | None] = unlimited,
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._tools = tools
        self._owner = owner
        self._bus = bus
        self._scopes = scopes
        self._monotonic = monotonic
        self._known: dict[Hashable, tuple[float, frozenset[str]]] = {}
        self._asked: dict[Hashable, FetchApps] = {}
        self._work = anyio.Event()
        self._sessions: dict[str, tuple[Hashable, ServerSession]] = {}

    def learn(self, owner: Hashable, fetch: FetchApps) -> None:
        """Ask for a person's apps in the background, if that is not known or was asked long ago."""
        known = self._known.get(owner)
        if owner not in self._asked and (known is None or known[0] < self._monotonic()):
            self._asked[owner] = fetch
            self._work.set()

    def app_of(self, tool: str) -> str | None:
        """Name the app that must be installed for a tool."""
        return self._tools[tool].app

    def lacks(self, owner: Hashable, app: str | None) -> bool:
        """Tell whether the person's Nextcloud is known to have no such app."""
        _, apps = self._known.get(owner, (0.0, None))
        return app is not None and apps is not None and app not in apps

    async def run(self) -> None:
        """Fetch what was asked for; runs as long as the server."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            for owner, fetch in list(self._asked.items()):
                try:
                    apps = await fetch()
                except NextcloudMcpError as error:
                    logger.info("the apps of a Nextcloud are not known yet: %s", error)
                    apps = None
                del self._asked[owner]
                if apps is not None:
                    await self._learned(owner, apps)

    async def _learned(self, owner: Hashable, apps: frozenset[str]) -> None:
        before = self._hidden(owner)
        self._known[owner] = (self._monotonic() + REFRESH_SECONDS, apps)
        if before == self._hidden(owner):
            return
        for listener, session in list(self._sessions.values()):
            if listener == owner:
                await session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Filter the list, refuse what it does not show, and advertise elicitation."""
        if ctx.method == "tools/call":
            name = str((ctx.params or {}).get("name"))
            facts = self._tools.get(name)
            if facts and not self._permitted(ctx, facts):
                raise MCPError(INVALID_PARAMS, f"The token of this request does not allow {name[:64]}.")
            if facts and not self._wanted(ctx, facts):
                raise MCPError(INVALID_PARAMS, f"The headers of this request leave out the tool {name[:64]}.")
        result = await call_next(ctx)
        if not isinstance(result, dict):
            return result
        if ctx.method == "tools/list":
            self._remember(ctx)
            tools = cast("list[dict[str, Any]]", result["tools"])
            shown = [tool for tool in tools if self.shows(ctx, self._tools[tool["name"]])]
            return {**result, "tools": shown}
        return wire.advertise(ctx.method, result)

    def _remember(self, ctx: ServerRequestContext[Any, Any]) -> None:
        key = wire.session_key(ctx)
        if key is None:
            return
        self._sessions.pop(key, None)
        self._sessions[key] = (self._owner(ctx), ctx.session)
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def _hidden(self, owner: Hashable) -> set[str]:
        return {name for name, tool in self._tools.items() if self.lacks(owner, tool.app)}

    def shows(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        """Tell whether whoever asks may see something: token, headers and what their Nextcloud has."""
        return (
            self._permitted(ctx, facts)
            and self._wanted(ctx, facts)
            and not self.lacks(self._owner(ctx), facts.app)
        )

    def _permitted(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        """Tell whether the request's token allows it; the same rule for the list and for the call."""
        scopes = self._scopes(ctx)
        return scopes is None or facts.scopes <= scopes

    def _wanted(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        headers: Mapping[str, str] = getattr(ctx.request, "headers", None) or {}
        if facts.always:
            return True
        if (
            headers.get(READ_ONLY_HEADER, "").strip().lower() in ("1", "true", "yes", "on")
            and not facts.read_only
        ):
            return False
        wanted = {part.strip() for part in headers.get(TOOLSETS_HEADER, "").split(",")} - {""}
        return not wanted or "all" in wanted or facts.toolset in wanted
