"""Mode `builtin`: this server is the authorization server of its clients, and people sign in with Nextcloud."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx2

from nextcloud_mcp_server import core as cores
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
from nextcloud_mcp_server.auth.provider import RedirectProvider
from nextcloud_mcp_server.auth.visits import Visits
from nextcloud_mcp_server.core import Outside
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.people import Ground, PeopleCore, again_and_again, nextcloud_oauth2, open_ground
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.settings import Settings


@dataclass(frozen=True, slots=True)
class BuiltinCore(PeopleCore):
    """The core of a server that gives clients their tokens; `registration` is None where it is off."""

    authorization: Authorization
    clients: Clients
    registration: Registration | None
    tokens: Tokens


def open_documents(outside: Outside) -> httpx2.AsyncClient:
    """Open the way to what clients say of themselves, at addresses that strangers name."""
    return open_outside(
        user_agent="nextcloud-mcp-server", inner=outside.documents, resolve=outside.resolve or resolve
    )


@asynccontextmanager
async def open_core(
    settings: Settings,
    documents: httpx2.AsyncClient,
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    outside: Outside,
) -> AsyncGenerator[BuiltinCore]:
    """Open everything, and close it again; `documents` asks for what clients say of themselves.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """

    def provider_of(nextcloud: Nextcloud) -> RedirectProvider:
        return nextcloud_oauth2(settings, nextcloud, clock=outside.clock)

    async with open_ground(
        settings, provider_of, page_url=page_url, pending=pending, outside=outside
    ) as ground:
        yield _core(ground, provider_of(ground.nextcloud), documents)


def _core(ground: Ground, provider: RedirectProvider, outside: httpx2.AsyncClient) -> BuiltinCore:
    settings, database, clock = ground.settings, ground.database, ground.clock
    issuer, keys = settings.server_url, cores.keys(settings)
    grace = timedelta(seconds=settings.refresh_grace_seconds)
    tokens = Tokens(
        database, issuer=issuer, resource=settings.resource_url, keys=keys, clock=clock, grace=grace
    )
    sign_in = NextcloudSignIn(
        database,
        provider,
        outbox=ground.outbox,
        budget=ground.budget,
        issuer=issuer,
        nextcloud_url=ground.policy.nextcloud_url,
        groups=frozenset(settings.allowed_groups),
        clock=clock,
    )
    clients = Clients(database.clients, clock=clock)
    authorization = Authorization(
        database,
        _requests(ground, clients, outside),
        sign_in,
        tokens,
        outbox=ground.outbox,
        keys=keys,
        issuer=issuer,
        nextcloud_url=ground.policy.nextcloud_url,
        clock=clock,
        on_changed=ground.accounts.forget,
    )
    visits = Visits(
        database,
        ground.provisioning,
        PageSignIn(database, sign_in),
        provider,
        outbox=ground.outbox,
        policy=ground.policy,
        budget=ground.budget,
        clock=clock,
        on_changed=ground.accounts.forget,
        tokens=tokens,
    )
    tidying = (visits.tidy, authorization.tidy, tokens.purge, clients.purge)
    return BuiltinCore(
        database,
        ground.nextcloud,
        ground.accounts,
        ground.provisioning,
        ground.audit,
        ground.policy.bound,
        (*ground.work, lambda: again_and_again(*tidying)),
        visits,
        authorization,
        clients,
        Registration(database.clients, _rules(ground), clock=clock) if settings.client_registration else None,
        tokens,
    )


def _rules(ground: Ground) -> ClientRules:
    settings = ground.settings
    return ClientRules(
        scopes=ground.policy.bound,
        private_schemes=frozenset(settings.private_schemes),
        plain_hosts=frozenset(settings.plain_hosts),
    )


def _requests(ground: Ground, clients: Clients, outside: httpx2.AsyncClient) -> Requests:
    settings, records = ground.settings, ground.database.clients
    allowed = AllowedClients(frozenset(settings.allowed_clients), frozenset(settings.denied_clients))
    documents = ClientDocuments(records, _rules(ground), outside, clock=ground.clock, hosts=allowed)
    return Requests(
        clients,
        documents,
        allowed,
        issuer=settings.server_url,
        resource=settings.resource_url,
        bound=ground.policy.bound,
    )
