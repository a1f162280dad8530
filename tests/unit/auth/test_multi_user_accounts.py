from dataclasses import replace

import pytest

from nextcloud_mcp_server.auth.accounts import Disconnected
from nextcloud_mcp_server.auth.multi_user_accounts import MultiUserAccounts
from nextcloud_mcp_server.errors import ElicitationRequired
from tests.auth_fixtures import READ, Process, ProcessHost

ACCOUNT_URL = "https://mcp.test/account"


@pytest.fixture
def accounts(harness: ProcessHost, process: Process) -> MultiUserAccounts:
    return MultiUserAccounts(
        process.database,
        process.nextcloud,
        process.provisioning,
        process.outbox,
        process.audit,
        account_url=ACCOUNT_URL,
        monotonic=harness.clock.seconds,
    )


async def test_a_client_ends_its_own_access_at_once_and_leaves_the_others_and_the_connection(
    harness: ProcessHost, process: Process, accounts: MultiUserAccounts
) -> None:
    await harness.connect(process)
    other = replace(harness.caller, client_id="other")
    await process.approve((await process.ask(other)).id, READ)
    await accounts.open(other, READ)
    await accounts.open(harness.caller, READ)

    ended = await accounts.disconnect(other)

    assert ended == Disconnected(was_connected=True, at_nextcloud=False, account_url=ACCOUNT_URL)
    assert await accounts.find(other) is None
    with pytest.raises(ElicitationRequired):
        await accounts.open(other, READ)
    assert (await accounts.open(harness.caller, READ)).account.uid == "alice"
    assert len(harness.app_passwords) == 1


async def test_a_client_that_was_allowed_nothing_ends_nothing(
    harness: ProcessHost, process: Process, accounts: MultiUserAccounts
) -> None:
    await harness.connect(process)

    ended = await accounts.disconnect(replace(harness.caller, client_id="other"))

    assert not ended.was_connected
    assert await accounts.find(harness.caller) is not None
