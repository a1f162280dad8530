"""The HTTP application of mode `oidc`: bearer tokens at the MCP endpoint, signed-in people on the pages."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

from nextcloud_mcp_server import core as cores
from nextcloud_mcp_server import oidc
from nextcloud_mcp_server.assembly import MCP_PATH, Front, Parts, Site, assemble, mcp_app, select
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.scopes import offered
from nextcloud_mcp_server.auth.token_scopes import NO_SCOPES, asked
from nextcloud_mcp_server.core import Core, Outside
from nextcloud_mcp_server.oidc import Issuer
from nextcloud_mcp_server.people import PeopleCore
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.settings import Settings
from nextcloud_mcp_server.web.bearer import BearerLayer
from nextcloud_mcp_server.web.caller import caller_of, scopes_of
from nextcloud_mcp_server.web.limits import AddressLimits, Limits
from nextcloud_mcp_server.web.metadata import WELL_KNOWN, Resource, metadata_routes
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.routes import people_routes
from nextcloud_mcp_server.web.visits import Visits


def build_people_app(settings: Settings, site: Site, *, outside: Outside) -> tuple[Any, Parts]:
    """Make the ASGI application; see `app.build_http_app`."""
    pool = cores.open_pool_of(settings, outside)
    issuer = Issuer.of(settings, Outgoing(pool))

    def open_core(pending: Pending) -> AbstractAsyncContextManager[Core]:
        return oidc.open_core(settings, issuer, page_url=site.page_url, pending=pending, outside=outside)

    async def visits() -> Visits:
        return cast("PeopleCore", await parts.core.get()).visits

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        # Another replica, or the one before this, may have left something to be done.
        async with pool, parts.running(resume=True):
            yield

    parts = assemble(settings, Front(caller=caller_of, open_core=open_core, token_scopes=scopes_of))
    resource, limits = _resource(settings), Limits()
    pages = people_routes(
        visits,
        keys=lambda: cores.keys(settings).derive("forms"),
        nextcloud_host=cores.policy_of(settings, site.page_url).nextcloud_host,
        mcp_url=resource.url,
        clock=outside.clock,
        on_person=limits.person,
    )
    app = mcp_app(parts, [*metadata_routes(resource), *pages], running=running)
    needs = {spec.name: spec.scopes for spec in select(settings)}
    verifier = issuer.verifier(settings, clock=outside.clock)
    bearer = BearerLayer(
        app,
        resource=resource,
        verify=verifier.verify,
        needs=lambda tool: needs.get(tool, frozenset()),
        scope_prefix=settings.scope_prefix,
        mcp_path=MCP_PATH,
    )
    config = WebConfig(
        allowed_hosts=site.names(),
        allowed_origins=site.origins(),
        bearer_secret=None,
        secure_cookies=site.public_url.startswith("https://"),
        mcp_path=MCP_PATH,
        any_origin=(MCP_PATH, WELL_KNOWN),
        refuse_forwarded=False,
        proxies=settings.proxies,
    )
    return guard(AddressLimits(bearer, limits, mcp_path=MCP_PATH), config), parts


def _resource(settings: Settings) -> Resource:
    bound = offered(settings.enabled_toolsets, read_only=settings.read_only)
    # Where tokens need not name our scopes, asking an issuer for them would only fail.
    limited = settings.token_scopes != "ignore"  # noqa: S105 - the setting's value is no password
    scopes = asked(bound, prefix=settings.scope_prefix) if limited else NO_SCOPES
    return Resource(settings.resource_url, (settings.oidc_issuer or "",), scopes)
