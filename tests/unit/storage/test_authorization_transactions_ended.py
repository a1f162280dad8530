"""Whatever ends a user's clients ends what came back for them too: a code made of it would begin anew."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import CodeGrant, Fresh, Refused, TransactionKey
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from tests.sign_in_fixtures import BROWSER, CLIENT, NOTES, REQUEST, STATE, URL, back, connect, leaving, outbox

HOUR = timedelta(hours=1)

Now = Callable[[], datetime]
Left = Callable[[], Awaitable[set[str]]]


@pytest.fixture
async def come(database: Database, alice: Principal, bob: Principal, now: Now) -> None:
    """Connect Alice; have another browser of hers, another client of hers, and Bob wait."""
    waiting = {
        "connected": alice,
        "held": alice,
        "other client": alice,
        "of bob": bob,
    }
    for name, principal in waiting.items():
        client_id = "mcp-codex" if name == "other client" else CLIENT
        auth_transaction = leaving(now, name, request=replace(REQUEST, client_id=client_id))
        completed = back(auth_transaction, principal, now, name=name)
        await database.auth_transactions.hold(completed, browser=BROWSER)
        if name == "connected":
            await connect(database, completed, now)


@pytest.fixture
def left(database: Database) -> Callable[[], Awaitable[set[str]]]:
    """Name those who can still go on."""

    async def factory() -> set[str]:
        names = ("connected", "held", "other client", "of bob")
        found = {name: await database.auth_transactions.find(name, browser=BROWSER) for name in names}
        return {name for name, completed in found.items() if completed is not None}

    return factory


@pytest.mark.usefixtures("come")
async def test_a_user_that_ends_their_clients_gives_no_other_code_in_any_browser(
    database: Database, alice: Principal, left: Left
) -> None:
    await database.oauth_tokens.end(alice)

    assert await left() == {"of bob"}
    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 2
    assert await outbox(database) == ["access-held", "access-other client"]


@pytest.mark.usefixtures("come")
async def test_one_client_that_is_ended_gets_no_other_code_and_the_others_go_on(
    database: Database, alice: Principal, left: Left
) -> None:
    await database.oauth_tokens.end(alice, client_id=CLIENT)

    assert await left() == {"of bob", "other client"}


@pytest.mark.usefixtures("come")
async def test_a_user_that_disconnects_is_not_connected_by_an_earlier_callback(
    *, database: Database, alice: Principal, left: Left, now: Now
) -> None:
    before = await database.auth_transactions.find("held", browser=BROWSER)
    assert before

    await database.grants.disconnect(alice, audit=AuditEntry(now(), alice, "", "disconnect", "done"))

    assert await left() == {"of bob"}
    assert not await connect(database, before, now, row="2")
    assert await database.grants.find(alice, CLIENT) is None


@pytest.mark.usefixtures("come")
async def test_a_client_that_the_operator_removes_gets_a_code_of_no_user(
    database: Database, left: Left
) -> None:
    await database.clients.delete(CLIENT)

    assert await left() == {"other client"}


@pytest.mark.usefixtures("come")
async def test_after_a_restore_no_transaction_continues(
    *, database: Database, left: Left, alice: Principal, now: Now
) -> None:
    on_the_way = leaving(now, "on the way")
    await database.auth_transactions.create(on_the_way, state=STATE, browser=BROWSER)

    await database.restored.forget()

    assert await left() == set()
    assert await database.auth_transactions.take(STATE, browser=BROWSER) is None
    assert await database.grants.find(alice, CLIENT) is not None


@pytest.mark.usefixtures("come")
async def test_what_is_over_already_stays_over(
    *, database: Database, alice: Principal, left: Left, advance: Callable[[float], None]
) -> None:
    advance(600)
    await database.oauth_tokens.end(alice)

    assert await left() == set()
    assert await database.auth_transactions.release_due(nextcloud_url=URL) == 3


@pytest.mark.usefixtures("come")
async def test_a_request_gets_one_code_and_only_its_own_transaction_may_show_it_again(
    database: Database, alice: Principal, now: Now, advance: Callable[[float], None]
) -> None:
    grant = CodeGrant(CLIENT, alice, "uri", NOTES, "challenge", "resource", None)
    came, minute = TransactionKey("connected", BROWSER), timedelta(minutes=1)

    async def stored(code: str, request: str) -> str:
        return await database.oauth_tokens.add_code(
            code, grant, expires_at=now() + minute, transaction=came, request=request
        )

    told = [await stored("code-1", "request-1"), await stored("code-1", "request-1")]
    other = [await stored("code-2", "request-1"), await stored("code-2", "request-2")]
    by_it = await database.oauth_tokens.answered("request-1", by_other_than="connected")
    by_other = await database.oauth_tokens.answered("request-1", by_other_than="returned")
    advance(60)
    late = await stored("code-1", "request-1")
    advance(86_400)
    await database.oauth_tokens.purge()
    forgotten = await database.oauth_tokens.answered("request-1", by_other_than="returned")

    assert told == ["stored", "same"]
    assert other == ["answered", "stored"]
    assert (by_it, by_other) == (False, True)
    assert late == "answered"
    assert not forgotten


@pytest.mark.usefixtures("come")
async def test_a_code_is_stored_only_for_a_user_that_may_continue(
    database: Database, alice: Principal, now: Now
) -> None:
    """A user may press the button at the moment at which everything ends."""
    grant = CodeGrant(CLIENT, alice, "uri", NOTES, "challenge", "resource", None)

    async def stored(code: str, came: TransactionKey) -> str:
        return await database.oauth_tokens.add_code(code, grant, expires_at=now() + HOUR, transaction=came)

    before = await stored("code-1", TransactionKey("connected", BROWSER))
    elsewhere = await stored("code-2", TransactionKey("connected", "another browser"))
    await database.oauth_tokens.end(alice)
    after = await stored("code-3", TransactionKey("connected", BROWSER))

    assert (before, elsewhere, after) == ("stored", "over", "over")
    fresh = Fresh("family", "refresh", "access", now() + HOUR, now() + HOUR)
    given = [
        await database.oauth_tokens.exchange_code(
            f"code-{number}", client_id=CLIENT, fits=lambda _: True, fresh=fresh
        )
        for number in (1, 2, 3)
    ]
    assert given == [Refused("unknown")] * 3
