import httpx2
import pytest

from nextcloud_mcp_server.commands.doctor.checks import Verdict
from nextcloud_mcp_server.commands.doctor.login_flow import look_at_login_flow, uses_login_flow
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.program import user_agent
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.settings.environment import load
from tests.auth_fixtures import NEXTCLOUD

pytestmark = pytest.mark.usefixtures("own_data_dir")


def nextcloud_of(transport: httpx2.AsyncBaseTransport) -> Nextcloud:
    pool = open_pool(ca_bundle=None, user_agent=user_agent(), transport=transport)
    return Nextcloud(NextcloudUrl.parse(NEXTCLOUD), pool)


async def test_a_list_of_programs_is_told_with_the_name_to_add() -> None:
    sandbox = Sandbox()
    nextcloud = nextcloud_of(httpx2.ASGITransport(app=sandbox.app))

    before = await look_at_login_flow(nextcloud)
    sandbox.state.allowed_user_agents.append("Nextcloud-android")
    refused = await look_at_login_flow(nextcloud)
    sandbox.state.allowed_user_agents.append("^Nextcloud MCP server")
    after = await look_at_login_flow(nextcloud)

    assert (before.verdict, refused.verdict, after.verdict) == (Verdict.OK, Verdict.FAIL, Verdict.OK)
    assert "'/^Nextcloud MCP server/' to core.login_flow_v2.allowed_user_agents" in refused.text
    assert "'Nextcloud MCP server'" in before.text


@pytest.mark.parametrize("status", [401, 403, 404, 405])
async def test_a_flow_that_a_proxy_blocks_is_told_with_its_address(status: int) -> None:
    nextcloud = nextcloud_of(httpx2.MockTransport(lambda _: httpx2.Response(status)))

    finding = await look_at_login_flow(nextcloud)

    assert finding.verdict is Verdict.FAIL
    assert f"/index.php/login/v2 answers {status}" in finding.text


def test_with_an_app_password_in_the_settings_nobody_signs_in() -> None:
    given = load(nextcloud_host=NEXTCLOUD, nextcloud_username="alice", nextcloud_app_password="app-password")

    assert uses_login_flow(load(nextcloud_host=NEXTCLOUD))
    assert not uses_login_flow(given)
