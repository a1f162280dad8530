"""Which tools a client sees: by its token, by its headers and by the apps of the user's Nextcloud.

A tool is shown if the token allows it or may come to allow it. A tool whose app is not known yet is shown, too:
hiding it would also hide the way to ask for it.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp_types import INVALID_PARAMS

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.auth.token_scopes import covers, require
from nextcloud_mcp_server.errors import NextcloudMcpError, TokenTooNarrow
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier, ListChanged

logger = logging.getLogger(__name__)

#: The apps of an active user are fetched again after this time; with an etag that is one small request.
REFRESH_SECONDS = 900.0

#: What is known of an inactive user is deleted after this time.
KEPT_SECONDS = 86_400.0

#: A call is only refused for a missing app if the app list is newer than this.
RECHECK_SECONDS = 30.0

#: Users of whom something is known at most; the one fetched longest ago is dropped first.
MAX_PEOPLE = 10_000

#: Concurrent fetches.
_AT_ONCE = 8

TOOLSETS_HEADER = "x-mcp-toolsets"
READ_ONLY_HEADER = "x-mcp-readonly"

#: The lists that depend on a Nextcloud's apps, and the events that report their changes.
_LISTS: Mapping[str, ListChanged] = {
    "tools/list": ToolsListChanged,
    "prompts/list": PromptsListChanged,
    "resources/list": ResourcesListChanged,
    "resources/templates/list": ResourcesListChanged,
}

#: How long the first list of a user waits for their Nextcloud's app list.
LIST_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class AppList:
    """The apps in one of Nextcloud's answers, and the etag to check whether it has changed."""

    names: frozenset[str]
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Apps:
    """The apps of a user's Nextcloud: by its capabilities, and by the user's menu if that was answered.

    `account` is the uid that they were fetched for: a user may disconnect, and connect another account.
    """

    capabilities: AppList
    menu: AppList | None = None
    account: str = ""


#: What is known of a user whose Nextcloud has not been asked yet.
NOTHING = Apps(AppList(frozenset()))

#: Fetches the apps; gets the ones that are known, for their etags.
FetchApps = Callable[[Apps], Awaitable[Apps]]

#: Returns the function that fetches the apps of a request's user, and the uid of their account; None without
#: access.
FindAccess = Callable[[ServerRequestContext[Any, Any]], Awaitable[tuple[FetchApps, str] | None]]


@dataclass(frozen=True, slots=True)
class _Known:
    at: float
    missing: frozenset[str]
    apps: Apps


@dataclass(frozen=True, slots=True)
class Facts:
    """What a tool's availability depends on.

    `app` must be installed at Nextcloud; with `menu` that is only visible in the user's menu. `always` is set
    for the connection tools. `scopes` are those that a token must have, where tokens limit anything. An old name of a
    tool can be called, but is not `listed`.
    """

    toolset: str
    app: str | None
    read_only: bool
    always: bool
    scopes: frozenset[str] = frozenset()
    menu: bool = False
    listed: bool = True


def unlimited(_: ServerRequestContext[Any, Any]) -> frozenset[str] | None:
    """Return None: in single-user mode no token limits a request."""
    return None


def _nobody(*_: Hashable) -> None:
    """Do nothing: the default where no callback is set."""


class Availability:
    """Knows the apps of each user's Nextcloud, and filters `tools/list` and `tools/call` by them.

    `at_sign_in` are the scopes that clients request at their sign-in. A tool whose token lacks one of these was
    not allowed, and is hidden. A tool that needs other scopes is listed, since a client only requests them
    after a call.
    """

    def __init__(
        self,
        tools: Mapping[str, Facts],
        change_notifier: ChangeNotifier,
        *,
        scopes: Callable[[ServerRequestContext[Any, Any]], frozenset[str] | None] = unlimited,
        at_sign_in: frozenset[str] = frozenset(SCOPES),
        monotonic: Callable[[], float] = anyio.current_time,
        max_people: int = MAX_PEOPLE,
    ) -> None:
        self._tools = tools
        self.change_notifier = change_notifier
        self._scopes = scopes
        self._at_sign_in = at_sign_in
        self._monotonic = monotonic
        self._max_people = max_people
        needed = {each.app: each.menu for each in tools.values() if each.app is not None}
        self._by_capabilities = frozenset(app for app, menu in needed.items() if not menu)
        #: The apps that are only visible in a user's menu; without any, the menu is not requested.
        self.in_menu = frozenset(needed) - self._by_capabilities
        self._known = OrderedDict[Hashable, _Known]()
        self._asked: dict[Hashable, tuple[FetchApps, str]] = {}
        self._asking: dict[Hashable, anyio.Event] = {}
        self._tried = OrderedDict[Hashable, float]()
        # With the time until which lists wait for the fetch.
        self._preparing: dict[Hashable, tuple[anyio.Event, float]] = {}
        self._to_prepare: list[Callable[[], Awaitable[None]]] = []
        self._work = anyio.Event()
        #: Called before the first list of a user.
        self.find_access: FindAccess | None = None
        #: Called with the user whose call has just reached Nextcloud.
        self.on_call: Callable[[Hashable], None] = _nobody
        #: Called with the user whose call may have changed something at Nextcloud, and when the call began.
        self.on_write: Callable[[Hashable, float], None] = _nobody

    def knows(self, owner: Hashable) -> bool:
        """Tell whether a user's apps are known, from within `KEPT_SECONDS`."""
        return self._age(owner) <= KEPT_SECONDS

    def learn(self, owner: Hashable, fetch: FetchApps, *, account: str = "") -> None:
        """Fetch a user's apps in the background, if they are unknown for this account or outdated.

        It is called for every call that reached Nextcloud.
        """
        self.on_call(owner)
        if owner not in self._asked and self._age_of(owner, account) > REFRESH_SECONDS:
            self._asked[owner] = fetch, account
            self._work.set()

    async def ask(self, owner: Hashable, fetch: FetchApps, *, account: str = "") -> None:
        """Fetch a user's apps now, unless that was done just now or another task does it already.

        If Nextcloud cannot be reached, what is known does not change.
        """
        if self._age_of(owner, account) <= RECHECK_SECONDS:
            return
        if owner in self._asking:
            await self._asking[owner].wait()
            return
        done = self._asking[owner] = anyio.Event()
        try:
            await self.heard(owner, await fetch(self.known(owner)))
        except NextcloudMcpError as error:
            logger.info("the apps of a Nextcloud are not known yet: %s", error)
        finally:
            del self._asking[owner]
            done.set()

    async def _prepare(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Wait until the user's apps are known, if there is access; at most `LIST_SECONDS`.

        A list must not change as a side effect of other requests (2026-07-28, server/tools), and the first call
        would cause that. If Nextcloud answers later, that is a change like any other, and notified.
        """
        owner = self.change_notifier.owner(ctx)
        if self.find_access is None or self.knows(owner):
            return
        if owner not in self._preparing and not self._tried_lately(owner):
            self._preparing[owner] = anyio.Event(), anyio.current_time() + LIST_SECONDS
            self._to_prepare.append(partial(self._prepare_now, owner, self.find_access(ctx)))
            self._work.set()
        if owner in self._preparing:
            done, deadline = self._preparing[owner]
            with anyio.CancelScope(deadline=deadline):
                await done.wait()

    def _tried_lately(self, owner: Hashable) -> bool:
        """Tell whether access was looked for in the last `RECHECK_SECONDS`; if not, record that it is now."""
        tried_at = self._tried.pop(owner, float("-inf"))
        lately = self._monotonic() - tried_at <= RECHECK_SECONDS
        self._tried[owner] = tried_at if lately else self._monotonic()
        while len(self._tried) > self._max_people:
            self._tried.popitem(last=False)
        return lately

    async def _prepare_now(self, owner: Hashable, finding: Awaitable[tuple[FetchApps, str] | None]) -> None:
        try:
            access = await finding
            if access is not None:
                fetch, account = access
                await self.ask(owner, fetch, account=account)
        except NextcloudMcpError as error:
            logger.info("the access of a person is not known yet: %s", error)
        finally:
            self._preparing.pop(owner)[0].set()

    def known(self, owner: Hashable) -> Apps:
        """Return what is known of a user's apps, limited to those that tools need."""
        return self._known[owner].apps if owner in self._known else NOTHING

    async def heard(self, owner: Hashable, apps: Apps) -> None:
        """Store the apps of a user's Nextcloud, and notify their clients of changes."""
        before = self._known.pop(owner, None)
        missing = before.missing if before else frozenset[str]()
        found = self._known[owner] = self._sorted_out(apps)
        while len(self._known) > self._max_people:
            self._known.popitem(last=False)
        if found.missing != missing:
            await self.change_notifier.tell(
                owner, ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()
            )
        elif before is None:
            # The user has just connected: before that there was nothing to list.
            await self.change_notifier.tell(owner, ResourcesListChanged())

    def _sorted_out(self, apps: Apps) -> _Known:
        """Compute the missing apps; of each user only the apps that tools need are stored."""
        capabilities = replace(apps.capabilities, names=self._by_capabilities & apps.capabilities.names)
        menu = apps.menu and replace(apps.menu, names=self.in_menu & apps.menu.names)
        missing = self._by_capabilities - capabilities.names
        if menu is not None:
            missing |= self.in_menu - menu.names
        return _Known(self._monotonic(), missing, Apps(capabilities, menu, apps.account))

    def app_of(self, tool: str) -> str | None:
        """Return the app that must be installed for a tool."""
        return self._tools[tool].app

    def lacks(self, owner: Hashable, app: str | None) -> bool:
        """Tell whether the user's Nextcloud is known to lack an app."""
        return self.knows(owner) and app in self._known[owner].missing

    async def run(self) -> None:
        """Run the requested fetches as long as the server runs."""
        limit = anyio.CapacityLimiter(_AT_ONCE)

        async def one(job: Callable[[], Awaitable[None]]) -> None:
            async with limit:
                try:
                    await job()
                except Exception:  # a supervisor: one strange answer must not end it for every user
                    logger.exception("the apps of a user's Nextcloud could not be fetched")

        async with anyio.create_task_group() as group:
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                jobs, self._to_prepare = self._to_prepare, []
                asked, self._asked = self._asked, {}
                for owner, (fetch, account) in asked.items():
                    jobs.append(partial(self.ask, owner, fetch, account=account))
                for job in jobs:
                    group.start_soon(one, job)

    def _age_of(self, owner: Hashable, account: str) -> float:
        return self._age(owner) if self.known(owner).account == account else float("inf")

    def _age(self, owner: Hashable) -> float:
        known = self._known.get(owner)
        return float("inf") if known is None else self._monotonic() - known.at

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Filter the tool list, refuse calls that the token or headers exclude, and advertise elicitation."""
        if ctx.method == "tools/call":
            name = str((ctx.params or {}).get("name"))
            facts = self._tools.get(name)
            if facts:
                self._require(ctx, facts, name)
            if facts and not self._wanted(ctx, facts):
                raise MCPError(INVALID_PARAMS, f"The headers of this request leave out the tool {name}.")
        listed = _LISTS.get(ctx.method)
        if listed is not None:
            await self._prepare(ctx)
        result = await call_next(ctx)
        if not isinstance(result, dict):
            return result
        if listed is not None:
            self.change_notifier.join(ctx, listed)
            if "ttlMs" in result and not self.knows(self.change_notifier.owner(ctx)):
                # Access may be granted, or the apps become known, at any time.
                result = {**result, "ttlMs": 0}
        if ctx.method == "tools/list":
            tools = cast("list[dict[str, Any]]", result["tools"])
            shown = [tool for tool in tools if self._lists(ctx, self._tools[tool["name"]])]
            return {**result, "tools": shown}
        return wire.advertise(ctx.method, result)

    def shows(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        """Tell whether the caller may see a tool, by token, headers and the apps of their Nextcloud."""
        return (
            self._permitted(ctx, facts)
            and self._wanted(ctx, facts)
            and not self.lacks(self.change_notifier.owner(ctx), facts.app)
        )

    def permits(self, ctx: ServerRequestContext[Any, Any], name: str) -> bool:
        """Tell whether the request's token covers a tool."""
        return name in self._tools and self._permitted(ctx, self._tools[name])

    def _lists(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        """Tell whether a tool is listed to the caller; scopes that a client requests only at a call do not count."""
        return facts.listed and self.shows(ctx, replace(facts, scopes=facts.scopes & self._at_sign_in))

    def _permitted(self, ctx: ServerRequestContext[Any, Any], facts: Facts) -> bool:
        """Tell whether the request's token covers the scopes; a call is refused by the same rule."""
        return covers(self._scopes(ctx), facts.scopes)

    def _require(self, ctx: ServerRequestContext[Any, Any], facts: Facts, name: str) -> None:
        try:
            require(facts.scopes, token=self._scopes(ctx))
        except TokenTooNarrow as error:
            raise MCPError(INVALID_PARAMS, f"{name[:64]} was not called. {error}") from None

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
