"""Mode `oidc`: users sign in at the operator's identity provider, which gives their clients tokens."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from nextcloud_mcp_server.auth.backchannel_logout import BackChannelLogout, OnLogout
from nextcloud_mcp_server.auth.consent.oidc_refresh import OidcRefresh
from nextcloud_mcp_server.auth.consent.oidc_sign_in import SignIn
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.discovery import Discovery, refuse_pairwise
from nextcloud_mcp_server.auth.ended_accounts import OnEnded
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from nextcloud_mcp_server.errors import IssuerUnavailable
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.multi_user import (
    MultiUserServices,
    nextcloud_oauth2,
    open_shared_services,
    run_periodically,
)
from nextcloud_mcp_server.server.services import Overrides, open_key_ring, open_pool_of
from nextcloud_mcp_server.settings.environment import Settings

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Issuer:
    """The operator's identity provider: asked about bearer tokens, and where users sign in."""

    discovery: Discovery
    keyset: KeySet
    outgoing: Outgoing

    @classmethod
    def of(cls, settings: Settings, outgoing: Outgoing) -> "Issuer":
        """Know its address; nothing is asked yet."""
        discovery = Discovery(settings.oidc_issuer or "", outgoing)
        return cls(discovery, KeySet(discovery, outgoing), outgoing)

    def client(self, settings: Settings) -> OAuthClient:
        """Say what it knows this server as."""
        return OAuthClient(settings.oidc_client_id or "", settings.oidc_client_secret)

    def verifier(self, settings: Settings, *, clock: Callable[[], datetime]) -> Verifier:
        """Make the verifier of the tokens that it issues for us."""
        config = VerifierConfig(
            audience=settings.audience,
            typ=frozenset(settings.oidc_token_types),
            identity_claim=settings.oidc_identity_claim,
            token_scopes=settings.token_scopes,
            scope_prefix=settings.scope_prefix,
        )
        asking = settings.introspection_client
        introspection = Introspection(self.discovery, self.outgoing, client=asking) if asking else None
        issuers = {self.discovery.issuer: self.keyset}
        return Verifier(config, issuers, introspection=introspection, clock=clock)


async def meet_issuer(settings: Settings, overrides: Overrides) -> None:
    """Look at start whether the identity provider can be used; one that is starting too is waited for.

    Raises:
        ConfigurationError: It answers, and can never be used with these settings.
    """
    async with open_pool_of(settings, overrides) as pool:
        try:
            metadata = await Issuer.of(settings, Outgoing(pool)).discovery.ready()
        except IssuerUnavailable as error:
            logger.warning("%s Nobody can sign in or call until it answers.", error)
            return
    refuse_pairwise(metadata, identity_claim=settings.oidc_identity_claim)


@dataclass(frozen=True, slots=True)
class OidcServices(MultiUserServices):
    """The services of a server whose identity provider may tell it of logouts."""

    logout: BackChannelLogout


@asynccontextmanager
async def open_services(
    settings: Settings,
    issuer: Issuer,
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    overrides: Overrides,
    on_logout: OnLogout,
    on_ended: OnEnded,
) -> AsyncGenerator[OidcServices]:
    """Open everything, and close it again.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """

    def provider_of(nextcloud: Nextcloud) -> RedirectProvider | None:
        return _provider(settings, nextcloud, issuer, clock=overrides.clock)

    async with open_shared_services(
        settings, provider_of, page_url=page_url, pending=pending, overrides=overrides, on_ended=on_ended
    ) as shared:
        consent_service = shared.consent_service(
            _sign_in(settings, issuer, shared.database, clock=shared.clock)
        )
        logout = BackChannelLogout(
            shared.database,
            issuer.keyset,
            issuer=issuer.discovery.issuer,
            client_id=settings.oidc_client_id or "",
            clock=shared.clock,
            on_logout=on_logout,
        )
        yield OidcServices(
            shared.database,
            shared.nextcloud,
            shared.accounts,
            shared.provisioning,
            shared.audit,
            shared.policy.bound,
            (
                *shared.work,
                logout.run,
                lambda: run_periodically(consent_service.tidy, shared.database.logouts.purge),
            ),
            consent_service,
            logout,
        )


def _provider(
    settings: Settings, nextcloud: Nextcloud, issuer: Issuer, *, clock: Callable[[], datetime]
) -> RedirectProvider | None:
    """Choose the provider that sends browsers back to us; Login Flow v2 never does."""
    match settings.grant_provider:
        case "oidc_refresh":
            return OidcRefresh(
                nextcloud,
                discovery=issuer.discovery,
                keyset=issuer.keyset,
                outgoing=issuer.outgoing,
                client=issuer.client(settings),
                redirect_uri=settings.grant_callback_url,
                clock=clock,
                resource=settings.nextcloud_resource,
                identity_claim=settings.oidc_identity_claim,
            )
        case "login_flow":
            return None
        case "nextcloud_oauth2":
            return nextcloud_oauth2(settings, nextcloud, clock=clock)


def _sign_in(
    settings: Settings, issuer: Issuer, database: "Database", *, clock: Callable[[], datetime]
) -> SignIn:
    return SignIn(
        discovery=issuer.discovery,
        keyset=issuer.keyset,
        outgoing=issuer.outgoing,
        client=issuer.client(settings),
        redirect_uri=settings.sign_in_callback_url,
        keys=open_key_ring(settings),
        clock=clock,
        spent_codes=database.spent_codes,
        identity_claim=settings.oidc_identity_claim,
        mapping_claim=settings.mapping_claim,
    )
