from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CLIENT_STATE, PAGE_STATE
from nextcloud_mcp_server.auth.consent import grant_flow
from nextcloud_mcp_server.auth.consent.policy import ASK_MORE
from nextcloud_mcp_server.auth.consent.views import ClientIdentity
from nextcloud_mcp_server.auth.principal import PERSONAL_CLIENT_ID
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
from tests.auth_fixtures import READ, WRITE
from tests.authorization_fixtures import query_of
from tests.consent_fixtures import NEXTCLOUD, ConsentSetup, open_consent_service
from tests.issuer_fake import ISSUER

UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


async def test_a_consent_request_is_shown_to_whom_it_is_for(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask("alice"), await people.browser("alice")

    shown = await people.consent_service.view(consent_request, alice.who)

    assert shown.id == consent_request
    assert shown.client_name == "Client claude"
    assert shown.needed == READ
    assert shown.granted == frozenset()
    assert shown.login_url is None
    assert await people.state(consent_request) is ElicitationState.PENDING


@pytest.mark.parametrize("consent_request", [UNKNOWN, "", "x", UNKNOWN.upper()])
async def test_a_consent_request_that_is_not_there_is_unknown(
    people: ConsentSetup, consent_request: str
) -> None:
    alice = await people.browser("alice")

    with pytest.raises(ElicitationUnknown):
        await people.consent_service.view(consent_request, alice.who)


async def test_a_client_is_known_by_its_id_whatever_the_issuer_calls_it(people: ConsentSetup) -> None:
    """Also by the id that all programs of one computer have in single-user mode."""
    consent_request, browser = await people.ask(client=PERSONAL_CLIENT_ID), await people.browser("alice")

    shown = await people.consent_service.view(consent_request, browser.who)

    assert shown.client == ClientIdentity(id=PERSONAL_CLIENT_ID)


async def test_a_consent_request_that_leads_straight_to_nextcloud_has_no_page(people: ConsentSetup) -> None:
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
        await people.consent_service.view(other.id, alice.who)


async def test_allowing_leads_to_nextcloud_and_stores_no_access(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()

    url = await people.consent_service.allow(consent_request, alice.who, alice.token, READ)

    assert url is not None
    assert url.startswith(f"{NEXTCLOUD}/authorize?state=")
    assert await people.state(consent_request) is ElicitationState.OPENED
    assert people.provider.sent == [(None, None)]
    assert await people.grant() is None


async def test_the_state_of_a_grant_begins_like_no_state_of_a_sign_in(
    people: ConsentSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    monkeypatch.setattr(grant_flow, "new_secret", lambda: SecretStr(f"{PAGE_STATE}{'x' * 41}"))

    url = await people.consent_service.allow(consent_request, alice.who, alice.token, READ)

    assert url is not None
    assert not query_of(url)["state"].startswith((PAGE_STATE, CLIENT_STATE))


async def test_a_provider_that_uses_verifier_and_nonce_gets_them_again(people: ConsentSetup) -> None:
    people.provider.uses_pkce = people.provider.uses_nonce = True
    people.provider.issuer = ISSUER
    await people.connect()

    verifier, nonce = people.provider.sent[0]
    assert verifier is not None
    assert nonce is not None
    assert verifier != nonce
    assert people.provider.secrets == [(verifier, nonce)]


async def test_with_a_mapping_coming_back_connects(mapped: ConsentSetup) -> None:
    consent_request, alice = await mapped.ask(), await mapped.browser("alice", nextcloud="alice")
    url = await mapped.allow(consent_request, alice)

    done = await mapped.consent_service.finish_grant(
        mapped.provider.confirm(url, "alice"), alice.who, alice.token
    )

    grant = await mapped.grant()
    assert (done.elicitation_id, done.pending_grant, done.cancelled) == (consent_request, None, False)
    assert grant is not None
    assert grant.account.uid == "alice"
    assert grant.account.storage_id == "home-alice"
    assert grant.credential.provider == "nextcloud_oauth2"
    assert grant.credential.refresh_token is not None
    assert grant.credential.expires_at is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ
    assert await mapped.state(consent_request) is ElicitationState.COMPLETE
    assert mapped.finished == [consent_request]
    assert (await mapped.consent_service.view(consent_request, alice.who)).account_name == "Alice"
    assert await mapped.audit() == [("consent", "granted")]
    assert await mapped.given_back() == []


async def test_without_a_mapping_nothing_is_connected_before_the_person_says_so(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    url = await people.allow(consent_request, alice)

    done = await people.consent_service.finish_grant(
        people.provider.confirm(url, "al"), alice.who, alice.token
    )

    assert done.pending_grant is not None
    assert done.pending_grant.uid == "al"
    assert done.pending_grant.display_name == "Al"
    assert await people.pending_grant(consent_request, alice) == done.pending_grant
    assert await people.grant() is None
    assert people.finished == []

    await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    grant = await people.grant()
    assert grant is not None
    assert grant.account.uid == "al"
    assert await people.pending_grant(consent_request, alice) is None
    assert people.finished == [consent_request]
    assert await people.given_back() == []


async def test_not_me_ends_what_was_given_and_the_consent_request_goes_on(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    url = await people.allow(consent_request, alice)
    await people.consent_service.finish_grant(people.provider.confirm(url, "bob"), alice.who, alice.token)

    await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=False)

    assert await people.grant() is None
    assert await people.pending_grant(consent_request, alice) is None
    assert await people.given_back() == ["access-granted-by-bob-0"]
    assert ("consent", "refused: not my account") in await people.audit()
    assert await people.state(consent_request) is ElicitationState.OPENED
    with pytest.raises(ElicitationUnknown):
        await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)


async def test_a_user_that_goes_to_nextcloud_twice_confirms_the_last_answer(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    for uid in ("bob", "alice"):
        url = await people.allow(consent_request, alice)
        await people.consent_service.finish_grant(people.provider.confirm(url, uid), alice.who, alice.token)

    await people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

    grant = await people.grant()
    assert grant is not None
    assert grant.account.uid == "alice"
    await people.consent_service.clean_up()
    assert await people.given_back() == ["access-granted-by-bob-0"]


async def test_cancelling_at_nextcloud_leaves_the_consent_request_open(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    state = people.provider.confirm(await people.allow(consent_request, alice), "alice")["state"]

    done = await people.consent_service.finish_grant(
        {"state": state, "error": ["access_denied"]}, alice.who, alice.token
    )

    assert (done.elicitation_id, done.pending_grant, done.cancelled) == (consent_request, None, True)
    assert people.provider.exchanged == []
    assert await people.state(consent_request) is ElicitationState.OPENED
    assert await people.consent_service.allow(consent_request, alice.who, alice.token, READ) is not None


async def test_a_new_client_of_a_connected_person_needs_our_page_only(people: ConsentSetup) -> None:
    await people.connect("alice", "claude")
    before = await people.grant("alice", "claude")
    consent_request, alice = await people.ask("alice", "other"), await people.browser("alice")

    url = await people.consent_service.allow(consent_request, alice.who, alice.token, READ | WRITE)

    grant = await people.grant("alice", "other")
    assert url is None
    assert grant is not None
    assert before is not None
    assert grant.credential == before.credential
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    assert await people.state(consent_request) is ElicitationState.COMPLETE
    assert len(people.provider.exchanged) == 1


async def test_a_connected_person_can_allow_more(people: ConsentSetup) -> None:
    consent_request, alice = await people.connect()
    more = await people.ask(scopes=WRITE)
    shown = await people.consent_service.view(more, alice.who)

    await people.consent_service.allow(more, alice.who, alice.token, WRITE)

    grant = await people.grant()
    assert more != consent_request
    assert shown.granted == READ
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    asked = await people.provisioning.ask(people.caller("alice"), WRITE, grant=grant)
    assert str(asked) == ASK_MORE


async def test_a_user_whose_access_was_refused_goes_to_nextcloud_again(people: ConsentSetup) -> None:
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


async def test_nothing_ticked_is_nothing_allowed(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()

    for scopes in (frozenset[str](), frozenset({"nothing:read"})):
        with pytest.raises(InvalidInput):
            await people.consent_service.allow(consent_request, alice.who, alice.token, scopes)

    assert await people.state(consent_request) is ElicitationState.PENDING


async def test_only_what_the_operator_allows_is_stored(tmp_path: Path, template: Path) -> None:
    async with open_consent_service(tmp_path, template, bound=READ) as harness:
        consent_request, alice = await harness.ask(), await harness.browser()
        url = await harness.allow(consent_request, alice, READ | WRITE)
        await harness.consent_service.finish_grant(
            harness.provider.confirm(url, "alice"), alice.who, alice.token
        )
        await harness.consent_service.confirm(consent_request, alice.who, alice.token, mine=True)

        grant = await harness.grant()

    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ


async def test_declining_ends_the_consent_request(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    url = await people.allow(consent_request, alice)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    await people.consent_service.decline(consent_request, alice.who)

    assert await people.state(consent_request) is ElicitationState.DECLINED
    assert await people.pending_grant(consent_request, alice) is None
    assert await people.given_back() == ["access-granted-by-alice-0"]
    for again in (
        people.consent_service.decline(consent_request, alice.who),
        people.consent_service.allow(consent_request, alice.who, alice.token, READ),
        people.consent_service.confirm(consent_request, alice.who, alice.token, mine=True),
    ):
        with pytest.raises(ElicitationUnknown):
            await again


async def test_without_a_claim_the_mapping_lets_no_user_connect(mapped: ConsentSetup) -> None:
    mapped.issuer.userinfo = {"sub": "alice"}
    consent_request, alice = await mapped.ask(), await mapped.browser("alice")

    with pytest.raises(SignInRefused, match="nextcloud"):
        await mapped.consent_service.allow(consent_request, alice.who, alice.token, READ)
    with pytest.raises(SignInRefused):
        await mapped.consent_service.finish_grant({"state": ["x"]}, alice.who, alice.token)


async def test_a_connected_person_whom_the_mapping_now_gives_another_account_disconnects_first(
    mapped: ConsentSetup,
) -> None:
    consent_request, alice = await mapped.ask(), await mapped.browser("alice", nextcloud="alice")
    url = await mapped.allow(consent_request, alice)
    await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)
    more, again = await mapped.ask(client="other"), await mapped.browser("alice", nextcloud="al")

    with pytest.raises(WrongAccount, match="Disconnect first"):
        await mapped.consent_service.allow(more, again.who, again.token, READ)

    grant = await mapped.grant(client="other")
    assert grant is not None
    assert grant.permission is None


async def test_a_provider_that_cannot_be_asked_leaves_the_consent_request_open(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    people.provider.failure = Unreachable("no connection")
    params = people.provider.confirm(await people.allow(consent_request, alice), "alice")

    with pytest.raises(Unreachable):
        await people.consent_service.finish_grant(params, alice.who, alice.token)

    people.provider.failure = None
    await people.connect()
    assert await people.grant() is not None


async def test_signing_out_ends_what_waited_in_that_browser(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    url = await people.allow(consent_request, alice)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)

    await people.consent_service.sign_out(alice.token)

    assert await people.given_back() == ["access-granted-by-alice-0"]


async def test_what_ran_out_is_ended_and_forgotten(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    url = await people.allow(consent_request, alice)
    await people.consent_service.finish_grant(people.provider.confirm(url, "alice"), alice.who, alice.token)
    people.clock.forward(900)

    await people.consent_service.clean_up()
    await people.consent_service.clean_up()

    assert await people.state(consent_request) is ElicitationState.EXPIRED
    assert people.finished == [consent_request]
    assert await people.given_back() == ["access-granted-by-alice-0"]


async def test_wrong_codes_are_limited_before_nextcloud_limits_all_users(people: ConsentSetup) -> None:
    consent_request, alice = await people.ask(), await people.browser()
    codes = ["made-up-by-somebody", "made-up-once-more"]
    for code in codes:
        url = await people.allow(consent_request, alice)
        params = {**people.provider.confirm(url, "alice"), "code": [code]}
        with pytest.raises(Exception, match="not accepted"):
            await people.consent_service.finish_grant(params, alice.who, alice.token)

    with pytest.raises(Throttled):
        await people.consent_service.allow(consent_request, alice.who, alice.token, READ)

    assert people.provider.exchanged == codes
    assert ("consent", "refused: the code") in await people.audit()


async def test_another_person_can_neither_see_nor_answer_a_consent_request(people: ConsentSetup) -> None:
    consent_request, bob = await people.ask("alice"), await people.browser("bob")

    with pytest.raises(OtherPerson):
        await people.consent_service.decline(consent_request, bob.who)
    with pytest.raises(OtherPerson):
        await people.consent_service.pending_grant(consent_request, bob.who, bob.token)

    assert await people.state(consent_request) is ElicitationState.PENDING


async def test_a_person_ends_one_of_their_browsers_and_no_one_elses(people: ConsentSetup) -> None:
    here, there, bobs = [await people.browser(name) for name in ("alice", "alice", "bob")]
    places = {one.id for one in await people.consent_service.sign_ins(here.who)}
    (bobs_id,) = [one.id for one in await people.consent_service.sign_ins(bobs.who)]

    await people.consent_service.end_sign_in(here.who, bobs_id)
    await people.consent_service.end_sign_in(here.who, hash_of(there.token))

    assert places == {hash_of(here.token), hash_of(there.token)}
    assert [one.id for one in await people.consent_service.sign_ins(here.who)] == [hash_of(here.token)]
    assert await people.consent_service.signed_in(there.token) is None
    assert await people.consent_service.signed_in(bobs.token) == bobs.who
