"""Mode `builtin`: this server is the authorization server of its clients, and users sign in with Nextcloud."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx2

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.authorization import Authorization
from nextcloud_mcp_server.auth.builtin.authorize_request import Requests
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import NextcloudSignIn
from nextcloud_mcp_server.auth.builtin.page_sign_in import PageSignIn
from nextcloud_mcp_server.auth.builtin.pinned import open_outside, resolve
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.builtin.upstream_check import UpstreamCheck
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.ended_accounts import OnEnded
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.multi_user import (
    MultiUserServices,
    SharedServices,
    nextcloud_oauth2,
    open_shared_services,
    run_periodically,
)
from nextcloud_mcp_server.server.services import Overrides, open_key_ring
from nextcloud_mcp_server.settings.environment import Settings


@dataclass(frozen=True, slots=True)
class BuiltinServices(MultiUserServices):
    """The services of a server that gives clients their tokens; `registration` is None where it is off."""

    authorization: Authorization
    clients: Clients
    registration: Registration | None
    tokens: Tokens


def open_documents(settings: Settings, overrides: Overrides) -> httpx2.AsyncClient:
    """Open the way to what clients say of themselves, at addresses that strangers name."""
    return open_outside(
        user_agent="nextcloud-mcp-server",
        inner=overrides.documents,
        resolve=overrides.resolve or resolve,
        proxy=settings.client_metadata_proxy,
    )


@asynccontextmanager
async def open_services(
    settings: Settings,
    documents: httpx2.AsyncClient,
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    overrides: Overrides,
    on_ended: OnEnded,
) -> AsyncGenerator[BuiltinServices]:
    """Open everything, and close it again; `documents` asks for what clients say of themselves.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """

    def provider_of(nextcloud: Nextcloud) -> RedirectProvider:
        return nextcloud_oauth2(settings, nextcloud, clock=overrides.clock)

    async with open_shared_services(
        settings, provider_of, page_url=page_url, pending=pending, overrides=overrides, on_ended=on_ended
    ) as shared:
        yield _services(shared, provider_of(shared.nextcloud), documents)


def _services(
    shared: SharedServices, provider: RedirectProvider, overrides: httpx2.AsyncClient
) -> BuiltinServices:
    settings, database, clock = shared.settings, shared.database, shared.clock
    tokens = _tokens(shared)
    sign_in = NextcloudSignIn(
        database,
        provider,
        outbox=shared.outbox,
        exchange_limiter=shared.exchange_limiter,
        issuer=settings.server_url,
        nextcloud_url=shared.policy.nextcloud_url,
        groups=frozenset(settings.allowed_groups),
        clock=clock,
    )
    allowed = AllowedClients(frozenset(settings.allowed_clients), frozenset(settings.denied_clients))
    clients = Clients(database.clients, clock=clock, allowed=allowed)
    documents = None
    if settings.client_metadata_documents:
        documents = ClientDocuments(database.clients, _rules(shared), overrides, clock=clock, hosts=allowed)
    authorization = _authorization(shared, _requests(shared, clients, documents), sign_in, tokens)
    consent_service = shared.consent_service(PageSignIn(database, sign_in), tokens=tokens)
    tidying = (consent_service.tidy, authorization.tidy, tokens.purge, clients.purge)
    registration = Registration(database.clients, _rules(shared), clock=clock)
    return BuiltinServices(
        database,
        shared.nextcloud,
        shared.accounts,
        shared.provisioning,
        shared.audit,
        shared.policy.bound,
        (*shared.work, lambda: run_periodically(*tidying)),
        consent_service,
        authorization,
        clients,
        registration if settings.client_registration else None,
        tokens,
    )


def _tokens(shared: SharedServices) -> Tokens:
    settings, database = shared.settings, shared.database
    groups = frozenset(settings.allowed_groups)
    check = UpstreamCheck(database, shared.nextcloud, shared.broker, groups=groups)
    return Tokens(
        database,
        issuer=settings.server_url,
        resource=settings.resource_url,
        keys=open_key_ring(settings),
        clock=shared.clock,
        grace=timedelta(seconds=settings.refresh_grace_seconds),
        lifetime=timedelta(days=settings.refresh_lifetime_days),
        still_allowed=check.still_allowed,
    )


def _authorization(
    shared: SharedServices, requests: Requests, sign_in: NextcloudSignIn, tokens: Tokens
) -> Authorization:
    return Authorization(
        shared.database,
        requests,
        sign_in,
        tokens,
        outbox=shared.outbox,
        keys=open_key_ring(shared.settings),
        issuer=shared.settings.server_url,
        nextcloud_url=shared.policy.nextcloud_url,
        clock=shared.clock,
        on_changed=shared.accounts.forget,
    )


def _rules(shared: SharedServices) -> ClientRules:
    settings = shared.settings
    return ClientRules(
        scopes=shared.policy.bound,
        private_schemes=frozenset(settings.private_schemes),
        plain_hosts=frozenset(settings.plain_hosts),
        at_sign_in=settings.asked_words.scopes_at_sign_in,
    )


def _requests(shared: SharedServices, clients: Clients, documents: ClientDocuments | None) -> Requests:
    settings = shared.settings
    return Requests(
        clients,
        documents,
        issuer=settings.server_url,
        resource=settings.resource_url,
        bound=shared.policy.bound,
        at_sign_in=settings.asked_words.scopes_at_sign_in,
    )
