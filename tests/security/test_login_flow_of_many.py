"""A login flow's link suffices to finish it with any account, so only the mapped one may come of it."""

from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import (
    ConfigurationError,
    OtherPerson,
    SignInRefused,
    Unsealable,
    WrongAccount,
)
from nextcloud_mcp_server.storage.records import ElicitationState, GrantRequest
from tests.auth_fixtures import READ, together
from tests.consent_fixtures import GRANT_CALLBACK, NEXTCLOUD, ConsentSetup, open_consent_service

WRONG = ("consent", "refused: wrong account")


async def nobody_is_connected(harness: ConsentSetup) -> None:
    for name in ("alice", "bob"):
        assert await harness.grant(name) is None


async def test_alices_flow_granted_by_bob_is_stored_for_no_user_and_deleted_at_once(
    following: ConsentSetup,
) -> None:
    consent_request, alice = await following.begin("alice")
    secret = following.granted_by("bob")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords
    assert await following.flow(consent_request) is None
    assert await following.audit("alice") == [WRONG]
    shown = await following.consent_service.view(consent_request, alice.who)
    assert shown.state is ElicitationState.OPENED
    assert shown.login_url is None
    assert "'bob', but your account is 'alice'" in str(shown.failure)


async def test_bobs_flow_that_alice_was_sent_never_gives_bob_her_account(following: ConsentSetup) -> None:
    """Anyone who is talked into granting another user's flow gives away nothing."""
    await following.begin("bob")
    secret = following.granted_by("alice")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords
    assert await following.audit("bob") == [WRONG]


async def test_bob_signing_in_with_alices_name_is_still_bob(following: ConsentSetup) -> None:
    """Nextcloud takes login names that are no user ids; whose it is says the answer to who that is."""
    await following.begin("alice")
    secret = following.granted_by("bob", login_name="alice")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords


async def test_alice_signing_in_with_her_address_is_still_alice(following: ConsentSetup) -> None:
    consent_request, _ = await following.begin("alice")
    secret = following.granted_by("alice", login_name="alice@example.org")

    await following.run_once()

    grant = await following.grant("alice")
    assert grant is not None
    assert (grant.account.uid, grant.credential.login_name) == ("alice", "alice@example.org")
    assert grant.credential.secret.get_secret_value() == secret
    assert grant.credential.provider == "login_flow"
    assert await following.state(consent_request) is ElicitationState.COMPLETE


@pytest.mark.parametrize("last", ["alice", "bob"])
async def test_when_both_grant_one_flow_only_the_mapped_account_is_ever_stored(
    following: ConsentSetup, last: str
) -> None:
    """At Nextcloud the last one wins."""
    await following.begin("alice")
    first = "bob" if last == "alice" else "alice"
    following.granted_by(first)
    secret = following.granted_by(last)

    await following.run_once()

    grant = await following.grant("alice")
    assert (grant.account.uid if grant else None) == ("alice" if last == "alice" else None)
    assert (secret in following.app_passwords) is (last == "alice")
    assert await following.grant("bob") is None


async def test_after_a_wrong_account_the_same_consent_request_can_be_tried_again(
    following: ConsentSetup,
) -> None:
    consent_request, alice = await following.begin("alice")
    following.granted_by("bob")
    await following.run_once()

    assert await following.consent_service.allow(consent_request, alice.who, alice.token, READ) is None
    following.granted_by("alice")
    await following.run_once()

    assert await following.grant("alice") is not None
    assert await following.state(consent_request) is ElicitationState.COMPLETE
    assert (await following.consent_service.view(consent_request, alice.who)).failure is None
    assert following.finished == [consent_request]


async def test_an_account_that_another_user_has_is_not_taken_from_them(following: ConsentSetup) -> None:
    """The identity provider now names bob's account for alice too."""
    await following.begin("bob")
    kept = following.granted_by("bob")
    await following.run_once()
    consent_request, alice = (
        await following.ask("alice"),
        await following.browser("alice", preferred_username="bob"),
    )
    await following.consent_service.allow(consent_request, alice.who, alice.token, READ)
    given = following.granted_by("bob")

    await following.run_once()

    assert await following.grant("alice") is None
    assert await following.audit("alice") == [WRONG]
    assert kept in following.app_passwords
    assert given not in following.app_passwords
    assert await following.grant("bob") is not None


async def test_no_other_user_sees_or_ends_a_flow(following: ConsentSetup) -> None:
    consent_request, _ = await following.begin("alice")
    bob = await following.browser("bob", preferred_username="bob")

    with pytest.raises(OtherPerson):
        await following.consent_service.view(consent_request, bob.who)
    with pytest.raises(OtherPerson):
        await following.consent_service.decline(consent_request, bob.who)

    assert await following.state(consent_request) is ElicitationState.OPENED


async def test_the_account_that_must_come_of_it_is_that_of_the_sign_in_that_began_it(
    following: ConsentSetup,
) -> None:
    consent_request, _ = await following.begin("alice")
    again = await following.browser("alice", preferred_username="bob")

    with pytest.raises(WrongAccount, match="was begun for the Nextcloud account 'alice'"):
        await following.consent_service.allow(consent_request, again.who, again.token, READ)

    following.granted_by("bob")
    await following.run_once()
    await nobody_is_connected(following)


async def test_signing_out_changes_nothing_about_whose_account_it_must_be(following: ConsentSetup) -> None:
    _, alice = await following.begin("alice")
    await following.consent_service.sign_out_everywhere(alice.who)
    secret = following.granted_by("bob")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords


async def test_without_a_mapping_nothing_starts(tmp_path: Path, template: Path) -> None:
    with pytest.raises(ConfigurationError, match="claim that holds it in ACCOUNT_MAPPING"):
        async with open_consent_service(tmp_path, template, follows=True):
            pass


async def test_a_user_without_an_account_by_the_mapping_starts_no_flow(following: ConsentSetup) -> None:
    following.issuer.userinfo = {"sub": "alice"}
    consent_request, alice = await following.ask("alice"), await following.browser("alice")

    with pytest.raises(SignInRefused, match="preferred_username"):
        await following.consent_service.allow(consent_request, alice.who, alice.token, READ)

    assert await following.flow(consent_request) is None
    assert following.sandbox.state.login_flows == []


@pytest.mark.parametrize("granted_by", ["alice", "bob"])
async def test_after_a_restart_the_account_is_still_the_one_that_was_said(
    following: ConsentSetup, granted_by: str
) -> None:
    await following.begin("alice")
    secret = following.granted_by(granted_by)

    await following.run_once(following.new_poller())

    assert (await following.grant("alice") is not None) is (granted_by == "alice")
    assert (secret in following.app_passwords) is (granted_by == "alice")


async def test_what_a_dead_process_left_is_compared_before_it_is_used(following: ConsentSetup) -> None:
    """It ended after Nextcloud had answered, and before anyone asked whose it is."""
    consent_request, _ = await following.begin("alice")
    secret = following.granted_by("bob")

    async def die(request: httpx2.Request) -> None:
        if request.url.path.endswith("/cloud/user"):
            group.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    following.network.before = die
    async with anyio.create_task_group() as group:
        group.start_soon(following.poller.run_once)
    following.network.before = None
    kept = await following.flow(consent_request)

    following.clock.forward(60)
    await following.run_once(following.new_poller())

    assert kept is not None
    assert kept.result is not None
    await nobody_is_connected(following)
    assert secret not in following.app_passwords


@pytest.mark.parametrize("granted_by", ["alice", "bob"])
async def test_what_comes_after_the_person_declined_is_deleted(
    following: ConsentSetup, granted_by: str
) -> None:
    consent_request, alice = await following.begin("alice")
    await following.consent_service.decline(consent_request, alice.who)
    secret = following.granted_by(granted_by)

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords
    assert await following.state(consent_request) is ElicitationState.DECLINED
    assert await following.flow(consent_request) is None


async def test_what_comes_after_a_disconnect_is_deleted(following: ConsentSetup) -> None:
    consent_request, alice = await following.begin("alice")
    await following.consent_service.disconnect(alice.who)
    secret = following.granted_by("alice")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords
    assert await following.state(consent_request) is ElicitationState.EXPIRED


async def test_an_account_moved_in_from_another_flow_does_not_open(following: ConsentSetup) -> None:
    """A user who can write to the database, and has no key, cannot say whose account it must be."""
    alices, _ = await following.begin("alice")
    bobs, _ = await following.begin("bob")
    following.granted_by("bob", flow=0)
    following.sql(
        "UPDATE login_flows SET uid = (SELECT uid FROM login_flows WHERE subject = 'bob') "
        "WHERE subject = 'alice'"
    )

    await following.run_once()

    with pytest.raises(Unsealable):
        await following.flow(alices)
    await nobody_is_connected(following)
    assert await following.flow(bobs) is not None


async def test_a_flow_that_names_no_account_connects_no_user(following: ConsentSetup) -> None:
    """One user's server began it, on the same database, or a user emptied the column."""
    consent_request, _ = await following.begin("alice")
    secret = following.granted_by("alice")
    following.sql("UPDATE login_flows SET uid = NULL")

    await following.run_once()

    await nobody_is_connected(following)
    assert secret not in following.app_passwords
    assert await following.audit("alice") == [WRONG]
    assert await following.state(consent_request) is ElicitationState.OPENED


async def test_no_callback_is_accepted_where_no_browser_was_sent_away(following: ConsentSetup) -> None:
    """The settings named Nextcloud's OAuth app before, and a browser is still on its way."""
    consent_request, alice = await following.begin("alice")
    grant_request = GrantRequest(
        state=SecretStr("on-its-way"),
        elicitation_id=consent_request,
        principal=alice.who.principal,
        scopes=READ,
        redirect_uri=GRANT_CALLBACK,
        verifier=None,
        nonce=None,
        created_at=following.clock(),
        expires_at=following.clock() + timedelta(minutes=10),
    )
    await following.database.grant_requests.create(grant_request, sign_in=alice.token)
    params = following.provider.confirm(f"{NEXTCLOUD}/?state=on-its-way", "alice")

    with pytest.raises(SignInRefused):
        await following.consent_service.finish_grant(params, alice.who, alice.token)

    assert following.provider.exchanged == []
    await nobody_is_connected(following)


async def test_two_people_at_once_each_get_their_own(following: ConsentSetup) -> None:
    for name in ("alice", "bob"):
        await following.begin(name)
    secrets = [following.granted_by(name, flow=flow) for flow, name in enumerate(("alice", "bob"))]
    following.clock.forward(2)

    await together(following.poller.run_once, following.new_poller().run_once)

    for name, secret in zip(("alice", "bob"), secrets, strict=True):
        grant = await following.grant(name)
        assert grant is not None
        assert grant.account.uid == name
        assert grant.credential.secret.get_secret_value() == secret
