"""From what a client asks to the code it gets, and what is connected or ended on the way."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import SignInCancelled
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    ClientUnknown,
    FormRefused,
    GrantRefused,
    InvalidInput,
    OAuthRefusal,
    SignInRefused,
    StorageError,
)
from nextcloud_mcp_server.storage.oauth_records import Arrival
from nextcloud_mcp_server.storage.records import Account, AuditEntry, Credential, Permission, Principal
from tests.auth_stage import NEXTCLOUD, READ, WRITE, page_url, together
from tests.tokens_stage import VERIFIER
from tests.trips_stage import ALICE, CALLBACK, CLIENT, COOKIE, ISSUER, RESOURCE, Trips, open_trips, query_of
from tests.visits_stage import run_sql

MINUTE = 60


@pytest.fixture
async def trips(tmp_path: Path, template: Path) -> AsyncGenerator[Trips]:
    async with open_trips(tmp_path, template) as made:
        await made.register()
        yield made


async def redeemed(trips: Trips, code: str, client_id: str = CLIENT) -> frozenset[str]:
    """Exchange a code as its client does; the answer is what the token is good for."""
    issued = await trips.tokens.redeem(
        code, client_id=client_id, redirect_uri=CALLBACK, verifier=VERIFIER, resource=RESOURCE
    )
    return issued.scopes


async def test_a_yes_and_a_sign_in_connect_the_person_and_answer_the_client(trips: Trips) -> None:
    arrival_id = await trips.back("alice")
    assert await trips.grant() is None

    sent = await trips.authorization.go_on(arrival_id, browser=COOKIE)

    back = query_of(sent.url)
    assert sent.url.startswith(f"{CALLBACK}?")
    assert back == {"code": sent.code.get_secret_value(), "state": "state of the client", "iss": ISSUER}
    assert sent.asked.client.name == "Claude"
    assert await redeemed(trips, back["code"]) == READ
    grant = await trips.grant()
    assert grant is not None
    assert (grant.account.uid, grant.account.display_name, grant.account.home_id) == (
        "alice",
        "Alice",
        "home-alice",
    )
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.credential.refresh_token is not None
    assert grant.credential.provider == "nextcloud_oauth2"
    assert grant.credential.expires_at == trips.clock() + timedelta(hours=1)
    assert grant.permission is not None
    assert (grant.permission.client_name, grant.permission.scopes) == ("Claude", READ)
    assert ("consent", "granted") in await trips.audit()
    assert trips.changes == [None]
    assert await trips.given_back() == []


async def test_who_came_back_is_shown_with_what_the_client_will_get(trips: Trips) -> None:
    arrival_id = await trips.back("alice")

    before = await trips.authorization.arrived(arrival_id, browser=COOKIE)
    await trips.authorization.go_on(arrival_id, browser=COOKIE)
    after = await trips.authorization.arrived(arrival_id, browser=COOKIE)

    assert (before.uid, before.display_name, before.scopes) == ("alice", "Alice", READ)
    assert before.asked == await trips.asked()
    assert (before.connected, after.connected) == (False, True)
    assert (before.before, after.before) == (frozenset(), READ)
    assert replace(after, connected=False, before=frozenset[str]()) == before


async def test_what_this_client_and_no_other_may_do_already_is_shown_too(trips: Trips) -> None:
    await trips.register("mcp-codex", CALLBACK, name="Codex")
    url = await trips.authorization.approve(await trips.asked(client_id="mcp-codex"), WRITE, browser=COOKIE)
    codex = await trips.come_back(trips.provider.confirm(url, "alice"), browser=COOKIE)
    await trips.authorization.go_on(codex, browser=COOKIE)
    await trips.connect("alice")

    again = await trips.authorization.arrived(await trips.back("alice"), browser=COOKIE)

    assert again.before == READ


async def test_only_what_was_ticked_of_what_may_be_ticked_is_allowed(trips: Trips) -> None:
    asked = await trips.asked(scope="notes:read notes:write")

    url = await trips.authorization.approve(asked, WRITE | {"files:write", "mail:read", ""}, browser=COOKIE)
    back = await trips.come_back(trips.provider.confirm(url, "alice"), browser=COOKIE)
    sent = await trips.authorization.go_on(back, browser=COOKIE)

    assert await redeemed(trips, sent.code.get_secret_value()) == WRITE
    grant = await trips.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == WRITE


@pytest.mark.parametrize("ticked", [frozenset[str](), frozenset({"files:read"}), frozenset({"everything"})])
async def test_nothing_ticked_is_nothing_allowed(trips: Trips, ticked: frozenset[str]) -> None:
    with pytest.raises(InvalidInput, match="Nothing was ticked"):
        await trips.authorization.approve(await trips.asked(), ticked, browser=COOKIE)

    assert trips.provider.sent == []


async def test_a_no_is_told_to_the_client_with_its_state_and_our_name(trips: Trips) -> None:
    url = trips.authorization.denied(await trips.asked())

    assert url.startswith(f"{CALLBACK}?")
    assert query_of(url) == {"error": "access_denied", "state": "state of the client", "iss": ISSUER}


async def test_a_form_carries_the_request_and_shows_nothing_of_it(trips: Trips) -> None:
    asked = await trips.asked(state="ä secret state")

    sealed = trips.authorization.seal(asked)

    assert await trips.authorization.unseal(sealed) == asked
    assert sealed != trips.authorization.seal(asked)
    opened = urlsafe_b64decode(sealed)
    assert not any(text in opened for text in (b"secret", b"claude", b"notes"))


@pytest.mark.parametrize(
    "made_up", ["", "x", "====", "not base64 ä", "\ud800", urlsafe_b64encode(b"v1" + b"x" * 80).decode()]
)
async def test_a_form_that_was_not_made_here_is_refused(trips: Trips, made_up: str) -> None:
    with pytest.raises(FormRefused, match="not made here"):
        await trips.authorization.unseal(made_up)


async def test_a_form_that_was_changed_is_refused(trips: Trips) -> None:
    sealed = urlsafe_b64decode(trips.authorization.seal(await trips.asked()))

    for place in (0, len(sealed) // 2, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(FormRefused, match="not made here"):
            await trips.authorization.unseal(urlsafe_b64encode(bytes(changed)).decode())


async def test_a_form_of_another_server_is_refused(trips: Trips, tmp_path: Path, template: Path) -> None:
    (tmp_path / "other").mkdir()
    async with open_trips(tmp_path / "other", template) as other:
        await other.register()
        sealed = other.authorization.seal(await other.asked())

    with pytest.raises(FormRefused, match="not made here"):
        await trips.authorization.unseal(sealed)


async def test_a_form_is_good_for_half_an_hour(trips: Trips) -> None:
    sealed = trips.authorization.seal(await trips.asked())

    trips.clock.forward(30 * MINUTE - 1)
    assert await trips.authorization.unseal(sealed)
    trips.clock.forward(1)
    with pytest.raises(FormRefused, match="too old"):
        await trips.authorization.unseal(sealed)


async def test_what_was_sealed_for_a_client_that_changed_is_worth_nothing(trips: Trips) -> None:
    sealed = trips.authorization.seal(await trips.asked())

    await trips.register(CLIENT, "https://evil.example/callback")
    with pytest.raises(AuthorizeRefused, match="has not named before"):
        await trips.authorization.unseal(sealed)
    await trips.database.clients.delete(CLIENT)
    with pytest.raises(ClientUnknown):
        await trips.authorization.unseal(sealed)


async def test_continue_pressed_twice_makes_another_code_and_changes_nothing(trips: Trips) -> None:
    arrival_id = await trips.back("alice")

    first = await trips.authorization.go_on(arrival_id, browser=COOKIE)
    stored = await trips.grant()
    second = await trips.authorization.go_on(arrival_id, browser=COOKIE)

    assert first.code != second.code
    for sent in (first, second):
        assert await redeemed(trips, sent.code.get_secret_value()) == READ
    assert await trips.grant() == stored
    assert (await trips.audit()).count(("consent", "granted")) == 1
    assert await trips.given_back() == []


async def test_continue_pressed_in_many_tabs_at_once_connects_once(trips: Trips) -> None:
    arrival_id = await trips.back("alice")
    codes: list[str] = []

    async def press() -> None:
        sent = await trips.authorization.go_on(arrival_id, browser=COOKIE)
        codes.append(sent.code.get_secret_value())

    await together(*[press] * 5)

    assert len(set(codes)) == 5
    assert (await trips.audit()).count(("consent", "granted")) == 1
    assert await trips.given_back() == []


async def test_not_me_ends_at_once_what_was_given(trips: Trips) -> None:
    arrival_id = await trips.back("bob")

    asked = await trips.authorization.not_me(arrival_id, browser=COOKIE)

    assert asked == await trips.asked()
    assert await trips.given_back() == ["access-granted-by-bob-0"]
    assert await trips.grant("bob") is None
    assert await trips.audit("bob") == [("consent", "refused: not my account")]
    for again in (trips.authorization.go_on, trips.authorization.not_me, trips.authorization.arrived):
        with pytest.raises(SignInRefused):
            await again(arrival_id, browser=COOKIE)
    assert await trips.given_back() == ["access-granted-by-bob-0"]


async def test_not_me_after_continue_changes_nothing(trips: Trips) -> None:
    arrival_id = await trips.back("alice")
    await trips.authorization.go_on(arrival_id, browser=COOKIE)

    with pytest.raises(SignInRefused):
        await trips.authorization.not_me(arrival_id, browser=COOKIE)

    assert await trips.grant() is not None
    assert await trips.given_back() == []


async def test_continue_and_not_me_at_once_end_in_one_of_both(trips: Trips) -> None:
    arrival_id = await trips.back("alice")
    outcomes: list[str] = []

    async def press(name: str) -> None:
        button = {"mine": trips.authorization.go_on, "not mine": trips.authorization.not_me}[name]
        try:
            await button(arrival_id, browser=COOKIE)
        except SignInRefused:
            return
        outcomes.append(name)

    async def mine() -> None:
        await press("mine")

    async def not_mine() -> None:
        await press("not mine")

    await together(mine, not_mine)

    is_connected = await trips.grant() is not None
    assert outcomes == (["mine"] if is_connected else ["not mine"])
    assert await trips.given_back() == ([] if is_connected else ["access-granted-by-alice-0"])


async def test_continue_that_comes_after_not_me_of_another_tab_connects_nothing(trips: Trips) -> None:
    arrival_id = await trips.back("alice")

    async def not_me() -> None:
        await trips.authorization.not_me(arrival_id, browser=COOKIE)

    trips.clients.meanwhile = not_me
    with pytest.raises(SignInRefused):
        await trips.authorization.go_on(arrival_id, browser=COOKIE)

    assert await trips.grant() is None
    assert await trips.given_back() == ["access-granted-by-alice-0"]
    assert await trips.audit() == [("consent", "refused: not my account")]


async def test_nothing_of_an_arrival_is_another_browsers(trips: Trips) -> None:
    arrival_id = await trips.back("alice")

    for cookie in ("cookie-of-bob", ""):
        for way in (trips.authorization.arrived, trips.authorization.go_on, trips.authorization.not_me):
            with pytest.raises(SignInRefused, match="another browser"):
                await way(arrival_id, browser=cookie)

    assert await trips.authorization.go_on(arrival_id, browser=COOKIE)


async def test_what_nobody_decides_about_is_ended_after_ten_minutes(trips: Trips) -> None:
    late, later = await trips.back("alice"), await trips.back("alice")
    await trips.authorization.tidy()
    trips.clock.forward(10 * MINUTE - 1)
    await trips.authorization.arrived(late, browser=COOKIE)
    trips.clock.forward(1)

    for way in (trips.authorization.arrived, trips.authorization.go_on, trips.authorization.not_me):
        with pytest.raises(SignInRefused):
            await way(later, browser=COOKIE)
    assert await trips.given_back() == []
    await trips.authorization.tidy()

    assert sorted(await trips.given_back()) == ["access-granted-by-alice-0", "access-granted-by-alice-1"]
    assert await trips.grant() is None


async def test_ten_minutes_to_decide_begin_with_coming_back(trips: Trips) -> None:
    url = await trips.to_nextcloud()
    trips.clock.forward(9 * MINUTE)
    arrival_id = await trips.come_back(trips.provider.confirm(url, "alice"), browser=COOKIE)
    trips.clock.forward(9 * MINUTE)

    assert await trips.authorization.go_on(arrival_id, browser=COOKIE)


async def test_a_new_consent_takes_the_place_of_the_former_access_which_is_ended(trips: Trips) -> None:
    await trips.connect("alice")
    trips.clock.forward(1)
    await trips.register("mcp-codex", CALLBACK, name="Codex")
    url = await trips.authorization.approve(await trips.asked(client_id="mcp-codex"), WRITE, browser=COOKIE)
    back = await trips.come_back(trips.provider.confirm(url, "alice"), browser=COOKIE)

    await trips.authorization.go_on(back, browser=COOKIE)

    first, second = await trips.grant(), await trips.grant(client="mcp-codex")
    assert first is not None
    assert second is not None
    assert first.credential == second.credential
    assert second.credential.secret.get_secret_value() == "access-granted-by-alice-1"
    assert first.permission is not None
    assert first.permission.scopes == READ
    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_a_second_consent_adds_to_what_a_client_may_do(trips: Trips) -> None:
    await trips.connect("alice")
    trips.clock.forward(1)
    url = await trips.to_nextcloud(scopes=WRITE)
    back = await trips.come_back(trips.provider.confirm(url, "alice"), browser=COOKIE)

    sent = await trips.authorization.go_on(back, browser=COOKIE)

    grant = await trips.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    assert await redeemed(trips, sent.code.get_secret_value()) == WRITE


async def test_who_comes_back_as_somebody_else_than_last_time_is_somebody_else(trips: Trips) -> None:
    await trips.connect("alice")

    await trips.connect("bob")

    alice, bob = await trips.grant("alice"), await trips.grant("bob")
    assert alice is not None
    assert bob is not None
    assert (alice.account.uid, bob.account.uid) == ("alice", "bob")
    assert alice.credential.secret != bob.credential.secret
    assert await trips.given_back() == []


async def before_the_move(trips: Trips) -> Principal:
    """Let Alice's account be connected to a person of this server when it had another address."""
    now, person = trips.clock(), Principal("https://former.test", "alice")
    visit, _ = await trips.database.elicitations.open(
        principal=person,
        client_id=CLIENT,
        client_name="Claude",
        kind="page",
        scopes=READ,
        ttl=timedelta(minutes=10),
        new_url=page_url,
    )
    account = Account(str(uuid4()), person, NEXTCLOUD, "alice", "Alice", None, now)
    await trips.database.grants.complete(
        elicitation=visit,
        flow=None,
        account=account,
        credential=Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=trips.provider.name,
            login_name="alice",
            secret=SecretStr("access-of-before"),
            needs_reauth=False,
            version=1,
            created_at=now,
            refresh_token=SecretStr("refresh-of-before"),
            expires_at=now + timedelta(hours=1),
        ),
        permission=Permission(person, CLIENT, "Claude", READ | WRITE, now),
        audit=AuditEntry(now, person, CLIENT, "consent", "granted"),
    )
    return person


async def test_a_server_that_moved_knows_its_people_again_when_they_sign_in(trips: Trips) -> None:
    former = await before_the_move(trips)

    sent = await trips.connect("alice")

    assert await redeemed(trips, sent.code.get_secret_value()) == READ
    grant = await trips.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ, "what was allowed at the former address is allowed no more"
    assert await trips.database.grants.find(former, CLIENT) is None
    assert await trips.database.grants.permissions(former) == []
    assert await trips.given_back() == ["access-of-before"]
    entries = await trips.database.audit.recent(former, 10)
    assert ("account", "ended: another person's now") in [(one.action, one.result) for one in entries]


async def test_a_user_who_was_made_anew_is_not_given_what_the_former_one_brought(trips: Trips) -> None:
    connected = await trips.back("alice")
    await trips.authorization.go_on(connected, browser=COOKIE)
    held = await trips.back("alice")
    trips.provider.homes["alice"] = "another-home"

    new = await trips.back("alice", cookie="cookie of the new one")

    for old in (connected, held):
        with pytest.raises(SignInRefused):
            await trips.authorization.go_on(old, browser=COOKIE)
    await trips.authorization.tidy()
    assert sorted(await trips.given_back()) == ["access-granted-by-alice-0", "access-granted-by-alice-1"]
    assert await trips.authorization.go_on(new, browser="cookie of the new one")
    grant = await trips.grant()
    assert grant is not None
    assert grant.account.home_id == "another-home"


async def test_a_client_that_is_gone_when_its_person_comes_back_gets_nothing(trips: Trips) -> None:
    arrival_id = await trips.back("alice")
    await trips.database.clients.delete(CLIENT)

    for way in (trips.authorization.arrived, trips.authorization.go_on):
        with pytest.raises((ClientUnknown, SignInRefused)):
            await way(arrival_id, browser=COOKIE)
    with pytest.raises((ClientUnknown, SignInRefused)):
        await trips.authorization.not_me(arrival_id, browser=COOKIE)
    await trips.authorization.tidy()

    assert await trips.grant() is None
    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_a_no_at_nextcloud_can_be_told_to_the_client(trips: Trips) -> None:
    state = query_of(await trips.to_nextcloud())["state"]

    with pytest.raises(SignInCancelled) as caught:
        await trips.come_back({"state": [state], "error": ["access_denied"]}, browser=COOKIE)

    asked = await trips.authorization.asked(caught.value.arrival)
    assert query_of(trips.authorization.denied(asked))["error"] == "access_denied"
    assert trips.provider.redeemed == []


async def test_a_trip_for_a_page_is_for_no_client(trips: Trips) -> None:
    arrival = Arrival("id", "account", None, frozenset(), trips.clock())

    with pytest.raises(AuthorizeRefused):
        await trips.authorization.asked(arrival)


async def test_a_state_of_a_page_comes_back_to_no_client(trips: Trips) -> None:
    start = await trips.visits.begin_sign_in("account")
    flow = start.flow.get_secret_value()

    with pytest.raises(SignInRefused):
        await trips.come_back(trips.provider.confirm(start.url, "alice"), browser=flow)

    assert await trips.given_back() == ["access-granted-by-alice-0"]
    assert await trips.grant() is None


async def test_a_wrong_code_connects_nobody(trips: Trips) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")

    with pytest.raises(GrantRefused):
        await trips.come_back({**params, "code": ["made-up-by-somebody"]}, browser=COOKIE)

    assert await trips.given_back() == []


async def test_what_cannot_be_held_is_ended(trips: Trips) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")

    with trips.failing("INSERT ON arrivals"), pytest.raises(StorageError, match="disk full"):
        await trips.come_back(params, browser=COOKIE)

    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_what_another_server_has_ended_meanwhile_connects_nobody(trips: Trips) -> None:
    async def worked_off() -> None:
        run_sql(trips.file, "DELETE FROM outbox")

    trips.provider.afterwards = worked_off

    with pytest.raises(SignInRefused):
        await trips.back()

    assert await trips.grant() is None
    assert run_sql(trips.file, "SELECT * FROM arrivals WHERE subject IS NOT NULL") == []


@pytest.mark.parametrize("change", ["INSERT ON permissions", "INSERT ON audit", "UPDATE ON arrivals"])
async def test_a_connection_is_stored_as_a_whole_or_not_at_all(trips: Trips, change: str) -> None:
    arrival_id = await trips.back("alice")

    with trips.failing(change), pytest.raises(StorageError, match="disk full"):
        await trips.authorization.go_on(arrival_id, browser=COOKIE)

    assert await trips.grant() is None
    assert trips.changes == []
    assert await trips.authorization.go_on(arrival_id, browser=COOKIE)
    assert await trips.grant() is not None
    assert await trips.given_back() == []


async def test_a_code_that_cannot_be_stored_is_made_at_the_next_try(trips: Trips) -> None:
    arrival_id = await trips.back("alice")

    with trips.failing("INSERT ON codes"), pytest.raises(StorageError, match="disk full"):
        await trips.authorization.go_on(arrival_id, browser=COOKIE)

    sent = await trips.authorization.go_on(arrival_id, browser=COOKIE)
    assert await redeemed(trips, sent.code.get_secret_value()) == READ


async def test_a_code_is_for_its_client_its_verifier_and_its_place_alone(trips: Trips) -> None:
    await trips.register("mcp-codex")
    sent = await trips.connect("alice")

    with pytest.raises(OAuthRefusal):
        await redeemed(trips, sent.code.get_secret_value(), client_id="mcp-codex")

    bearer = await trips.tokens.redeem(
        (await trips.connect("alice")).code.get_secret_value(),
        client_id=CLIENT,
        redirect_uri=CALLBACK,
        verifier=VERIFIER,
        resource=RESOURCE,
    )
    who = await trips.tokens.verify(bearer.access_token.get_secret_value())
    assert (who.principal, who.client_id, who.scopes) == (ALICE, CLIENT, READ)
