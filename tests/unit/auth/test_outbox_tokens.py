from datetime import timedelta

import anyio
import httpx2

from nextcloud_mcp_server.auth import outbox as module
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.auth.token_refresh import THROTTLED
from nextcloud_mcp_server.storage.records import Tokens
from nextcloud_mcp_server.storage.tokens import REVOKE_TOKENS, dump_tokens
from tests.auth_fixtures import NEXTCLOUD
from tests.oauth_fixtures import Office, Replica, caller, is_refresh

ALICE = caller("alice")
DELETION = "/core/apppassword"
HOUR = 3600


async def put(office: Office, replica: Replica, *, renewable: bool = True) -> Tokens:
    """Put the end of newly given tokens into the outbox."""
    exchanged = await replica.provider.exchange_code(code=office.code(), verifier=None, nonce=None)
    tokens = exchanged.tokens
    if not renewable:
        tokens = Tokens(tokens.access_token, None, tokens.expires_at)
    await replica.database.outbox.add(
        principal=ALICE.principal,
        kind=REVOKE_TOKENS,
        nextcloud_url=NEXTCLOUD,
        login_name=replica.provider.name,
        secret=dump_tokens(tokens),
    )
    return tokens


async def test_living_tokens_are_ended_with_the_access_token(office: Office, replica: Replica) -> None:
    await put(office, replica)

    await replica.outbox.run_once()

    assert office.families == 0
    assert office.refreshes() == 0
    assert not await replica.outbox.waiting(ALICE.principal)


async def test_a_dead_access_token_is_replaced_to_end_what_it_belongs_to(
    office: Office, replica: Replica
) -> None:
    await put(office, replica)
    office.harness.clock.forward(HOUR)

    await replica.outbox.run_once()

    assert office.families == 0
    assert office.refreshes() == 1
    assert not await replica.outbox.waiting(ALICE.principal)


async def test_an_access_token_that_is_refused_before_its_time_is_replaced(
    office: Office, replica: Replica
) -> None:
    tokens = await put(office, replica)
    access_token = tokens.access_token.get_secret_value()
    kept = office.harness.sandbox.state.app_passwords
    kept["another"] = kept[access_token]

    async def refuse_the_first(request: httpx2.Request) -> httpx2.Response | None:
        if f"Bearer {access_token}" == request.headers.get("Authorization"):
            return httpx2.Response(401, request=request)
        return None

    office.harness.network.before = refuse_the_first
    await replica.outbox.run_once()

    assert office.families == 0


async def test_tokens_that_are_dead_count_as_ended(office: Office, replica: Replica) -> None:
    await put(office, replica)
    office.harness.sandbox.state.oauth_grants.clear()
    office.harness.clock.forward(HOUR)

    await replica.outbox.run_once()

    assert not await replica.outbox.waiting(ALICE.principal)


async def test_a_dead_access_token_without_a_refresh_token_has_nothing_left_to_end(
    office: Office, replica: Replica
) -> None:
    await put(office, replica, renewable=False)
    office.harness.clock.forward(HOUR)

    await replica.outbox.run_once()

    assert office.refreshes() == 0
    assert not await replica.outbox.waiting(ALICE.principal)


async def test_what_was_refreshed_to_be_ended_survives_a_failure_in_between(
    office: Office, replica: Replica
) -> None:
    await put(office, replica)
    office.harness.clock.forward(HOUR)

    async def cut_the_deletion(request: httpx2.Request) -> httpx2.Response | None:
        return None if is_refresh(request) else await office.harness.network.cut(request)

    office.harness.network.before = cut_the_deletion
    await replica.outbox.run_once()
    office.harness.network.before = None
    left = office.families
    office.harness.clock.forward(module.FIRST_RETRY_SECONDS)
    other = await office.replica()
    await other.outbox.run_once()

    assert left == 1
    assert office.families == 0
    assert office.refreshes() == 1


async def test_a_server_that_stops_while_it_refreshes_keeps_the_answer(
    office: Office, replica: Replica
) -> None:
    await put(office, replica)
    office.harness.clock.forward(HOUR)

    async def stop(request: httpx2.Request) -> None:
        if is_refresh(request):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    async def hold_the_rest(request: httpx2.Request) -> None:
        if not is_refresh(request):
            await anyio.sleep_forever()

    office.harness.network.before, office.harness.network.after = hold_the_rest, stop
    async with anyio.create_task_group() as group:
        group.start_soon(replica.outbox.run_once)
    office.harness.network.before = office.harness.network.after = None
    other = await office.replica()
    office.harness.clock.forward(module.LEASE.total_seconds())
    await other.outbox.run_once()

    assert office.families == 0
    assert office.refreshes() == 1


async def test_an_answer_that_does_not_come_is_tried_again(office: Office, replica: Replica) -> None:
    await put(office, replica)
    office.harness.clock.forward(HOUR)
    outbox = module.Outbox(
        replica.database,
        LoginFlowProvider(replica.nextcloud, replica.database, clock=office.harness.clock),
        clock=office.harness.clock,
        within=None,
        redirects={replica.provider.name: replica.provider},
        refresh_seconds=0.05,
    )

    async def never(request: httpx2.Request) -> None:
        await anyio.sleep_forever()

    office.harness.network.before = never
    with anyio.fail_after(60):
        await outbox.run_once()
    office.harness.network.before = None
    office.harness.clock.forward(module.FIRST_RETRY_SECONDS)
    await replica.outbox.run_once()

    assert office.families == 0


async def test_a_new_access_token_that_is_refused_is_tried_again(office: Office, replica: Replica) -> None:
    await put(office, replica)

    async def refuse(request: httpx2.Request) -> httpx2.Response | None:
        return None if is_refresh(request) else httpx2.Response(401, request=request)

    office.harness.network.before = refuse
    await replica.outbox.run_once()

    assert await replica.outbox.waiting(ALICE.principal)


async def test_a_429_pauses_token_requests_for_half_an_hour(office: Office, replica: Replica) -> None:
    await put(office, replica)
    office.harness.clock.forward(HOUR)
    for _ in range(10):
        office.harness.sandbox.token_throttle.count("127.0.0.1")

    await replica.outbox.run_once()

    due = await replica.database.outbox.next_due_at()
    assert due == office.harness.clock() + THROTTLED


async def test_tokens_of_a_provider_that_the_settings_no_longer_name_wait(
    office: Office, replica: Replica
) -> None:
    await put(office, replica)
    other = await office.replica(configured=False)

    await other.outbox.run_once()
    office.harness.clock.forward(timedelta(hours=2).total_seconds())
    await replica.outbox.run_once()

    assert office.families == 0
    assert len(office.harness.network.to(DELETION)) == 1
