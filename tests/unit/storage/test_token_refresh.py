from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import (
    AuditEntry,
    Credential,
    Elicitation,
    OutboxItem,
    Principal,
    Tokens,
)
from nextcloud_mcp_server.storage.tokens import dump_tokens, load_tokens

Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[bool]]
MakeTokens = Callable[..., Tokens]
Open = Callable[..., Awaitable[Database]]

ID = "credential-1"
LEASE = timedelta(seconds=30)


@pytest.fixture
async def credential(
    database: Database, ask: Ask, complete: Complete, tokens: MakeTokens, alice: Principal
) -> Credential:
    """Connect alice with tokens, and read the credential."""
    await complete(await ask(), tokens=tokens())
    grant = await database.grants.find(alice, "claude")
    assert grant is not None
    return grant.credential


async def current(database: Database) -> Credential:
    found = await database.grants.credential(ID)
    assert found is not None
    return found


async def outbox_of(database: Database) -> list[OutboxItem]:
    return await database.outbox.lease_due(owner="test", lease=timedelta(minutes=5))


@pytest.mark.parametrize("refresh", ["refresh-1", None])
def test_tokens_are_read_as_they_were_written(tokens: MakeTokens, refresh: str | None) -> None:
    given = tokens("access-1", refresh)

    assert load_tokens(dump_tokens(given)) == given


def test_an_end_that_is_not_known_stays_unknown() -> None:
    given = Tokens(SecretStr("access-1"), refresh_token=None, expires_at=None)

    assert load_tokens(dump_tokens(given)) == given


async def test_a_credential_keeps_its_tokens(
    database: Database, credential: Credential, tokens: MakeTokens
) -> None:
    given = tokens()

    assert credential.secret == given.access_token
    assert credential.refresh_token == given.refresh_token
    assert credential.expires_at == given.expires_at
    assert (credential.provider, credential.version) == ("nextcloud_oauth2", 1)
    assert (credential.alternate, credential.retry_at) == (None, None)
    assert await database.grants.credential(ID) == credential
    assert await database.grants.credential("another") is None


async def test_an_app_password_has_no_tokens(
    database: Database, ask: Ask, complete: Complete, alice: Principal
) -> None:
    await complete(await ask())

    grant = await database.grants.find(alice, "claude")

    assert grant is not None
    assert (grant.credential.refresh_token, grant.credential.expires_at) == (None, None)


async def test_a_lease_keeps_a_second_owner_out_until_it_ends(
    database: Database, credential: Credential, advance: Callable[[float], None]
) -> None:
    first = await database.grants.lease(ID, owner="one", lease=LEASE)
    meanwhile = await database.grants.lease(ID, owner="two", lease=LEASE)
    again = await database.grants.lease(ID, owner="one", lease=LEASE)
    advance(30)
    afterwards = await database.grants.lease(ID, owner="two", lease=LEASE)

    assert first == credential
    assert meanwhile is None
    assert again == credential
    assert afterwards == credential


async def test_of_two_processes_one_gets_the_lease(
    database: Database, open_database: Open, credential: Credential
) -> None:
    other = await open_database()
    leased: list[Credential | None] = []

    async def lease(through: Database, owner: str) -> None:
        leased.append(await through.grants.lease(ID, owner=owner, lease=LEASE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease, database, "one")
        tasks.start_soon(lease, other, "two")

    assert sorted(leased, key=lambda one: one is None) == [credential, None]


async def test_there_is_no_lease_of_what_is_gone(database: Database) -> None:
    assert await database.grants.lease(ID, owner="one", lease=LEASE) is None


async def test_new_tokens_take_the_place_of_the_old_and_free_the_lease(
    database: Database, credential: Credential, tokens: MakeTokens
) -> None:
    await database.grants.keep_alternate(ID, tokens("late", "late"))
    await database.grants.lease(ID, owner="one", lease=LEASE)
    new = tokens("access-2", "refresh-2")

    stored = await database.grants.store_refreshed(ID, version=credential.version, tokens=new)

    leased = await database.grants.lease(ID, owner="two", lease=LEASE)
    assert stored
    assert leased is not None
    assert (leased.secret, leased.refresh_token) == (new.access_token, new.refresh_token)
    assert (leased.expires_at, leased.version) == (new.expires_at, 2)
    assert leased.alternate is None


async def test_a_refresh_token_stays_when_the_answer_brings_none(
    database: Database, credential: Credential, tokens: MakeTokens
) -> None:
    await database.grants.store_refreshed(ID, version=1, tokens=tokens("access-2", None))

    stored = await current(database)

    assert stored.secret.get_secret_value() == "access-2"
    assert stored.refresh_token == credential.refresh_token


@pytest.mark.usefixtures("credential")
async def test_of_two_that_refreshed_the_same_version_one_stores(
    database: Database, tokens: MakeTokens
) -> None:
    answers = [
        await database.grants.store_refreshed(ID, version=1, tokens=tokens(access, access))
        for access in ("first", "second")
    ]

    stored = await current(database)
    assert answers == [True, False]
    assert stored.secret.get_secret_value() == "first"
    assert stored.version == 2


@pytest.mark.usefixtures("credential")
async def test_nothing_is_stored_for_a_credential_that_was_refused_meanwhile(
    database: Database, tokens: MakeTokens
) -> None:
    await database.grants.mark_needs_reauth(ID, version=1)

    stored = await database.grants.store_refreshed(ID, version=1, tokens=tokens("access-2", "refresh-2"))

    found = await current(database)
    assert not stored
    assert found.needs_reauth
    assert found.secret.get_secret_value() == "access-1"


@pytest.mark.usefixtures("credential")
async def test_a_late_answer_is_kept_until_the_next_refresh(database: Database, tokens: MakeTokens) -> None:
    late = tokens("late", "refresh of late")

    kept = await database.grants.keep_alternate(ID, late)

    with_alternate = await current(database)
    await database.grants.store_refreshed(ID, version=1, tokens=tokens("access-2", "refresh-2"))
    without = await current(database)
    assert kept
    assert (with_alternate.alternate, with_alternate.version) == (late, 1)
    assert without.alternate is None


@pytest.mark.usefixtures("credential")
async def test_a_late_answer_is_forgotten_with_a_credential_that_is_dead(
    database: Database, tokens: MakeTokens
) -> None:
    await database.grants.keep_alternate(ID, tokens("late", "late"))

    await database.grants.mark_needs_reauth(ID, version=1)

    assert (await current(database)).alternate is None


@pytest.mark.usefixtures("credential")
async def test_a_late_answer_brings_a_dead_credential_back(database: Database, tokens: MakeTokens) -> None:
    late = tokens("late", "refresh of late")
    await database.grants.mark_needs_reauth(ID, version=1)
    await database.grants.keep_alternate(ID, late)
    leased = await database.grants.lease(ID, owner="one", lease=LEASE)

    stored = await database.grants.store_refreshed(ID, version=2, tokens=tokens("access-2", "refresh-2"))

    found = await current(database)
    assert leased is not None
    assert (leased.needs_reauth, leased.alternate) == (True, late)
    assert stored
    assert (found.needs_reauth, found.alternate, found.version) == (False, None, 3)


async def test_tokens_for_a_credential_that_is_gone_are_ended_at_nextcloud(
    *,
    database: Database,
    credential: Credential,
    tokens: MakeTokens,
    alice: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await database.grants.disconnect(alice, audit=entry("disconnect"))
    [known] = await outbox_of(database)
    late = tokens("access-2", "refresh-2")

    stored = await database.grants.store_refreshed(ID, version=1, tokens=late)
    kept = await database.grants.keep_alternate(ID, late)
    await database.grants.abandon(credential, late)

    [item] = await outbox_of(database)
    assert not stored
    assert not kept
    assert load_tokens(known.secret).access_token.get_secret_value() == "access-1"
    assert (item.kind, item.login_name) == ("revoke_tokens", "nextcloud_oauth2")
    assert (item.principal, item.nextcloud_url) == (alice, "https://cloud.example.org")
    assert load_tokens(item.secret) == late


async def test_after_a_temporary_failure_it_is_known_when_to_try_again(
    database: Database, credential: Credential, tokens: MakeTokens, now: Callable[[], datetime]
) -> None:
    later = now() + timedelta(minutes=1)
    await database.grants.lease(ID, owner="one", lease=LEASE)

    await database.grants.release(ID, owner="one", retry_at=later)

    leased = await database.grants.lease(ID, owner="two", lease=LEASE)
    await database.grants.store_refreshed(ID, version=credential.version, tokens=tokens())
    assert leased is not None
    assert leased.retry_at == later
    assert (await current(database)).retry_at is None


@pytest.mark.usefixtures("credential")
async def test_a_process_without_the_lease_cannot_free_it(
    database: Database, now: Callable[[], datetime], advance: Callable[[float], None]
) -> None:
    await database.grants.lease(ID, owner="one", lease=LEASE)
    advance(30)
    await database.grants.lease(ID, owner="two", lease=LEASE)

    await database.grants.release(ID, owner="one", retry_at=now())

    assert await database.grants.lease(ID, owner="three", lease=LEASE) is None
    assert (await current(database)).retry_at is None


async def test_disconnecting_ends_the_tokens_at_nextcloud(
    database: Database, credential: Credential, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    ended = await database.grants.disconnect(alice, audit=entry("disconnect"))

    [item] = await outbox_of(database)
    assert ended is not None
    assert ended.credential == credential
    assert (item.kind, item.login_name) == ("revoke_tokens", "nextcloud_oauth2")
    assert load_tokens(item.secret) == Tokens(
        access_token=credential.secret,
        refresh_token=credential.refresh_token,
        expires_at=credential.expires_at,
    )


async def test_an_access_token_without_a_refresh_token_is_no_app_password(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    tokens: MakeTokens,
    alice: Principal,
    entry: Callable[..., AuditEntry],
) -> None:
    await complete(await ask(), tokens=tokens("access-1", None))

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    assert [item.kind for item in await outbox_of(database)] == ["revoke_tokens"]


@pytest.mark.usefixtures("credential")
async def test_a_late_answer_is_ended_at_nextcloud_too(
    database: Database, tokens: MakeTokens, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    await database.grants.keep_alternate(ID, tokens("late", "late"))

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    ended = {load_tokens(item.secret).access_token.get_secret_value() for item in await outbox_of(database)}
    assert ended == {"access-1", "late"}


@pytest.mark.usefixtures("credential")
async def test_dead_tokens_are_not_sent_to_nextcloud_but_those_that_came_since_are(
    database: Database, tokens: MakeTokens, alice: Principal, entry: Callable[..., AuditEntry]
) -> None:
    await database.grants.mark_needs_reauth(ID, version=1)
    await database.grants.keep_alternate(ID, tokens("late", "late"))

    await database.grants.disconnect(alice, audit=entry("disconnect"))

    [item] = await outbox_of(database)
    assert load_tokens(item.secret).access_token.get_secret_value() == "late"


@pytest.mark.usefixtures("credential")
async def test_tokens_that_are_replaced_are_ended_at_nextcloud(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    tokens: MakeTokens,
    alice: Principal,
    advance: Callable[[float], None],
) -> None:
    advance(1)

    await complete(
        await ask(alice, client_id="codex"), credential_id="credential-2", tokens=tokens("new", "new")
    )

    [item] = await outbox_of(database)
    stored = await database.grants.credential("credential-2")
    assert item.kind == "revoke_tokens"
    assert load_tokens(item.secret).access_token.get_secret_value() == "access-1"
    assert stored is not None
    assert stored.version == 2
    assert await database.grants.credential(ID) is None


@pytest.mark.usefixtures("credential")
async def test_of_two_consent_requests_that_end_together_the_newer_grant_stays_and_the_other_is_ended(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    tokens: MakeTokens,
    alice: Principal,
    now: Callable[[], datetime],
) -> None:
    before = now() - timedelta(seconds=1)

    stored = await complete(
        await ask(alice, client_id="codex"),
        credential_id="credential-2",
        tokens=tokens("older", "older"),
        created_at=before,
    )

    [item] = await outbox_of(database)
    grant = await database.grants.find(alice, "codex")
    assert stored
    assert load_tokens(item.secret).access_token.get_secret_value() == "older"
    assert grant is not None
    assert grant.credential.id == ID
    assert grant.permission is not None


async def test_a_second_client_uses_the_tokens_that_are_stored_now(
    *,
    database: Database,
    ask: Ask,
    complete: Complete,
    tokens: MakeTokens,
    credential: Credential,
    alice: Principal,
) -> None:
    asked = await ask(alice, client_id="codex")
    new = tokens("access-2", "refresh-2")
    await database.grants.store_refreshed(ID, version=1, tokens=new)

    await complete(asked, tokens=tokens(), created_at=credential.created_at)

    grant = await database.grants.find(alice, "codex")
    assert grant is not None
    assert grant.credential.secret == new.access_token
    assert await outbox_of(database) == []


@pytest.mark.usefixtures("credential")
async def test_without_its_key_a_credential_is_neither_read_nor_leased(
    database: Database, open_database: Open
) -> None:
    without_key = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await without_key.grants.credential(ID)
    with pytest.raises(Unsealable):
        await without_key.grants.lease(ID, owner="one", lease=LEASE)

    assert await database.grants.lease(ID, owner="two", lease=LEASE) is not None
