"""Runs a server over HTTP or stdio until it is stopped: settings in, a running server out.

`http_app` builds the HTTP application, `composition` the server itself, and `modes` what differs between the modes.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import anyio

from nextcloud_mcp_server.errors import ConfigurationError, NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server.composition import build_server
from nextcloud_mcp_server.server.loopback_pages import LoopbackPages
from nextcloud_mcp_server.server.measuring import exported
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides, nextcloud_url_of, open_pool_of
from nextcloud_mcp_server.settings.browser_reach import why_unreachable
from nextcloud_mcp_server.settings.environment import Settings, child_environment

logger = logging.getLogger(__name__)

#: Nextcloud is checked only after a client that has just started this server got its list of tools.
CHECK_SERVER_SECONDS = 3.0


async def run_http(settings: Settings, host: str, port: int, listening: Callable[[], None]) -> None:
    """Serve over HTTP until the operator stops the server; calls `listening` when it accepts connections.

    Raises:
        ConfigurationError: The database, the identity provider or a port can never be used with these settings.
        StorageError: The database can never be used.
    """
    from nextcloud_mcp_server.server.http_app import build_http_app  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.server.readiness import refuse_unusable_database  # noqa: PLC0415 - HTTP only
    from nextcloud_mcp_server.web import connections, stopping  # noqa: PLC0415 - HTTP only

    exports = ExitStack()
    async with with_nextcloud(settings) as own:
        with exports:
            # First: a port that is taken is refused before this server has made a file.
            exports.enter_context(exported(own))
            await refuse_unusable_database(own)
            stop_state = stopping.StopState()
            urls = PublicUrls.of(own, host, port)
            app, parts = build_http_app(own, urls, overrides=Overrides(), stop_state=stop_state)
            limits = connections.ConnectionLimits(own.proxies)
            config = connections.server_config(app, limits, host=host, port=port)
            config.timeout_graceful_shutdown = stopping.LAST_STREAMS_SECONDS
            serving = stopping.StoppingServer(
                config,
                stop_state,
                listening=listening,
                stopped=exports.close,
                drain_seconds=own.shutdown_drain_seconds,
                last_calls_seconds=stopping.LAST_CALLS_SECONDS,
            )

            def stop() -> None:
                serving.should_exit = True

            async with _checking_nextcloud(own):
                await _serve_checked(serving.serve, check=parts.mode.check_at_start, stop=stop)


async def run_stdio(settings: Settings, listening: Callable[[], None]) -> None:
    """Serve one client over stdin and stdout until it disconnects; calls `listening` before it reads."""
    async with with_nextcloud(settings) as own:
        pages = loopback_pages_of(own)
        parts = build_server(Personal.over_stdio(own, pages))
        async with _checking_nextcloud(own), parts.running(pages=pages):
            listening()
            say_why_no_page(own)
            await parts.mcp.run_stdio_async()


def loopback_pages_of(settings: Settings) -> LoopbackPages | None:
    """Return the consent page of a process without a web server; None where people go straight to Nextcloud."""
    if settings.consent_page == "nextcloud" or _why_unreachable(settings):
        return None
    return LoopbackPages()


def say_why_no_page(settings: Settings) -> None:
    """Log why people go straight to Nextcloud, where the operator did not choose it."""
    if reason := _why_unreachable(settings):
        logger.info(
            "%s, where no browser may reach its consent page: users go straight to Nextcloud, and allow all that the "
            "toolsets need. CONSENT_PAGE=loopback shows the page all the same.",
            reason[0].upper() + reason[1:],
        )


def _why_unreachable(settings: Settings) -> str | None:
    return why_unreachable(child_environment({})) if settings.consent_page == "auto" else None


@asynccontextmanager
async def with_nextcloud(settings: Settings) -> AsyncGenerator[Settings]:
    """Yield the settings with the address of a Nextcloud; with `--sandbox` one is started."""
    if not settings.sandbox:
        yield settings
        return
    from nextcloud_mcp_server.sandbox.app import Sandbox  # noqa: PLC0415 - only here
    from nextcloud_mcp_server.sandbox.serve import serving  # noqa: PLC0415 - only here

    async with serving(Sandbox.demo(version=settings.sandbox_version)) as url:
        yield settings.model_copy(update={"nextcloud_host": url})


@asynccontextmanager
async def _checking_nextcloud(settings: Settings) -> AsyncGenerator[None]:
    """Run `check_server` while the server serves."""
    async with anyio.create_task_group() as group:
        group.start_soon(check_server, settings, Overrides())
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def check_server(
    settings: Settings, overrides: Overrides, *, after_seconds: float = CHECK_SERVER_SECONDS
) -> None:
    """Check Nextcloud once after the start, and log what is wrong with it; the server serves in any case."""
    await anyio.sleep(after_seconds)
    url = nextcloud_url_of(settings)
    try:
        async with open_pool_of(settings, overrides) as pool:
            info = await Nextcloud(url, pool).server_info()
    except NextcloudMcpError as error:
        logger.warning("%s To check the set-up: nextcloud-mcp-server doctor --nextcloud %s", error, url)
        return
    if info.maintenance:
        logger.warning("This Nextcloud is in maintenance mode; calls will fail until that ends.")


async def _serve_checked(
    serve: Callable[[], Awaitable[None]], *, check: Callable[[], Awaitable[None]], stop: Callable[[], None]
) -> None:
    """Serve, and stop when the check at the start finds that the server can never be used.

    Raises:
        ConfigurationError: The check found that.
    """
    refused: list[ConfigurationError] = []

    async def checked() -> None:
        try:
            await check()
        except ConfigurationError as error:
            refused.append(error)
            stop()

    async with anyio.create_task_group() as group:
        group.start_soon(checked)
        await serve()
        group.cancel_scope.cancel()
    if refused:
        raise refused[0]
