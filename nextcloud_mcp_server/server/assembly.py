"""One server put together from its parts, for every mode; nothing is opened yet."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.protocol.audience import Audience
from nextcloud_mcp_server.protocol.availability import Availability, FetchApps, unlimited
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import ConsentStatus, Track
from nextcloud_mcp_server.resources.poller import Poller
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.services import LazyServices, Services, sub_keys
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.tools.apps import apps_of
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.state import State
from nextcloud_mcp_server.tools.toolset import ToolSpec

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class ServerParts:
    """One server and what runs beside it."""

    mcp: MCPServer[Any]
    state: State
    services: LazyServices
    pending: Pending
    availability: Availability
    poller: Poller

    @asynccontextmanager
    async def running(self, *, resume: bool) -> AsyncGenerator[None]:
        """Run the background work around the serving."""
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.services.run(resume=resume))
            group.start_soon(self.pending.run)
            group.start_soon(self.availability.run)
            group.start_soon(self.poller.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class ModeHooks:
    """What the mode decides: who calls, what their token allows, and how the services is opened.

    `at_sign_in` are the scopes that clients ask for when they sign in.
    """

    caller: Callable[[ServerRequestContext[Any, Any]], Caller]
    open_services: Callable[[Pending], AbstractAsyncContextManager[Services]]
    token_scopes: Callable[[ServerRequestContext[Any, Any]], frozenset[str] | None] = unlimited
    at_sign_in: frozenset[str] = frozenset(SCOPES)


def select(settings: Settings) -> list[ToolSpec]:
    """List the tools that the settings leave on."""
    return mcp_server.select(
        settings.enabled_toolsets,
        exclude=settings.exclude_tools,
        read_only=settings.read_only,
        local=settings.local_folder is not None,
    )


def assemble(settings: Settings, hooks: ModeHooks) -> ServerParts:
    """Put the parts of a server together; nothing is opened yet."""
    specs, caller = select(settings), hooks.caller
    audience = Audience(lambda ctx: caller(ctx).principal)

    def open_() -> AbstractAsyncContextManager[Services]:
        return hooks.open_services(pending)

    async def own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentStatus | None:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.find(elicitation_id, caller(ctx).principal) if provisioning else None

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.finished(elicitation_ids) if provisioning else list(elicitation_ids)

    async def access(ctx: ServerRequestContext[Any, Any]) -> tuple[FetchApps, str] | None:
        if settings.operator_credential is None and not has_state(settings):
            # No one is connected, and a client that only lists opens no database.
            return None
        services, of = await lazy.get(), caller(ctx)
        opened = await services.accounts.find(of)
        return opened and (apps_of(services, of, opened, in_menu=availability.in_menu), opened.account.uid)

    lazy = LazyServices(open_)
    pending = Pending(finished)
    availability = Availability(
        mcp_server.facts(specs), audience, scopes=hooks.token_scopes, at_sign_in=hooks.at_sign_in
    )
    availability.find_access = access
    state = State(
        services=lazy.get,
        caller=caller,
        pending=pending,
        notices=CompletionNotifier(pending),
        availability=availability,
        dialect=settings.elicitation_dialect,
        hold_seconds=settings.hold_seconds,
        output_schemas=settings.output_schemas,
        local_folder=LocalFolder(settings.local_folder),
    )
    track = Track(own, pending, timeout_seconds=settings.elicitation_timeout_seconds)
    mcp, poller = mcp_server.create(
        specs,
        state,
        track,
        state_keys=sub_keys(settings, "request-state"),
        update_seconds=settings.update_seconds,
    )
    return ServerParts(mcp, state, lazy, pending, availability, poller)


@dataclass(frozen=True, slots=True)
class PublicUrls:
    """Where an HTTP server is reached: by clients under `url`, by browsers under `public_url`."""

    url: str
    public_url: str

    @classmethod
    def of(cls, settings: Settings, host: str, port: int) -> "PublicUrls":
        """Work it out from where the server listens and what the operator says."""
        # A wildcard address is for listening, not for calling.
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        return cls(url, (settings.nextcloud_mcp_server_url or url).rstrip("/"))

    def page_url(self, elicitation_id: str) -> str:
        """Make the URL of our consent page: a locator, not a capability."""
        return f"{self.public_url}/oauth/provision?elicitationId={elicitation_id}"

    def names(self) -> frozenset[str]:
        """List the Host headers this server answers to."""
        own = urlsplit(self.url)
        port = f":{own.port}"
        return frozenset(
            {
                own.netloc,
                f"127.0.0.1{port}",
                f"localhost{port}",
                f"[::1]{port}",
                urlsplit(self.public_url).netloc,
            }
        )

    def origins(self) -> frozenset[str]:
        """List the origins whose pages may call: our own."""
        scheme = urlsplit(self.public_url).scheme
        return frozenset(
            {f"{scheme}://{name}" for name in self.names()} | {f"http://{n}" for n in self.names()}
        )


def mcp_app(
    parts: ServerParts,
    pages: Sequence["BaseRoute"],
    *,
    running: Callable[[], AbstractAsyncContextManager[None]],
) -> "Starlette":
    """Put the MCP endpoint and the pages into one application, which runs the work in the background."""
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - HTTP only
    from starlette.applications import Starlette  # noqa: PLC0415 - HTTP only
    from starlette.middleware import Middleware  # noqa: PLC0415 - HTTP only

    from nextcloud_mcp_server.web.exchanges import Exchanges  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.web.open_streams import OpenStreamTracker  # noqa: PLC0415 - HTTP only

    # `guard` checks Host and Origin on every route, so the SDK need not check them on one.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    endpoint = parts.mcp.streamable_http_app(streamable_http_path=MCP_PATH, transport_security=security)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with running(), parts.mcp.session_manager.run():
            yield

    open_streams = Middleware(OpenStreamTracker, audience=parts.availability.audience, mcp_path=MCP_PATH)
    exchanges = Middleware(Exchanges, mcp_path=MCP_PATH)
    return Starlette(
        routes=[*endpoint.routes, *pages], lifespan=lifespan, middleware=[open_streams, exchanges]
    )
