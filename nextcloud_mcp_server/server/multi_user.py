"""What every server for many users stands on, however they sign in."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import SecretStr

from nextcloud_mcp_server.auth.account_page import ClientTokens
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provider import RedirectProvider
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.consent.sign_in_flow import SignInFlow
from nextcloud_mcp_server.auth.ended_accounts import EndedAccounts, OnEnded
from nextcloud_mcp_server.auth.multi_user_accounts import MultiUserAccounts
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.services import (
    Overrides,
    Services,
    listening_jobs,
    nextcloud_url_of,
    open_database,
    open_pool_of,
    policy_of,
    public_url_of,
)
from nextcloud_mcp_server.settings.environment import Settings

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)

#: How often what ran out is ended and forgotten.
TIDY_SECONDS = 30.0

Job = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class MultiUserServices(Services):
    """The services of a server for many users, whose pages know them."""

    consent_service: ConsentService


@dataclass(frozen=True, slots=True)
class SharedServices:
    """The opened parts that do not depend on how users sign in; `work` runs in the background."""

    settings: Settings
    clock: Callable[[], datetime]
    policy: Policy
    database: "Database"
    nextcloud: Nextcloud
    provider: RedirectProvider | None
    provisioning: Provisioning
    outbox: Outbox
    audit: AuditLog
    accounts: MultiUserAccounts
    broker: Broker
    exchange_limiter: ExchangeLimiter
    work: tuple[Job, ...]

    def consent_service(
        self, sign_in: SignInFlow[Any], *, tokens: ClientTokens | None = None
    ) -> ConsentService:
        """Put together what is behind the pages, for users who sign in this way."""
        return ConsentService(
            self.database,
            self.provisioning,
            sign_in,
            self.provider,
            outbox=self.outbox,
            policy=self.policy,
            exchange_limiter=self.exchange_limiter,
            clock=self.clock,
            on_changed=self.accounts.forget,
            tokens=tokens,
        )


@asynccontextmanager
async def open_shared_services(
    settings: Settings,
    provider_of: Callable[[Nextcloud], RedirectProvider | None],
    *,
    page_url: Callable[[str], str],
    pending: Pending,
    overrides: Overrides,
    on_ended: OnEnded,
) -> AsyncGenerator[SharedServices]:
    """Open everything that both modes have, and close it again.

    `on_ended` is told who lost an account. Without a provider no browser is sent anywhere: users confirm in a login
    flow, which is followed.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """
    clock, policy = overrides.clock, policy_of(settings, page_url)
    async with (
        open_database(settings, clock=clock) as database,
        open_pool_of(settings, overrides) as pool,
    ):
        nextcloud = Nextcloud(nextcloud_url_of(settings), pool, public_url=public_url_of(settings))
        provider, ended = provider_of(nextcloud), EndedAccounts(database, on_ended)
        shared = _shared_services(
            settings, database, nextcloud, provider, policy=policy, pending=pending, clock=clock
        )
        yield replace(shared, work=(*shared.work, ended.run))


def _shared_services(
    settings: Settings,
    database: "Database",
    nextcloud: Nextcloud,
    provider: RedirectProvider | None,
    *,
    policy: Policy,
    pending: Pending,
    clock: Callable[[], datetime],
) -> SharedServices:
    app_passwords = LoginFlowProvider(nextcloud, database, clock=clock)
    provisioning = Provisioning(database, app_passwords, policy, clock=clock, on_finished=pending.finish)
    providers = {} if provider is None else {provider.name: provider}
    outbox = Outbox(database, app_passwords, clock=clock, within=None, redirects=providers)
    audit, broker = AuditLog(database, clock=clock), Broker(database, providers, clock=clock)
    url = f"{settings.server_url}/account"
    # Also where the settings name another way now: a flow of before them is taken to its end.
    wake = app_passwords.next_start
    poller = Poller(database, app_passwords, provisioning, clock=clock, wake=wake, outbox=outbox, within=None)
    accounts = MultiUserAccounts(
        database,
        nextcloud,
        provisioning,
        outbox,
        audit,
        broker=broker,
        account_url=url,
        poll_now=poller.poll_now,
    )
    return SharedServices(
        settings=settings,
        clock=clock,
        policy=policy,
        database=database,
        nextcloud=nextcloud,
        provider=provider,
        provisioning=provisioning,
        outbox=outbox,
        audit=audit,
        accounts=accounts,
        broker=broker,
        exchange_limiter=_exchange_limiter(database, nextcloud, provider, clock=clock),
        work=(poller.run, outbox.run, audit.run, *listening_jobs(database, pending)),
    )


def _exchange_limiter(
    database: "Database",
    nextcloud: Nextcloud,
    provider: RedirectProvider | None,
    *,
    clock: Callable[[], datetime],
) -> ExchangeLimiter:
    """Count failed code exchanges; Nextcloud's allow list matters where it is Nextcloud that codes are sent to."""
    if isinstance(provider, NextcloudOAuth2):
        return ExchangeLimiter(database, clock=clock, is_allow_listed=nextcloud.oauth2.is_allow_listed)
    return ExchangeLimiter(database, clock=clock)


def nextcloud_oauth2(
    settings: Settings, nextcloud: Nextcloud, *, clock: Callable[[], datetime]
) -> NextcloudOAuth2:
    """Make the provider that stands on Nextcloud's own OAuth app, with the client registered there."""
    return NextcloudOAuth2(
        nextcloud,
        client_id=settings.nextcloud_oauth_client_id or "",
        client_secret=settings.nextcloud_oauth_client_secret or SecretStr(""),
        redirect_uri=settings.grant_callback_url,
        clock=clock,
    )


async def run_periodically(*jobs: Callable[[], Awaitable[object]]) -> None:
    """End and forget what ran out, as long as the server runs."""
    while True:
        for job in jobs:
            try:
                await job()
            except Exception:  # a supervisor: a database that is busy once must not end the tidying
                logger.exception("what ran out could not be ended; trying again")
        await anyio.sleep(TIDY_SECONDS)
