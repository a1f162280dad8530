"""The composition root: settings in, a running server out. The only place that builds things."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.assembly import (
    MCP_PATH,
    ModeHooks,
    PublicUrls,
    ServerParts,
    assemble,
    mcp_app,
)
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.services import (
    Overrides,
    Services,
    check_server,
    nextcloud_url_of,
    open_services,
    sub_keys,
)
from nextcloud_mcp_server.settings.checks import SHORTEST_SECRET
from nextcloud_mcp_server.settings.environment import Settings

if TYPE_CHECKING:
    from nextcloud_mcp_server.auth.consent.service import ConsentService

logger = logging.getLogger(__name__)


def build(settings: Settings, *, page_url: Callable[[str], str] | None, overrides: Overrides) -> ServerParts:
    """Put a server for one user together; nothing is opened yet.

    `page_url` makes the URL of our consent page from an elicitation's id; None, over stdio, sends
    users straight to Nextcloud.
    """
    url = str(nextcloud_url_of(settings))

    def open_(pending: Pending) -> AbstractAsyncContextManager[Services]:
        return open_services(settings, page_url=page_url, pending=pending, overrides=overrides)

    return assemble(settings, ModeHooks(lambda ctx: personal_caller(url, wire.client_name(ctx)), open_))


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


def build_http_app(
    settings: Settings, public_urls: PublicUrls, *, overrides: Overrides
) -> tuple[Any, ServerParts]:
    """Make the ASGI application: MCP, the pages, and the checks around both."""
    if settings.multi_user:
        from nextcloud_mcp_server.server.multi_user_app import build_multi_user_app  # noqa: PLC0415 - these modes only

        return build_multi_user_app(settings, public_urls, overrides=overrides)
    from nextcloud_mcp_server.web.middleware import WebConfig, guard  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.web.routes import routes  # noqa: PLC0415 - HTTP only

    parts = build(settings, page_url=public_urls.page_url, overrides=overrides)

    async def consent() -> "ConsentService":
        return cast("ConsentService", (await parts.services.get()).consent_service)

    secret = bearer_secret(settings)
    pages = routes(
        consent,
        csrf_keys=sub_keys(settings, "forms"),
        sandbox=settings.sandbox,
        secret=secret is not None,
    )
    app = mcp_app(parts, pages, running=lambda: parts.running(resume=has_state(settings)))
    config = WebConfig(
        allowed_hosts=public_urls.names(),
        allowed_origins=public_urls.origins(),
        bearer_secret=secret,
        secure_cookies=public_urls.public_url.startswith("https://"),
        mcp_path=MCP_PATH,
    )
    return guard(app, config), parts


async def run_http(settings: Settings, host: str, port: int) -> None:
    """Serve over HTTP until a user stops it."""
    import uvicorn  # noqa: PLC0415 - HTTP only

    from nextcloud_mcp_server.web.connections import ConnectionLimits, server_config  # noqa: PLC0415 - HTTP only

    async with _with_nextcloud(settings) as own:
        app, _ = build_http_app(own, PublicUrls.of(own, host, port), overrides=Overrides())
        config = server_config(app, ConnectionLimits(own.proxies), host=host, port=port)
        serving = uvicorn.Server(config)

        def stop() -> None:
            serving.should_exit = True

        async with _looking(own):
            await _meeting_issuer(own, serving.serve, stop)


async def run_stdio(settings: Settings) -> None:
    """Serve one client over stdin and stdout until it leaves."""
    async with _with_nextcloud(settings) as own:
        parts = build(own, page_url=None, overrides=Overrides())
        async with _looking(own), parts.running(resume=has_state(own)):
            await parts.mcp.run_stdio_async()


@asynccontextmanager
async def _with_nextcloud(settings: Settings) -> AsyncGenerator[Settings]:
    """Name the Nextcloud to work on; with `--sandbox` one is started and named."""
    if not settings.sandbox:
        yield settings
        return
    from nextcloud_mcp_server.sandbox.app import Sandbox  # noqa: PLC0415 - only here
    from nextcloud_mcp_server.sandbox.serve import serving  # noqa: PLC0415 - only here

    async with serving(Sandbox.demo(version=settings.sandbox_version)) as url:
        yield settings.model_copy(update={"nextcloud_host": url})


@asynccontextmanager
async def _looking(settings: Settings) -> AsyncGenerator[None]:
    """Have the log say, while we serve, that the Nextcloud cannot be used; that never stops a start."""
    async with anyio.create_task_group() as group:
        group.start_soon(check_server, settings, Overrides())
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def _meeting_issuer(
    settings: Settings, serve: Callable[[], Awaitable[None]], stop: Callable[[], None]
) -> None:
    """Serve, but stop when the identity provider turns out to be one that can never be used.

    Raises:
        ConfigurationError: That is so.
    """
    if settings.mode != "oidc":
        await serve()
        return
    from nextcloud_mcp_server.server.modes.oidc import meet_issuer  # noqa: PLC0415 - this mode only

    refused: list[ConfigurationError] = []

    async def meet() -> None:
        try:
            await meet_issuer(settings, Overrides())
        except ConfigurationError as error:
            refused.append(error)
            stop()

    async with anyio.create_task_group() as group:
        group.start_soon(meet)
        await serve()
        group.cancel_scope.cancel()
    if refused:
        raise refused[0]


@asynccontextmanager
async def running_services(settings: Settings) -> AsyncGenerator[tuple[Services, Pending]]:
    """Open the services for a command; its background work runs meanwhile."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return (
            await services.provisioning.finished(elicitation_ids)
            if services.provisioning
            else list(elicitation_ids)
        )

    pending = Pending(finished)
    async with (
        open_services(settings, page_url=None, pending=pending, overrides=Overrides()) as services,
        anyio.create_task_group() as group,
    ):
        group.start_soon(services.run)
        group.start_soon(pending.run)
        try:
            yield services, pending
        finally:
            group.cancel_scope.cancel()
