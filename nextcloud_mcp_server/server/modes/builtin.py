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
from nextcloud_mcp_server.server import services
from nextcloud_mcp_server.server.multi_user import (
    Ground,
    MultiUserCore,
    nextcloud_oauth2,
    open_ground,
    run_periodically,
)
from nextcloud_mcp_server.server.services import Outside
from nextcloud_mcp_server.settings.environment import Settings


@dataclass(frozen=True, slots=True)
class BuiltinCore(MultiUserCore):
    """The core of a server that gives clients their tokens; `registration` is None where it is off."""

    authorization: Authorization
    clients: Clients
    registration: Registration | None
    tokens: Tokens


def open_documents(settings: Settings, outside: Outside) -> httpx2.AsyncClient:
    """Open the way to what clients say of themselves, at addresses that strangers name."""
    return open_outside(
        user_agent="nextcloud-mcp-server",
        inner=outside.documents,
        resolve=outside.resolve or resolve,
        proxy=settings.client_metadata_proxy,
    )


@asynccontextmanager
async def open_core(
    settings: Settings,
    documents: httpx2.AsyncClient,
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    outside: Outside,
    on_ended: OnEnded,
) -> AsyncGenerator[BuiltinCore]:
    """Open everything, and close it again; `documents` asks for what clients say of themselves.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """

    def provider_of(nextcloud: Nextcloud) -> RedirectProvider:
        return nextcloud_oauth2(settings, nextcloud, clock=outside.clock)

    async with open_ground(
        settings, provider_of, page_url=page_url, pending=pending, outside=outside, on_ended=on_ended
    ) as ground:
        yield _core(ground, provider_of(ground.nextcloud), documents)


def _core(ground: Ground, provider: RedirectProvider, outside: httpx2.AsyncClient) -> BuiltinCore:
    settings, database, clock = ground.settings, ground.database, ground.clock
    tokens = _tokens(ground)
    sign_in = NextcloudSignIn(
        database,
        provider,
        outbox=ground.outbox,
        exchange_limiter=ground.exchange_limiter,
        issuer=settings.server_url,
        nextcloud_url=ground.policy.nextcloud_url,
        groups=frozenset(settings.allowed_groups),
        clock=clock,
    )
    allowed = AllowedClients(frozenset(settings.allowed_clients), frozenset(settings.denied_clients))
    clients = Clients(database.clients, clock=clock, allowed=allowed)
    documents = None
    if settings.client_metadata_documents:
        documents = ClientDocuments(database.clients, _rules(ground), outside, clock=clock, hosts=allowed)
    authorization = _authorization(ground, _requests(ground, clients, documents), sign_in, tokens)
    consent_service = ground.consent_service(PageSignIn(database, sign_in), tokens=tokens)
    tidying = (consent_service.tidy, authorization.tidy, tokens.purge, clients.purge)
    registration = Registration(database.clients, _rules(ground), clock=clock)
    return BuiltinCore(
        database,
        ground.nextcloud,
        ground.accounts,
        ground.provisioning,
        ground.audit,
        ground.policy.bound,
        (*ground.work, lambda: run_periodically(*tidying)),
        consent_service,
        authorization,
        clients,
        registration if settings.client_registration else None,
        tokens,
    )


def _tokens(ground: Ground) -> Tokens:
    settings, database = ground.settings, ground.database
    groups = frozenset(settings.allowed_groups)
    check = UpstreamCheck(database, ground.nextcloud, ground.broker, groups=groups)
    return Tokens(
        database,
        issuer=settings.server_url,
        resource=settings.resource_url,
        keys=services.keys(settings),
        clock=ground.clock,
        grace=timedelta(seconds=settings.refresh_grace_seconds),
        lifetime=timedelta(days=settings.refresh_lifetime_days),
        still_allowed=check.still_allowed,
    )


def _authorization(
    ground: Ground, requests: Requests, sign_in: NextcloudSignIn, tokens: Tokens
) -> Authorization:
    return Authorization(
        ground.database,
        requests,
        sign_in,
        tokens,
        outbox=ground.outbox,
        keys=services.keys(ground.settings),
        issuer=ground.settings.server_url,
        nextcloud_url=ground.policy.nextcloud_url,
        clock=ground.clock,
        on_changed=ground.accounts.forget,
    )


def _rules(ground: Ground) -> ClientRules:
    settings = ground.settings
    return ClientRules(
        scopes=ground.policy.bound,
        private_schemes=frozenset(settings.private_schemes),
        plain_hosts=frozenset(settings.plain_hosts),
        at_sign_in=settings.asked_words.scopes_at_sign_in,
    )


def _requests(ground: Ground, clients: Clients, documents: ClientDocuments | None) -> Requests:
    settings = ground.settings
    return Requests(
        clients,
        documents,
        issuer=settings.server_url,
        resource=settings.resource_url,
        bound=ground.policy.bound,
        at_sign_in=settings.asked_words.scopes_at_sign_in,
    )
