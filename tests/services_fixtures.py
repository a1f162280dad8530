"""The services of a server: of a process of `auth_fixtures`, or opened over its sandbox."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import anyio

from nextcloud_mcp_server.auth.accounts import Accounts
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.opening import open_services
from nextcloud_mcp_server.server.services import Job, Network, Overrides, Services
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from tests.auth_fixtures import NEXTCLOUD, READ, Clock, Process, ProcessHost, page_url

POLICY = Policy(NEXTCLOUD, "nextcloud.test", READ, page_url)


def services_of(process: Process, clock: Clock, *jobs: Job) -> Services:
    """Return the services of a process, with these background jobs."""
    return Services(
        database=process.database,
        nextcloud=process.nextcloud,
        policy=POLICY,
        accounts=process.accounts,
        provisioning=process.provisioning,
        outbox=process.outbox,
        audit=process.audit,
        broker=Broker(process.database, {}, clock=clock),
        redirect_provider=None,
        forget=process.accounts.forget,
        jobs=jobs,
    )


def with_accounts(
    services: Services, policy: Policy, accounts: Accounts, provisioning: Provisioning
) -> Services:
    """Return the services with these accounts and consent requests instead."""
    return replace(services, policy=policy, accounts=accounts, provisioning=provisioning)


def configured(harness: ProcessHost, **overrides: object) -> Settings:
    return environment.load(**({"nextcloud_host": NEXTCLOUD, "data_dir": harness.folder} | overrides))


@asynccontextmanager
async def opened(
    harness: ProcessHost, *, page: Callable[[str], str] | None = None, **overrides: object
) -> AsyncGenerator[tuple[Services, Pending]]:
    """Open the services of a server over the sandbox, with their background jobs."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        assert services.provisioning is not None
        return await services.provisioning.finished(elicitation_ids)

    pending = Pending(finished)
    replaced = Overrides(transport=harness.network, clock=harness.clock)
    mode = Personal(configured(harness, **overrides), page_url=page, overrides=replaced)
    async with (
        aclosing(Network(mode.settings, mode.overrides)) as network,
        open_services(mode, network, pending=pending) as (services, _),
        anyio.create_task_group() as group,
    ):
        group.start_soon(services.run)
        group.start_soon(pending.run)
        yield services, pending
        group.cancel_scope.cancel()


def personal(config: Settings, harness: ProcessHost) -> Personal:
    """Create the mode of a server without pages."""
    return Personal(config, overrides=Overrides(transport=harness.network, clock=harness.clock))
