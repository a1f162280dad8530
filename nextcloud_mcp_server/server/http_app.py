"""The HTTP application of a server: the MCP endpoint, the pages, and the checks around both."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from nextcloud_mcp_server.server import free_memory, thread_turns
from nextcloud_mcp_server.server.composition import ServerParts, build_server
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.public_urls import MCP_PATH, PublicUrls
from nextcloud_mcp_server.server.readiness import parts_to_try
from nextcloud_mcp_server.server.services import Overrides, sub_keys
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.exchanges import Exchanges
from nextcloud_mcp_server.web.health import Readiness
from nextcloud_mcp_server.web.http_log import HttpLog
from nextcloud_mcp_server.web.middleware import guard
from nextcloud_mcp_server.web.open_streams import OpenStreamTracker
from nextcloud_mcp_server.web.sealed_sessions import SealedSessions
from nextcloud_mcp_server.web.session_ids import SessionIds
from nextcloud_mcp_server.web.stopping import StopState

if TYPE_CHECKING:
    from nextcloud_mcp_server.storage.ended_sessions import EndedSessionRepository


def build_http_app(
    settings: Settings,
    public_urls: PublicUrls,
    *,
    overrides: Overrides,
    stop_state: StopState | None = None,
) -> tuple[ASGIApp, ServerParts[Any]]:
    """Build the ASGI application of the mode in the settings; `stop_state` is what its server knows of its stop."""
    mode = mode_of(settings, public_urls, overrides)
    parts = build_server(mode)
    app = _mcp_app(parts, mode.routes(parts.services), stop_state or StopState())
    guarded = guard(mode.protect(app, parts.services), mode.web_config(public_urls))
    return HttpLog(parts.network.shows_cloud(guarded), mcp_path=MCP_PATH), parts


def mode_of(settings: Settings, public_urls: PublicUrls, overrides: Overrides) -> Mode[Any]:
    """Create the mode in the settings; its modules are imported only then."""
    match settings.mode:
        case "personal":
            return Personal(settings, public_urls.page_url, overrides)
        case "oidc":
            from nextcloud_mcp_server.server.modes.oidc import Oidc  # noqa: PLC0415 - this mode only

            return Oidc(settings, public_urls.page_url, overrides)
        case "builtin":
            from nextcloud_mcp_server.server.modes.builtin import Builtin  # noqa: PLC0415 - this mode only

            return Builtin(settings, public_urls.page_url, overrides)


def _mcp_app(parts: ServerParts[Any], pages: Sequence[BaseRoute], stop_state: StopState) -> Starlette:
    """Put the MCP endpoint and the pages into one application, which runs the background work."""
    sessions = _sessions(parts)
    readiness = Readiness(parts_to_try(parts), stop_state)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        with thread_turns.shortened():
            async with (
                parts.mode.connected(),
                parts.running(),
                readiness.measured(),
                sessions.run(),
                free_memory.given_back(),
            ):
                yield

    # These layers are for the endpoint alone, so no page passes them.
    exchanges = Exchanges(sessions.handle_request, stop_state)
    streams = OpenStreamTracker(exchanges, change_notifier=parts.availability.change_notifier)
    mcp_route = Route(MCP_PATH, endpoint=parts.mode.limit_sessions(streams))
    ready_route = Route("/readyz", readiness.readyz, methods=["GET"])
    return Starlette(routes=[mcp_route, ready_route, *pages], lifespan=lifespan)


def _sessions(parts: ServerParts[Any]) -> SealedSessions:
    """Create the sessions, whose ids are sealed as soon as there are keys."""
    settings = parts.mode.settings
    ids = SessionIds(sub_keys(settings, "sessions"), clock=parts.mode.overrides.clock)

    def sealed() -> SessionIds | None:
        # A single-user server creates keys and database with the first consent request.
        return ids if settings.multi_user or has_state(settings) else None

    async def ended() -> "EndedSessionRepository":
        return (await parts.services.get()).database.ended_sessions

    return SealedSessions(parts.mcp.lowlevel, ids=sealed, ended=ended)
