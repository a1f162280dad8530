"""People on their way to Nextcloud and back, and what becomes of what they bring."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import Arrival, Arrived, CodeGrant
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, Principal, SignedIn, Tokens
from tests import arrivals_stage
from tests.arrivals_stage import BROWSER, CLIENT, NOTES, REQUEST, STATE, URL, outbox

Open = Callable[..., Awaitable[Database]]
Advance = Callable[[float], None]


@pytest.fixture
def arrival(now: Callable[[], datetime]) -> Arrival:
    return arrivals_stage.leaving(now)


@pytest.fixture
def arrived(arrival: Arrival, alice: Principal, now: Callable[[], datetime]) -> Arrived:
    return arrivals_stage.back(arrival, alice, now)


@pytest.fixture
def connect(database: Database, now: Callable[[], datetime]) -> Callable[..., Awaitable[bool]]:
    """Connect what came back, as its person says yes."""

    async def factory(arrived: Arrived, **differing: str) -> bool:
        return await arrivals_stage.connect(database, arrived, now, **differing)

    return factory


async def test_who_comes_back_in_the_browser_that_began_is_known_with_everything(
    database: Database, arrival: Arrival
) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)

    assert await database.arrivals.take(STATE, browser=BROWSER) == arrival


async def test_a_state_is_taken_once(database: Database, arrival: Arrival) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)
    await database.arrivals.take(STATE, browser=BROWSER)

    assert await database.arrivals.take(STATE, browser=BROWSER) is None


async def test_a_trip_that_is_ended_from_another_browser_spends_its_codes(
    database: Database, arrival: Arrival
) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)

    ended = await database.arrivals.end(STATE, codes=["code-of-the-victim"])
    again = await database.arrivals.end(STATE, codes=["another-code"])

    assert (ended, again) == (True, False)
    assert await database.spent_codes.is_spent("code-of-the-victim")
    assert not await database.spent_codes.is_spent("another-code")


async def test_what_the_outbox_is_ending_already_is_not_held(database: Database, arrived: Arrived) -> None:
    assert arrived.tokens
    note = await database.outbox.add_tokens(
        principal=arrived.principal, nextcloud_url=URL, provider="nextcloud_oauth2", tokens=arrived.tokens
    )

    held = await database.arrivals.hold(arrived, browser=BROWSER, note=note)

    assert not held
    assert await database.arrivals.find(arrived.arrival.id, browser=BROWSER) is None
    assert await outbox(database) == ["access-1"]


async def test_another_browser_gets_nothing_and_ends_nothing(database: Database, arrival: Arrival) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)

    assert await database.arrivals.take(STATE, browser="another") is None
    assert await database.arrivals.take("c-other", browser=BROWSER) is None
    assert await database.arrivals.take(STATE, browser=BROWSER) == arrival


async def test_a_trip_of_more_than_ten_minutes_is_over(
    database: Database, arrival: Arrival, advance: Advance
) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)

    advance(600)

    assert await database.arrivals.take(STATE, browser=BROWSER) is None


async def test_without_its_key_a_trip_begins_anew(open_database: Open, arrival: Arrival) -> None:
    await (await open_database()).arrivals.create(arrival, state=STATE, browser=BROWSER)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.arrivals.take(STATE, browser=BROWSER) is None


async def test_a_sign_in_for_a_page_has_no_request_of_a_client(
    database: Database, now: Callable[[], datetime]
) -> None:
    page = Arrival("arrival-2", "account", None, frozenset(), now() + timedelta(minutes=10))
    await database.arrivals.create(page, state="s-state", browser=BROWSER)

    assert await database.arrivals.take("s-state", browser=BROWSER) == page


async def test_what_came_back_waits_in_its_own_browser_alone(database: Database, arrived: Arrived) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)

    assert await database.arrivals.find("arrival-1", browser=BROWSER) == arrived
    assert await database.arrivals.find("arrival-1", browser="another") is None
    assert await database.arrivals.find("arrival-9", browser=BROWSER) is None


async def test_a_trip_on_its_way_is_nobody_who_came_back(database: Database, arrival: Arrival) -> None:
    await database.arrivals.create(arrival, state=STATE, browser=BROWSER)

    assert await database.arrivals.find("arrival-1", browser=BROWSER) is None


async def test_without_its_key_nobody_is_shown_and_nothing_is_lost(
    open_database: Open, arrived: Arrived, advance: Advance
) -> None:
    database = await open_database()
    await database.arrivals.hold(arrived, browser=BROWSER)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    with pytest.raises(Unsealable):
        await other.arrivals.find("arrival-1", browser=BROWSER)
    advance(600)

    assert await other.arrivals.release_due(nextcloud_url=URL) == 0
    assert await database.arrivals.release_due(nextcloud_url=URL) == 1


async def test_one_word_connects_account_credential_and_permission(
    database: Database, arrived: Arrived, connect: Callable[..., Awaitable[bool]], alice: Principal
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)

    assert await connect(arrived)

    grant = await database.grants.find(alice, CLIENT)
    assert grant is not None
    assert (grant.account.uid, grant.credential.secret.get_secret_value()) == ("alice", "access-1")
    assert grant.permission is not None
    assert grant.permission.scopes == NOTES
    assert await database.arrivals.find("arrival-1", browser=BROWSER) == replace(
        arrived, tokens=None, connected=True
    )
    assert await outbox(database) == []


async def test_the_word_said_twice_changes_nothing(
    database: Database, arrived: Arrived, connect: Callable[..., Awaitable[bool]], alice: Principal
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)
    await connect(arrived)

    assert await connect(arrived, row="2")

    grant = await database.grants.find(alice, CLIENT)
    assert grant is not None
    assert grant.credential.id == "credential-1"
    assert [entry.action for entry in await database.audit.recent(alice, 10)] == ["consent"]


@pytest.mark.parametrize("why", ["never held", "another browser", "too late", "taken back"])
async def test_nothing_is_connected_that_does_not_wait_here(
    *,
    database: Database,
    arrived: Arrived,
    connect: Callable[..., Awaitable[bool]],
    alice: Principal,
    advance: Advance,
    why: str,
) -> None:
    browser = BROWSER
    if why != "never held":
        await database.arrivals.hold(arrived, browser=BROWSER)
    match why:
        case "another browser":
            browser = "another"
        case "too late":
            advance(600)
        case "taken back":
            await database.arrivals.discard("arrival-1", browser=BROWSER, nextcloud_url=URL)
        case _:
            pass

    assert not await connect(arrived, browser=browser)

    assert await database.grants.find(alice, CLIENT) is None


async def test_a_newer_connection_has_the_older_one_ended_at_nextcloud(
    *,
    database: Database,
    arrived: Arrived,
    connect: Callable[..., Awaitable[bool]],
    tokens: Callable[..., Tokens],
    advance: Advance,
    now: Callable[[], datetime],
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)
    await connect(arrived)
    advance(60)
    again = replace(
        arrived,
        arrival=replace(arrived.arrival, id="arrival-2", expires_at=now() + timedelta(minutes=10)),
        tokens=tokens("access-2", "refresh-2"),
    )
    await database.arrivals.hold(again, browser=BROWSER)

    assert await connect(again, row="2")

    assert await outbox(database) == ["access-1"]


@pytest.mark.parametrize("is_connected", [True, False])
async def test_whoever_signed_in_with_an_account_has_it_and_who_had_it_here_has_nothing(
    *,
    database: Database,
    arrived: Arrived,
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
    await database.arrivals.hold(arrived, browser=BROWSER)

    assert await connect(arrived)

    grant = await database.grants.find(arrived.principal, "mcp-claude")
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
    arrived: Arrived,
    connect: Callable[..., Awaitable[bool]],
    ask: Callable[..., Awaitable[Elicitation]],
    complete: Callable[..., Awaitable[bool]],
    tokens: Callable[..., Tokens],
    advance: Advance,
) -> None:
    await complete(
        await ask(arrived.principal), nextcloud_url="http://cloud.example.org", tokens=tokens("of-before")
    )
    advance(1)
    await database.arrivals.hold(arrived, browser=BROWSER)

    assert await connect(arrived, row="2")

    grant = await database.grants.find(arrived.principal, "claude")
    assert grant is not None
    assert grant.account.nextcloud_url == URL
    assert grant.permission is not None
    assert await outbox(database) == ["of-before"]


async def test_what_is_not_mine_is_ended_at_nextcloud_and_gone(database: Database, arrived: Arrived) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)

    assert not await database.arrivals.discard("arrival-1", browser="another", nextcloud_url=URL)
    assert await database.arrivals.discard("arrival-1", browser=BROWSER, nextcloud_url=URL)
    assert not await database.arrivals.discard("arrival-1", browser=BROWSER, nextcloud_url=URL)

    assert await outbox(database) == ["access-1"]
    assert await database.arrivals.find("arrival-1", browser=BROWSER) is None


async def test_what_is_connected_cannot_be_taken_back_here(
    database: Database, arrived: Arrived, connect: Callable[..., Awaitable[bool]]
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)
    await connect(arrived)

    assert not await database.arrivals.discard("arrival-1", browser=BROWSER, nextcloud_url=URL)
    assert await outbox(database) == []


async def test_what_nobody_decides_about_is_ended_at_nextcloud_in_the_end(
    *,
    database: Database,
    arrived: Arrived,
    arrival: Arrival,
    connect: Callable[..., Awaitable[bool]],
    advance: Advance,
    execute: Callable[..., Awaitable[list[tuple[Any, ...]]]],
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)
    await database.arrivals.create(replace(arrival, id="on-the-way"), state=STATE, browser=BROWSER)
    connected = replace(arrived, arrival=replace(arrival, id="connected"))
    await database.arrivals.hold(connected, browser=BROWSER)
    await connect(connected)

    assert await database.arrivals.release_due(nextcloud_url=URL) == 0
    advance(600)

    assert await database.arrivals.release_due(nextcloud_url=URL) == 1
    assert await outbox(database) == ["access-1"]
    assert await execute("SELECT * FROM arrivals") == []


async def test_no_row_tells_who_or_what_it_is_about(
    database: Database,
    arrived: Arrived,
    arrival: Arrival,
    execute: Callable[..., Awaitable[list[tuple[Any, ...]]]],
) -> None:
    await database.arrivals.create(replace(arrival, id="on-the-way"), state=STATE, browser=BROWSER)
    await database.arrivals.hold(arrived, browser=BROWSER)

    stored = repr(await execute("SELECT * FROM arrivals")).encode()

    for canary in (
        STATE,
        BROWSER,
        "arrival-1",
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
    arrived: Arrived,
    connect: Callable[..., Awaitable[bool]],
    ask: Callable[..., Awaitable[Elicitation]],
    sign_in: Callable[..., Awaitable[SignedIn]],
    alice: Principal,
    now: Callable[[], datetime],
) -> None:
    await database.arrivals.hold(arrived, browser=BROWSER)
    await connect(arrived)
    held = replace(arrived, arrival=replace(arrived.arrival, id="held"))
    await database.arrivals.hold(held, browser=BROWSER)
    asked = await ask()
    await sign_in("session")
    code = CodeGrant(CLIENT, alice, REQUEST.redirect_uri, NOTES, "c" * 43, REQUEST.resource, "00000007oc")
    await database.oauth_tokens.add_code("code", code, expires_at=now() + timedelta(minutes=1))
    ended = AuditEntry(now(), alice, "", "account", "ended")

    assert not await database.grants.meet(alice, None, ended)
    assert not await database.grants.meet(alice, "00000007oc", ended)
    assert await database.grants.find(alice, CLIENT) is not None
    assert await database.grants.meet(alice, "00000099oc", ended)

    assert await database.grants.find(alice, CLIENT) is None
    assert await database.grants.permissions(alice) == []
    assert await database.sign_ins.find("session") is None
    assert await database.arrivals.find("held", browser=BROWSER) is None
    still = await database.elicitations.find(asked.id)
    assert still is not None
    assert still.state.final
    assert [entry.action for entry in await database.audit.recent(alice, 1)] == ["account"]
    assert not await database.grants.meet(alice, "00000099oc", ended)


async def test_a_former_one_whose_key_is_lost_or_who_had_disconnected_is_ended_too(
    open_database: Open, arrived: Arrived, alice: Principal, bob: Principal, now: Callable[[], datetime]
) -> None:
    database = await open_database()
    ended = AuditEntry(now(), alice, "", "account", "ended")
    await database.arrivals.hold(arrived, browser=BROWSER)
    await arrivals_stage.connect(database, arrived, now)
    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.grants.meet(alice, "00000099oc", ended)
    assert not await other.grants.meet(bob, "00000099oc", ended)

    assert await database.grants.find(alice, CLIENT) is None
    assert await database.grants.meet(alice, "00000100oc", ended)
