from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from nextcloud_mcp_server.errors import ElicitationUnknown, IssuerUnavailable, SignInRefused
from nextcloud_mcp_server.storage.records import Principal
from tests.consent_fixtures import SIGN_IN_CALLBACK, ConsentSetup, open_consent_service
from tests.issuer_fake import CLIENT, ISSUER, at_hash

CONSENT_TARGET = "consent:550e8400-e29b-41d4-a716-446655440000"


async def test_a_sign_in_begins_with_pkce_and_a_nonce_and_asks_only_for_a_name(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in(CONSENT_TARGET)

    query = parse_qs(urlsplit(start.url).query)
    assert start.url.startswith(f"{ISSUER}/authorize?")
    assert query["redirect_uri"] == [SIGN_IN_CALLBACK]
    assert query["client_id"] == [CLIENT]
    assert query["scope"] == ["openid profile"]
    assert query["code_challenge_method"] == ["S256"]
    assert {len(query[name][0]) for name in ("nonce", "code_challenge")} == {43}
    assert 100 < len(query["state"][0]) < 400


@pytest.mark.parametrize(("another", "prompt"), [(True, ["login"]), (False, None)])
async def test_only_another_user_is_asked_who_they_are_again(
    people: ConsentSetup, *, another: bool, prompt: list[str] | None
) -> None:
    start = await people.consent_service.begin_sign_in(CONSENT_TARGET, another=another)

    assert parse_qs(urlsplit(start.url).query).get("prompt") == prompt


async def test_nothing_of_a_flow_can_be_read_from_its_cookie(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in(CONSENT_TARGET)

    query = parse_qs(urlsplit(start.url).query)
    flow = start.flow.get_secret_value()
    assert flow.isascii()
    assert len(flow) < 1000
    assert query["state"][0] not in flow
    assert "consent" not in flow


async def test_coming_back_begins_a_session_for_what_the_sign_in_was_for(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in(CONSENT_TARGET)
    params = people.issuer.sign_in(start.url, "alice")

    done = await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)

    assert done.target == CONSENT_TARGET
    assert done.signed_in.principal == Principal(ISSUER, "alice")
    assert done.signed_in.display_name == "Alice"
    assert done.signed_in.uid is None
    assert await people.consent_service.signed_in(done.token.get_secret_value()) == done.signed_in
    assert len(people.issuer.token_requests()) == 1


async def test_a_code_that_was_exchanged_is_spent(people: ConsentSetup) -> None:
    start = await people.consent_service.begin_sign_in(CONSENT_TARGET)
    params = people.issuer.sign_in(start.url, "alice")

    await people.consent_service.finish_sign_in(start.flow.get_secret_value(), params)

    assert await people.database.spent_codes.is_spent(params["code"][0])


@pytest.mark.parametrize(
    "target", ["", "consent:", "consent:../x", "//evil.test", f"{CONSENT_TARGET}x", "ACCOUNT"]
)
async def test_a_sign_in_leads_nowhere_but_to_our_pages(people: ConsentSetup, target: str) -> None:
    with pytest.raises(ElicitationUnknown):
        await people.consent_service.begin_sign_in(target)


async def test_a_session_ends_after_a_quarter_of_an_hour(people: ConsentSetup) -> None:
    browser = await people.browser()

    people.clock.forward(15 * 60)

    assert await people.consent_service.signed_in(browser.token) is None


async def test_signing_out_ends_this_session_or_all(people: ConsentSetup) -> None:
    one, two, three = [await people.browser() for _ in range(3)]
    other = await people.browser("bob")

    await people.consent_service.sign_out(one.token)
    assert await people.consent_service.signed_in(one.token) is None
    assert await people.consent_service.signed_in(two.token) is not None

    await people.consent_service.sign_out_everywhere(two.who)
    assert await people.consent_service.signed_in(two.token) is None
    assert await people.consent_service.signed_in(three.token) is None
    assert await people.consent_service.signed_in(other.token) is not None


async def test_a_provider_without_s256_is_refused(people: ConsentSetup) -> None:
    people.issuer.metadata["code_challenge_methods_supported"] = ["plain"]

    with pytest.raises(IssuerUnavailable, match="S256"):
        await people.consent_service.begin_sign_in("account")


async def test_a_provider_that_lists_no_pkce_gets_it_all_the_same(people: ConsentSetup) -> None:
    people.issuer.metadata["code_challenge_methods_supported"] = None

    start = await people.consent_service.begin_sign_in("account")

    assert "code_challenge_method=S256" in start.url


async def test_a_secret_may_go_into_the_form(tmp_path: Path, template: Path) -> None:
    async with open_consent_service(tmp_path, template, posts_secret=True) as harness:
        await harness.browser()

        assert harness.issuer.token_requests()[0]["client_id"] == CLIENT


async def test_a_sign_in_without_an_id_token_is_refused(people: ConsentSetup) -> None:
    people.issuer.tokens["id_token"] = None

    with pytest.raises(SignInRefused, match="did not say"):
        await people.browser()


async def test_a_name_is_found_or_the_identity_stands_for_it(people: ConsentSetup) -> None:
    named = await people.browser("alice", name=" ", preferred_username="al")
    nameless = await people.browser("u-17", name=None)
    people.issuer.claims["name"] = "x" * 500
    long = await people.browser("bob")

    assert named.who.display_name == "al"
    assert nameless.who.display_name == "u-17"
    assert long.who.display_name == "x" * 200


async def test_the_mapping_names_the_account(mapped: ConsentSetup) -> None:
    browser = await mapped.browser("alice", nextcloud="alice@cloud")

    assert browser.who.uid == "alice@cloud"
    assert mapped.sign_in.mapping_claim == "nextcloud"


@pytest.mark.parametrize("value", ["", 7, ["alice"], "x" * 65])
async def test_what_is_no_user_id_names_no_account(mapped: ConsentSetup, value: object) -> None:
    browser = await mapped.browser("alice", nextcloud=value)

    assert browser.who.uid is None


async def test_a_claim_that_the_id_token_leaves_out_is_asked_for(mapped: ConsentSetup) -> None:
    mapped.issuer.userinfo = {"sub": "alice", "nextcloud": "alice", "name": "Somebody Else"}

    browser = await mapped.browser("alice")

    assert browser.who.uid == "alice"
    assert browser.who.display_name == "Alice"


@pytest.mark.parametrize("userinfo", [{"sub": "bob", "nextcloud": "bob"}, {"nextcloud": "bob"}, {}])
async def test_an_answer_about_another_user_is_refused(
    mapped: ConsentSetup, userinfo: dict[str, object]
) -> None:
    mapped.issuer.userinfo = userinfo

    with pytest.raises(SignInRefused, match="two different things"):
        await mapped.browser("alice")


async def test_without_a_place_to_ask_nothing_is_asked(mapped: ConsentSetup) -> None:
    mapped.issuer.metadata["userinfo_endpoint"] = None

    assert (await mapped.browser("alice")).who.uid is None


async def test_an_unverified_address_names_no_account(tmp_path: Path, template: Path) -> None:
    async with open_consent_service(tmp_path, template, mapping_claim="email") as harness:
        verified = await harness.browser("alice", email="alice@x.test", email_verified=True)
        typed = await harness.browser("bob", email="alice@x.test", email_verified=False)
        start = await harness.consent_service.begin_sign_in("account")

    assert verified.who.uid == "alice@x.test"
    assert typed.who.uid is None
    assert parse_qs(urlsplit(start.url).query)["scope"] == ["openid profile email"]


@pytest.mark.parametrize("verified", [False, "false", None, 1.5])
async def test_an_unverified_address_identifies_no_user(
    tmp_path: Path, template: Path, verified: object
) -> None:
    async with open_consent_service(tmp_path, template, identity_claim="email") as harness:
        harness.issuer.userinfo = {"sub": "mallory"}
        with pytest.raises(SignInRefused, match="verified"):
            await harness.browser("mallory", email="alice@x.test", email_verified=verified)


async def test_what_is_signed_counts_where_the_provider_says_two_things(
    tmp_path: Path, template: Path
) -> None:
    async with open_consent_service(
        tmp_path, template, identity_claim="email", mapping_claim="nextcloud"
    ) as harness:
        # The missing mapping has it asked, and the answer speaks of the address, too.
        harness.issuer.userinfo = {"sub": "mallory", "nextcloud": "mallory", "email_verified": True}
        with pytest.raises(SignInRefused, match="verified"):
            await harness.browser("mallory", email="alice@x.test", email_verified=False)


@pytest.mark.parametrize("verified", [True, "true"])
async def test_a_verified_address_may_be_the_identity_wherever_it_is_said(
    tmp_path: Path, template: Path, verified: object
) -> None:
    async with open_consent_service(tmp_path, template, identity_claim="email") as harness:
        told = await harness.browser("alice", email="alice@x.test", email_verified=verified)
        harness.issuer.userinfo = {"sub": "alice", "email_verified": verified}
        asked = await harness.browser("alice", email="alice@x.test")

    assert told.who.principal == asked.who.principal == Principal(ISSUER, "alice@x.test")


async def test_another_claim_may_be_the_identity(tmp_path: Path, template: Path) -> None:
    async with open_consent_service(tmp_path, template, identity_claim="oid") as harness:
        browser = await harness.browser("alice", oid="object-7")

        assert browser.who.principal == Principal(ISSUER, "object-7")

        for nobody in (7, "", None):
            harness.issuer.userinfo = {"sub": "alice", "oid": nobody}
            with pytest.raises(SignInRefused, match="did not say"):
                await harness.browser("alice")


async def test_an_id_token_for_several_clients_must_name_us(people: ConsentSetup) -> None:
    ours = await people.browser("alice", aud=[CLIENT, "other"], azp=CLIENT)

    assert ours.who.principal.subject == "alice"
    for azp in (None, "other"):
        with pytest.raises(SignInRefused):
            await people.browser("alice", aud=[CLIENT, "other"], azp=azp)


async def test_an_access_token_goes_with_its_hash(people: ConsentSetup) -> None:
    people.issuer.claims["at_hash"] = at_hash("access-token-of-the-issuer")
    await people.browser()

    people.issuer.claims["at_hash"] = at_hash("another")
    with pytest.raises(SignInRefused):
        await people.browser()
