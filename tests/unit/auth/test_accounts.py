import dataclasses
from collections.abc import Callable
from functools import partial

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth import accounts as module
from nextcloud_mcp_server.auth.accounts import Connection, Disconnected
from nextcloud_mcp_server.auth.operator_accounts import OperatorAccounts
from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    ElicitationRequired,
    ElicitationUnknown,
    MissingScope,
    TokenTooNarrow,
    Unreachable,
    Unsealable,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from tests.auth_fixtures import READ, WRITE, Process, ProcessHost, together


async def test_an_unknown_user_is_asked(harness: ProcessHost, process: Process) -> None:
    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ)


async def test_a_connected_user_is_let_in_with_their_scopes(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)

    opened = await process.accounts.open(harness.caller, READ)

    assert opened.account.uid == "alice"
    assert opened.scopes == READ
    assert (await opened.account.user.get()).uid == "alice"


async def test_a_permission_that_is_missing_is_asked_for(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ | WRITE)


async def test_another_users_connection_is_not_used(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(personal_caller("http://elsewhere.test", "Claude Code"), READ)


async def test_settings_that_became_narrower_bound_what_was_permitted(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process, READ | WRITE)
    read_only = await harness.process(bound=READ)

    assert (await read_only.accounts.open(harness.caller, READ)).scopes == READ
    assert (await read_only.accounts.connection(harness.caller)).scopes == READ
    with pytest.raises(MissingScope):
        await read_only.accounts.open(harness.caller, WRITE)


async def test_an_account_that_one_client_opened_is_opened_for_no_other_client(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)
    other = dataclasses.replace(harness.caller, client_id="another")

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(other, READ)

    assert await process.accounts.find(other) is None


async def test_what_a_wide_token_opened_is_opened_for_a_narrow_one_only_as_far_as_it_goes(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)
    narrow = dataclasses.replace(harness.caller, token_scopes=frozenset({"files:read"}))

    with pytest.raises(TokenTooNarrow, match="does not cover notes:read"):
        await process.accounts.open(narrow, READ)

    opened = await process.accounts.find(narrow)
    assert opened is not None
    assert opened.scopes == frozenset()
    assert (await process.accounts.connection(narrow)).scopes == frozenset()


async def test_a_second_call_within_seconds_costs_no_query(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)
    first = await process.accounts.open(harness.caller, READ)
    harness.clock.forward(module.CACHE_SECONDS)

    assert await process.accounts.open(harness.caller, READ) is first


async def test_accounts_that_are_not_opened_again_do_not_stay_in_memory(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    for number in range(3):
        other = dataclasses.replace(harness.caller, client_id=f"client {number}")
        await process.approve((await process.ask(other)).id, READ)
        await process.accounts.open(other, READ)
        harness.clock.forward(module.CACHE_SECONDS + 1)

    await process.accounts.open(harness.caller, READ)

    assert len(process.accounts._cache) == 1  # pyright: ignore[reportPrivateUsage]


async def test_a_disconnect_by_another_process_is_noticed_within_seconds(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process()
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)
    await other.accounts.disconnect(harness.caller)

    harness.clock.forward(module.CACHE_SECONDS + 0.1)

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ)


async def test_a_disconnect_of_its_own_is_noticed_at_once(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)
    await process.accounts.open(harness.caller, READ)

    await process.accounts.disconnect(harness.caller)

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ)


async def test_what_was_read_before_a_refusal_is_not_found_after_it(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    opened = await process.accounts.open(harness.caller, READ)
    harness.clock.forward(module.CACHE_SECONDS + 0.1)

    await together(
        partial(process.accounts.open, harness.caller, READ),
        partial(process.accounts.reject, harness.caller, opened),
    )

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ)


async def test_what_was_read_before_a_disconnect_is_not_found_after_it(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process()
    await harness.connect(process)
    process.accounts.forget()
    async with anyio.create_task_group() as group:
        group.start_soon(process.accounts.open, harness.caller, READ)
        # The other one reads already.
        await anyio.lowlevel.checkpoint()
        process.accounts.forget()

    await other.accounts.disconnect(harness.caller)

    with pytest.raises(ElicitationRequired):
        await process.accounts.open(harness.caller, READ)


async def test_a_refused_credential_is_never_used_again(harness: ProcessHost, process: Process) -> None:
    other = await harness.process()
    await harness.connect(process)
    opened = await process.accounts.open(harness.caller, READ)

    await process.accounts.reject(harness.caller, opened)

    for one in (process, other):
        with pytest.raises(ElicitationRequired, match="no longer accepts"):
            await one.accounts.open(harness.caller, READ)
    known = await process.accounts.connection(harness.caller)
    assert (known.connected, known.needs_reauth) == (False, True)


async def test_an_app_password_that_is_given_up_is_deleted_at_nextcloud_an_hour_later(
    harness: ProcessHost, process: Process
) -> None:
    """What Nextcloud refused by mistake would otherwise open the account for ever, known to no one."""
    app_password = await harness.connect(process)
    opened = await process.accounts.open(harness.caller, READ)
    await process.accounts.reject(harness.caller, opened)

    await process.outbox.run_once()
    soon = set(harness.app_passwords)
    harness.clock.forward(3601)
    await process.outbox.run_once()

    assert soon == {app_password}
    assert harness.app_passwords == set()
    assert not await process.outbox.waiting(harness.caller.principal)


async def test_a_refusal_is_audited_once_however_many_calls_met_it(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    opened = await process.accounts.open(harness.caller, READ)

    await together(*[partial(process.accounts.reject, harness.caller, opened)] * 5)

    entries = await process.database.audit.recent(harness.caller.principal, 50)
    assert [entry.result for entry in entries].count("refused by Nextcloud") == 1


async def test_a_late_refusal_of_an_old_credential_leaves_the_new_one_alone(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    old = await process.accounts.open(harness.caller, READ)
    await process.accounts.reject(harness.caller, old)
    await harness.connect(process)

    await process.accounts.reject(harness.caller, old)

    assert (await process.accounts.open(harness.caller, READ)).account.uid == "alice"


async def test_an_unknown_user_has_no_connection(harness: ProcessHost, process: Process) -> None:
    assert await process.accounts.connection(harness.caller) == Connection(
        connected=False,
        account_name="",
        display_name="",
        scopes=frozenset(),
        needs_reauth=False,
        by_operator=False,
    )


async def test_the_connection_says_whose_account_it_is(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)

    known = await process.accounts.connection(harness.caller)

    assert known.connected
    assert known.account_name == "alice"
    assert known.display_name == harness.sandbox.state.users["alice"].display_name
    assert known.scopes == READ


async def test_a_client_without_permission_sees_the_connection_without_any(
    harness: ProcessHost, process: Process
) -> None:
    await harness.give(process, secret="app-password", client_id="another")

    known = await process.accounts.connection(harness.caller)

    assert (known.connected, known.scopes) == (True, frozenset())
    with pytest.raises(ElicitationRequired, match="permission you have not given"):
        await process.accounts.open(harness.caller, READ)


async def test_disconnecting_deletes_the_app_password_at_nextcloud(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)

    ended = await process.accounts.disconnect(harness.caller)

    assert ended == Disconnected(was_connected=True, at_nextcloud=True)
    assert harness.app_passwords == set()
    entries = await process.database.audit.recent(harness.caller.principal, 1)
    assert [entry.action for entry in entries] == ["disconnect"]


async def test_disconnecting_nothing_is_no_error(harness: ProcessHost, process: Process) -> None:
    ended = await process.accounts.disconnect(harness.caller)

    assert ended == Disconnected(was_connected=False, at_nextcloud=True)


async def test_disconnecting_while_nextcloud_is_down_is_finished_later(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    harness.network.before = harness.network.cut

    ended = await process.accounts.disconnect(harness.caller)
    harness.network.before = None
    kept = harness.app_passwords
    other = await harness.process()
    harness.clock.forward(5)
    await other.outbox.run_once()

    assert ended == Disconnected(was_connected=True, at_nextcloud=False)
    assert len(kept) == 1
    assert await process.grant(harness.caller) is None
    assert harness.app_passwords == set()


async def test_disconnecting_does_not_wait_long_for_a_slow_nextcloud(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)

    async def never(request: httpx2.Request) -> None:
        await anyio.sleep_forever()

    harness.network.before = never
    accounts = module.GrantedAccounts(
        process.database,
        process.nextcloud,
        process.provisioning,
        process.outbox,
        process.audit,
        revoke_seconds=0.05,
    )
    with anyio.fail_after(60):
        ended = await accounts.disconnect(harness.caller)

    assert ended == Disconnected(was_connected=True, at_nextcloud=False)


async def test_a_connection_whose_key_is_lost_can_be_ended_and_made_anew(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    other = await harness.process(keys=KeyRing.parse([SecretStr(new_key())]))
    with pytest.raises(Unsealable):
        await other.accounts.open(harness.caller, READ)

    await other.accounts.disconnect(harness.caller)
    await harness.connect(other)

    assert (await other.accounts.open(harness.caller, READ)).account.uid == "alice"


def operator(
    harness: ProcessHost,
    process: Process,
    secret: str,
    *,
    monotonic: Callable[[], float] = anyio.current_time,
) -> OperatorAccounts:
    return OperatorAccounts(
        process.nextcloud, login_name="alice", secret=SecretStr(secret), bound=READ, monotonic=monotonic
    )


@pytest.fixture
def app_password(harness: ProcessHost) -> str:
    return harness.sandbox.state.new_app_password(harness.sandbox.state.users["alice"]).secret


async def slowly(request: httpx2.Request) -> None:
    """Let others go on while Nextcloud answers."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_the_operators_account_has_no_page_to_change_it(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    assert operator(harness, process, app_password).account_url == ""


async def test_the_operators_account_is_opened_once_for_all(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    accounts = operator(harness, process, app_password)
    harness.network.before = slowly

    await together(*[partial(accounts.open, harness.caller, READ)] * 5)
    opened = await accounts.open(harness.caller, READ)
    known = await accounts.connection(harness.caller)

    assert opened.account.uid == "alice"
    assert len(harness.network.to("/cloud/user")) == 1
    assert known == Connection(
        connected=True,
        account_name="alice",
        display_name=harness.sandbox.state.users["alice"].display_name,
        scopes=READ,
        needs_reauth=False,
        by_operator=True,
    )


async def test_the_operators_account_is_bound_by_the_settings(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    with pytest.raises(MissingScope, match="notes:write"):
        await operator(harness, process, app_password).open(harness.caller, WRITE)
    assert harness.network.asked == []


async def test_a_refused_operator_credential_is_sent_twice_even_by_calls_that_come_together(
    harness: ProcessHost, process: Process
) -> None:
    accounts = operator(harness, process, "wrong")
    harness.network.before = slowly
    refused: list[str] = []

    async def call() -> None:
        with pytest.raises(CredentialRejected) as caught:
            await accounts.open(harness.caller, READ)
        refused.append(str(caught.value))

    await together(*[call] * 10)
    await call()

    assert harness.refusals() == 2
    assert len(refused) == 11
    assert "NEXTCLOUD_APP_PASSWORD" in refused[0]


async def test_an_operator_credential_that_is_refused_later_is_left_alone(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    accounts = operator(harness, process, app_password)
    opened = await accounts.open(harness.caller, READ)
    assert await accounts.find(harness.caller) is opened

    await accounts.reject(harness.caller, opened)

    with pytest.raises(CredentialRejected):
        await accounts.open(harness.caller, READ)
    assert await accounts.find(harness.caller) is None
    with pytest.raises(CredentialRejected):
        await accounts.connection(harness.caller)
    assert len(harness.network.to("/cloud/user")) == 1


async def test_an_operator_credential_that_was_refused_by_mistake_works_again_without_a_restart(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    """Asked again after a minute, and less and less often while it stays refused."""
    now = 100.0
    accounts = operator(harness, process, app_password, monotonic=lambda: now)
    opened = await accounts.open(harness.caller, READ)
    known = harness.sandbox.state.app_passwords.pop(app_password)
    with pytest.raises(CredentialRejected):
        await opened.account.user.get()
    await accounts.reject(harness.caller, opened)

    asked: list[float] = []
    while now < 800:
        now += 1
        before = harness.refusals()
        with pytest.raises(CredentialRejected):
            await accounts.open(harness.caller, READ)
        if harness.refusals() != before:
            asked.append(now)
    harness.sandbox.state.app_passwords[app_password] = known
    now += 1000
    again = await accounts.open(harness.caller, READ)

    assert asked == [160, 280, 520]
    assert (await again.account.user.get()).uid == "alice"
    assert (await opened.account.user.get()).uid == "alice"


async def test_a_second_call_that_met_the_same_refusal_does_not_prolong_the_pause(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    now = 100.0
    accounts = operator(harness, process, app_password, monotonic=lambda: now)
    opened = await accounts.open(harness.caller, READ)
    await accounts.reject(harness.caller, opened)

    now = 130.0
    await accounts.reject(harness.caller, opened)
    now = 160.0

    assert (await accounts.open(harness.caller, READ)).account.uid == "alice"


async def test_an_operators_nextcloud_that_was_down_is_asked_again(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    accounts = operator(harness, process, app_password)
    harness.network.before = harness.network.cut
    with pytest.raises(Unreachable):
        await accounts.open(harness.caller, READ)

    harness.network.before = None

    assert (await accounts.open(harness.caller, READ)).account.uid == "alice"


async def test_what_the_operator_gave_only_the_operator_takes_back(
    harness: ProcessHost, process: Process, app_password: str
) -> None:
    with pytest.raises(MissingScope, match="NEXTCLOUD_APP_PASSWORD"):
        await operator(harness, process, app_password).disconnect(harness.caller)
    assert harness.app_passwords == {app_password}


async def test_with_the_operators_account_there_is_nothing_to_decline(
    harness: ProcessHost, process: Process
) -> None:
    with pytest.raises(ElicitationUnknown):
        await operator(harness, process, "secret").decline("550e8400-e29b-41d4-a716-446655440000")
