"""The HTTP application of a server for many users: bearer tokens at the MCP endpoint, users on the pages."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from nextcloud_mcp_server.auth.token_scopes import NO_SCOPES, AskedWords
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import IssuerUnavailable, StorageError
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server import mcp_server, services
from nextcloud_mcp_server.server.assembly import MCP_PATH, Front, Parts, Site, assemble, mcp_app, select
from nextcloud_mcp_server.server.multi_user import MultiUserCore
from nextcloud_mcp_server.server.services import Core, Outside
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.authorizations import Authorizations
from nextcloud_mcp_server.web.bearer import BearerLayer, Verify
from nextcloud_mcp_server.web.caller import caller_of, scopes_of
from nextcloud_mcp_server.web.consent_backend import ConsentBackend, Params
from nextcloud_mcp_server.web.known_browser import KnownBrowsers
from nextcloud_mcp_server.web.limits import AddressLimits, Limits
from nextcloud_mcp_server.web.metadata import WELL_KNOWN, Resource, metadata_routes
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.open_connections import OpenConnections
from nextcloud_mcp_server.web.request_limiter import RequestLimiter, RequestRates
from nextcloud_mcp_server.web.routes import multi_user_routes

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from nextcloud_mcp_server.web.oauth_api import Api


@dataclass(frozen=True, slots=True)
class Way:
    """What depends on how users sign in and who gives their clients tokens.

    `routes` come before the pages; pages of other origins may ask below `any_origin`. `open` is
    around everything, for connections of its own.
    """

    open_core: Callable[[Pending], AbstractAsyncContextManager[Core]]
    verify: Verify
    resource: Resource
    open: Callable[[], AbstractAsyncContextManager[object]]
    words: AskedWords
    routes: "Sequence[BaseRoute]" = ()
    any_origin: tuple[str, ...] = ()
    authorizations: Callable[[], Awaitable[Authorizations]] | None = None


#: Gives the opened core; opens it at the first call.
GetCore = Callable[[], Awaitable[MultiUserCore]]


def build_multi_user_app(settings: Settings, site: Site, *, outside: Outside) -> tuple[Any, Parts]:
    """Make the ASGI application; see `app.build_http_app`."""

    async def core() -> MultiUserCore:
        return cast("MultiUserCore", await parts.core.get())

    limits, connections = Limits(), OpenConnections()
    way = (
        _builtin(settings, site, core, outside, limits=limits, connections=connections)
        if settings.mode == "builtin"
        else _oidc(settings, site, core, outside, connections)
    )

    async def consent_service() -> ConsentBackend:
        return (await core()).consent_service

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        # Another replica, or the one before this, may have left something to be done.
        async with way.open(), parts.running(resume=True):
            yield

    front = Front(
        caller=caller_of,
        open_core=way.open_core,
        token_scopes=scopes_of,
        at_sign_in=way.words.scopes_at_sign_in,
    )
    parts = assemble(settings, front)
    pages = multi_user_routes(
        consent_service,
        keys=lambda: services.keys(settings).derive("forms"),
        nextcloud_host=services.policy_of(settings, site.page_url).nextcloud_host,
        mcp_url=way.resource.url,
        clock=outside.clock,
        on_person=limits.person,
        authorizations=way.authorizations,
    )
    app = mcp_app(parts, [*metadata_routes(way.resource), *way.routes, *pages], running=running)
    layer = _bearer(app, settings, way, outside, connections)
    known = KnownBrowsers(layer, keys=lambda: services.keys(settings).derive("known-browsers"))

    async def spend(params: Params) -> None:
        await (await consent_service()).spend_if_known(params)

    limited = AddressLimits(known, limits, mcp_path=MCP_PATH, spend=spend)
    return guard(limited, _config(settings, site, way)), parts


def _bearer(
    app: "ASGIApp", settings: Settings, way: Way, outside: Outside, connections: OpenConnections
) -> BearerLayer:
    return BearerLayer(
        connections.limit_sessions(app),
        resource=way.resource,
        verify=way.verify,
        needs=mcp_server.needs(select(settings)),
        clock=outside.clock,
        words=way.words.for_call,
        mcp_path=MCP_PATH,
        streams=connections.streams,
        limiter=RequestLimiter(RequestRates(per_minute=settings.requests_per_minute)),
    )


def _config(settings: Settings, site: Site, way: Way) -> WebConfig:
    return WebConfig(
        allowed_hosts=site.names(),
        allowed_origins=site.origins(),
        bearer_secret=None,
        secure_cookies=site.public_url.startswith("https://"),
        mcp_path=MCP_PATH,
        any_origin=(MCP_PATH, WELL_KNOWN, *way.any_origin),
        refuse_forwarded=False,
        proxies=settings.proxies,
    )


def _oidc(
    settings: Settings, site: Site, core: GetCore, outside: Outside, connections: OpenConnections
) -> Way:
    """Leave signing in, and tokens, to the operator's identity provider."""
    from nextcloud_mcp_server.auth.outgoing import Outgoing  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.server.modes import oidc  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.web.backchannel import logout_route  # noqa: PLC0415 - this mode only

    pool = services.open_pool_of(settings, outside)
    issuer = oidc.Issuer.of(settings, Outgoing(pool))
    verifier = issuer.verifier(settings, clock=outside.clock)

    async def on_logout(ends: Callable[[Mapping[str, object]], bool]) -> None:
        verifier.forget()
        await connections.end(lambda bearer: ends(bearer.claims))

    def open_core(pending: Pending) -> AbstractAsyncContextManager[Core]:
        return oidc.open_core(
            settings,
            issuer,
            page_url=site.page_url,
            pending=pending,
            outside=outside,
            on_logout=on_logout,
            on_ended=connections.end_of,
        )

    async def logout() -> oidc.BackChannelLogout:
        return cast("oidc.OidcCore", await core()).logout

    async def verify(token: str) -> Bearer:
        bearer = await verifier.verify(token)
        try:
            await (await logout()).check(bearer.claims)
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return bearer

    return Way(
        open_core=open_core,
        verify=verify,
        resource=Resource(settings.resource_url, (settings.oidc_issuer or "",), _first_words(settings)),
        open=lambda: pool,
        words=settings.asked_words,
        routes=[logout_route(logout)],
    )


def _first_words(settings: Settings) -> tuple[str, ...]:
    # Where tokens need not name our scopes, asking an issuer for them would only fail.
    ignored = settings.token_scopes == "ignore"  # noqa: S105 - the setting's value is no password
    return NO_SCOPES if ignored else settings.asked_words.first


def _builtin(
    settings: Settings,
    site: Site,
    core: GetCore,
    outside: Outside,
    *,
    limits: Limits,
    connections: OpenConnections,
) -> Way:
    """Sign users in with Nextcloud, and give their clients tokens ourselves."""
    from nextcloud_mcp_server.server.modes import builtin  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.web import oauth_api  # noqa: PLC0415 - this mode only

    documents = builtin.open_documents(settings, outside)

    def open_core(pending: Pending) -> AbstractAsyncContextManager[Core]:
        return builtin.open_core(
            settings,
            documents,
            page_url=site.page_url,
            pending=pending,
            outside=outside,
            on_ended=connections.end_of,
        )

    async def opened() -> builtin.BuiltinCore:
        return cast("builtin.BuiltinCore", await core())

    async def verify(token: str) -> Bearer:
        try:
            tokens = (await opened()).tokens
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return await tokens.verify(token)

    async def authorizations() -> Authorizations:
        return (await opened()).authorization

    words = settings.asked_words
    return Way(
        open_core=open_core,
        verify=verify,
        resource=Resource(settings.resource_url, (settings.server_url,), words.first),
        open=lambda: documents,
        words=words,
        routes=_oauth_routes(opened, settings, words.bound, limits),
        any_origin=oauth_api.OPEN_PATHS,
        authorizations=authorizations,
    )


def _oauth_routes(
    api: "Callable[[], Awaitable[Api]]", settings: Settings, scopes: frozenset[str], limits: Limits
) -> "list[BaseRoute]":
    from nextcloud_mcp_server.web import oauth_api  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.web.client_limits import ClientLimits  # noqa: PLC0415 - this mode only

    return oauth_api.oauth_routes(
        api,
        issuer=settings.server_url,
        mcp_path=MCP_PATH,
        scopes=scopes,
        registers=settings.client_registration,
        documents=settings.client_metadata_documents,
        limits=ClientLimits(limits),
    )
