"""Mode `oidc`: users sign in at the operator's identity provider, which issues the tokens of their clients."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nextcloud_mcp_server.auth.backchannel_logout import BackChannelLogout
from nextcloud_mcp_server.auth.consent.oidc_refresh import OidcRefresh
from nextcloud_mcp_server.auth.consent.oidc_sign_in import SignIn
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.discovery import Discovery, refuse_pairwise
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.token_scopes import NO_SCOPES
from nextcloud_mcp_server.auth.verifier import Bearer, Verifier, VerifierConfig
from nextcloud_mcp_server.errors import IssuerUnavailable, StorageError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server.modes.multi_user import MultiUserAuth, MultiUserMode, nextcloud_oauth2
from nextcloud_mcp_server.server.services import (
    Job,
    LazyServices,
    Services,
    open_key_ring,
    open_pool_of,
)
from nextcloud_mcp_server.web.backchannel import logout_route
from nextcloud_mcp_server.web.health import Try
from nextcloud_mcp_server.web.metadata import Resource

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OidcAuth(MultiUserAuth):
    """Adds the receiver of the identity provider's logout messages."""

    logout: BackChannelLogout


class Oidc(MultiUserMode[OidcAuth]):
    """The identity provider signs users in, and issues and ends the tokens of their clients."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settings = self.settings
        self._pool = open_pool_of(settings, self.overrides)
        self._outgoing = Outgoing(self._pool)
        self._discovery = Discovery(settings.oidc_issuer or "", self._outgoing)
        self._keyset = KeySet(self._discovery, self._outgoing)
        self._client = OAuthClient(settings.oidc_client_id or "", settings.oidc_client_secret)
        self._verifier = self._create_verifier()

    def _create_verifier(self) -> Verifier:
        settings = self.settings
        config = VerifierConfig(
            audience=settings.audience,
            typ=frozenset(settings.oidc_token_types),
            identity_claim=settings.oidc_identity_claim,
            token_scopes=settings.token_scopes,
            scope_prefix=settings.scope_prefix,
        )
        client = settings.introspection_client
        introspection = Introspection(self._discovery, self._outgoing, client=client) if client else None
        issuers = {self._discovery.issuer: self._keyset}
        return Verifier(config, issuers, introspection=introspection, clock=self.overrides.clock)

    @property
    def resource(self) -> Resource:
        """The MCP endpoint, whose tokens the identity provider issues."""
        settings = self.settings
        # Where tokens need not name our scopes, an identity provider would only refuse a request for them.
        ignored = settings.token_scopes == "ignore"  # noqa: S105 - the setting's value is no password
        words = NO_SCOPES if ignored else self.words.first
        return Resource(settings.resource_url, (settings.oidc_issuer or "",), words)

    async def verify(self, services: LazyServices[OidcAuth], token: str) -> Bearer:
        """Verify a token of the identity provider, and that it was not ended by a logout."""
        bearer = await self._verifier.verify(token)
        try:
            await (await services.auth()).logout.check(bearer.claims, introspected=bearer.introspected)
        except StorageError as error:
            raise IssuerUnavailable(str(error)) from None
        return bearer

    def own_routes(self, services: LazyServices[OidcAuth]) -> "Sequence[BaseRoute]":
        """Build the endpoint for logout messages."""

        async def logout() -> BackChannelLogout:
            return (await services.auth()).logout

        return [logout_route(logout)]

    def redirect_provider(self, nextcloud: Nextcloud) -> RedirectProvider | None:
        """Return the provider that the setting `GRANT_PROVIDER` names; Login Flow v2 sends no browser back."""
        settings, clock = self.settings, self.overrides.clock
        match settings.grant_provider:
            case "oidc_refresh":
                return OidcRefresh(
                    nextcloud,
                    discovery=self._discovery,
                    keyset=self._keyset,
                    outgoing=self._outgoing,
                    client=self._client,
                    redirect_uri=settings.grant_callback_url,
                    clock=clock,
                    resource=settings.nextcloud_resource,
                    identity_claim=settings.oidc_identity_claim,
                )
            case "login_flow":
                return None
            case "nextcloud_oauth2":
                return nextcloud_oauth2(settings, nextcloud, clock=clock)

    def open_auth(self, services: Services) -> tuple[OidcAuth, Sequence[Job]]:
        """Create the sign-in at the identity provider, and the receiver of its logout messages."""
        database = services.database
        sign_in = self._sign_in(services)
        consent_service = self.consent_service(services, sign_in, self.exchange_limiter(services))
        logout = BackChannelLogout(
            database,
            self._keyset,
            issuer=self._discovery.issuer,
            client_id=self.settings.oidc_client_id or "",
            clock=self.overrides.clock,
            on_logout=self._end_tokens,
        )
        jobs = self.jobs(services, consent_service.clean_up, database.logouts.purge)
        return OidcAuth(consent_service, logout), (*jobs, logout.run)

    def _sign_in(self, services: Services) -> SignIn:
        settings = self.settings
        return SignIn(
            discovery=self._discovery,
            keyset=self._keyset,
            outgoing=self._outgoing,
            client=self._client,
            redirect_uri=settings.sign_in_callback_url,
            keys=open_key_ring(settings),
            clock=self.overrides.clock,
            spent_codes=services.database.spent_codes,
            identity_claim=settings.oidc_identity_claim,
            mapping_claim=settings.mapping_claim,
        )

    async def _end_tokens(self, ends: Callable[[Mapping[str, object]], bool]) -> None:
        """End the open connections whose tokens a logout ended."""
        self._verifier.forget()
        await self.connections.end(lambda bearer: ends(bearer.claims))

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Keep the connections to the identity provider open."""
        async with self._pool:
            yield

    def parts_to_try(self) -> Mapping[str, Try]:
        """Return how to try the identity provider; its metadata is fetched each time."""

        async def issuer() -> None:
            async with open_pool_of(self.settings, self.overrides) as pool:
                await Discovery(self.settings.oidc_issuer or "", Outgoing(pool)).get()

        return {"issuer": issuer}

    async def check_at_start(self) -> None:
        """Check whether the identity provider can be used; wait for one that is not ready yet.

        Raises:
            ConfigurationError: It can never be used with these settings.
        """
        # The connections of the application are closed until it serves, so this uses its own.
        async with open_pool_of(self.settings, self.overrides) as pool:
            try:
                metadata = await Discovery(self.settings.oidc_issuer or "", Outgoing(pool)).ready()
            except IssuerUnavailable as error:
                logger.warning("%s No user can sign in or call until it answers.", error)
                return
        refuse_pairwise(metadata, identity_claim=self.settings.oidc_identity_claim)
