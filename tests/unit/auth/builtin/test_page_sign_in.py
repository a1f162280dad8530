"""The sign-in for our own pages, through Nextcloud; and what becomes of the access that it brings."""

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
from tests.auth_fixtures import NEXTCLOUD, READ, WRITE
from tests.authorization_fixtures import (
    ALICE,
    BOB,
    CALLBACK,
    CLIENT,
    COOKIE,
    RESOURCE,
    AuthorizationFixture,
    open_authorization,
    query_of,
)
from tests.consent_fixtures import run_sql
from tests.tokens_fixtures import VERIFIER

UNKNOWN = "consent:550e8400-e29b-41d4-a716-446655440000"
MINUTE = 60


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as made:
        await made.register()
        yield made


async def token_of(authorization: AuthorizationFixture, cookie: str = COOKIE) -> str:
    """Connect Alice's client, and take its access token."""
    sent = await authorization.connect("alice", cookie)
    issued = await authorization.tokens.exchange_code(
        sent.code.get_secret_value(),
        client_id=CLIENT,
        redirect_uri=CALLBACK,
        verifier=VERIFIER,
        resource=RESOURCE,
    )
    return issued.access_token.get_secret_value()


async def is_good(authorization: AuthorizationFixture, token: str) -> bool:
    try:
        await authorization.tokens.verify(token)
    except TokenRefused:
        return False
    return True


async def test_a_sign_in_for_the_account_page_identifies_the_user_and_leaves_no_access(
    authorization: AuthorizationFixture,
) -> None:
    alice = await authorization.browser("alice")

    assert (alice.who.principal, alice.who.display_name, alice.who.uid) == (ALICE, "Alice", "alice")
    assert await authorization.consent_service.signed_in(alice.token) == alice.who
    assert await authorization.given_back() == ["access-granted-by-alice-0"]
    assert await authorization.grant() is None


async def test_the_browser_goes_to_nextcloud_and_nowhere_else(authorization: AuthorizationFixture) -> None:
    start = await authorization.consent_service.begin_sign_in("account", another=True)

    assert start.url.startswith(f"{NEXTCLOUD}/authorize?state=s-")
    assert start.flow.get_secret_value() not in start.url
    assert not authorization.consent_service.can_switch


@pytest.mark.parametrize("target", ["client", "", "consent:", "consent:x", "accounts", "consent:../account"])
async def test_a_sign_in_is_for_a_consent_request_or_the_account_page(
    authorization: AuthorizationFixture, target: str
) -> None:
    with pytest.raises(ElicitationUnknown):
        await authorization.consent_service.begin_sign_in(target)


async def test_a_second_callback_signs_no_user_in(authorization: AuthorizationFixture) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    flow, params = start.flow.get_secret_value(), authorization.provider.confirm(start.url, "alice")

    await authorization.consent_service.finish_sign_in(flow, params)
    with pytest.raises(SignInRefused):
        await authorization.consent_service.finish_sign_in(flow, params)

    assert len(authorization.provider.exchanged) == 1


@pytest.mark.parametrize("other", ["", "made-up", COOKIE])
async def test_another_browser_signs_no_user_in_and_ends_the_sign_in(
    authorization: AuthorizationFixture, other: str
) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    flow, params = start.flow.get_secret_value(), authorization.provider.confirm(start.url, "alice")

    for browser in (other, flow):
        with pytest.raises(SignInRefused):
            await authorization.consent_service.finish_sign_in(browser, params)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_a_state_of_a_client_signs_no_user_in(authorization: AuthorizationFixture) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")

    with pytest.raises(SignInRefused):
        await authorization.consent_service.finish_sign_in(COOKIE, params)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_a_wrong_code_or_an_unavailable_nextcloud_signs_no_user_in(
    authorization: AuthorizationFixture,
) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    params = {**authorization.provider.confirm(start.url, "alice"), "code": ["made-up-by-somebody"]}
    with pytest.raises(GrantRefused):
        await authorization.consent_service.finish_sign_in(start.flow.get_secret_value(), params)

    authorization.provider.failure = Unreachable("no connection")
    with pytest.raises(Unreachable):
        await authorization.browser("alice")


async def test_a_user_in_no_allowed_group_has_no_session(tmp_path: Path, template: Path) -> None:
    async with open_authorization(tmp_path, template, groups=frozenset({"staff"})) as club:
        club.provider.groups = {"alice": frozenset({"staff"})}

        assert await club.browser("alice")
        with pytest.raises(NotAMember):
            await club.browser("bob")

        assert await club.given_back() == ["access-granted-by-alice-0", "access-granted-by-bob-1"]


async def test_a_person_without_a_name_is_called_by_their_account(
    authorization: AuthorizationFixture,
) -> None:
    authorization.provider.names["alice"] = ""

    assert (await authorization.browser("alice")).who.display_name == "alice"


async def test_the_sign_in_for_a_consent_request_becomes_the_access_that_was_missing(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")
    alice = await authorization.browser("alice", f"consent:{consent_request}")
    assert await authorization.given_back() == []
    assert await authorization.consent_service.pending_grant(consent_request, alice.who, alice.token) is None

    url = await authorization.consent_service.allow(consent_request, alice.who, alice.token, READ)

    grant = await authorization.grant()
    assert url is None
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.account.uid == "alice"
    assert grant.permission is not None
    assert grant.permission.scopes == READ
    found = await authorization.database.elicitations.find(consent_request)
    assert found is not None
    assert found.state is ElicitationState.COMPLETE
    assert await authorization.given_back() == []
    assert len(authorization.provider.sent) == 1


async def test_a_dead_access_is_replaced_by_what_the_sign_in_brings(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.connect("alice")
    old = await authorization.grant()
    assert old is not None
    await authorization.database.grants.mark_needs_reauth(old.credential.id, version=old.credential.version)
    authorization.clock.forward(1)
    consent_request = await authorization.ask("alice")
    alice = await authorization.browser("alice", f"consent:{consent_request}")

    assert await authorization.consent_service.allow(consent_request, alice.who, alice.token, READ) is None

    new = await authorization.grant()
    assert new is not None
    assert not new.credential.needs_reauth
    assert new.credential.secret.get_secret_value() == "access-granted-by-alice-1"


async def test_a_user_with_working_access_needs_no_other(authorization: AuthorizationFixture) -> None:
    await authorization.connect("alice")
    consent_request = await authorization.ask("alice", scopes=WRITE)

    alice = await authorization.browser("alice", f"consent:{consent_request}")

    assert await authorization.given_back() == ["access-granted-by-alice-1"]
    assert await authorization.consent_service.allow(consent_request, alice.who, alice.token, WRITE) is None
    grant = await authorization.grant()
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE


async def test_the_link_of_another_user_gives_no_access_and_signs_in_the_browsers_own_user(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")

    bob = await authorization.browser("bob", f"consent:{consent_request}")

    assert bob.who.principal == BOB
    assert await authorization.given_back() == ["access-granted-by-bob-0"]
    for way in (
        authorization.consent_service.view(consent_request, bob.who),
        authorization.consent_service.allow(consent_request, bob.who, bob.token, READ),
        authorization.consent_service.pending_grant(consent_request, bob.who, bob.token),
    ):
        with pytest.raises(OtherPerson):
            await way
    assert await authorization.grant("alice") is None
    assert await authorization.grant("bob") is None


async def test_a_consent_request_that_is_over_or_never_was_keeps_no_access(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")
    before = await authorization.browser("alice")
    await authorization.consent_service.decline(consent_request, before.who)

    await authorization.browser("alice", f"consent:{consent_request}")
    await authorization.browser("alice", UNKNOWN)

    assert await authorization.given_back() == [f"access-granted-by-alice-{number}" for number in range(3)]


async def test_what_the_sign_in_brought_is_good_in_its_own_browser_alone(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")
    first = await authorization.browser("alice", f"consent:{consent_request}")
    other = await authorization.browser("alice")

    url = await authorization.consent_service.allow(consent_request, other.who, other.token, READ)

    assert url is not None
    assert query_of(url)["state"][:2] not in ("c-", "s-")
    assert await authorization.grant() is None
    assert await authorization.consent_service.allow(consent_request, first.who, first.token, READ) is None
    grant = await authorization.grant()
    assert grant is not None


async def test_the_grant_flow_goes_on_where_the_sign_in_brought_nothing(
    authorization: AuthorizationFixture,
) -> None:
    alice = await authorization.browser("alice")
    consent_request = await authorization.ask("alice")
    url = await authorization.consent_service.allow(consent_request, alice.who, alice.token, READ)
    assert url is not None

    done = await authorization.consent_service.finish_grant(
        authorization.provider.confirm(url, "alice"), alice.who, alice.token
    )

    assert (done.elicitation_id, done.pending_grant) == (consent_request, None)
    grant = await authorization.grant()
    assert grant is not None
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-1"


async def test_nothing_ticked_on_the_consent_request_keeps_what_was_brought(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")
    alice = await authorization.browser("alice", f"consent:{consent_request}")

    with pytest.raises(InvalidInput):
        await authorization.consent_service.allow(consent_request, alice.who, alice.token, frozenset())

    assert await authorization.consent_service.allow(consent_request, alice.who, alice.token, READ) is None


@pytest.mark.parametrize("way", ["decline", "sign out", "sign out everywhere", "wait"])
async def test_what_was_brought_and_is_not_wanted_is_ended(
    authorization: AuthorizationFixture, way: str
) -> None:
    consent_request = await authorization.ask("alice")
    alice = await authorization.browser("alice", f"consent:{consent_request}")

    if way == "decline":
        await authorization.consent_service.decline(consent_request, alice.who)
    elif way == "sign out":
        await authorization.consent_service.sign_out(alice.token)
    elif way == "sign out everywhere":
        await authorization.consent_service.sign_out_everywhere(alice.who)
    else:
        authorization.clock.forward(11 * MINUTE)
        await authorization.consent_service.clean_up()

    assert await authorization.given_back() == ["access-granted-by-alice-0"]
    assert await authorization.grant() is None


async def test_a_sign_in_that_cannot_be_stored_leaves_no_access_for_long(
    authorization: AuthorizationFixture,
) -> None:
    consent_request = await authorization.ask("alice")
    with authorization.failing("INSERT ON pending_grants"), pytest.raises(StorageError, match="disk full"):
        await authorization.browser("alice", f"consent:{consent_request}")
    assert await authorization.given_back() == ["access-granted-by-alice-0"]

    with authorization.failing("INSERT ON sign_ins"), pytest.raises(StorageError, match="disk full"):
        await authorization.browser("alice", f"consent:{consent_request}")
    authorization.clock.forward(11 * MINUTE)
    await authorization.consent_service.clean_up()

    assert await authorization.given_back() == ["access-granted-by-alice-0", "access-granted-by-alice-1"]


async def test_a_transaction_that_another_replica_has_ended_gives_no_user_access(
    authorization: AuthorizationFixture,
) -> None:
    async def worked_off() -> None:
        run_sql(authorization.file, "DELETE FROM outbox")

    consent_request = await authorization.ask("alice")
    authorization.provider.afterwards = worked_off

    with pytest.raises(SignInRefused):
        await authorization.browser("alice", f"consent:{consent_request}")

    assert await authorization.grant() is None
    assert run_sql(authorization.file, "SELECT * FROM pending_grants") == []


async def test_signing_out_everywhere_ends_the_clients_tokens_and_keeps_the_connection(
    authorization: AuthorizationFixture,
) -> None:
    token = await token_of(authorization)
    alice = await authorization.browser("alice")
    back = await authorization.back("alice")

    await authorization.consent_service.sign_out_everywhere(alice.who)

    assert not await is_good(authorization, token)
    assert await authorization.consent_service.signed_in(alice.token) is None
    assert await authorization.grant() is not None
    assert ("sign-out", "done") in await authorization.audit()
    with pytest.raises(SignInRefused):
        await authorization.authorization.confirm(back, browser=COOKIE)


async def test_signing_out_with_nothing_signed_in_writes_nothing_down(
    authorization: AuthorizationFixture,
) -> None:
    alice = await authorization.browser("alice")

    await authorization.consent_service.sign_out_everywhere(alice.who)

    assert await authorization.audit() == []


async def test_disconnecting_ends_the_access_and_the_clients_tokens(
    authorization: AuthorizationFixture,
) -> None:
    token = await token_of(authorization)
    alice = await authorization.browser("alice")

    assert await authorization.consent_service.disconnect(alice.who)

    assert not await is_good(authorization, token)
    assert await authorization.grant() is None
    assert sorted(authorization.provider.revoked) == [
        "access-granted-by-alice-0",
        "access-granted-by-alice-1",
    ]


async def test_the_page_lists_the_clients_that_are_signed_in(authorization: AuthorizationFixture) -> None:
    token = await token_of(authorization)
    alice = await authorization.browser("alice")

    shown = (await authorization.consent_service.account(alice.who)).signed_in

    assert [(one.client_id, one.name) for one in shown] == [(CLIENT, "Claude")]
    assert shown[0].since == authorization.clock()
    assert await is_good(authorization, token)


async def test_one_client_can_be_signed_out_and_keeps_what_it_may_do(
    authorization: AuthorizationFixture,
) -> None:
    token = await token_of(authorization)
    alice = await authorization.browser("alice")

    await authorization.consent_service.sign_out_client(alice.who, "another-client")
    assert await is_good(authorization, token)
    await authorization.consent_service.sign_out_client(alice.who, CLIENT)

    assert not await is_good(authorization, token)
    view = await authorization.consent_service.account(alice.who)
    assert view.signed_in == ()
    assert [one.client_id for one in view.clients] == [CLIENT]


async def test_a_client_that_is_removed_loses_its_tokens(authorization: AuthorizationFixture) -> None:
    token = await token_of(authorization)
    alice = await authorization.browser("alice")

    await authorization.consent_service.remove(alice.who, CLIENT)

    assert not await is_good(authorization, token)
    view = await authorization.consent_service.account(alice.who)
    assert (view.clients, view.signed_in) == ((), ())


async def test_no_user_signs_out_the_clients_of_another(authorization: AuthorizationFixture) -> None:
    token = await token_of(authorization)
    bob = await authorization.browser("bob")

    await authorization.consent_service.sign_out_client(bob.who, CLIENT)
    await authorization.consent_service.sign_out_everywhere(bob.who)
    await authorization.consent_service.disconnect(bob.who)

    assert await is_good(authorization, token)
    assert await authorization.grant("alice") is not None


async def test_a_client_without_a_permission_is_listed_without_a_name(
    authorization: AuthorizationFixture,
) -> None:
    await token_of(authorization)
    run_sql(authorization.file, "DELETE FROM permissions")
    alice = await authorization.browser("alice")

    shown = (await authorization.consent_service.account(alice.who)).signed_in

    assert [(one.client_id, one.name) for one in shown] == [(CLIENT, "")]
