import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.errors import (
    ConfigurationError,
    ConsentDeclined,
    ElicitationRequired,
    MissingScope,
    NextcloudMcpError,
    StorageError,
)
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.services import (
    LazyServices,
    Overrides,
    Services,
    connect_account,
    now,
    open_database,
    open_key_ring,
    open_services,
)
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import new_key
from tests.auth_fixtures import NEXTCLOUD, READ, Process, Stage, page_url, together


def configured(stage: Stage, **overrides: object) -> Settings:
    return environment.load(**({"nextcloud_host": NEXTCLOUD, "data_dir": stage.folder} | overrides))


@asynccontextmanager
async def opened(
    stage: Stage, *, page: Callable[[str], str] | None = None, **overrides: object
) -> AsyncGenerator[tuple[Services, Pending]]:
    """Open a core over the sandbox, with its background work."""

    async def finished(elicitation_ids: Sequence[str]) -> list[str]:
        assert services.provisioning is not None
        return await services.provisioning.finished(elicitation_ids)

    pending = Pending(finished)
    replaced = Overrides(transport=stage.network, clock=stage.clock)
    async with (
        open_services(
            configured(stage, **overrides), page_url=page, pending=pending, overrides=replaced
        ) as services,
        anyio.create_task_group() as group,
    ):
        group.start_soon(services.run)
        group.start_soon(pending.run)
        yield services, pending
        group.cancel_scope.cancel()


def nothing(_: str) -> None:
    """Show no progress."""


def confirming(stage: Stage, name: str = "alice") -> Callable[[str], None]:
    """Let a user confirm at Nextcloud as soon as the link is shown."""

    def show(_: str) -> None:
        stage.confirm(name)

    return show


def never(_: str) -> None:
    raise NotImplementedError


async def test_a_core_asks_through_our_page_where_there_is_one(stage: Stage) -> None:
    async with opened(stage, page=page_url) as (services, _):
        with pytest.raises(ElicitationRequired) as caught:
            await services.accounts.open(stage.caller, READ)

    assert caught.value.url == page_url(caught.value.elicitation_id)


async def test_people_see_the_public_address_of_nextcloud(stage: Stage) -> None:
    async with opened(stage, page=page_url, nextcloud_public_url="https://cloud.example.org") as (
        services,
        _,
    ):
        with pytest.raises(ElicitationRequired) as caught:
            await services.accounts.open(stage.caller, READ)
        assert services.provisioning is not None
        assert services.provisioning.implicit_user is not None
        consent_request = await services.provisioning.see(
            caught.value.elicitation_id, services.provisioning.implicit_user
        )

    assert consent_request.nextcloud_host == "cloud.example.org"


async def test_settings_bound_what_a_core_permits(stage: Stage) -> None:
    async with opened(stage, toolsets=("notes",), read_only=True) as (services, _):
        assert services.bound == READ
        with pytest.raises(MissingScope):
            await services.accounts.open(stage.caller, frozenset({"notes:write"}))


async def test_a_credential_of_the_operator_leaves_nothing_to_ask(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    made = stage.sandbox.state.new_app_password(stage.sandbox.state.users["alice"])
    given: dict[str, Any] = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr(made.secret)}
    async with opened(stage, **given) as (services, pending):
        name = await connect_account(services, pending, NEXTCLOUD, show=never, progress=never)
        provisioning = services.provisioning

    assert provisioning is None
    assert name == stage.sandbox.state.users["alice"].display_name
    assert "acting as alice" in caplog.text
    assert made.secret not in caplog.text


async def test_a_private_ca_that_is_none_is_refused_with_the_variables_name(stage: Stage) -> None:
    bundle = stage.folder / "ca.pem"
    bundle.write_text("nonsense")
    config = configured(stage, nextcloud_ca_bundle=bundle)

    with pytest.raises(ConfigurationError, match="NEXTCLOUD_CA_BUNDLE"):
        async with open_services(config, page_url=None, pending=Pending(gone), overrides=Overrides()):
            raise NotImplementedError


async def gone(elicitation_ids: Sequence[str]) -> list[str]:
    return list(elicitation_ids)


async def test_the_sealing_key_is_made_once_and_said(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    config = configured(stage)
    with caplog.at_level(logging.WARNING):
        first, second = open_key_ring(config), open_key_ring(config)

    assert first.derive("forms") == second.derive("forms")
    assert caplog.text.count(str(config.key_file)) == 1


async def test_sealing_keys_that_are_given_leave_no_file(stage: Stage) -> None:
    config = configured(stage, token_encryption_keys=(SecretStr(new_key()),))

    open_key_ring(config)

    assert not config.key_file.exists()


async def test_connecting_from_the_terminal_waits_for_the_person(stage: Stage) -> None:
    shown: list[str] = []
    told: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        stage.confirm()

    async with opened(stage) as (services, pending):
        with anyio.fail_after(60):
            name = await connect_account(services, pending, NEXTCLOUD, show=show, progress=told.append)
            again = await connect_account(services, pending, NEXTCLOUD, show=never, progress=never)

    assert name == again == stage.sandbox.state.users["alice"].display_name
    assert len(shown) == 1
    assert told[0] == "Waiting for you to confirm in the browser… 0 s"


async def test_connecting_ends_when_the_consent_request_is_declined_elsewhere(stage: Stage) -> None:
    async with opened(stage) as (services, pending):
        assert services.provisioning is not None
        caller = personal_caller(NEXTCLOUD, "Another")
        with pytest.raises(ElicitationRequired) as need:
            await services.accounts.open(caller, services.bound)

        async with anyio.create_task_group() as group:

            def show(_: str) -> None:
                group.start_soon(services.provisioning.decline, need.value.elicitation_id)  # type: ignore[union-attr]

            with anyio.fail_after(60), pytest.raises(ConsentDeclined, match="you declined"):
                await connect_account(services, pending, NEXTCLOUD, show=show, progress=nothing)

    assert len(stage.network.to("/login/v2")) == 1


async def test_connecting_says_why_a_consent_request_failed(stage: Stage) -> None:
    async with opened(stage) as (services, pending):
        await connect_account(services, pending, NEXTCLOUD, show=confirming(stage), progress=nothing)
        await services.accounts.disconnect(stage.caller)
        with anyio.fail_after(60), pytest.raises(ConsentDeclined, match="'alice' is connected here"):
            await connect_account(
                services, pending, NEXTCLOUD, show=confirming(stage, "bob"), progress=nothing
            )


async def test_connecting_gives_up_and_starts_nothing_new(stage: Stage) -> None:
    async with opened(stage) as (services, pending):
        with pytest.raises(ConsentDeclined, match="not used in time"):
            await connect_account(services, pending, NEXTCLOUD, show=nothing, progress=nothing, seconds=0)

    assert len(stage.network.to("/login/v2")) == 1


@dataclass
class Opener:
    """Opens a core as often as wanted; fails as often as told."""

    services: Services
    failures: list[Exception] = field(default_factory=list[Exception])
    opened: int = 0
    closed: int = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[Services]:
        self.opened += 1
        await anyio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        try:
            yield self.services
        finally:
            self.closed += 1


@pytest.fixture
def opener(process: Process) -> Opener:
    return Opener(
        Services(
            process.database,
            process.nextcloud,
            process.accounts,
            process.provisioning,
            process.audit,
            READ,
            (anyio.sleep_forever,),
            process.consent_service,
        )
    )


@asynccontextmanager
async def running(lazy: LazyServices, *, resume: bool = False) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(partial(lazy.run, resume=resume))
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(60):
            yield
        group.cancel_scope.cancel()


async def test_nothing_is_opened_before_somebody_asks(opener: Opener) -> None:
    async with running(LazyServices(opener)):
        await anyio.wait_all_tasks_blocked()

    assert opener.opened == 0


async def test_calls_that_come_together_open_the_core_once(opener: Opener) -> None:
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


async def test_a_failure_is_told_to_everybody_who_waits(opener: Opener) -> None:
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


async def test_background_work_that_ends_closes_the_core_and_the_next_call_opens_it_again(
    opener: Opener,
) -> None:
    failed = anyio.Event()

    async def fail() -> None:
        await failed.wait()
        raise StorageError("The disk is gone.")

    works = opener.services
    opener.services = Services(
        works.database, works.nextcloud, works.accounts, works.provisioning, works.audit, READ, (fail,), None
    )
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


async def test_a_server_that_stops_tells_who_waits(opener: Opener) -> None:
    lazy = LazyServices(opener)
    told: list[str] = []

    async def get() -> None:
        try:
            await lazy.get()
        except StorageError as error:
            told.append(str(error))

    @asynccontextmanager
    async def stuck() -> AsyncGenerator[Services]:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
        yield opener.services

    lazy = LazyServices(stuck)
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(get)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(lazy.run, resume=False))

    assert told == ["The server is shutting down; call again in a moment."]


async def test_a_database_is_closed_when_its_user_fails(stage: Stage) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_database(configured(stage)):
            raise ZeroDivisionError

    assert (stage.folder / "state.db").exists()
    assert not (stage.folder / "state.db-wal").exists()


def test_the_time_is_aware() -> None:
    assert now().tzinfo is not None


async def test_a_data_folder_that_cannot_be_made_is_refused_with_the_variables_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = environment.load(nextcloud_host=NEXTCLOUD, data_dir=tmp_path / "file" / "data")

    with pytest.raises(ConfigurationError, match="DATA_DIR"):
        async with open_database(config):
            raise NotImplementedError
