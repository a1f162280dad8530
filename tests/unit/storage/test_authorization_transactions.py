"""Users on their way to Nextcloud and back, and what becomes of what they bring."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import (
    AuthorizationTransaction,
    CodeGrant,
    CompletedTransaction,
    Fresh,
    Refused,
)
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, Principal, SignedIn, Tokens
from tests import sign_in_fixtures
from tests.sign_in_fixtures import BROWSER, CLIENT, NOTES, REQUEST, STATE, URL, outbox

Open = Callable[..., Awaitable[Database]]
Advance = Callable[[float], None]


@pytest.fixture
def auth_transaction(now: Callable[[], datetime]) -> AuthorizationTransaction:
    return sign_in_fixtures.leaving(now)


@pytest.fixture
def completed(
    auth_transaction: AuthorizationTransaction, alice: Principal, now: Callable[[], datetime]
) -> CompletedTransaction:
    return sign_in_fixtures.back(auth_transaction, alice, now)


@pytest.fixture
def connect(database: Database, now: Callable[[], datetime]) -> Callable[..., Awaitable[bool]]:
    """Connect what came back, as its user says yes."""

    async def factory(completed: CompletedTransaction, **differing: str) -> bool:
        return await sign_in_fixtures.connect(database, completed, now, **differing)

    return factory


async def test_a_callback_in_the_same_browser_finds_the_whole_transaction(
    database: Database, auth_transaction: AuthorizationTransaction
) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)

    assert await database.auth_transactions.take(STATE, browser=BROWSER) == auth_transaction


async def test_a_state_is_taken_once(database: Database, auth_transaction: AuthorizationTransaction) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)
    await database.auth_transactions.take(STATE, browser=BROWSER)

    assert await database.auth_transactions.take(STATE, browser=BROWSER) is None


async def test_an_authorization_transaction_that_is_ended_from_another_browser_spends_its_codes(
    database: Database, auth_transaction: AuthorizationTransaction
) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)

    ended = await database.auth_transactions.end(STATE, codes=["code-of-the-victim"])
    again = await database.auth_transactions.end(STATE, codes=["another-code"])

    assert (ended, again) == (True, False)
    assert await database.spent_codes.is_spent("code-of-the-victim")
    assert not await database.spent_codes.is_spent("another-code")


async def test_what_the_outbox_is_ending_already_is_not_held(
    database: Database, completed: CompletedTransaction
) -> None:
    assert completed.tokens
    note = await database.outbox.add_tokens(
        principal=completed.principal, nextcloud_url=URL, provider="nextcloud_oauth2", tokens=completed.tokens
    )

    held = await database.auth_transactions.hold(completed, browser=BROWSER, note=note)

    assert not held
    assert await database.auth_transactions.find(completed.auth_transaction.id, browser=BROWSER) is None
    assert await outbox(database) == ["access-1"]


async def test_another_browser_gets_nothing_and_ends_nothing(
    database: Database, auth_transaction: AuthorizationTransaction
) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)

    assert await database.auth_transactions.take(STATE, browser="another") is None
    assert await database.auth_transactions.take("c-other", browser=BROWSER) is None
    assert await database.auth_transactions.take(STATE, browser=BROWSER) == auth_transaction


async def test_an_authorization_transaction_expires_after_ten_minutes(
    database: Database, auth_transaction: AuthorizationTransaction, advance: Advance
) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)

    advance(600)

    assert await database.auth_transactions.take(STATE, browser=BROWSER) is None


async def test_without_its_key_an_authorization_transaction_must_begin_anew(
    open_database: Open, auth_transaction: AuthorizationTransaction
) -> None:
    await (await open_database()).auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.auth_transactions.take(STATE, browser=BROWSER) is None


async def test_a_sign_in_for_a_page_has_no_request_of_a_client(
    database: Database, now: Callable[[], datetime]
) -> None:
    page = AuthorizationTransaction(
        "transaction-2", "account", None, frozenset(), now() + timedelta(minutes=10)
    )
    await database.auth_transactions.create(page, state="s-state", browser=BROWSER)

    assert await database.auth_transactions.take("s-state", browser=BROWSER) == page


async def test_a_callback_result_waits_in_its_own_browser_only(
    database: Database, completed: CompletedTransaction
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)

    assert await database.auth_transactions.find("transaction-1", browser=BROWSER) == completed
    assert await database.auth_transactions.find("transaction-1", browser="another") is None
    assert await database.auth_transactions.find("transaction-9", browser=BROWSER) is None


async def test_a_transaction_without_a_callback_has_no_user(
    database: Database, auth_transaction: AuthorizationTransaction
) -> None:
    await database.auth_transactions.create(auth_transaction, state=STATE, browser=BROWSER)

    assert await database.auth_transactions.find("transaction-1", browser=BROWSER) is None


async def test_without_its_key_no_user_is_shown_and_nothing_is_lost(
    open_database: Open, completed: CompletedTransaction, advance: Advance
) -> None:
    database = await open_database()
    await database.auth_transactions.hold(completed, browser=BROWSER)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await other.auth_transactions.find("transaction-1", browser=BROWSER)
    advance(600)

    assert await other.auth_transactions.release_due(nextcloud_url=URL) == 0
    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 1


async def test_one_confirmation_connects_account_credential_and_permission(
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    alice: Principal,
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)

    assert await connect(completed)

    grant = await database.grants.find(alice, CLIENT)
    assert grant is not None
    assert (grant.account.uid, grant.credential.secret.get_secret_value()) == ("alice", "access-1")
    assert grant.permission is not None
    assert grant.permission.scopes == NOTES
    assert await database.auth_transactions.find("transaction-1", browser=BROWSER) == replace(
        completed, tokens=None, connected=True
    )
    assert await outbox(database) == []


async def test_a_second_confirmation_changes_nothing(
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    alice: Principal,
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await connect(completed)

    assert await connect(completed, row="2")

    grant = await database.grants.find(alice, CLIENT)
    assert grant is not None
    assert grant.credential.id == "credential-1"
    assert [entry.action for entry in await database.audit.recent(alice, 10)] == ["consent"]


@pytest.mark.parametrize("why", ["never held", "another browser", "too late", "taken back"])
async def test_nothing_is_connected_that_does_not_wait_here(
    *,
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    alice: Principal,
    advance: Advance,
    why: str,
) -> None:
    browser = BROWSER
    if why != "never held":
        await database.auth_transactions.hold(completed, browser=BROWSER)
    match why:
        case "another browser":
            browser = "another"
        case "too late":
            advance(600)
        case "taken back":
            await database.auth_transactions.discard("transaction-1", browser=BROWSER, nextcloud_url=URL)
        case _:
            pass

    assert not await connect(completed, browser=browser)

    assert await database.grants.find(alice, CLIENT) is None


async def test_a_newer_connection_has_the_older_one_ended_at_nextcloud(
    *,
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    tokens: Callable[..., Tokens],
    advance: Advance,
    now: Callable[[], datetime],
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await connect(completed)
    advance(60)
    again = replace(
        completed,
        auth_transaction=replace(
            completed.auth_transaction, id="transaction-2", expires_at=now() + timedelta(minutes=10)
        ),
        tokens=tokens("access-2", "refresh-2"),
    )
    await database.auth_transactions.hold(again, browser=BROWSER)

    assert await connect(again, row="2")

    assert await outbox(database) == ["access-1"]


@pytest.mark.parametrize("is_connected", [True, False])
async def test_the_user_that_signed_in_with_an_account_has_it_and_the_former_one_has_nothing(
    *,
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    entry: Callable[..., AuditEntry],
    tokens: Callable[..., Tokens],
    bob: Principal,
    is_connected: bool,
) -> None:
    await complete(await ask(bob), uid="alice", credential_id="of-bob", tokens=tokens("of-bob"))
    if not is_connected:
        await database.grants.disconnect(bob, audit=entry("disconnect", bob))
    waiting = await ask(bob, client_id="codex")
    await database.auth_transactions.hold(completed, browser=BROWSER)

    assert await connect(completed)

    grant = await database.grants.find(completed.principal, "mcp-claude")
    ended = await database.elicitations.find(waiting.id)
    assert grant is not None
    assert grant.account.uid == "alice"
    assert await database.grants.find(bob, "claude") is None
    assert await database.grants.permissions(bob) == []
    assert ended is not None
    assert ended.state.final
    assert await outbox(database) == ["of-bob"]
    results = [one.result for one in await database.audit.recent(bob, 10)]
    assert "ended: another person's now" in results


async def test_an_account_whose_nextcloud_has_another_address_now_stays_its_persons(
    *,
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    tokens: Callable[..., Tokens],
    advance: Advance,
) -> None:
    await complete(
        await ask(completed.principal), nextcloud_url="http://cloud.example.org", tokens=tokens("of-before")
    )
    advance(1)
    await database.auth_transactions.hold(completed, browser=BROWSER)

    assert await connect(completed, row="2")

    grant = await database.grants.find(completed.principal, "claude")
    assert grant is not None
    assert grant.account.nextcloud_url == URL
    assert grant.permission is not None
    assert await outbox(database) == ["of-before"]


async def test_what_is_not_mine_is_ended_at_nextcloud_and_gone(
    database: Database, completed: CompletedTransaction
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)

    assert not await database.auth_transactions.discard("transaction-1", browser="another", nextcloud_url=URL)
    assert await database.auth_transactions.discard("transaction-1", browser=BROWSER, nextcloud_url=URL)
    assert not await database.auth_transactions.discard("transaction-1", browser=BROWSER, nextcloud_url=URL)

    assert await outbox(database) == ["access-1"]
    assert await database.auth_transactions.find("transaction-1", browser=BROWSER) is None


async def test_what_is_connected_cannot_be_taken_back_here(
    database: Database, completed: CompletedTransaction, connect: Callable[..., Awaitable[bool]]
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await connect(completed)

    assert not await database.auth_transactions.discard("transaction-1", browser=BROWSER, nextcloud_url=URL)
    assert await outbox(database) == []


async def test_an_undecided_transaction_is_ended_at_nextcloud_eventually(
    *,
    database: Database,
    completed: CompletedTransaction,
    auth_transaction: AuthorizationTransaction,
    connect: Callable[..., Awaitable[bool]],
    advance: Advance,
    execute: Callable[..., Awaitable[list[tuple[Any, ...]]]],
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await database.auth_transactions.create(
        replace(auth_transaction, id="on-the-way"), state=STATE, browser=BROWSER
    )
    connected = replace(completed, auth_transaction=replace(auth_transaction, id="connected"))
    await database.auth_transactions.hold(connected, browser=BROWSER)
    await connect(connected)

    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 0
    advance(600)

    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 1
    assert await outbox(database) == ["access-1"]
    assert await execute("SELECT * FROM authorization_transactions") == []


async def test_no_row_shows_its_user_or_client(
    database: Database,
    completed: CompletedTransaction,
    auth_transaction: AuthorizationTransaction,
    execute: Callable[..., Awaitable[list[tuple[Any, ...]]]],
) -> None:
    await database.auth_transactions.create(
        replace(auth_transaction, id="on-the-way"), state=STATE, browser=BROWSER
    )
    await database.auth_transactions.hold(completed, browser=BROWSER)

    stored = repr(await execute("SELECT * FROM authorization_transactions")).encode()

    for canary in (
        STATE,
        BROWSER,
        "transaction-1",
        "claude.ai",
        "of-claude",
        "access-1",
        "refresh-1",
        "Alice",
        "00000007oc",
    ):
        assert canary.encode() not in stored


async def test_a_user_who_was_made_anew_gets_nothing_of_the_former_one(
    *,
    database: Database,
    completed: CompletedTransaction,
    connect: Callable[..., Awaitable[bool]],
    ask: Callable[..., Awaitable[Elicitation]],
    sign_in: Callable[..., Awaitable[SignedIn]],
    alice: Principal,
    now: Callable[[], datetime],
) -> None:
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await connect(completed)
    held = replace(completed, auth_transaction=replace(completed.auth_transaction, id="held"))
    await database.auth_transactions.hold(held, browser=BROWSER)
    asked = await ask()
    await sign_in("session")
    code = CodeGrant(CLIENT, alice, REQUEST.redirect_uri, NOTES, "c" * 43, REQUEST.resource, "00000007oc")
    await database.oauth_tokens.add_code("code", code, expires_at=now() + timedelta(minutes=1))
    ended = AuditEntry(now(), alice, "", "account", "ended")

    assert not await database.grants.end_former_user(alice, None, ended)
    assert not await database.grants.end_former_user(alice, "00000007oc", ended)
    assert await database.grants.find(alice, CLIENT) is not None
    assert await database.grants.end_former_user(alice, "00000099oc", ended)

    assert await database.grants.find(alice, CLIENT) is None
    assert await database.grants.permissions(alice) == []
    assert await database.sign_ins.find("session") is None
    assert await database.auth_transactions.find("held", browser=BROWSER) is None
    assert await database.oauth_tokens.exchange_code(
        "code",
        client_id=CLIENT,
        fits=lambda _: True,
        fresh=Fresh("family", "refresh", "access", now(), now()),
    ) == Refused("unknown")
    still = await database.elicitations.find(asked.id)
    assert still is not None
    assert still.state.final
    assert [entry.action for entry in await database.audit.recent(alice, 1)] == ["account"]
    assert not await database.grants.end_former_user(alice, "00000099oc", ended)


async def test_a_former_one_whose_key_is_lost_or_who_had_disconnected_is_ended_too(
    open_database: Open,
    completed: CompletedTransaction,
    alice: Principal,
    bob: Principal,
    now: Callable[[], datetime],
) -> None:
    database = await open_database()
    ended = AuditEntry(now(), alice, "", "account", "ended")
    await database.auth_transactions.hold(completed, browser=BROWSER)
    await sign_in_fixtures.connect(database, completed, now)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.grants.end_former_user(alice, "00000099oc", ended)
    assert not await other.grants.end_former_user(bob, "00000099oc", ended)

    assert await database.grants.find(alice, CLIENT) is None
    assert await database.grants.end_former_user(alice, "00000100oc", ended)
