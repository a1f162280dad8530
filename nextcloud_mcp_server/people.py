"""Mode `oidc`: what is built for many people, each with a token of the operator's identity provider."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server import core as cores
from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.budget import RedemptionBudget
from nextcloud_mcp_server.auth.discovery import Discovery, refuse_pairwise
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.oidc_refresh import OidcRefresh
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.provider import RedirectProvider
from nextcloud_mcp_server.auth.shared_provisioning import SharedProvisioning
from nextcloud_mcp_server.auth.sign_in import SignIn
from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from nextcloud_mcp_server.auth.visits import Visits
from nextcloud_mcp_server.core import Core, Outside
from nextcloud_mcp_server.errors import IssuerUnavailable
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.settings import Settings

logger = logging.getLogger(__name__)

#: How often what ran out is ended and forgotten.
TIDY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PeopleCore(Core):
    """The core of a server for many people, whose pages know them."""

    visits: Visits


@dataclass(frozen=True, slots=True)
class Issuer:
    """The operator's identity provider: asked about bearer tokens, and where people sign in."""

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


async def meet_issuer(settings: Settings, outside: Outside) -> None:
    """Look at start whether the identity provider can be used; one that is starting too is waited for.

    Raises:
        ConfigurationError: It answers, and can never be used with these settings.
    """
    async with cores.open_pool_of(settings, outside) as pool:
        try:
            metadata = await Issuer.of(settings, Outgoing(pool)).discovery.ready()
        except IssuerUnavailable as error:
            logger.warning("%s Nobody can sign in or call until it answers.", error)
            return
    refuse_pairwise(metadata, identity_claim=settings.oidc_identity_claim)


@asynccontextmanager
async def open_core(
    settings: Settings,
    issuer: Issuer,
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    outside: Outside,
) -> AsyncGenerator[PeopleCore]:
    """Open everything, and close it again.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """
    clock, policy = outside.clock, cores.policy_of(settings, page_url)
    async with (
        cores.open_database(settings, clock=clock) as database,
        cores.open_pool_of(settings, outside) as pool,
    ):
        nextcloud = Nextcloud(cores.nextcloud_url(settings), pool, public_url=cores.public_url_of(settings))
        app_passwords = LoginFlowProvider(nextcloud, database, clock=clock)
        provider = _provider(settings, nextcloud, issuer, clock=clock)
        provisioning = SharedProvisioning(
            database, app_passwords, policy, clock=clock, on_finished=pending.finish
        )
        providers = {} if provider is None else {provider.name: provider}
        outbox = Outbox(database, app_passwords, clock=clock, within=None, redirects=providers)
        audit, broker = AuditLog(database, clock=clock), Broker(database, providers, clock=clock)
        url = f"{settings.server_url}/account"
        accounts = GrantedAccounts(
            database, nextcloud, provisioning, outbox, audit, broker=broker, account_url=url
        )
        visits = Visits(
            database,
            provisioning,
            _sign_in(settings, issuer, clock=clock),
            provider,
            outbox=outbox,
            policy=policy,
            budget=RedemptionBudget(database, clock=clock),
            clock=clock,
            on_changed=accounts.forget,
        )
        # Also where the settings name another way now: a flow of before them is taken to its end.
        wake = app_passwords.next_start
        poller = Poller(
            database, app_passwords, provisioning, clock=clock, wake=wake, outbox=outbox, within=None
        )
        work = (poller.run, outbox.run, audit.run, lambda: _tidy(visits), *cores.listening(database, pending))
        yield PeopleCore(database, nextcloud, accounts, provisioning, audit, policy.bound, work, visits)


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
            pass
    return NextcloudOAuth2(
        nextcloud,
        client_id=settings.nextcloud_oauth_client_id or "",
        client_secret=settings.nextcloud_oauth_client_secret or SecretStr(""),
        redirect_uri=settings.grant_callback_url,
        clock=clock,
    )


def _sign_in(settings: Settings, issuer: Issuer, *, clock: Callable[[], datetime]) -> SignIn:
    return SignIn(
        discovery=issuer.discovery,
        keyset=issuer.keyset,
        outgoing=issuer.outgoing,
        client=issuer.client(settings),
        redirect_uri=settings.sign_in_callback_url,
        keys=cores.keys(settings),
        clock=clock,
        identity_claim=settings.oidc_identity_claim,
        mapping_claim=settings.mapping_claim,
    )


async def _tidy(visits: Visits) -> None:
    while True:
        try:
            await visits.tidy()
        except Exception:  # a supervisor: a database that is busy once must not end the tidying
            logger.exception("what ran out could not be ended; trying again")
        await anyio.sleep(TIDY_SECONDS)
