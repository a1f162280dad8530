"""One refresh token, many processes: frozen, killed, disconnected, and answers that are none.

The processes are real ones on one database file; Nextcloud is the sandbox behind real sockets, which
kills a refresh token at its use, counts every failure, and has no grace for the one before.
"""

import sys
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.outbox import FIRST_RETRY_SECONDS
from nextcloud_mcp_server.auth.token_refresh import LEASE, REQUEST_SECONDS, RETRY
from nextcloud_mcp_server.errors import ElicitationRequired, NextcloudError, TimedOut
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.sandbox.request_log import RequestRecord
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from tests.auth_fixtures import READ, ProcessHost, open_harness
from tests.oauth_fixtures import TOKEN, Office, Replica, caller, is_refresh, new_gate, office_of
from tests.processes import Worker, open_workers

ALICE = caller("alice")
HOUR = timedelta(hours=1)
UID = {"uid": "alice"}

posix = pytest.mark.skipif(sys.platform == "win32", reason="processes are frozen and killed by signals")


class Shared:
    """Eight processes' worth of Nextcloud: the harness, its grant of Alice's, and the address."""

    def __init__(self, office: Office, url: str, key: str) -> None:
        self.office, self.url, self._key = office, url, key
        self.ends: datetime = office.harness.clock() + HOUR

    def workers(self, count: int):  # noqa: ANN201 - an asynchronous context manager of workers
        return open_workers(self.office, self.url, count, keys=[self._key])

    @property
    def token_requests(self) -> list[RequestRecord]:
        return [one for one in self.office.harness.sandbox.requests.records if one.path.endswith(TOKEN)]


@pytest.fixture
def version() -> ProfileName:
    return USUAL


@pytest.fixture
async def shared(tmp_path: Path, template: Path, version: ProfileName) -> AsyncGenerator[Shared]:
    key = new_key()
    async with open_harness(tmp_path, template, version) as harness, serving(harness.sandbox) as url:
        harness.keys = KeyRing.parse([SecretStr(key)])
        office = office_of(harness)
        replica = await office.replica()
        await office.connect(replica)
        harness.sandbox.requests.clear()
        yield Shared(office, url, key)


async def all_call(workers: list[Worker], at: datetime) -> list[dict[str, str]]:
    for worker in workers:
        await worker.order(at)
    return [await worker.answer() for worker in workers]


@pytest.mark.process
@pytest.mark.parametrize("version", ["32", "34"])
async def test_eight_processes_refresh_an_expired_token_once(shared: Shared) -> None:
    """From 33 on a second use would be refused, and counted as a failed login (nextcloud/server#59767)."""
    async with shared.workers(8) as workers:
        for number in range(3):
            answers = await all_call(workers, shared.ends + number * HOUR)
            assert answers == [UID] * 8

    assert [one.status for one in shared.token_requests] == [200] * 3
    assert shared.office.harness.sandbox.token_throttle.delay_ms("127.0.0.1") == 0
    assert shared.office.families == 1


@pytest.mark.process
@posix
async def test_a_holder_frozen_past_its_lease_gives_its_answer_to_those_who_gave_up(shared: Shared) -> None:
    """Frozen between Nextcloud's answer and the database, it alone knows the living token."""
    async with shared.workers(3) as (frozen, other, third):
        await frozen.order(shared.ends, trap="SIGSTOP")
        await frozen.stopped()
        given_up = await other.call(shared.ends + LEASE)
        frozen.thaw()
        late = await frozen.answer()
        after = await third.call(shared.ends + LEASE)

    assert "grant it again" in given_up["asked"]
    assert (late, after) == (UID, UID)
    assert [one.status for one in shared.token_requests] == [200, 400, 200]


@pytest.mark.process
@posix
@pytest.mark.parametrize("version", ["32"])
async def test_of_two_refreshes_that_nextcloud_answers_the_late_one_changes_nothing(shared: Shared) -> None:
    shared.office.harness.sandbox.state.oauth_races = 1
    async with shared.workers(2) as (frozen, other):
        await frozen.order(shared.ends, trap="SIGSTOP")
        await frozen.stopped()
        first = await other.call(shared.ends + LEASE)
        frozen.thaw()
        late = await frozen.answer()
        again = await other.call(shared.ends + LEASE + HOUR)

    assert (first, late, again) == (UID, UID, UID)
    assert [one.status for one in shared.token_requests] == [200, 200, 200]


@pytest.mark.process
@posix
async def test_killed_between_answer_and_storing_a_person_is_asked_once_and_never_in_a_loop(
    shared: Shared,
) -> None:
    async with shared.workers(2) as (killed, other):
        await killed.order(shared.ends, trap="SIGKILL")
        await killed.process.wait()
        answers = [await other.call(shared.ends + LEASE) for _ in range(4)]

        shared.office.harness.clock.forward(HOUR.total_seconds())
        replica = await shared.office.replica()
        await shared.office.connect(replica)
        works = await other.call(shared.office.harness.clock())

    assert all("grant it again" in one["asked"] for one in answers)
    assert works == UID
    # The lost refresh, one that found it lost, and the new consent's.
    assert [one.status for one in shared.token_requests] == [200, 400, 200]


async def test_a_disconnect_is_told_to_nextcloud_even_after_a_failed_first_try(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    office.harness.network.before = office.harness.network.cut
    ended = await replica.accounts.disconnect(ALICE)
    office.harness.network.before = None
    left = office.families

    other = await office.replica()
    office.harness.clock.forward(FIRST_RETRY_SECONDS)
    await other.outbox.run_once()

    assert (ended.was_connected, ended.at_nextcloud) == (True, False)
    assert (left, office.families) == (1, 0)


async def test_a_disconnect_long_after_the_last_call_refreshes_to_revoke(
    office: Office, replica: Replica
) -> None:
    await office.connect(replica)
    office.harness.clock.forward(30 * 24 * 3600)

    ended = await replica.accounts.disconnect(ALICE)

    assert ended.at_nextcloud
    assert office.families == 0


async def test_a_token_whose_answer_timed_out_is_sent_once_more_after_a_pause_and_then_never(
    office: Office,
) -> None:
    """Only sending it tells whether it was exchanged, and each refusal is a failed login of our address."""
    hasty, other = await office.replica(request_seconds=0.2), await office.replica()
    await office.connect(hasty)
    office.harness.clock.forward(HOUR.total_seconds())
    office.harness.network.after = new_gate()
    refreshed: list[int] = []

    with pytest.raises(TimedOut):
        await hasty.accounts.open(ALICE, READ)
    office.harness.network.after = None
    # What it sends from here on is answered, if late where the machine is busy.
    hasty.broker._exchange._request_seconds = REQUEST_SECONDS  # pyright: ignore[reportPrivateUsage]
    for seconds, raised in (
        (0, NextcloudError),
        (RETRY.total_seconds(), ElicitationRequired),
        (3600, ElicitationRequired),
    ):
        office.harness.clock.forward(seconds)
        for process in (hasty, other, hasty, other):
            with pytest.raises(raised):
                await process.accounts.open(ALICE, READ)
        refreshed.append(office.refreshes())

    assert refreshed == [1, 2, 2]
    statuses = [one.status for one in office.harness.sandbox.requests.records if one.path.endswith(TOKEN)]
    assert statuses[-2:] == [200, 400]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_disconnect_fences_a_running_refresh(office: Office, replica: Replica, when: str) -> None:
    """Without a fence the answer would bring the grant back, or live on at Nextcloud, known to no one."""
    other = await office.replica()
    await office.connect(replica)
    office.harness.clock.forward(HOUR.total_seconds())
    gate = new_gate()
    setattr(office.harness.network, when, gate)

    async def call() -> None:
        with pytest.raises(ElicitationRequired):
            await replica.accounts.open(ALICE, READ)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.came.wait()
        await other.accounts.disconnect(ALICE)
        gate.open.set()
    await other.outbox.run_once()

    assert await replica.grant_or_none() is None
    assert office.families == 0


async def test_a_new_consent_during_a_refresh_leaves_one_grant_behind(
    office: Office, replica: Replica
) -> None:
    other = await office.replica()
    await office.connect(replica)
    office.harness.clock.forward(HOUR.total_seconds())
    office.harness.network.after = gate = new_gate()
    newer: list[str] = []
    opened: list[str] = []

    async def call() -> None:
        opened.append((await replica.accounts.open(ALICE, READ)).credential_id)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.came.wait()
        office.harness.network.after = None
        newer.append((await office.connect(other)).credential.id)
        gate.open.set()
    await other.outbox.run_once()

    assert opened == newer
    assert office.families == 1


async def test_one_persons_dead_grant_leaves_the_others_alone(office: Office, replica: Replica) -> None:
    await office.connect(replica, "alice")
    await office.connect(replica, "bob")
    state = office.harness.sandbox.state
    state.oauth_grants[:] = [
        one for one in state.oauth_grants if state.app_passwords[one.access_token].uid == "bob"
    ]
    office.harness.clock.forward(HOUR.total_seconds())

    with pytest.raises(ElicitationRequired):
        await replica.accounts.open(ALICE, READ)
    bob = await replica.accounts.open(caller("bob"), READ)

    assert (await bob.account.user.get()).uid == "bob"


BAD = {
    "a page": httpx2.Response(200, html="<html>Log in</html>"),
    "endless": httpx2.Response(200, content=b"{" + b" " * 1_000_000),
    "a redirect": httpx2.Response(307, headers={"Location": "https://evil.test/token"}),
    "no access token": httpx2.Response(200, json={"refresh_token": "r" * 128}),
    "an unknown no": httpx2.Response(400, json={"error": "temporarily_unavailable"}),
    "too many": httpx2.Response(429, html="<html>Too many requests</html>"),
    "a fault": httpx2.Response(500, html="<html>Internal Server Error</html>"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_an_invalid_response_costs_no_user_their_connection(
    office: Office, replica: Replica, kind: str
) -> None:
    await office.connect(replica)
    office.harness.clock.forward(HOUR.total_seconds())

    async def answer(request: httpx2.Request) -> httpx2.Response | None:
        given = BAD[kind]
        assert request.url.host == "nextcloud.test"
        if not is_refresh(request):
            return None
        return httpx2.Response(given.status_code, headers=given.headers, content=given.content)

    office.harness.network.before = answer
    for _ in range(3):
        with pytest.raises(NextcloudError):
            await replica.accounts.open(ALICE, READ)
    office.harness.network.before = None
    asked = office.refreshes()
    office.harness.clock.forward(1800 if kind == "too many" else RETRY.total_seconds())

    assert asked == 1
    assert (await replica.accounts.open(ALICE, READ)).account.uid == "alice"


async def test_no_token_is_in_the_database_in_clear(
    office: Office, replica: Replica, harness: ProcessHost
) -> None:
    grant = await office.connect(replica)
    late = await replica.provider.exchange_code(code=office.code(), verifier=None, nonce=None)
    await replica.database.grants.keep_alternate(grant.credential.id, late.tokens)
    await replica.database.outbox.add(
        principal=ALICE.principal,
        kind="revoke_tokens",
        nextcloud_url="http://nextcloud.test",
        login_name=replica.provider.name,
        secret=SecretStr(late.tokens.access_token.get_secret_value()),
    )

    written = b"".join(file.read_bytes() for file in harness.folder.iterdir() if "state.db" in file.name)

    refresh_token = grant.credential.refresh_token
    assert refresh_token is not None
    for secret in (grant.credential.secret, refresh_token, late.tokens.access_token):
        assert secret.get_secret_value().encode() not in written
