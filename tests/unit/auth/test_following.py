"""Many users who confirm in login flows, which our page follows."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError, SignInRefused, Unreachable, WrongAccount
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState, GrantRequest
from tests.auth_fixtures import READ, WRITE
from tests.consent_fixtures import GRANT_CALLBACK, ConsentSetup, open_consent_service


async def test_allowing_starts_a_flow_for_the_account_of_the_signed_in_user(following: ConsentSetup) -> None:
    consent_request, alice = await following.begin("alice")

    flow = await following.flow(consent_request)
    shown = await following.consent_service.view(consent_request, alice.who)
    assert flow is not None
    assert (flow.uid, flow.principal, flow.scopes) == ("alice", alice.who.principal, READ)
    assert shown.state is ElicitationState.OPENED
    assert shown.login_url == flow.login_url
    assert following.provider.sent == []


async def test_what_the_person_confirms_is_stored_and_the_consent_request_is_done(
    following: ConsentSetup,
) -> None:
    consent_request, alice = await following.begin("alice")
    secret = following.granted_by("alice")

    await following.run_once()

    grant = await following.grant("alice")
    assert grant is not None
    assert grant.account.uid == "alice"
    assert grant.credential.secret.get_secret_value() == secret
    assert grant.permission is not None
    assert grant.permission.scopes == READ
    assert (
        await following.consent_service.view(consent_request, alice.who)
    ).state is ElicitationState.COMPLETE
    assert following.finished == [consent_request]
    assert await following.audit("alice") == [("consent", "granted")]


async def test_the_last_answer_counts(following: ConsentSetup) -> None:
    consent_request, alice = await following.begin("alice")

    await following.consent_service.allow(consent_request, alice.who, alice.token, WRITE)

    flow = await following.flow(consent_request)
    assert flow is not None
    assert flow.scopes == WRITE
    assert len(following.sandbox.state.login_flows) == 1


async def test_a_second_client_needs_no_second_flow(following: ConsentSetup) -> None:
    await following.begin("alice")
    following.granted_by("alice")
    await following.run_once()
    consent_request, alice = (
        await following.ask("alice", "other"),
        await following.browser("alice", preferred_username="alice"),
    )

    assert await following.consent_service.allow(consent_request, alice.who, alice.token, READ) is None

    assert await following.state(consent_request) is ElicitationState.COMPLETE
    assert await following.flow(consent_request) is None


async def test_another_account_is_refused_and_the_consent_request_stays_open(following: ConsentSetup) -> None:
    consent_request, alice = await following.begin("alice")
    secret = following.granted_by("bob")

    await following.run_once()

    shown = await following.consent_service.view(consent_request, alice.who)
    assert (shown.state, shown.login_url) == (ElicitationState.OPENED, None)
    assert shown.failure == Failure("not_yours", {"answered": "bob", "yours": "alice"})
    assert await following.grant("alice") is None
    assert secret not in following.app_passwords
    assert await following.audit("alice") == [("consent", "refused: wrong account")]


async def test_a_flow_does_not_change_whose_account_must_come_of_it(following: ConsentSetup) -> None:
    consent_request, _ = await following.begin("alice")
    again = await following.browser("alice", preferred_username="al")

    with pytest.raises(WrongAccount, match="'alice', but your sign-in now gives you 'al'"):
        await following.consent_service.allow(consent_request, again.who, again.token, READ)


async def test_a_nextcloud_that_cannot_be_asked_leaves_the_consent_request_open(
    following: ConsentSetup,
) -> None:
    consent_request, alice = (
        await following.ask("alice"),
        await following.browser("alice", preferred_username="alice"),
    )
    following.network.before = following.network.cut

    with pytest.raises(Unreachable):
        await following.consent_service.allow(consent_request, alice.who, alice.token, READ)

    following.network.before = None
    assert await following.consent_service.allow(consent_request, alice.who, alice.token, READ) is None
    assert await following.flow(consent_request) is not None


async def test_no_callback_is_taken(following: ConsentSetup) -> None:
    consent_request, alice = await following.begin("alice")
    grant_request = GrantRequest(
        state=SecretStr("before"),
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

    with pytest.raises(SignInRefused):
        await following.consent_service.finish_grant(
            {"state": ["before"], "code": ["c"]}, alice.who, alice.token
        )


async def test_without_a_mapping_it_is_refused_at_start(tmp_path: Path, template: Path) -> None:
    with pytest.raises(ConfigurationError, match="ACCOUNT_MAPPING"):
        async with open_consent_service(tmp_path, template, follows=True):
            pass
