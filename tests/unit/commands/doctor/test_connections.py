import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.commands.doctor.connections import look_at_connections
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.settings.environment import load
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from tests.auth_fixtures import NEXTCLOUD, ProcessHost

pytestmark = pytest.mark.usefixtures("own_data_dir")

KEY = new_key()


async def examined(harness: ProcessHost, *, url: str = NEXTCLOUD, **overrides: object) -> list[Finding]:
    settings = load(
        **({"nextcloud_host": url, "data_dir": harness.folder, "token_encryption_keys": KEY} | overrides)
    )
    async with open_pool(ca_bundle=None, user_agent="doctor", transport=harness.network) as pool:
        nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
        return await look_at_connections(settings, nextcloud, url=url, clock=harness.clock)


@pytest.fixture
def keyed(harness: ProcessHost) -> ProcessHost:
    harness.keys = KeyRing.parse([SecretStr(KEY)])
    return harness


async def test_without_a_database_nothing_is_said_and_none_is_made(harness: ProcessHost) -> None:
    assert await examined(harness) == []
    assert not (harness.folder / "state.db").exists()


async def test_a_connection_that_works_is_fine(keyed: ProcessHost) -> None:
    await keyed.connect(await keyed.process())

    assert await examined(keyed) == [Finding(Verdict.OK, "connections", "1 works")]


async def test_a_connection_that_nextcloud_refuses_fails(keyed: ProcessHost) -> None:
    secret = await keyed.connect(await keyed.process())
    del keyed.sandbox.state.app_passwords[secret]

    (finding,) = await examined(keyed)

    assert finding.verdict is Verdict.FAIL
    assert "refuses the stored access of alice" in finding.text


async def test_a_credential_is_not_sent_to_another_nextcloud(keyed: ProcessHost) -> None:
    await keyed.connect(await keyed.process())
    keyed.network.asked.clear()

    (finding,) = await examined(keyed, url="http://other.test")

    assert "1 are of another Nextcloud" in finding.text
    assert keyed.network.asked == []


async def test_a_connection_whose_key_is_missing_is_a_warning(keyed: ProcessHost) -> None:
    await keyed.connect(await keyed.process())
    process = await keyed.process(keys=KeyRing.parse([SecretStr(other := new_key())]))
    await process.database.sealing_keys.settle()

    (finding,) = await examined(keyed, token_encryption_keys=other)

    assert finding.verdict is Verdict.WARN
    assert "1 do not open, because their key is missing" in finding.text


async def test_a_nextcloud_that_breaks_off_ends_the_attempts(keyed: ProcessHost) -> None:
    await keyed.connect(await keyed.process())
    keyed.network.before = keyed.network.cut

    (finding,) = await examined(keyed)

    assert finding.verdict is Verdict.FAIL


@pytest.mark.parametrize(("valid", "verdict"), [(True, Verdict.OK), (False, Verdict.FAIL)])
async def test_the_app_password_of_the_settings_is_tried(
    harness: ProcessHost, *, valid: bool, verdict: Verdict
) -> None:
    made = harness.sandbox.state.new_app_password(harness.sandbox.state.users["alice"])
    secret = made.secret if valid else "wrong"

    (finding,) = await examined(harness, nextcloud_username="alice", nextcloud_app_password=SecretStr(secret))

    assert finding.verdict is verdict
    assert "NEXTCLOUD_APP_PASSWORD" in finding.text
    assert secret == "wrong" or secret not in finding.text
