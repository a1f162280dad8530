"""Builds a server of any mode before it starts; `opening` opens its services with the first call."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

import anyio
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.consent.policy import lifetime_of
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import CredentialRejected, WrongAccount
from nextcloud_mcp_server.protocol.availability import Availability, FetchApps
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.task_runner import Rows, TaskRunner
from nextcloud_mcp_server.protocol.track import ConsentStatus, ReadOwn, Track
from nextcloud_mcp_server.resources.poller import Poller
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.server.database_file import has_state
from nextcloud_mcp_server.server.loopback_pages import LoopbackPages
from nextcloud_mcp_server.server.modes.mode import Mode
from nextcloud_mcp_server.server.services import (
    AuthT,
    LazyServices,
    Network,
    Services,
    sub_keys,
)
from nextcloud_mcp_server.tools.apps import apps_from, stop
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.state import State

if TYPE_CHECKING:
    from nextcloud_mcp_server.auth.consent.service import ConsentService
    from nextcloud_mcp_server.storage.tasks import TaskRepository

logger = logging.getLogger(__name__)


@asynccontextmanager
async def _opened(
    mode: Mode[AuthT], network: Network, pending: Pending
) -> AsyncGenerator[tuple[Services, AuthT]]:
    from nextcloud_mcp_server.server.opening import open_services  # noqa: PLC0415 - with the first call

    async with open_services(mode, network, pending=pending) as opened:
        yield opened


async def _find_access(
    network: Network, lazy: LazyServices[Any], caller: Caller, *, in_menu: Collection[str]
) -> tuple[FetchApps, str] | None:
    """Return the function that fetches a user's apps, and the uid of their account; None without access.

    The operator's account is found without the database.
    """
    accounts = network.operator or (await lazy.get()).accounts
    opened = await accounts.find(caller)
    if opened is None:
        return None

    async def refused(error: CredentialRejected | WrongAccount) -> None:
        if isinstance(error, CredentialRejected):
            await accounts.reject(caller, opened)
        else:
            await stop(await lazy.get(), caller, opened, error)

    return apps_from(opened, refused, in_menu=in_menu), opened.account.uid


def _own(lazy: LazyServices[Any], caller: Callable[[ServerRequestContext[Any, Any]], Caller]) -> ReadOwn:
    async def own(ctx: ServerRequestContext[Any, Any], elicitation_id: str) -> ConsentStatus | None:
        provisioning = (await lazy.get()).provisioning
        return await provisioning.find(elicitation_id, caller(ctx)) if provisioning else None

    return own


def _rows(lazy: LazyServices[Any]) -> Rows:
    async def rows() -> "TaskRepository":
        return (await lazy.get()).database.tasks

    return rows


@dataclass(frozen=True, slots=True)
class ServerParts(Generic[AuthT]):
    """One MCP server, and what runs beside it."""

    mode: Mode[AuthT]
    mcp: mcp_server.Server
    state: State
    services: LazyServices[AuthT]
    network: Network
    pending: Pending
    availability: Availability
    poller: Poller
    task_runner: TaskRunner

    @asynccontextmanager
    async def running(
        self, *, resume: bool | None = None, pages: LoopbackPages | None = None
    ) -> AsyncGenerator[None]:
        """Run the background work while the server serves; `resume` is by default as the mode says.

        `pages` are the consent pages of a server over stdio.
        """
        resumes = self.mode.resumes if resume is None else resume
        async with aclosing(self.network), anyio.create_task_group() as group:
            group.start_soon(lambda: self.services.run(resume=resumes))
            group.start_soon(self.pending.run)
            group.start_soon(self.availability.run)
            group.start_soon(self.poller.run)
            group.start_soon(self.task_runner.run)
            group.start_soon(self.network.theming.run)
            if pages is not None:
                group.start_soon(self._run_pages, pages)
            try:
                yield
            finally:
                # While the database is open: the tasks are left to other processes.
                await self.task_runner.stop()
                group.cancel_scope.cancel()

    async def _run_pages(self, pages: LoopbackPages) -> None:
        async def finished(elicitation_ids: Sequence[str]) -> list[str]:
            return await (await self.services.get()).finished(elicitation_ids)

        consent_service = cast("Callable[[], Awaitable[ConsentService]]", self.services.auth)
        keys, around = sub_keys(self.mode.settings, "forms"), self.network.shows_cloud
        await pages.run(consent_service, keys=keys, finished=finished, around=around)


def build_server(mode: Mode[AuthT]) -> ServerParts[AuthT]:
    """Build the server of a mode; nothing is opened yet."""
    settings, caller, specs = mode.settings, mode.caller, mcp_server.selected(mode.settings)
    for sentence in mcp_server.left_out_by_old_names(settings.exclude_tools):
        logger.warning(sentence)

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        return await (await lazy.get()).finished(elicitation_ids)

    async def access(ctx: ServerRequestContext[Any, Any]) -> tuple[FetchApps, str] | None:
        if settings.operator_credential is None and not has_state(settings):
            # No user is connected, and a client that only lists tools opens no database.
            return None
        return await _find_access(network, lazy, caller(ctx), in_menu=availability.in_menu)

    network = Network(settings, mode.overrides)
    consent_seconds = lifetime_of(settings.elicitation_timeout_seconds).total_seconds()
    lazy = LazyServices(lambda: _opened(mode, network, pending))
    pending = Pending(finished)
    availability = Availability(
        mcp_server.facts(specs),
        ChangeNotifier(lambda ctx: caller(ctx).principal, caller=caller),
        scopes=mode.token_scopes,
        at_sign_in=mode.scopes_at_sign_in,
    )
    availability.find_access = access
    state = State(
        services=lazy.get,
        caller=caller,
        pending=pending,
        notifier=CompletionNotifier(pending, consent_seconds=consent_seconds),
        availability=availability,
        dialect=settings.elicitation_dialect,
        hold_seconds=settings.hold_seconds,
        output_schemas=settings.output_schemas,
        local_folder=LocalFolder(settings.local_folder),
    )
    runner = TaskRunner(_rows(lazy), pending, consent_seconds=consent_seconds)
    mode.oversee(runner)
    mcp, poller = mcp_server.create(
        specs,
        state,
        Track(_own(lazy, caller), pending, timeout_seconds=settings.elicitation_timeout_seconds),
        state_keys=sub_keys(settings, "request-state"),
        task_runner=runner if settings.tasks else None,
        stores_permissions=settings.operator_credential is None,
        consent_seconds=consent_seconds,
        update_seconds=settings.update_seconds,
    )
    return ServerParts(mode, mcp, state, lazy, network, pending, availability, poller, runner)
