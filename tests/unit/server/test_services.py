import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import (
    ConfigurationError,
    NextcloudMcpError,
    StorageError,
)
from nextcloud_mcp_server.server.services import (
    LazyServices,
    Services,
    now,
    open_database,
    open_key_ring,
    policy_of,
)
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.storage.crypto import new_key
from tests.auth_fixtures import NEXTCLOUD, Process, ProcessHost, together
from tests.services_fixtures import configured, services_of


async def test_the_sealing_key_is_made_once_and_said(
    harness: ProcessHost, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(harness)
    with caplog.at_level(logging.WARNING):
        first, second = open_key_ring(config), open_key_ring(config)

    assert first.derive("forms") == second.derive("forms")
    assert caplog.text.count(str(config.key_file)) == 1


async def test_sealing_keys_that_are_given_leave_no_file(harness: ProcessHost) -> None:
    config = configured(harness, token_encryption_keys=(SecretStr(new_key()),))

    open_key_ring(config)

    assert not config.key_file.exists()


@dataclass
class Opener:
    """Opens the services as often as wanted; fails as often as told."""

    services: Services
    failures: list[Exception] = field(default_factory=list[Exception])
    opened: int = 0
    closed: int = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[tuple[Services, None]]:
        self.opened += 1
        await anyio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        try:
            yield self.services, None
        finally:
            self.closed += 1


@pytest.fixture
def opener(process: Process, harness: ProcessHost) -> Opener:
    return Opener(services_of(process, harness.clock, anyio.sleep_forever))


@asynccontextmanager
async def running(lazy: LazyServices[None], *, resume: bool = False) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(partial(lazy.run, resume=resume))
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(60):
            yield
        group.cancel_scope.cancel()


async def test_nothing_is_opened_before_the_first_call(opener: Opener) -> None:
    async with running(LazyServices(opener)):
        await anyio.wait_all_tasks_blocked()

    assert opener.opened == 0


async def test_concurrent_calls_open_the_services_once(opener: Opener) -> None:
    lazy = LazyServices(opener)
    async with running(lazy):
        await together(*[lazy.get] * 5)
        services = await lazy.get()

    assert services is opener.services
    assert (opener.opened, opener.closed) == (1, 1)


@pytest.mark.parametrize("failure", [ConfigurationError("Set it."), ZeroDivisionError()])
async def test_a_failure_is_told_and_asking_again_tries_again(
    opener: Opener, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    opener.failures.append(failure)
    lazy = LazyServices(opener)
    async with running(lazy):
        with pytest.raises(NextcloudMcpError, match=r"Set it\.|Something went wrong at the start"):
            await lazy.get()
        services = await lazy.get()

    assert services is opener.services
    assert opener.opened == 2


async def test_a_failure_is_told_to_every_waiting_call(opener: Opener) -> None:
    opener.failures.append(ConfigurationError("Set it."))
    lazy = LazyServices(opener)
    told: list[str] = []

    async def get() -> None:
        try:
            await lazy.get()
        except ConfigurationError as error:
            told.append(str(error))

    async with running(lazy):
        await together(get, get, get)

    assert told == ["Set it."] * 3
    assert opener.opened == 1


async def test_a_caller_that_goes_away_does_not_stop_the_opening(opener: Opener) -> None:
    lazy = LazyServices(opener)
    async with running(lazy):
        with anyio.move_on_after(0):
            await lazy.get()
        services = await lazy.get()

    assert services is opener.services
    assert opener.opened == 1


async def test_background_work_that_ends_closes_the_services_and_the_next_call_opens_them_again(
    opener: Opener,
) -> None:
    failed = anyio.Event()

    async def fail() -> None:
        await failed.wait()
        raise StorageError("The disk is gone.")

    works = opener.services
    opener.services = replace(works, jobs=(fail,))
    lazy = LazyServices(opener)
    async with running(lazy):
        await lazy.get()
        opener.services = works
        failed.set()
        await anyio.wait_all_tasks_blocked()
        services = await lazy.get()

    assert services is works
    assert (opener.opened, opener.closed) == (2, 2)


async def test_what_an_earlier_process_left_is_taken_up_without_a_call(opener: Opener) -> None:
    lazy = LazyServices(opener, resume_seconds=0)
    async with running(lazy, resume=True):
        while not opener.opened:  # noqa: ASYNC110 - another task gives no event for it
            await anyio.sleep(0.01)

    assert opener.opened == 1


async def test_a_failed_resumption_is_not_repeated_in_haste(opener: Opener) -> None:
    opener.failures += [StorageError("The disk is gone.")] * 100
    lazy = LazyServices(opener, resume_seconds=0)
    async with running(lazy, resume=True):
        await anyio.sleep(0.05)
        await anyio.wait_all_tasks_blocked()

    assert opener.opened == 1


async def test_a_database_that_comes_back_is_opened_without_a_call(opener: Opener) -> None:
    opener.failures += [StorageError("PostgreSQL cannot be used.")] * 3
    lazy = LazyServices(opener, resume_seconds=0, retry_seconds=0)
    async with running(lazy, resume=True):
        while opener.failures:  # noqa: ASYNC110 - another task gives no event for it
            await anyio.sleep(0.01)
        services = await lazy.get()

    assert services is opener.services
    assert opener.opened == 4


async def test_a_server_that_stops_tells_the_waiting_calls(opener: Opener) -> None:
    lazy = LazyServices(opener)
    told: list[str] = []

    async def get() -> None:
        try:
            await lazy.get()
        except StorageError as error:
            told.append(str(error))

    @asynccontextmanager
    async def stuck() -> AsyncGenerator[tuple[Services, None]]:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        yield opener.services, None

    lazy = LazyServices(stuck)
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(get)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(lazy.run, resume=False))

    assert told == ["The server is shutting down; call again in a moment."]


async def test_a_database_is_closed_when_its_user_fails(harness: ProcessHost) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_database(configured(harness)):
            raise ZeroDivisionError

    assert (harness.folder / "state.db").exists()
    assert not (harness.folder / "state.db-wal").exists()


def test_the_time_is_aware() -> None:
    assert now().tzinfo is not None


async def test_a_data_folder_that_cannot_be_made_is_refused_with_the_variables_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = environment.load(nextcloud_host=NEXTCLOUD, data_dir=tmp_path / "file" / "data")

    with pytest.raises(ConfigurationError, match="DATA_DIR"):
        async with open_database(config):
            raise NotImplementedError


@pytest.mark.parametrize(
    ("waits", "lifetime"), [(1, 600), (300, 600), (600, 600), (1800, 1800), (3600, 3600)]
)
async def test_a_consent_request_stays_open_as_long_as_a_client_may_wait_for_it(
    harness: ProcessHost, waits: int, lifetime: int
) -> None:
    policy = policy_of(configured(harness, elicitation_timeout_seconds=waits), None)

    assert policy.lifetime.total_seconds() == lifetime
