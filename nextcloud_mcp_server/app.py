"""The composition root: settings in, a running server out. The only place that builds things."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from pydantic import SecretStr

from nextcloud_mcp_server import core as cores
from nextcloud_mcp_server import server
from nextcloud_mcp_server.auth.principal import Caller, personal_caller
from nextcloud_mcp_server.core import Core, LazyCore, Outside
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.availability import Availability
from nextcloud_mcp_server.protocol.notices import Notices
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import Standing, Track
from nextcloud_mcp_server.settings import Settings
from nextcloud_mcp_server.settings_checks import SHORTEST_SECRET
from nextcloud_mcp_server.tools.state import State

logger = logging.getLogger(__name__)

MCP_PATH = "/mcp"

#: How long an idle connection stays open: some clients reuse sockets that were idle for a minute.
KEEP_ALIVE_SECONDS = 75


@dataclass(frozen=True, slots=True)
class Parts:
    """One server and what runs beside it."""

    mcp: MCPServer[Any]
    state: State
    core: LazyCore
    pending: Pending
    availability: Availability

    @asynccontextmanager
    async def running(self, *, resume: bool) -> AsyncGenerator[None]:
        """Run the background work around the serving."""
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.core.run(resume=resume))
            group.start_soon(self.pending.run)
            group.start_soon(self.availability.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()


def build(settings: Settings, *, page_url: Callable[[str], str] | None, outside: Outside) -> Parts:
    """Put the parts of a server together; nothing is opened yet.

    `page_url` makes the URL of our consent page from an elicitation's id; None, over stdio, sends
    people straight to Nextcloud.
    """
    url = str(cores.nextcloud_url(settings))
    specs = server.select(
        settings.enabled_toolsets, exclude=settings.exclude_tools, read_only=settings.read_only
    )
    bus = InMemorySubscriptionBus()

    def caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
        return personal_caller(url, wire.client_name(ctx))

    def open_() -> AbstractAsyncContextManager[Core]:
        return cores.open_core(settings, page_url=page_url, pending=pending, outside=outside)

    async def own_visit(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> Standing | None:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.find(elicitation_id, caller(ctx).principal) if provisioning else None

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.finished(elicitation_ids) if provisioning else list(elicitation_ids)

    lazy = LazyCore(open_)
    pending = Pending(finished)
    availability = Availability(server.facts(specs), lambda ctx: caller(ctx).principal, bus)
    state = State(
        core=lazy.get,
        caller=caller,
        pending=pending,
        notices=Notices(pending),
        availability=availability,
        dialect=settings.elicitation_dialect,
        hold_seconds=settings.hold_seconds,
        output_schemas=settings.output_schemas,
    )
    track = Track(own_visit, pending, timeout_seconds=settings.elicitation_timeout_seconds)
    mcp = server.create(
        specs, state, track, bus=bus, state_keys=lambda: cores.keys(settings).derive("request-state")
    )
    return Parts(mcp, state, lazy, pending, availability)


@dataclass(frozen=True, slots=True)
class Site:
    """Where an HTTP server is reached: by clients under `url`, by browsers under `public_url`."""

    url: str
    public_url: str

    @classmethod
    def of(cls, settings: Settings, host: str, port: int) -> "Site":
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


def bearer_secret(settings: Settings) -> SecretStr | None:
    """Read the secret that HTTP clients must send, or make it; None where the operator wants none.

    Raises:
        ConfigurationError: Its file cannot be read or made.
    """
    if settings.no_local_auth:
        return None
    if settings.nextcloud_mcp_secret is not None:
        return settings.nextcloud_mcp_secret
    from nextcloud_mcp_server.storage.crypto import load_or_create_key_file  # noqa: PLC0415 - HTTP only

    settings.open_data_dir()
    (secret, *_), made = load_or_create_key_file(settings.secret_file, variable="NEXTCLOUD_MCP_SECRET_FILE")
    if made:
        logger.warning("made the secret that HTTP clients must send: %s", settings.secret_file)
    if len(secret.get_secret_value()) < SHORTEST_SECRET:
        raise ConfigurationError(
            f"The secret in {settings.secret_file} is too short to be safe: delete the file, "
            "and a new one is made."
        )
    return secret


def build_http_app(settings: Settings, site: Site, *, outside: Outside) -> tuple[Any, Parts]:
    """Make the ASGI application: MCP, the pages, and the checks around both."""
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415 - HTTP only
    from starlette.applications import Starlette  # noqa: PLC0415 - HTTP only

    from nextcloud_mcp_server.web.middleware import WebConfig, guard  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.web.provision import Consent, NothingToAllow  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.web.routes import routes  # noqa: PLC0415 - HTTP only

    parts = build(settings, page_url=site.page_url, outside=outside)

    async def consent() -> Consent:
        return (await parts.core.get()).provisioning or NothingToAllow()

    # `guard` checks Host and Origin on every route, so the SDK need not check them on one.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp_app = parts.mcp.streamable_http_app(streamable_http_path=MCP_PATH, transport_security=security)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with parts.running(resume=_has_state(settings)), parts.mcp.session_manager.run():
            yield

    pages = routes(consent, csrf_keys=lambda: cores.keys(settings).derive("forms"), sandbox=settings.sandbox)
    app = Starlette(routes=[*mcp_app.routes, *pages], lifespan=lifespan)
    config = WebConfig(
        allowed_hosts=site.names(),
        allowed_origins=site.origins(),
        bearer_secret=bearer_secret(settings),
        secure_cookies=site.public_url.startswith("https://"),
        mcp_path=MCP_PATH,
    )
    return guard(app, config), parts


async def run_http(settings: Settings, host: str, port: int) -> None:
    """Serve over HTTP until somebody stops it."""
    import uvicorn  # noqa: PLC0415 - HTTP only

    async with _with_nextcloud(settings) as own:
        app, _ = build_http_app(own, Site.of(own, host, port), outside=Outside())
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=3,
        )
        async with _looking(own):
            await uvicorn.Server(config).serve()


async def run_stdio(settings: Settings) -> None:
    """Serve one client over stdin and stdout until it leaves."""
    async with _with_nextcloud(settings) as own:
        parts = build(own, page_url=None, outside=Outside())
        async with _looking(own), parts.running(resume=_has_state(own)):
            await parts.mcp.run_stdio_async()


@asynccontextmanager
async def _with_nextcloud(settings: Settings) -> AsyncGenerator[Settings]:
    """Name the Nextcloud to work on; with `--sandbox` one is started and named."""
    if not settings.sandbox:
        yield settings
        return
    from nextcloud_mcp_server.sandbox.app import Sandbox  # noqa: PLC0415 - only here
    from nextcloud_mcp_server.sandbox.serve import serving  # noqa: PLC0415 - only here

    async with serving(Sandbox.demo()) as url:
        yield settings.model_copy(update={"nextcloud_host": url})


@asynccontextmanager
async def _looking(settings: Settings) -> AsyncGenerator[None]:
    """Have the log say, while we serve, that the Nextcloud cannot be used; that never stops a start."""
    async with anyio.create_task_group() as group:
        group.start_soon(cores.look, settings, Outside())
        try:
            yield
        finally:
            group.cancel_scope.cancel()


@asynccontextmanager
async def open_core(settings: Settings) -> AsyncGenerator[tuple[Core, Pending]]:
    """Open the core for a command; its background work runs meanwhile."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return (
            await core.provisioning.finished(elicitation_ids) if core.provisioning else list(elicitation_ids)
        )

    pending = Pending(finished)
    async with (
        cores.open_core(settings, page_url=None, pending=pending, outside=Outside()) as core,
        anyio.create_task_group() as group,
    ):
        group.start_soon(core.run)
        group.start_soon(pending.run)
        try:
            yield core, pending
        finally:
            group.cancel_scope.cancel()


def _has_state(settings: Settings) -> bool:
    """Tell whether an earlier process may have left a visit or a deletion unfinished."""
    return Path(settings.database_address.partition(":///")[2].partition("?")[0]).exists()
