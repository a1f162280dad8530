"""The HTTP application of a server for many users: bearer tokens at the MCP endpoint, users on the pages."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.token_scopes import NO_SCOPES, AskedWords
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import IssuerUnavailable, StorageError
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.assembly import (
    MCP_PATH,
    ModeHooks,
    PublicUrls,
    ServerParts,
    assemble,
    mcp_app,
    select,
)
from nextcloud_mcp_server.server.multi_user import MultiUserServices
from nextcloud_mcp_server.server.services import Overrides, Services, open_pool_of, policy_of, sub_keys
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.bearer import BearerLayer, Verify
from nextcloud_mcp_server.web.caller import caller_of, scopes_of
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

    from nextcloud_mcp_server.auth.builtin.authorization import Authorization
    from nextcloud_mcp_server.web.oauth_api import Api


@dataclass(frozen=True, slots=True)
class AuthMode:
    """What depends on how users sign in and who gives their clients tokens.

    `routes` come before the pages; pages of other origins may ask below `any_origin`. `open` is
    around everything, for connections of its own.
    """

    open_services: Callable[[Pending], AbstractAsyncContextManager[Services]]
    verify: Verify
    resource: Resource
    open: Callable[[], AbstractAsyncContextManager[object]]
    words: AskedWords
    routes: "Sequence[BaseRoute]" = ()
    any_origin: tuple[str, ...] = ()
    authorizations: "Callable[[], Awaitable[Authorization]] | None" = None


#: Gives the opened services; opens it at the first call.
GetServices = Callable[[], Awaitable[MultiUserServices]]


def build_multi_user_app(
    settings: Settings, public_urls: PublicUrls, *, overrides: Overrides
) -> tuple[Any, ServerParts]:
    """Make the ASGI application; see `app.build_http_app`."""

    async def services() -> MultiUserServices:
        return cast("MultiUserServices", await parts.services.get())

    limits, connections = Limits(), OpenConnections()
    auth_mode = (
        _builtin(settings, public_urls, services, overrides, limits=limits, connections=connections)
        if settings.mode == "builtin"
        else _oidc(settings, public_urls, services, overrides, connections)
    )

    async def consent_service() -> ConsentService:
        return (await services()).consent_service

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        # Another replica, or the one before this, may have left something to be done.
        async with auth_mode.open(), parts.running(resume=True):
            yield

    hooks = ModeHooks(
        caller=caller_of,
        open_services=auth_mode.open_services,
        token_scopes=scopes_of,
        at_sign_in=auth_mode.words.scopes_at_sign_in,
    )
    parts = assemble(settings, hooks)
    pages = multi_user_routes(
        consent_service,
        keys=sub_keys(settings, "forms"),
        nextcloud_host=policy_of(settings, public_urls.page_url).nextcloud_host,
        mcp_url=auth_mode.resource.url,
        clock=overrides.clock,
        on_person=limits.person,
        authorizations=auth_mode.authorizations,
    )
    app = mcp_app(parts, [*metadata_routes(auth_mode.resource), *auth_mode.routes, *pages], running=running)
    layer = _bearer(app, settings, auth_mode, overrides, connections)
    known = KnownBrowsers(layer, keys=sub_keys(settings, "known-browsers"))

    async def spend(params: Params) -> None:
        await (await consent_service()).spend_if_known(params)

    limited = AddressLimits(known, limits, mcp_path=MCP_PATH, spend=spend)
    return guard(limited, _config(settings, public_urls, auth_mode)), parts


def _bearer(
    app: "ASGIApp",
    settings: Settings,
    auth_mode: AuthMode,
    overrides: Overrides,
    connections: OpenConnections,
) -> BearerLayer:
    return BearerLayer(
        connections.limit_sessions(app),
        resource=auth_mode.resource,
        verify=auth_mode.verify,
        needs=mcp_server.needs(select(settings)),
        clock=overrides.clock,
        words=auth_mode.words.for_call,
        mcp_path=MCP_PATH,
        streams=connections.streams,
        limiter=RequestLimiter(RequestRates(per_minute=settings.requests_per_minute)),
    )


def _config(settings: Settings, public_urls: PublicUrls, auth_mode: AuthMode) -> WebConfig:
    return WebConfig(
        allowed_hosts=public_urls.names(),
        allowed_origins=public_urls.origins(),
        bearer_secret=None,
        secure_cookies=public_urls.public_url.startswith("https://"),
        mcp_path=MCP_PATH,
        any_origin=(MCP_PATH, WELL_KNOWN, *auth_mode.any_origin),
        refuse_forwarded=False,
        proxies=settings.proxies,
    )


def _oidc(
    settings: Settings,
    public_urls: PublicUrls,
    services: GetServices,
    overrides: Overrides,
    connections: OpenConnections,
) -> AuthMode:
    """Leave signing in, and tokens, to the operator's identity provider."""
    from nextcloud_mcp_server.auth.outgoing import Outgoing  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.server.modes import oidc  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.web.backchannel import logout_route  # noqa: PLC0415 - this mode only

    pool = open_pool_of(settings, overrides)
    issuer = oidc.Issuer.of(settings, Outgoing(pool))
    verifier = issuer.verifier(settings, clock=overrides.clock)

    async def on_logout(ends: Callable[[Mapping[str, object]], bool]) -> None:
        verifier.forget()
        await connections.end(lambda bearer: ends(bearer.claims))

    def open_services(pending: Pending) -> AbstractAsyncContextManager[Services]:
        return oidc.open_services(
            settings,
            issuer,
            page_url=public_urls.page_url,
            pending=pending,
            overrides=overrides,
            on_logout=on_logout,
            on_ended=connections.end_of,
        )

    async def logout() -> oidc.BackChannelLogout:
        return cast("oidc.OidcServices", await services()).logout

    async def verify(token: str) -> Bearer:
        bearer = await verifier.verify(token)
        try:
            await (await logout()).check(bearer.claims)
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return bearer

    return AuthMode(
        open_services=open_services,
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
    public_urls: PublicUrls,
    services: GetServices,
    overrides: Overrides,
    *,
    limits: Limits,
    connections: OpenConnections,
) -> AuthMode:
    """Sign users in with Nextcloud, and give their clients tokens ourselves."""
    from nextcloud_mcp_server.server.modes import builtin  # noqa: PLC0415 - this mode only
    from nextcloud_mcp_server.web import oauth_api  # noqa: PLC0415 - this mode only

    documents = builtin.open_documents(settings, overrides)

    def open_services(pending: Pending) -> AbstractAsyncContextManager[Services]:
        return builtin.open_services(
            settings,
            documents,
            page_url=public_urls.page_url,
            pending=pending,
            overrides=overrides,
            on_ended=connections.end_of,
        )

    async def opened() -> builtin.BuiltinServices:
        return cast("builtin.BuiltinServices", await services())

    async def verify(token: str) -> Bearer:
        try:
            tokens = (await opened()).tokens
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return await tokens.verify(token)

    async def authorizations() -> "Authorization":
        return (await opened()).authorization

    words = settings.asked_words
    return AuthMode(
        open_services=open_services,
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
