from collections.abc import Sequence

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import (
    ConfigurationError,
    ElicitationRequired,
    MissingScope,
)
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.opening import open_services, running_services
from nextcloud_mcp_server.server.services import Network
from tests.auth_fixtures import READ, ProcessHost, page_url
from tests.services_fixtures import configured, opened, personal


async def test_services_with_pages_ask_through_the_page(harness: ProcessHost) -> None:
    async with opened(harness, page=page_url) as (services, _):
        with pytest.raises(ElicitationRequired) as caught:
            await services.accounts.open(harness.caller, READ)

    assert caught.value.url == page_url(caught.value.elicitation_id)


async def test_users_see_the_public_address_of_nextcloud(harness: ProcessHost) -> None:
    async with opened(harness, page=page_url, nextcloud_public_url="https://cloud.example.org") as (
        services,
        _,
    ):
        with pytest.raises(ElicitationRequired) as caught:
            await services.accounts.open(harness.caller, READ)
        assert services.provisioning is not None
        assert services.provisioning.implicit_user is not None
        consent_request = await services.provisioning.see(
            caught.value.elicitation_id, services.provisioning.implicit_user
        )

    assert consent_request.nextcloud_host == "cloud.example.org"


async def test_settings_limit_the_scopes_of_the_services(harness: ProcessHost) -> None:
    async with opened(harness, toolsets=("notes",), read_only=True) as (services, _):
        assert services.bound == READ
        with pytest.raises(MissingScope):
            await services.accounts.open(harness.caller, frozenset({"notes:write"}))


async def test_a_private_ca_that_is_none_is_refused_with_the_variables_name(harness: ProcessHost) -> None:
    bundle = harness.folder / "ca.pem"
    bundle.write_text("nonsense")
    mode = Personal(configured(harness, nextcloud_ca_bundle=bundle))

    with pytest.raises(ConfigurationError, match="NEXTCLOUD_CA_BUNDLE"):
        async with open_services(mode, Network(mode.settings, mode.overrides), pending=Pending(gone)):
            raise NotImplementedError


async def gone(elicitation_ids: Sequence[str]) -> list[str]:
    return list(elicitation_ids)


async def test_a_command_opens_the_services_with_their_background_jobs(harness: ProcessHost) -> None:
    async with running_services(personal(configured(harness), harness)) as (services, pending):
        assert services.provisioning is not None
        assert await services.provisioning.finished(["nonsense"]) == ["nonsense"]
        pending.watch("550e8400-e29b-41d4-a716-446655440000", seconds=120)
        assert await pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)


async def test_a_command_of_an_operator_waits_for_no_consent_request(harness: ProcessHost) -> None:
    given = {"nextcloud_username": "alice", "nextcloud_app_password": SecretStr("secret")}
    async with running_services(personal(configured(harness, **given), harness)) as (services, pending):
        ended = await pending.wait("550e8400-e29b-41d4-a716-446655440000", seconds=60)

    assert services.provisioning is None
    assert ended
