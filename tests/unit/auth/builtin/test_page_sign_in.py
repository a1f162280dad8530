"""The sign-in for our own pages, by a trip to Nextcloud; and what becomes of the access that it brings."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from nextcloud_mcp_server.errors import (
    ElicitationUnknown,
    GrantRefused,
    InvalidInput,
    NotAMember,
    OtherPerson,
    SignInRefused,
    StorageError,
    TokenRefused,
    Unreachable,
)
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.auth_stage import NEXTCLOUD, READ, WRITE
from tests.tokens_stage import VERIFIER
from tests.trips_stage import ALICE, BOB, CALLBACK, CLIENT, COOKIE, RESOURCE, Trips, open_trips, query_of
from tests.visits_stage import run_sql

UNKNOWN = "visit:550e8400-e29b-41d4-a716-446655440000"
MINUTE = 60


@pytest.fixture
async def trips(tmp_path: Path, template: Path) -> AsyncGenerator[Trips]:
    async with open_trips(tmp_path, template) as made:
        await made.register()
        yield made


async def token_of(trips: Trips, cookie: str = COOKIE) -> str:
    """Connect Alice's client, and take its access token."""
    sent = await trips.connect("alice", cookie)
    issued = await trips.tokens.redeem(
        sent.code.get_secret_value(),
        client_id=CLIENT,
        redirect_uri=CALLBACK,
        verifier=VERIFIER,
        resource=RESOURCE,
    )
    return issued.access_token.get_secret_value()


async def is_good(trips: Trips, token: str) -> bool:
    try:
        await trips.tokens.verify(token)
    except TokenRefused:
        return False
    return True


async def test_who_signs_in_for_the_account_page_is_known_and_leaves_no_access(trips: Trips) -> None:
    alice = await trips.browser("alice")

    assert (alice.who.principal, alice.who.display_name, alice.who.uid) == (ALICE, "Alice", "alice")
    assert await trips.visits.signed_in(alice.token) == alice.who
    assert await trips.given_back() == ["access-granted-by-alice-0"]
    assert await trips.grant() is None


async def test_the_browser_goes_to_nextcloud_and_nowhere_else(trips: Trips) -> None:
    start = await trips.visits.begin_sign_in("account", another=True)

    assert start.url.startswith(f"{NEXTCLOUD}/authorize?state=s-")
    assert start.flow.get_secret_value() not in start.url
    assert not trips.visits.can_switch


@pytest.mark.parametrize("target", ["client", "", "visit:", "visit:x", "accounts", "visit:../account"])
async def test_a_sign_in_is_for_a_visit_or_the_account_page(trips: Trips, target: str) -> None:
    with pytest.raises(ElicitationUnknown):
        await trips.visits.begin_sign_in(target)


async def test_a_second_time_signs_nobody_in(trips: Trips) -> None:
    start = await trips.visits.begin_sign_in("account")
    flow, params = start.flow.get_secret_value(), trips.provider.confirm(start.url, "alice")

    await trips.visits.finish_sign_in(flow, params)
    with pytest.raises(SignInRefused):
        await trips.visits.finish_sign_in(flow, params)

    assert len(trips.provider.redeemed) == 1


@pytest.mark.parametrize("other", ["", "made-up", COOKIE])
async def test_another_browser_signs_nobody_in_and_ends_the_sign_in(trips: Trips, other: str) -> None:
    start = await trips.visits.begin_sign_in("account")
    flow, params = start.flow.get_secret_value(), trips.provider.confirm(start.url, "alice")

    for browser in (other, flow):
        with pytest.raises(SignInRefused):
            await trips.visits.finish_sign_in(browser, params)

    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_a_state_of_a_client_signs_nobody_in(trips: Trips) -> None:
    params = trips.provider.confirm(await trips.to_nextcloud(), "alice")

    with pytest.raises(SignInRefused):
        await trips.visits.finish_sign_in(COOKIE, params)

    assert await trips.given_back() == ["access-granted-by-alice-0"]


async def test_a_wrong_code_or_a_nextcloud_that_is_away_signs_nobody_in(trips: Trips) -> None:
    start = await trips.visits.begin_sign_in("account")
    params = {**trips.provider.confirm(start.url, "alice"), "code": ["made-up-by-somebody"]}
    with pytest.raises(GrantRefused):
        await trips.visits.finish_sign_in(start.flow.get_secret_value(), params)

    trips.provider.failure = Unreachable("no connection")
    with pytest.raises(Unreachable):
        await trips.browser("alice")


async def test_who_is_in_no_group_that_may_sign_in_has_no_session(tmp_path: Path, template: Path) -> None:
    async with open_trips(tmp_path, template, groups=frozenset({"staff"})) as club:
        club.provider.groups = {"alice": frozenset({"staff"})}

        assert await club.browser("alice")
        with pytest.raises(NotAMember):
            await club.browser("bob")

        assert await club.given_back() == ["access-granted-by-alice-0", "access-granted-by-bob-1"]


async def test_a_person_without_a_name_is_called_by_their_account(trips: Trips) -> None:
    trips.provider.names["alice"] = ""

    assert (await trips.browser("alice")).who.display_name == "alice"


async def test_the_sign_in_for_a_visit_becomes_the_access_that_was_missing(trips: Trips) -> None:
    visit = await trips.ask("alice")
    alice = await trips.browser("alice", f"visit:{visit}")
    assert await trips.given_back() == []
    assert await trips.visits.held(visit, alice.who, alice.token) is None

    url = await trips.visits.allow(visit, alice.who, alice.token, READ)

    grant = await trips.grant()
    assert url is None
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.account.uid == "alice"
    assert grant.permission is not None
    assert grant.permission.scopes == READ
    found = await trips.database.elicitations.find(visit)
    assert found is not None
    assert found.state is ElicitationState.COMPLETE
    assert await trips.given_back() == []
    assert len(trips.provider.sent) == 1


async def test_a_dead_access_is_replaced_by_what_the_sign_in_brings(trips: Trips) -> None:
    await trips.connect("alice")
    old = await trips.grant()
    assert old is not None
    await trips.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)
    trips.clock.forward(1)
    visit = await trips.ask("alice")
    alice = await trips.browser("alice", f"visit:{visit}")

    assert await trips.visits.allow(visit, alice.who, alice.token, READ) is None

    new = await trips.grant()
    assert new is not None
    assert not new.credential.needs_reauth
    assert new.credential.secret.get_secret_value() == "access-granted-by-alice-1"


async def test_who_has_access_that_works_needs_no_other(trips: Trips) -> None:
    await trips.connect("alice")
    visit = await trips.ask("alice", scopes=WRITE)

    alice = await trips.browser("alice", f"visit:{visit}")

    assert await trips.given_back() == ["access-granted-by-alice-1"]
    assert await trips.visits.allow(visit, alice.who, alice.token, WRITE) is None
    grant = await trips.grant()
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE


async def test_the_link_of_somebody_else_gives_no_access_and_signs_in_who_came(trips: Trips) -> None:
    visit = await trips.ask("alice")

    bob = await trips.browser("bob", f"visit:{visit}")

    assert bob.who.principal == BOB
    assert await trips.given_back() == ["access-granted-by-bob-0"]
    for way in (
        trips.visits.view(visit, bob.who),
        trips.visits.allow(visit, bob.who, bob.token, READ),
        trips.visits.held(visit, bob.who, bob.token),
    ):
        with pytest.raises(OtherPerson):
            await way
    assert await trips.grant("alice") is None
    assert await trips.grant("bob") is None


async def test_a_visit_that_is_over_or_never_was_keeps_no_access(trips: Trips) -> None:
    visit = await trips.ask("alice")
    before = await trips.browser("alice")
    await trips.visits.decline(visit, before.who)

    await trips.browser("alice", f"visit:{visit}")
    await trips.browser("alice", UNKNOWN)

    assert await trips.given_back() == [f"access-granted-by-alice-{number}" for number in range(3)]


async def test_what_the_sign_in_brought_is_good_in_its_own_browser_alone(trips: Trips) -> None:
    visit = await trips.ask("alice")
    first = await trips.browser("alice", f"visit:{visit}")
    other = await trips.browser("alice")

    url = await trips.visits.allow(visit, other.who, other.token, READ)

    assert url is not None
    assert query_of(url)["state"][:2] not in ("c-", "s-")
    assert await trips.grant() is None
    assert await trips.visits.allow(visit, first.who, first.token, READ) is None
    grant = await trips.grant()
    assert grant is not None


async def test_the_grant_leg_goes_on_where_the_sign_in_brought_nothing(trips: Trips) -> None:
    alice = await trips.browser("alice")
    visit = await trips.ask("alice")
    url = await trips.visits.allow(visit, alice.who, alice.token, READ)
    assert url is not None

    done = await trips.visits.finish_grant(trips.provider.confirm(url, "alice"), alice.who, alice.token)

    assert (done.elicitation_id, done.held) == (visit, None)
    grant = await trips.grant()
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-1"


async def test_nothing_ticked_on_the_visit_keeps_what_was_brought(trips: Trips) -> None:
    visit = await trips.ask("alice")
    alice = await trips.browser("alice", f"visit:{visit}")

    with pytest.raises(InvalidInput):
        await trips.visits.allow(visit, alice.who, alice.token, frozenset())

    assert await trips.visits.allow(visit, alice.who, alice.token, READ) is None


@pytest.mark.parametrize("way", ["decline", "sign out", "sign out everywhere", "wait"])
async def test_what_was_brought_and_is_not_wanted_is_ended(trips: Trips, way: str) -> None:
    visit = await trips.ask("alice")
    alice = await trips.browser("alice", f"visit:{visit}")

    if way == "decline":
        await trips.visits.decline(visit, alice.who)
    elif way == "sign out":
        await trips.visits.sign_out(alice.token)
    elif way == "sign out everywhere":
        await trips.visits.sign_out_everywhere(alice.who)
    else:
        trips.clock.forward(11 * MINUTE)
        await trips.visits.tidy()

    assert await trips.given_back() == ["access-granted-by-alice-0"]
    assert await trips.grant() is None


async def test_a_sign_in_that_cannot_be_stored_leaves_no_access_for_long(trips: Trips) -> None:
    visit = await trips.ask("alice")
    with trips.failing("INSERT ON held_grants"), pytest.raises(StorageError, match="disk full"):
        await trips.browser("alice", f"visit:{visit}")
    assert await trips.given_back() == ["access-granted-by-alice-0"]

    with trips.failing("INSERT ON sign_ins"), pytest.raises(StorageError, match="disk full"):
        await trips.browser("alice", f"visit:{visit}")
    trips.clock.forward(11 * MINUTE)
    await trips.visits.tidy()

    assert await trips.given_back() == ["access-granted-by-alice-0", "access-granted-by-alice-1"]


async def test_what_another_server_has_ended_meanwhile_becomes_nobodys_access(trips: Trips) -> None:
    async def worked_off() -> None:
        run_sql(trips.file, "DELETE FROM outbox")

    visit = await trips.ask("alice")
    trips.provider.afterwards = worked_off

    with pytest.raises(SignInRefused):
        await trips.browser("alice", f"visit:{visit}")

    assert await trips.grant() is None
    assert run_sql(trips.file, "SELECT * FROM held_grants") == []


async def test_signing_out_everywhere_ends_the_clients_tokens_and_keeps_the_connection(trips: Trips) -> None:
    token = await token_of(trips)
    alice = await trips.browser("alice")
    back = await trips.back("alice")

    await trips.visits.sign_out_everywhere(alice.who)

    assert not await is_good(trips, token)
    assert await trips.visits.signed_in(alice.token) is None
    assert await trips.grant() is not None
    assert ("sign-out", "done") in await trips.audit()
    with pytest.raises(SignInRefused):
        await trips.authorization.go_on(back, browser=COOKIE)


async def test_signing_out_with_nothing_signed_in_writes_nothing_down(trips: Trips) -> None:
    alice = await trips.browser("alice")

    await trips.visits.sign_out_everywhere(alice.who)

    assert await trips.audit() == []


async def test_disconnecting_ends_the_access_and_the_clients_tokens(trips: Trips) -> None:
    token = await token_of(trips)
    alice = await trips.browser("alice")

    assert await trips.visits.disconnect(alice.who)

    assert not await is_good(trips, token)
    assert await trips.grant() is None
    assert sorted(trips.provider.revoked) == ["access-granted-by-alice-0", "access-granted-by-alice-1"]


async def test_the_page_lists_the_clients_that_are_signed_in(trips: Trips) -> None:
    token = await token_of(trips)
    alice = await trips.browser("alice")

    shown = (await trips.visits.account(alice.who)).signed_in

    assert [(one.client_id, one.name) for one in shown] == [(CLIENT, "Claude")]
    assert shown[0].since == trips.clock()
    assert await is_good(trips, token)


async def test_one_client_can_be_signed_out_and_keeps_what_it_may_do(trips: Trips) -> None:
    token = await token_of(trips)
    alice = await trips.browser("alice")

    await trips.visits.sign_out_client(alice.who, "another-client")
    assert await is_good(trips, token)
    await trips.visits.sign_out_client(alice.who, CLIENT)

    assert not await is_good(trips, token)
    view = await trips.visits.account(alice.who)
    assert view.signed_in == ()
    assert [one.client_id for one in view.clients] == [CLIENT]


async def test_a_client_that_is_removed_loses_its_tokens(trips: Trips) -> None:
    token = await token_of(trips)
    alice = await trips.browser("alice")

    await trips.visits.remove(alice.who, CLIENT)

    assert not await is_good(trips, token)
    view = await trips.visits.account(alice.who)
    assert (view.clients, view.signed_in) == ((), ())


async def test_nobody_signs_out_the_clients_of_another(trips: Trips) -> None:
    token = await token_of(trips)
    bob = await trips.browser("bob")

    await trips.visits.sign_out_client(bob.who, CLIENT)
    await trips.visits.sign_out_everywhere(bob.who)
    await trips.visits.disconnect(bob.who)

    assert await is_good(trips, token)
    assert await trips.grant("alice") is not None


async def test_a_client_without_a_permission_is_listed_without_a_name(trips: Trips) -> None:
    await token_of(trips)
    await trips.database.grants.remove_permission(ALICE, CLIENT)
    alice = await trips.browser("alice")

    shown = (await trips.visits.account(alice.who)).signed_in

    assert [(one.client_id, one.name) for one in shown] == [(CLIENT, "")]
