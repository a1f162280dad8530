from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.commands.connection import connect, connect_account
from nextcloud_mcp_server.errors import ConsentDeclined, ElicitationRequired, NextcloudError
from nextcloud_mcp_server.settings.environment import load
from tests.auth_fixtures import NEXTCLOUD, ProcessHost
from tests.services_fixtures import opened


def nothing(_: str) -> None:
    """Show no progress."""


def confirming(harness: ProcessHost, name: str = "alice") -> Callable[[str], None]:
    """Let a user confirm at Nextcloud as soon as the link is shown."""

    def show(_: str) -> None:
        harness.confirm(name)

    return show


def never(_: str) -> None:
    raise NotImplementedError


async def test_a_credential_of_the_operator_leaves_nothing_to_ask(
    harness: ProcessHost, caplog: pytest.LogCaptureFixture
) -> None:
    made = harness.sandbox.state.new_app_password(harness.sandbox.state.users["alice"])
    given: dict[str, Any] = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr(made.secret)}
    async with opened(harness, **given) as (services, pending):
        name = await connect_account(services, pending, NEXTCLOUD, show=never, progress=never)
        provisioning = services.provisioning

    assert provisioning is None
    assert name == harness.sandbox.state.users["alice"].display_name
    assert "acting as alice" in caplog.text
    assert made.secret not in caplog.text


async def test_connecting_from_the_terminal_waits_for_the_person(harness: ProcessHost) -> None:
    shown: list[str] = []
    told: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        harness.confirm()

    async with opened(harness) as (services, pending):
        with anyio.fail_after(60):
            name = await connect_account(services, pending, NEXTCLOUD, show=show, progress=told.append)
            again = await connect_account(services, pending, NEXTCLOUD, show=never, progress=never)

    assert name == again == harness.sandbox.state.users["alice"].display_name
    assert len(shown) == 1
    assert told[0] == "Waiting for you to confirm in the browser… 0 s"


async def test_connecting_ends_when_the_consent_request_is_declined_elsewhere(harness: ProcessHost) -> None:
    async with opened(harness) as (services, pending):
        assert services.provisioning is not None
        caller = personal_caller(NEXTCLOUD, "Another")
        with pytest.raises(ElicitationRequired) as need:
            await services.accounts.open(caller, services.bound)

        async with anyio.create_task_group() as group:

            def show(_: str) -> None:
                group.start_soon(services.provisioning.decline, need.value.elicitation_id)  # type: ignore[union-attr]

            with anyio.fail_after(60), pytest.raises(ConsentDeclined, match="you declined"):
                await connect_account(services, pending, NEXTCLOUD, show=show, progress=nothing)

    assert len(harness.network.to("/login/v2")) == 1


async def test_connecting_says_why_a_consent_request_failed(harness: ProcessHost) -> None:
    async with opened(harness) as (services, pending):
        await connect_account(services, pending, NEXTCLOUD, show=confirming(harness), progress=nothing)
        await services.accounts.disconnect(harness.caller)
        with anyio.fail_after(60), pytest.raises(ConsentDeclined, match="'alice' is connected here"):
            await connect_account(
                services, pending, NEXTCLOUD, show=confirming(harness, "bob"), progress=nothing
            )


async def test_connecting_gives_up_and_starts_nothing_new(harness: ProcessHost) -> None:
    async with opened(harness) as (services, pending):
        with pytest.raises(ConsentDeclined, match="not used in time"):
            await connect_account(services, pending, NEXTCLOUD, show=nothing, progress=nothing, seconds=0)

    assert len(harness.network.to("/login/v2")) == 1


def test_a_nextcloud_that_does_not_answer_leaves_nothing_behind(own_data_dir: None) -> None:
    settings = load(nextcloud_host="http://127.0.0.1:9")

    with pytest.raises(NextcloudError, match="Nothing listens at NEXTCLOUD_HOST"):
        connect(settings, browser=False)

    assert not settings.data_path.exists()
