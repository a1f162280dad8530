"""Mode `builtin`: users sign in with Nextcloud, and this server issues the tokens of their clients."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.authorization import Authorization
from nextcloud_mcp_server.auth.builtin.authorize_request import Requests
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.client_logos import ClientLogos
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.ended_sign_ins import SIGN_IN, EndedSignIns
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import NextcloudSignIn
from nextcloud_mcp_server.auth.builtin.page_sign_in import PageSignIn
from nextcloud_mcp_server.auth.builtin.pinned import open_outside, resolve
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.builtin.upstream_check import UpstreamCheck
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import IssuerUnavailable, StorageError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server.modes.multi_user import MultiUserAuth, MultiUserMode, nextcloud_oauth2
from nextcloud_mcp_server.server.public_urls import MCP_PATH
from nextcloud_mcp_server.server.services import Job, LazyServices, Overrides, Services, open_key_ring
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web import oauth_api
from nextcloud_mcp_server.web.caller import bearer_of
from nextcloud_mcp_server.web.client_limits import ClientLimits
from nextcloud_mcp_server.web.metadata import Resource

if TYPE_CHECKING:
    from starlette.routing import BaseRoute


@dataclass(frozen=True, slots=True)
class BuiltinAuth(MultiUserAuth):
    """Adds the parts of the authorization server; `registration` is None where it is off."""

    authorization: Authorization
    clients: Clients
    registration: Registration | None
    tokens: Tokens


def open_documents(settings: Settings, overrides: Overrides) -> httpx2.AsyncClient:
    """Open the HTTP client for metadata documents, whose addresses any client can name."""
    return open_outside(
        user_agent="nextcloud-mcp-server",
        inner=overrides.documents,
        resolve=overrides.resolve or resolve,
        proxy=settings.client_metadata_proxy,
    )


class Builtin(MultiUserMode[BuiltinAuth]):
    """Nextcloud signs users in; this server is the authorization server of their clients."""

    any_origin = oauth_api.OPEN_PATHS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._documents = open_documents(self.settings, self.overrides)
        self._groups = frozenset(self.settings.allowed_groups)

    @property
    def resource(self) -> Resource:
        """The MCP endpoint, whose tokens this server issues itself."""
        return Resource(self.settings.resource_url, (self.settings.server_url,), self.words.first)

    async def verify(self, services: LazyServices[BuiltinAuth], token: str) -> Bearer:
        """Verify a token that this server issued."""
        try:
            tokens = (await services.auth()).tokens
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return await tokens.verify(token)

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Return the user, the client and the sign-in of the access token."""
        bearer = bearer_of(ctx)
        return replace(super().caller(ctx), sign_in=None if bearer is None else str(bearer.claims[SIGN_IN]))

    def own_routes(self, services: LazyServices[BuiltinAuth]) -> "Sequence[BaseRoute]":
        """Build the endpoints of the authorization server."""
        settings = self.settings
        return oauth_api.oauth_routes(
            services.auth,
            issuer=settings.server_url,
            mcp_path=MCP_PATH,
            scopes=self.words.bound,
            registers=settings.client_registration,
            documents=settings.client_metadata_documents,
            limits=ClientLimits(self.limits),
        )

    def authorizations(self, services: LazyServices[BuiltinAuth]) -> Callable[[], Awaitable[Authorization]]:
        """Return the authorization server behind `/authorize`."""

        async def authorization() -> Authorization:
            return (await services.auth()).authorization

        return authorization

    def redirect_provider(self, nextcloud: Nextcloud) -> RedirectProvider:
        """Return Nextcloud's own OAuth app, at which users sign in and consent at once."""
        return nextcloud_oauth2(self.settings, nextcloud, clock=self.overrides.clock)

    def open_auth(self, services: Services) -> tuple[BuiltinAuth, Sequence[Job]]:
        """Create the sign-in with Nextcloud, and the parts of the authorization server."""
        settings, database, clock = self.settings, services.database, self.overrides.clock
        exchange_limiter = self.exchange_limiter(services)
        tokens, sign_in = self._tokens(services), self._sign_in(services, exchange_limiter)
        allowed = AllowedClients(frozenset(settings.allowed_clients), frozenset(settings.denied_clients))
        clients, rules = Clients(database.clients, clock=clock, allowed=allowed), self._rules(services)
        documents, logos = None, None
        if settings.client_metadata_documents:
            # The address cannot be checked through a proxy, and a page would show what is there.
            if settings.client_metadata_proxy is None:
                logos = ClientLogos(database.clients, self._documents, hosts=allowed)
            documents = ClientDocuments(database.clients, rules, self._documents, clock=clock, hosts=allowed)
        requests = self._requests(services, clients, documents)
        authorization = self._authorization(services, requests, sign_in, tokens, logos)
        page_sign_in = PageSignIn(database, sign_in)
        consent_service = self.consent_service(
            services, page_sign_in, exchange_limiter, tokens=tokens, logos=logos
        )
        registration = Registration(database.clients, rules, clock=clock)
        auth = BuiltinAuth(
            consent_service,
            authorization,
            clients,
            registration if settings.client_registration else None,
            tokens,
        )
        clean_up = (consent_service.clean_up, authorization.clean_up, tokens.purge, clients.purge)
        streams = self.connections.streams
        ended = EndedSignIns(database.oauth_tokens, streams=streams.tokens, end=streams.end)
        return auth, (*self.jobs(services, *clean_up), ended.run)

    def _sign_in(self, services: Services, exchange_limiter: ExchangeLimiter) -> NextcloudSignIn:
        return NextcloudSignIn(
            services.database,
            self.redirect_provider(services.nextcloud),
            outbox=services.outbox,
            exchange_limiter=exchange_limiter,
            issuer=self.settings.server_url,
            nextcloud_url=services.policy.nextcloud_url,
            groups=self._groups,
            clock=self.overrides.clock,
        )

    def _tokens(self, services: Services) -> Tokens:
        settings, database = self.settings, services.database
        check = UpstreamCheck(database, services.nextcloud, services.broker, groups=self._groups)
        return Tokens(
            database,
            issuer=settings.server_url,
            resource=settings.resource_url,
            keys=open_key_ring(settings),
            clock=self.overrides.clock,
            grace=timedelta(seconds=settings.refresh_grace_seconds),
            lifetime=timedelta(days=settings.refresh_lifetime_days),
            still_allowed=check.still_allowed,
        )

    def _authorization(
        self,
        services: Services,
        requests: Requests,
        sign_in: NextcloudSignIn,
        tokens: Tokens,
        logos: ClientLogos | None,
    ) -> Authorization:
        return Authorization(
            services.database,
            requests,
            sign_in,
            tokens,
            outbox=services.outbox,
            keys=open_key_ring(self.settings),
            issuer=self.settings.server_url,
            nextcloud_url=services.policy.nextcloud_url,
            clock=self.overrides.clock,
            on_changed=services.forget,
            logos=logos,
        )

    def _rules(self, services: Services) -> ClientRules:
        return ClientRules(
            scopes=services.bound,
            private_schemes=frozenset(self.settings.private_schemes),
            plain_hosts=frozenset(self.settings.plain_hosts),
            at_sign_in=self.scopes_at_sign_in,
        )

    def _requests(self, services: Services, clients: Clients, documents: ClientDocuments | None) -> Requests:
        return Requests(
            clients,
            documents,
            issuer=self.settings.server_url,
            resource=self.settings.resource_url,
            bound=services.bound,
            at_sign_in=self.scopes_at_sign_in,
        )

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Keep the HTTP client for metadata documents open."""
        async with self._documents:
            yield
