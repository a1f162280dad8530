"""Opens the services of a server of any mode, with the first call that needs them.

Importing this module takes a while, so only the first call does.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.auth.consent.login_flow import Poller as LoginFlowPoller
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.retention import Retention
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.loopback_pages import LoopbackPages
from nextcloud_mcp_server.server.measuring import count_connections
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.services import AuthT, Network, Services, open_database, policy_of, sub_keys

if TYPE_CHECKING:
    # The type only: SQLAlchemy is imported when the database is opened.
    from nextcloud_mcp_server.storage.engine import Database


@asynccontextmanager
async def open_services(
    mode: Mode[AuthT], network: Network, *, pending: Pending
) -> AsyncGenerator[tuple[Services, AuthT]]:
    """Open the services of a server, and what its mode adds; close both again.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """
    async with open_database(mode.settings, clock=mode.overrides.clock) as database:
        services = _services(mode, database, network, pending)
        auth, jobs = mode.open_auth(services)
        yield replace(services, jobs=(*services.jobs, *jobs)), auth


def _services(mode: Mode[Any], database: "Database", network: Network, pending: Pending) -> Services:
    nextcloud, operator = network.nextcloud, network.operator
    policy = policy_of(mode.settings, mode.page_url, mode.page_is_gone)
    clock, person = mode.overrides.clock, mode.person
    redirect = mode.redirect_provider(nextcloud)
    redirects = {} if redirect is None else {redirect.name: redirect}
    login_flow = LoginFlowProvider(nextcloud, database, clock=clock)
    provisioning = Provisioning(
        database, login_flow, policy, clock=clock, on_finished=pending.finish, within=person
    )
    outbox = Outbox(database, login_flow, clock=clock, within=person, redirects=redirects)
    # Also where users consent elsewhere: login flows that began under earlier settings are completed.
    wake = login_flow.next_start
    poller = LoginFlowPoller(
        database, login_flow, provisioning, clock=clock, wake=wake, outbox=outbox, within=person
    )
    audit, broker = AuditLog(database, clock=clock), Broker(database, redirects, clock=clock)
    retention = Retention(database, audit_days=mode.settings.audit_retention_days, clock=clock)
    granted = mode.accounts(
        database,
        nextcloud,
        provisioning,
        outbox,
        audit,
        broker=broker,
        account_url=mode.account_url,
        poll_now=poller.poll_now,
    )
    listen = () if database.listen is None else (partial(pending.listen, database.listen),)
    return Services(
        database=database,
        nextcloud=nextcloud,
        policy=policy,
        accounts=operator or granted,
        provisioning=None if operator else provisioning,
        outbox=outbox,
        audit=audit,
        broker=broker,
        redirect_provider=redirect,
        forget=granted.forget,
        jobs=(
            poller.run,
            outbox.run,
            audit.run,
            retention.run,
            partial(count_connections, database),
            *listen,
        ),
    )


@asynccontextmanager
async def running_services(
    mode: Mode[Any], *, pages: LoopbackPages | None = None
) -> AsyncGenerator[tuple[Services, Pending]]:
    """Open the services for a command, with their background jobs and the consent page."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return await services.finished(elicitation_ids)

    pending = Pending(finished)
    async with (
        aclosing(Network(mode.settings, mode.overrides)) as network,
        open_services(mode, network, pending=pending) as (services, auth),
        anyio.create_task_group() as group,
    ):

        async def consent_service() -> Any:  # noqa: ANN401 - what the mode opened
            return auth

        group.start_soon(services.run)
        group.start_soon(pending.run)
        if pages is not None:
            keys = sub_keys(mode.settings, "forms")
            run = partial(pages.run, keys=keys, finished=finished, around=network.shows_cloud)
            group.start_soon(run, consent_service)
            group.start_soon(network.theming.run)
        try:
            yield services, pending
        finally:
            group.cancel_scope.cancel()
