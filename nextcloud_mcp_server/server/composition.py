"""Builds a server of any mode: `build_server` before it starts, `open_services` with the first call."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer

from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.auth.consent.login_flow import Poller as LoginFlowPoller
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.operator_accounts import OperatorAccounts
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.retention import Retention
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.availability import Availability, FetchApps
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.track import ConsentStatus, Track
from nextcloud_mcp_server.resources.poller import Poller
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.services import (
    AuthT,
    LazyServices,
    Services,
    nextcloud_url_of,
    open_database,
    open_pool_of,
    policy_of,
    public_url_of,
    sub_keys,
)
from nextcloud_mcp_server.tools.apps import apps_of
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.state import State

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.engine import Database

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_services(mode: Mode[AuthT], *, pending: Pending) -> AsyncGenerator[tuple[Services, AuthT]]:
    """Open the services of a server, and what its mode adds; close both again.

    Raises:
        ConfigurationError: The settings cannot work.
        StorageError: The database cannot be used.
    """
    settings = mode.settings
    async with (
        open_database(settings, clock=mode.overrides.clock) as database,
        open_pool_of(settings, mode.overrides) as pool,
    ):
        nextcloud = Nextcloud(nextcloud_url_of(settings), pool, public_url=public_url_of(settings))
        services = _services(mode, database, nextcloud, pending)
        auth, jobs = mode.open_auth(services)
        yield replace(services, jobs=(*services.jobs, *jobs)), auth


def _services(mode: Mode[Any], database: "Database", nextcloud: Nextcloud, pending: Pending) -> Services:
    policy, clock, person = policy_of(mode.settings, mode.page_url), mode.overrides.clock, mode.person
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
    operator = _operator_accounts(mode, nextcloud)
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
        jobs=(poller.run, outbox.run, audit.run, retention.run, *listen),
    )


def _operator_accounts(mode: Mode[Any], nextcloud: Nextcloud) -> OperatorAccounts | None:
    """Return the account whose app password is in the settings, if there is one."""
    credential = mode.settings.operator_credential
    if credential is None:
        return None
    login_name, secret = credential
    logger.warning("acting as %s with the app password from the settings, for every client", login_name)
    bound = mode.settings.offered_scopes
    return OperatorAccounts(nextcloud, login_name=login_name, secret=secret, bound=bound)


@asynccontextmanager
async def running_services(mode: Mode[Any]) -> AsyncGenerator[tuple[Services, Pending]]:
    """Open the services for a command, with their background jobs."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return await _finished(services, elicitation_ids)

    pending = Pending(finished)
    async with open_services(mode, pending=pending) as (services, _), anyio.create_task_group() as group:
        group.start_soon(services.run)
        group.start_soon(pending.run)
        try:
            yield services, pending
        finally:
            group.cancel_scope.cancel()


async def _finished(services: Services, elicitation_ids: Sequence[str]) -> list[str]:
    if services.provisioning is None:
        return list(elicitation_ids)
    return await services.provisioning.finished(elicitation_ids)


@dataclass(frozen=True, slots=True)
class ServerParts(Generic[AuthT]):
    """One MCP server, and what runs beside it."""

    mode: Mode[AuthT]
    mcp: MCPServer[Any]
    state: State
    services: LazyServices[AuthT]
    pending: Pending
    availability: Availability
    poller: Poller

    @asynccontextmanager
    async def running(self, *, resume: bool | None = None) -> AsyncGenerator[None]:
        """Run the background work while the server serves; `resume` is by default as the mode says."""
        resumes = self.mode.resumes if resume is None else resume
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.services.run(resume=resumes))
            group.start_soon(self.pending.run)
            group.start_soon(self.availability.run)
            group.start_soon(self.poller.run)
            try:
                yield
            finally:
                group.cancel_scope.cancel()


def build_server(mode: Mode[AuthT]) -> ServerParts[AuthT]:
    """Build the server of a mode; nothing is opened yet."""
    settings, caller, specs = mode.settings, mode.caller, mcp_server.selected(mode.settings)
    for sentence in mcp_server.left_out_by_old_names(settings.exclude_tools):
        logger.warning(sentence)

    async def own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentStatus | None:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.find(elicitation_id, caller(ctx).principal) if provisioning else None

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return await _finished(await lazy.get(), elicitation_ids)

    async def access(ctx: ServerRequestContext[Any, Any]) -> tuple[FetchApps, str] | None:
        if settings.operator_credential is None and not has_state(settings):
            # No user is connected, and a client that only lists tools opens no database.
            return None
        services, of = await lazy.get(), caller(ctx)
        opened = await services.accounts.find(of)
        return opened and (apps_of(services, of, opened, in_menu=availability.in_menu), opened.account.uid)

    lazy = LazyServices(lambda: open_services(mode, pending=pending))
    pending = Pending(finished)
    availability = Availability(
        mcp_server.facts(specs),
        ChangeNotifier(lambda ctx: caller(ctx).principal),
        scopes=mode.token_scopes,
        at_sign_in=mode.scopes_at_sign_in,
    )
    availability.find_access = access
    state = State(
        services=lazy.get,
        caller=caller,
        pending=pending,
        notifier=CompletionNotifier(pending),
        availability=availability,
        dialect=settings.elicitation_dialect,
        hold_seconds=settings.hold_seconds,
        output_schemas=settings.output_schemas,
        local_folder=LocalFolder(settings.local_folder),
    )
    mcp, poller = mcp_server.create(
        specs,
        state,
        Track(own, pending, timeout_seconds=settings.elicitation_timeout_seconds),
        state_keys=sub_keys(settings, "request-state"),
        update_seconds=settings.update_seconds,
    )
    return ServerParts(mode, mcp, state, lazy, pending, availability, poller)
