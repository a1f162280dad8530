from pathlib import Path

import pytest

from nextcloud_mcp_server.auth.provisioning import ASK_MORE
from nextcloud_mcp_server.errors import (
    ElicitationUnknown,
    InvalidInput,
    OtherPerson,
    SignInRefused,
    Throttled,
    Unreachable,
    WrongAccount,
)
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.auth_stage import READ, WRITE
from tests.issuer_fake import ISSUER
from tests.visits_stage import NEXTCLOUD, Stage, open_visits

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def test_a_visit_is_shown_to_whom_it_is_for(people: Stage) -> None:
    visit, alice = await people.ask("alice"), await people.browser("alice")

    shown = await people.visits.view(visit, alice.who)

    assert shown.id == visit
    assert shown.client_name == "Client claude"
    assert shown.needed == READ
    assert shown.granted == frozenset()
    assert shown.login_url is None
    assert await people.state(visit) is ElicitationState.PENDING


@pytest.mark.parametrize("visit", [UNKNOWN, "", "x", UNKNOWN.upper()])
async def test_a_visit_that_is_not_there_is_unknown(people: Stage, visit: str) -> None:
    alice = await people.browser("alice")

    with pytest.raises(ElicitationUnknown):
        await people.visits.view(visit, alice.who)


async def test_a_visit_that_leads_straight_to_nextcloud_has_no_page(people: Stage) -> None:
    alice = await people.browser("alice")
    other, _ = await people.database.elicitations.open(
        principal=alice.who.principal,
        client_id="claude",
        client_name="Claude",
        kind="direct",
        scopes=READ,
        ttl=people.clock() - people.clock(),
        new_url=str,
    )

    with pytest.raises(ElicitationUnknown):
        await people.visits.view(other.id, alice.who)


async def test_allowing_leads_to_nextcloud_and_stores_no_access(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()

    url = await people.visits.allow(visit, alice.who, alice.token, READ)

    assert url is not None
    assert url.startswith(f"{NEXTCLOUD}/authorize?state=")
    assert await people.state(visit) is ElicitationState.OPENED
    assert people.provider.sent == [(None, None)]
    assert await people.grant() is None


async def test_verifier_and_nonce_come_back_to_a_provider_that_uses_them(people: Stage) -> None:
    people.provider.uses_pkce = people.provider.uses_nonce = True
    people.provider.issuer = ISSUER
    await people.connect()

    verifier, nonce = people.provider.sent[0]
    assert verifier is not None
    assert nonce is not None
    assert verifier != nonce
    assert people.provider.secrets == [(verifier, nonce)]


async def test_with_a_mapping_coming_back_connects(mapped: Stage) -> None:
    visit, alice = await mapped.ask(), await mapped.browser("alice", nextcloud="alice")
    url = await mapped.allow(visit, alice)

    done = await mapped.visits.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)

    grant = await mapped.grant()
    assert (done.elicitation_id, done.held, done.cancelled) == (visit, None, False)
    assert grant is not None
    assert grant.account.uid == "alice"
    assert grant.account.home_id == "home-alice"
    assert grant.credential.provider == "nextcloud_oauth2"
    assert grant.credential.refresh_token is not None
    assert grant.credential.expires_at is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ
    assert await mapped.state(visit) is ElicitationState.COMPLETE
    assert mapped.finished == [visit]
    assert (await mapped.visits.view(visit, alice.who)).account_name == "alice"
    assert await mapped.audit() == [("consent", "granted")]
    assert await mapped.given_back() == []


async def test_without_a_mapping_nothing_is_connected_before_the_person_says_so(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    url = await people.allow(visit, alice)

    done = await people.visits.finish_grant(people.provider.confirm(url, "al"), alice.who, alice.token)

    assert done.held is not None
    assert done.held.uid == "al"
    assert done.held.display_name == "Al"
    assert await people.held(visit, alice) == done.held
    assert await people.grant() is None
    assert people.finished == []

    await people.visits.confirm(visit, alice.who, alice.token, mine=True)

    grant = await people.grant()
    assert grant is not None
    assert grant.account.uid == "al"
    assert await people.held(visit, alice) is None
    assert people.finished == [visit]
    assert await people.given_back() == []


async def test_not_me_ends_what_was_given_and_the_visit_goes_on(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    url = await people.allow(visit, alice)
    await people.visits.finish_grant(people.provider.confirm(url, "bob"), alice.who, alice.token)

    await people.visits.confirm(visit, alice.who, alice.token, mine=False)

    assert await people.grant() is None
    assert await people.held(visit, alice) is None
    assert await people.given_back() == ["access-granted-by-bob-0"]
    assert ("consent", "refused: not my account") in await people.audit()
    assert await people.state(visit) is ElicitationState.OPENED
    with pytest.raises(ElicitationUnknown):
        await people.visits.confirm(visit, alice.who, alice.token, mine=True)


async def test_someone_who_goes_to_nextcloud_twice_confirms_what_came_last(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    for uid in ("bob", "alice"):
        url = await people.allow(visit, alice)
        await people.visits.finish_grant(people.provider.confirm(url, uid), alice.who, alice.token)

    await people.visits.confirm(visit, alice.who, alice.token, mine=True)

    grant = await people.grant()
    assert grant is not None
    assert grant.account.uid == "alice"
    await people.visits.tidy()
    assert await people.given_back() == ["access-granted-by-bob-0"]


async def test_cancelling_at_nextcloud_leaves_the_visit_open(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    state = people.provider.confirm(await people.allow(visit, alice), "alice")["state"]

    done = await people.visits.finish_grant(
        {"state": state, "error": ["access_denied"]}, alice.who, alice.token
    )

    assert (done.elicitation_id, done.held, done.cancelled) == (visit, None, True)
    assert people.provider.redeemed == []
    assert await people.state(visit) is ElicitationState.OPENED
    assert await people.visits.allow(visit, alice.who, alice.token, READ) is not None


async def test_a_new_client_of_a_connected_person_needs_our_page_only(people: Stage) -> None:
    await people.connect("alice", "claude")
    before = await people.grant("alice", "claude")
    visit, alice = await people.ask("alice", "other"), await people.browser("alice")

    url = await people.visits.allow(visit, alice.who, alice.token, READ | WRITE)

    grant = await people.grant("alice", "other")
    assert url is None
    assert grant is not None
    assert before is not None
    assert grant.credential == before.credential
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    assert await people.state(visit) is ElicitationState.COMPLETE
    assert len(people.provider.redeemed) == 1


async def test_a_connected_person_can_allow_more(people: Stage) -> None:
    visit, alice = await people.connect()
    more = await people.ask(scopes=WRITE)
    shown = await people.visits.view(more, alice.who)

    await people.visits.allow(more, alice.who, alice.token, WRITE)

    grant = await people.grant()
    assert more != visit
    assert shown.granted == READ
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    asked = await people.provisioning.ask(people.caller("alice"), WRITE, grant=grant)
    assert str(asked) == ASK_MORE


async def test_someone_whose_access_was_refused_goes_to_nextcloud_again(people: Stage) -> None:
    await people.connect()
    old = await people.grant()
    assert old is not None
    await people.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)

    await people.connect()

    new = await people.grant()
    assert new is not None
    assert not new.credential.needs_reauth
    assert new.credential.secret != old.credential.secret
    assert new.credential.version > old.credential.version


async def test_nothing_ticked_is_nothing_allowed(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()

    for scopes in (frozenset[str](), frozenset({"nothing:read"})):
        with pytest.raises(InvalidInput):
            await people.visits.allow(visit, alice.who, alice.token, scopes)

    assert await people.state(visit) is ElicitationState.PENDING


async def test_only_what_the_operator_allows_is_stored(tmp_path: Path, template: Path) -> None:
    async with open_visits(tmp_path, template, bound=READ) as stage:
        visit, alice = await stage.ask(), await stage.browser()
        url = await stage.allow(visit, alice, READ | WRITE)
        await stage.visits.finish_grant(stage.provider.confirm(url, "alice"), alice.who, alice.token)
        await stage.visits.confirm(visit, alice.who, alice.token, mine=True)

        grant = await stage.grant()

    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ


async def test_declining_ends_the_visit(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    url = await people.allow(visit, alice)
    await people.visits.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    await people.visits.decline(visit, alice.who)

    assert await people.state(visit) is ElicitationState.DECLINED
    assert await people.held(visit, alice) is None
    assert await people.given_back() == ["access-granted-by-alice-0"]
    for again in (
        people.visits.decline(visit, alice.who),
        people.visits.allow(visit, alice.who, alice.token, READ),
        people.visits.confirm(visit, alice.who, alice.token, mine=True),
    ):
        with pytest.raises(ElicitationUnknown):
            await again


async def test_without_a_claim_the_mapping_lets_nobody_connect(mapped: Stage) -> None:
    mapped.issuer.userinfo = {"sub": "alice"}
    visit, alice = await mapped.ask(), await mapped.browser("alice")

    with pytest.raises(SignInRefused, match="nextcloud"):
        await mapped.visits.allow(visit, alice.who, alice.token, READ)
    with pytest.raises(SignInRefused, match="nextcloud"):
        await mapped.visits.finish_grant({"state": ["x"]}, alice.who, alice.token)


async def test_a_connected_person_whom_the_mapping_now_gives_another_account_disconnects_first(
    mapped: Stage,
) -> None:
    visit, alice = await mapped.ask(), await mapped.browser("alice", nextcloud="alice")
    url = await mapped.allow(visit, alice)
    await mapped.visits.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)
    more, again = await mapped.ask(client="other"), await mapped.browser("alice", nextcloud="al")

    with pytest.raises(WrongAccount, match="Disconnect first"):
        await mapped.visits.allow(more, again.who, again.token, READ)

    grant = await mapped.grant(client="other")
    assert grant is not None
    assert grant.permission is None


async def test_a_provider_that_cannot_be_asked_leaves_the_visit_open(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    people.provider.failure = Unreachable("no connection")
    params = people.provider.confirm(await people.allow(visit, alice), "alice")

    with pytest.raises(Unreachable):
        await people.visits.finish_grant(params, alice.who, alice.token)

    people.provider.failure = None
    await people.connect()
    assert await people.grant() is not None


async def test_signing_out_ends_what_waited_in_that_browser(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    url = await people.allow(visit, alice)
    await people.visits.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    await people.visits.sign_out(alice.token)

    assert await people.given_back() == ["access-granted-by-alice-0"]


async def test_what_ran_out_is_ended_and_forgotten(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    url = await people.allow(visit, alice)
    await people.visits.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)
    people.clock.forward(900)

    await people.visits.tidy()
    await people.visits.tidy()

    assert await people.state(visit) is ElicitationState.EXPIRED
    assert people.finished == [visit]
    assert await people.given_back() == ["access-granted-by-alice-0"]


async def test_wrong_codes_are_limited_before_nextcloud_limits_everybody(people: Stage) -> None:
    visit, alice = await people.ask(), await people.browser()
    codes = ["made-up-by-somebody", "made-up-once-more"]
    for code in codes:
        url = await people.allow(visit, alice)
        params = {**people.provider.confirm(url, "alice"), "code": [code]}
        with pytest.raises(Exception, match="not accepted"):
            await people.visits.finish_grant(params, alice.who, alice.token)

    with pytest.raises(Throttled):
        await people.visits.allow(visit, alice.who, alice.token, READ)

    assert people.provider.redeemed == codes
    assert ("consent", "refused: the code") in await people.audit()


async def test_another_person_can_neither_see_nor_answer_a_visit(people: Stage) -> None:
    visit, bob = await people.ask("alice"), await people.browser("bob")

    with pytest.raises(OtherPerson):
        await people.visits.decline(visit, bob.who)
    with pytest.raises(OtherPerson):
        await people.visits.held(visit, bob.who, bob.token)

    assert await people.state(visit) is ElicitationState.PENDING


async def test_a_person_ends_one_of_their_browsers_and_no_one_elses(people: Stage) -> None:
    here, there, bobs = [await people.browser(name) for name in ("alice", "alice", "bob")]
    places = {one.id for one in await people.visits.sign_ins(here.who)}
    (bobs_id,) = [one.id for one in await people.visits.sign_ins(bobs.who)]

    await people.visits.end_sign_in(here.who, bobs_id)
    await people.visits.end_sign_in(here.who, hash_of(there.token))

    assert places == {hash_of(here.token), hash_of(there.token)}
    assert [one.id for one in await people.visits.sign_ins(here.who)] == [hash_of(here.token)]
    assert await people.visits.signed_in(there.token) is None
    assert await people.visits.signed_in(bobs.token) == bobs.who
