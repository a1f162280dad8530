from functools import partial

import anyio
import pytest

from nextcloud_mcp_server.auth import accounts as module
from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.errors import ElicitationRequired, MissingScope, NextcloudError, Unavailable
from tests.auth_fixtures import READ, WRITE, together
from tests.oauth_fixtures import ACCOUNT, Office, Replica, caller, is_refresh, new_gate

ALICE = caller("alice")
HOUR = 3600


async def test_an_access_token_opens_the_account(office: Office, replica: Replica) -> None:
    await office.connect(replica)

    opened = await replica.accounts.open(ALICE, READ)

    assert (await opened.account.user.get()).uid == "alice"


async def test_an_expired_token_is_refreshed_on_the_way(office: Office, replica: Replica) -> None:
    await office.connect(replica)
    office.harness.clock.forward(HOUR)

    opened = await replica.accounts.open(ALICE, READ)

    assert (await opened.account.user.get()).uid == "alice"
    assert office.refreshes() == 1


async def test_nothing_is_remembered_past_the_end_of_a_token(office: Office, replica: Replica) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR - 2)
    office.harness.network.before = office.harness.network.cut
    first = await replica.accounts.open(ALICE, READ)
    office.harness.network.before = None

    office.harness.clock.forward(1)
    second = await replica.accounts.open(ALICE, READ)
    office.harness.clock.forward(1.1)
    with pytest.raises(Unavailable):
        await replica.accounts.open(ALICE, READ)
    office.harness.clock.forward(20)
    third = await replica.accounts.open(ALICE, READ)

    assert second is first
    assert third.version == grant.credential.version + 1


async def test_a_token_of_unknown_life_is_remembered_like_an_app_password(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    office.harness.sql("UPDATE credentials SET expires_at = NULL")
    first = await replica.accounts.open(ALICE, READ)
    office.harness.clock.forward(module.CACHE_SECONDS)

    assert await replica.accounts.open(ALICE, READ) is first


async def test_a_dead_grant_is_asked_for_again(office: Office, replica: Replica) -> None:
    await office.connect(replica)
    office.harness.sandbox.state.oauth_grants.clear()
    office.harness.clock.forward(HOUR)

    for _ in range(3):
        with pytest.raises(ElicitationRequired, match="no longer accepts"):
            await replica.accounts.open(ALICE, READ)

    assert office.refreshes() == 1


async def test_a_nextcloud_that_is_away_does_not_send_people_to_a_page(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.before = office.harness.network.cut

    with pytest.raises(NextcloudError):
        await replica.accounts.open(ALICE, READ)

    assert (await replica.accounts.connection(ALICE)).connected


async def test_a_disconnect_during_a_refresh_is_not_undone_by_it(office: Office, replica: Replica) -> None:
    other = await office.replica()
    await office.connect(replica)
    office.harness.clock.forward(HOUR)
    office.harness.network.after = gate = new_gate()
    asked: list[str] = []

    async def call() -> None:
        with pytest.raises(ElicitationRequired) as caught:
            await replica.accounts.open(ALICE, READ)
        asked.append(str(caught.value))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.came.wait()
        await other.accounts.disconnect(ALICE)
        gate.open.set()
    await replica.outbox.run_once()

    assert "one-time setup" in asked[0]
    assert await replica.grant_or_none() is None
    assert office.families == 0


async def test_a_paused_client_is_told_where_the_person_can_let_it_go_on(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    await replica.accounts.open(ALICE, READ)
    await replica.database.grants.set_paused(ALICE.principal, ALICE.client_id, True)
    replica.accounts.forget()

    with pytest.raises(MissingScope) as paused:
        await replica.accounts.open(ALICE, READ)
    assert paused.value.link is not None
    assert paused.value.link.url == ACCOUNT
    assert await replica.accounts.find(ALICE) is None

    await replica.database.grants.set_paused(ALICE.principal, ALICE.client_id, False)
    found = await replica.accounts.find(ALICE)
    assert found is not None
    assert (await replica.accounts.open(ALICE, READ)).account.uid == "alice"


async def test_another_client_of_a_connected_person_has_to_be_allowed_first(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    office.harness.clock.forward(HOUR)

    with pytest.raises(ElicitationRequired, match="permission you have not given"):
        await replica.accounts.open(caller("alice", "another"), READ | WRITE)

    assert office.refreshes() == 0


async def test_a_token_that_was_refused_is_renewed_and_another_is_opened(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    opened = await replica.accounts.open(ALICE, READ)

    await replica.accounts.reject(ALICE, opened)

    again = await replica.accounts.open(ALICE, READ)
    assert again.version == opened.version + 1
    assert (await again.account.user.get()).uid == "alice"


async def test_calls_that_meet_one_refusal_together_share_one_renewal(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    opened = await replica.accounts.open(ALICE, READ)

    await together(*[partial(replica.accounts.reject, ALICE, opened)] * 5)

    assert office.refreshes() == 1
    assert (await replica.grant()).credential.version == opened.version + 1


async def test_a_call_that_comes_while_a_refused_token_is_renewed_waits_for_the_new_one(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    refused = await replica.accounts.open(ALICE, READ)
    office.harness.network.before = gate = new_gate()
    opened: list[Opened] = []

    async def come() -> None:
        opened.append(await replica.accounts.open(ALICE, READ))

    async with anyio.create_task_group() as group:
        group.start_soon(replica.accounts.reject, ALICE, refused)
        await gate.came.wait()
        group.start_soon(come)
        await anyio.wait_all_tasks_blocked()
        gate.open.set()

    assert [one.version for one in opened] == [refused.version + 1]
    assert office.refreshes() == 1


async def test_a_renewed_token_that_is_refused_at_once_is_given_up(office: Office, replica: Replica) -> None:
    await office.connect(replica)
    await replica.accounts.reject(ALICE, await replica.accounts.open(ALICE, READ))
    again = await replica.accounts.open(ALICE, READ)

    await replica.accounts.reject(ALICE, again)
    await replica.accounts.reject(ALICE, again)

    assert office.refreshes() == 1
    with pytest.raises(ElicitationRequired, match="no longer accepts"):
        await replica.accounts.open(ALICE, READ)
    entries = await replica.database.audit.recent(ALICE.principal, 20)
    assert [one.result for one in entries].count("refused by Nextcloud") == 1


async def test_a_renewed_token_that_worked_for_a_while_is_renewed_again(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    await replica.accounts.reject(ALICE, await replica.accounts.open(ALICE, READ))
    again = await replica.accounts.open(ALICE, READ)
    office.harness.clock.forward(module.RENEW_AGAIN_SECONDS)

    await replica.accounts.reject(ALICE, again)

    assert (await replica.accounts.open(ALICE, READ)).version == again.version + 1


async def test_a_refused_token_whose_grant_is_dead_is_given_up_and_audited_once(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    opened = await replica.accounts.open(ALICE, READ)
    office.harness.sandbox.state.oauth_grants.clear()

    await replica.accounts.reject(ALICE, opened)
    await replica.accounts.reject(ALICE, opened)

    entries = await replica.database.audit.recent(ALICE.principal, 20)
    assert [(one.action, one.result) for one in entries if one.action != "consent"] == [
        ("refresh", "refused")
    ]


async def test_a_refusal_of_what_is_gone_changes_nothing(office: Office, replica: Replica) -> None:
    await office.connect(replica)
    opened = await replica.accounts.open(ALICE, READ)
    await replica.accounts.disconnect(ALICE)
    await office.connect(replica)

    await replica.accounts.reject(ALICE, opened)

    assert not (await replica.grant()).credential.needs_reauth


async def test_a_credential_that_vanishes_while_it_is_renewed_is_not_opened(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    opened = await replica.accounts.open(ALICE, READ)
    office.harness.network.after = gate = new_gate()

    async with anyio.create_task_group() as group:
        group.start_soon(replica.accounts.reject, ALICE, opened)
        await gate.came.wait()
        other = await office.replica()
        await other.accounts.disconnect(ALICE)
        gate.open.set()

    with pytest.raises(ElicitationRequired):
        await replica.accounts.open(ALICE, READ)
    assert [one for one in office.harness.network.asked if is_refresh(one)]
