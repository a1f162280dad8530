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
    AlreadyAnswered,
    AuthorizeRefused,
    ClientUnknown,
    FormRefused,
    GrantRefused,
    InvalidInput,
    OAuthRefusal,
    SignInRefused,
    StorageError,
)
from nextcloud_mcp_server.storage.oauth_records import AuthorizationTransaction
from nextcloud_mcp_server.storage.records import Account, AuditEntry, Credential, Permission, Principal
from tests.auth_fixtures import NEXTCLOUD, READ, WRITE, page_url, together
from tests.authorization_fixtures import (
    ALICE,
    CALLBACK,
    CLIENT,
    COOKIE,
    ISSUER,
    RESOURCE,
    AuthorizationFixture,
    open_authorization,
    query_of,
)
from tests.consent_fixtures import run_sql
from tests.tokens_fixtures import VERIFIER

MINUTE = 60


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as made:
        await made.register()
        yield made


async def exchanged(
    authorization: AuthorizationFixture, code: str, client_id: str = CLIENT
) -> frozenset[str]:
    """Exchange a code as its client does; the answer is what the token is good for."""
    issued = await authorization.tokens.exchange_code(
        code, client_id=client_id, redirect_uri=CALLBACK, verifier=VERIFIER, resource=RESOURCE
    )
    return issued.scopes


async def test_a_yes_and_a_sign_in_connect_the_person_and_answer_the_client(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")
    assert await authorization.grant() is None

    sent = await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    back = query_of(sent.url)
    assert sent.url.startswith(f"{CALLBACK}?")
    assert back == {"code": sent.code.get_secret_value(), "state": "state of the client", "iss": ISSUER}
    assert sent.asked.client.name == "Claude"
    assert await exchanged(authorization, back["code"]) == READ
    grant = await authorization.grant()
    assert grant is not None
    assert (grant.account.uid, grant.account.display_name, grant.account.storage_id) == (
        "alice",
        "Alice",
        "home-alice",
    )
    assert grant.credential.secret.get_secret_value() == "access-granted-by-alice-0"
    assert grant.credential.refresh_token is not None
    assert grant.credential.provider == "nextcloud_oauth2"
    assert grant.credential.expires_at == authorization.clock() + timedelta(hours=1)
    assert grant.permission is not None
    assert (grant.permission.client_name, grant.permission.scopes) == ("Claude", READ)
    assert ("consent", "granted") in await authorization.audit()
    assert authorization.changes == [None]
    assert await authorization.given_back() == []


async def test_the_confirmation_page_shows_the_user_and_what_the_client_will_get(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")

    before = await authorization.authorization.completed(auth_transaction_id, browser=COOKIE)
    await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
    after = await authorization.authorization.completed(auth_transaction_id, browser=COOKIE)

    assert (before.uid, before.display_name, before.scopes) == ("alice", "Alice", READ)
    assert before.asked == await authorization.asked()
    assert (before.connected, after.connected) == (False, True)
    assert (before.before, after.before) == (frozenset(), READ)
    assert replace(after, connected=False, before=frozenset[str]()) == before


async def test_what_this_client_and_no_other_may_do_already_is_shown_too(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.register("mcp-codex", CALLBACK, name="Codex")
    url = await authorization.authorization.approve(
        await authorization.asked(client_id="mcp-codex"), WRITE, browser=COOKIE
    )
    codex = await authorization.finish_sign_in(authorization.provider.confirm(url, "alice"), browser=COOKIE)
    await authorization.authorization.confirm(codex, browser=COOKIE)
    await authorization.connect("alice")

    again = await authorization.authorization.completed(await authorization.back("alice"), browser=COOKIE)

    assert again.before == READ


async def test_only_what_was_ticked_of_what_may_be_ticked_is_allowed(
    authorization: AuthorizationFixture,
) -> None:
    asked = await authorization.asked(scope="notes:read notes:write")

    url = await authorization.authorization.approve(
        asked, WRITE | {"files:write", "mail:read", ""}, browser=COOKIE
    )
    back = await authorization.finish_sign_in(authorization.provider.confirm(url, "alice"), browser=COOKIE)
    sent = await authorization.authorization.confirm(back, browser=COOKIE)

    assert await exchanged(authorization, sent.code.get_secret_value()) == WRITE
    grant = await authorization.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == WRITE


@pytest.mark.parametrize("ticked", [frozenset[str](), frozenset({"files:read"}), frozenset({"everything"})])
async def test_nothing_ticked_is_nothing_allowed(
    authorization: AuthorizationFixture, ticked: frozenset[str]
) -> None:
    with pytest.raises(InvalidInput, match="Nothing was ticked"):
        await authorization.authorization.approve(await authorization.asked(), ticked, browser=COOKIE)

    assert authorization.provider.sent == []


async def test_a_no_is_told_to_the_client_with_its_state_and_our_name(
    authorization: AuthorizationFixture,
) -> None:
    url = authorization.authorization.denied(await authorization.asked())

    assert url.startswith(f"{CALLBACK}?")
    assert query_of(url) == {"error": "access_denied", "state": "state of the client", "iss": ISSUER}


async def test_a_form_carries_the_request_and_shows_nothing_of_it(
    authorization: AuthorizationFixture,
) -> None:
    asked = await authorization.asked(state="ä secret state")

    sealed = authorization.authorization.seal(asked)

    assert await authorization.authorization.unseal(sealed) == asked
    assert sealed != authorization.authorization.seal(asked)
    opened = urlsafe_b64decode(sealed)
    assert not any(text in opened for text in (b"secret", b"claude", b"notes"))


@pytest.mark.parametrize(
    "made_up", ["", "x", "====", "not base64 ä", "\ud800", urlsafe_b64encode(b"v1" + b"x" * 80).decode()]
)
async def test_a_form_that_was_not_made_here_is_refused(
    authorization: AuthorizationFixture, made_up: str
) -> None:
    with pytest.raises(FormRefused, match="not made by this server"):
        await authorization.authorization.unseal(made_up)


async def test_a_form_that_was_changed_is_refused(authorization: AuthorizationFixture) -> None:
    sealed = urlsafe_b64decode(authorization.authorization.seal(await authorization.asked()))

    for place in (0, len(sealed) // 2, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(FormRefused, match="not made by this server"):
            await authorization.authorization.unseal(urlsafe_b64encode(bytes(changed)).decode())


async def test_a_form_of_another_server_is_refused(
    authorization: AuthorizationFixture, tmp_path: Path, template: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with open_authorization(tmp_path / "other", template) as other:
        await other.register()
        sealed = other.authorization.seal(await other.asked())

    with pytest.raises(FormRefused, match="not made by this server"):
        await authorization.authorization.unseal(sealed)


async def test_a_form_is_good_for_half_an_hour(authorization: AuthorizationFixture) -> None:
    sealed = authorization.authorization.seal(await authorization.asked())

    authorization.clock.forward(30 * MINUTE - 1)
    assert await authorization.authorization.unseal(sealed)
    authorization.clock.forward(1)
    with pytest.raises(FormRefused, match="too old"):
        await authorization.authorization.unseal(sealed)


async def test_what_was_sealed_for_a_client_that_changed_is_worth_nothing(
    authorization: AuthorizationFixture,
) -> None:
    sealed = authorization.authorization.seal(await authorization.asked())

    await authorization.register(CLIENT, "https://evil.example/callback")
    with pytest.raises(AuthorizeRefused, match="has not named before"):
        await authorization.authorization.unseal(sealed)
    await authorization.database.clients.delete(CLIENT)
    with pytest.raises(ClientUnknown):
        await authorization.authorization.unseal(sealed)


async def test_continue_pressed_twice_shows_the_same_code_until_that_was_used(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")

    first = await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
    stored = await authorization.grant()
    second = await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
    granted = await exchanged(authorization, first.code.get_secret_value())
    with pytest.raises(AlreadyAnswered):
        await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    assert (first.code, first.url) == (second.code, second.url)
    assert granted == READ
    assert await authorization.grant() == stored
    assert (await authorization.audit()).count(("consent", "granted")) == 1
    assert await authorization.given_back() == []


async def test_continue_pressed_in_many_tabs_at_once_connects_once(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")
    codes: list[str] = []

    async def press() -> None:
        sent = await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
        codes.append(sent.code.get_secret_value())

    await together(*[press] * 5)

    assert len(codes) == 5
    assert len(set(codes)) == 1
    assert (await authorization.audit()).count(("consent", "granted")) == 1
    assert await authorization.given_back() == []


async def test_of_two_copies_of_one_page_the_first_that_is_answered_wins(
    authorization: AuthorizationFixture,
) -> None:
    asked = await authorization.asked()

    async def back(uid: str) -> str:
        url = await authorization.authorization.approve(asked, READ, browser=COOKIE)
        return await authorization.finish_sign_in(authorization.provider.confirm(url, uid), browser=COOKIE)

    first, second = await back("alice"), await back("alice")

    sent = await authorization.authorization.confirm(second, browser=COOKIE)
    with pytest.raises(AlreadyAnswered):
        await authorization.authorization.confirm(first, browser=COOKIE)
    with pytest.raises(AlreadyAnswered):
        await authorization.authorization.approve(asked, READ, browser=COOKIE)

    assert await exchanged(authorization, sent.code.get_secret_value()) == READ
    assert len(await authorization.given_back()) == 1, "what the other copy brought is ended at Nextcloud"
    assert (await authorization.audit()).count(("consent", "granted")) == 1


async def test_not_me_ends_at_once_what_was_given(authorization: AuthorizationFixture) -> None:
    auth_transaction_id = await authorization.back("bob")

    asked = await authorization.authorization.reject(auth_transaction_id, browser=COOKIE)

    assert asked == await authorization.asked()
    assert await authorization.given_back() == ["access-granted-by-bob-0"]
    assert await authorization.grant("bob") is None
    assert await authorization.audit("bob") == [("consent", "refused: not my account")]
    for again in (
        authorization.authorization.confirm,
        authorization.authorization.reject,
        authorization.authorization.completed,
    ):
        with pytest.raises(SignInRefused):
            await again(auth_transaction_id, browser=COOKIE)
    assert await authorization.given_back() == ["access-granted-by-bob-0"]


async def test_not_me_after_continue_changes_nothing(authorization: AuthorizationFixture) -> None:
    auth_transaction_id = await authorization.back("alice")
    await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    with pytest.raises(SignInRefused):
        await authorization.authorization.reject(auth_transaction_id, browser=COOKIE)

    assert await authorization.grant() is not None
    assert await authorization.given_back() == []


async def test_continue_and_not_me_at_once_end_in_one_of_both(authorization: AuthorizationFixture) -> None:
    auth_transaction_id = await authorization.back("alice")
    outcomes: list[str] = []

    async def press(name: str) -> None:
        button = {
            "mine": authorization.authorization.confirm,
            "not mine": authorization.authorization.reject,
        }[name]
        try:
            await button(auth_transaction_id, browser=COOKIE)
        except SignInRefused:
            return
        outcomes.append(name)

    async def mine() -> None:
        await press("mine")

    async def not_mine() -> None:
        await press("not mine")

    await together(mine, not_mine)

    is_connected = await authorization.grant() is not None
    assert outcomes == (["mine"] if is_connected else ["not mine"])
    assert await authorization.given_back() == ([] if is_connected else ["access-granted-by-alice-0"])


async def test_continue_that_comes_after_not_me_of_another_tab_connects_nothing(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")

    async def not_me() -> None:
        await authorization.authorization.reject(auth_transaction_id, browser=COOKIE)

    authorization.clients.meanwhile = not_me
    with pytest.raises(SignInRefused):
        await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    assert await authorization.grant() is None
    assert await authorization.given_back() == ["access-granted-by-alice-0"]
    assert await authorization.audit() == [("consent", "refused: not my account")]


async def test_nothing_of_an_transaction_is_another_browsers(authorization: AuthorizationFixture) -> None:
    auth_transaction_id = await authorization.back("alice")

    for cookie in ("cookie-of-bob", ""):
        for way in (
            authorization.authorization.completed,
            authorization.authorization.confirm,
            authorization.authorization.reject,
        ):
            with pytest.raises(SignInRefused, match="another browser"):
                await way(auth_transaction_id, browser=cookie)

    assert await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)


async def test_an_undecided_transaction_is_ended_after_ten_minutes(
    authorization: AuthorizationFixture,
) -> None:
    late, later = await authorization.back("alice"), await authorization.back("alice")
    await authorization.authorization.tidy()
    authorization.clock.forward(10 * MINUTE - 1)
    await authorization.authorization.completed(late, browser=COOKIE)
    authorization.clock.forward(1)

    for way in (
        authorization.authorization.completed,
        authorization.authorization.confirm,
        authorization.authorization.reject,
    ):
        with pytest.raises(SignInRefused):
            await way(later, browser=COOKIE)
    assert await authorization.given_back() == []
    await authorization.authorization.tidy()

    assert sorted(await authorization.given_back()) == [
        "access-granted-by-alice-0",
        "access-granted-by-alice-1",
    ]
    assert await authorization.grant() is None


async def test_ten_minutes_to_decide_begin_with_coming_back(authorization: AuthorizationFixture) -> None:
    url = await authorization.to_nextcloud()
    authorization.clock.forward(9 * MINUTE)
    auth_transaction_id = await authorization.finish_sign_in(
        authorization.provider.confirm(url, "alice"), browser=COOKIE
    )
    authorization.clock.forward(9 * MINUTE)

    assert await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)


async def test_a_new_consent_takes_the_place_of_the_former_access_which_is_ended(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.connect("alice")
    authorization.clock.forward(1)
    await authorization.register("mcp-codex", CALLBACK, name="Codex")
    url = await authorization.authorization.approve(
        await authorization.asked(client_id="mcp-codex"), WRITE, browser=COOKIE
    )
    back = await authorization.finish_sign_in(authorization.provider.confirm(url, "alice"), browser=COOKIE)

    await authorization.authorization.confirm(back, browser=COOKIE)

    first, second = await authorization.grant(), await authorization.grant(client="mcp-codex")
    assert first is not None
    assert second is not None
    assert first.credential == second.credential
    assert second.credential.secret.get_secret_value() == "access-granted-by-alice-1"
    assert first.permission is not None
    assert first.permission.scopes == READ
    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_a_second_consent_adds_to_what_a_client_may_do(authorization: AuthorizationFixture) -> None:
    await authorization.connect("alice")
    authorization.clock.forward(1)
    url = await authorization.to_nextcloud(scopes=WRITE)
    back = await authorization.finish_sign_in(authorization.provider.confirm(url, "alice"), browser=COOKIE)

    sent = await authorization.authorization.confirm(back, browser=COOKIE)

    grant = await authorization.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    assert await exchanged(authorization, sent.code.get_secret_value()) == WRITE


async def test_a_callback_of_another_user_than_last_time_is_another_user(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.connect("alice")

    await authorization.connect("bob")

    alice, bob = await authorization.grant("alice"), await authorization.grant("bob")
    assert alice is not None
    assert bob is not None
    assert (alice.account.uid, bob.account.uid) == ("alice", "bob")
    assert alice.credential.secret != bob.credential.secret
    assert await authorization.given_back() == []


async def before_the_move(authorization: AuthorizationFixture) -> Principal:
    """Let Alice's account be connected to a user of this server when it had another address."""
    now, person = authorization.clock(), Principal("https://former.test", "alice")
    consent_request, _ = await authorization.database.elicitations.open(
        principal=person,
        client_id=CLIENT,
        client_name="Claude",
        kind="page",
        scopes=READ,
        ttl=timedelta(minutes=10),
        new_url=page_url,
    )
    account = Account(str(uuid4()), person, NEXTCLOUD, "alice", "Alice", None, now)
    await authorization.database.grants.complete(
        elicitation=consent_request,
        flow=None,
        account=account,
        credential=Credential(
            id=str(uuid4()),
            account_id=account.id,
            provider=authorization.provider.name,
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


async def test_a_server_that_moved_knows_its_people_again_when_they_sign_in(
    authorization: AuthorizationFixture,
) -> None:
    former = await before_the_move(authorization)

    sent = await authorization.connect("alice")

    assert await exchanged(authorization, sent.code.get_secret_value()) == READ
    grant = await authorization.grant()
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ, "what was allowed at the former address is allowed no more"
    assert await authorization.database.grants.find(former, CLIENT) is None
    assert await authorization.database.grants.permissions(former) == []
    assert await authorization.given_back() == ["access-of-before"]
    entries = await authorization.database.audit.recent(former, 10)
    assert ("account", "ended: another person's now") in [(one.action, one.result) for one in entries]


async def test_a_user_who_was_made_anew_is_not_given_what_the_former_one_brought(
    authorization: AuthorizationFixture,
) -> None:
    connected = await authorization.back("alice")
    await authorization.authorization.confirm(connected, browser=COOKIE)
    held = await authorization.back("alice")
    authorization.provider.homes["alice"] = "another-home"

    new = await authorization.back("alice", cookie="cookie of the new one")

    for old in (connected, held):
        with pytest.raises(SignInRefused):
            await authorization.authorization.confirm(old, browser=COOKIE)
    await authorization.authorization.tidy()
    assert sorted(await authorization.given_back()) == [
        "access-granted-by-alice-0",
        "access-granted-by-alice-1",
    ]
    assert await authorization.authorization.confirm(new, browser="cookie of the new one")
    grant = await authorization.grant()
    assert grant is not None
    assert grant.account.storage_id == "another-home"


async def test_a_client_that_is_gone_when_its_person_comes_back_gets_nothing(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")
    await authorization.database.clients.delete(CLIENT)

    for way in (authorization.authorization.completed, authorization.authorization.confirm):
        with pytest.raises((ClientUnknown, SignInRefused)):
            await way(auth_transaction_id, browser=COOKIE)
    with pytest.raises((ClientUnknown, SignInRefused)):
        await authorization.authorization.reject(auth_transaction_id, browser=COOKIE)
    await authorization.authorization.tidy()

    assert await authorization.grant() is None
    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_a_no_at_nextcloud_can_be_told_to_the_client(authorization: AuthorizationFixture) -> None:
    state = query_of(await authorization.to_nextcloud())["state"]

    with pytest.raises(SignInCancelled) as caught:
        await authorization.finish_sign_in({"state": [state], "error": ["access_denied"]}, browser=COOKIE)

    asked = await authorization.authorization.asked(caught.value.auth_transaction)
    assert query_of(authorization.authorization.denied(asked))["error"] == "access_denied"
    assert authorization.provider.exchanged == []


async def test_a_sign_in_for_a_page_belongs_to_no_client(authorization: AuthorizationFixture) -> None:
    auth_transaction = AuthorizationTransaction("id", "account", None, frozenset(), authorization.clock())

    with pytest.raises(AuthorizeRefused):
        await authorization.authorization.asked(auth_transaction)


async def test_a_state_of_a_page_is_returned_to_no_client(authorization: AuthorizationFixture) -> None:
    start = await authorization.consent_service.begin_sign_in("account")
    flow = start.flow.get_secret_value()

    with pytest.raises(SignInRefused):
        await authorization.finish_sign_in(authorization.provider.confirm(start.url, "alice"), browser=flow)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]
    assert await authorization.grant() is None


async def test_a_wrong_code_connects_no_user(authorization: AuthorizationFixture) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")

    with pytest.raises(GrantRefused):
        await authorization.finish_sign_in({**params, "code": ["made-up-by-somebody"]}, browser=COOKIE)

    assert await authorization.given_back() == []


async def test_what_cannot_be_held_is_ended(authorization: AuthorizationFixture) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")

    with (
        authorization.failing("INSERT ON authorization_transactions"),
        pytest.raises(StorageError, match="disk full"),
    ):
        await authorization.finish_sign_in(params, browser=COOKIE)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_a_transaction_that_another_replica_has_ended_connects_no_user(
    authorization: AuthorizationFixture,
) -> None:
    async def worked_off() -> None:
        run_sql(authorization.file, "DELETE FROM outbox")

    authorization.provider.afterwards = worked_off

    with pytest.raises(SignInRefused):
        await authorization.back()

    assert await authorization.grant() is None
    assert (
        run_sql(authorization.file, "SELECT * FROM authorization_transactions WHERE subject IS NOT NULL")
        == []
    )


@pytest.mark.parametrize(
    "change", ["INSERT ON permissions", "INSERT ON audit", "UPDATE ON authorization_transactions"]
)
async def test_a_connection_is_stored_as_a_whole_or_not_at_all(
    authorization: AuthorizationFixture, change: str
) -> None:
    auth_transaction_id = await authorization.back("alice")

    with authorization.failing(change), pytest.raises(StorageError, match="disk full"):
        await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    assert await authorization.grant() is None
    assert authorization.changes == []
    assert await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
    assert await authorization.grant() is not None
    assert await authorization.given_back() == []


async def test_a_code_that_cannot_be_stored_is_made_at_the_next_try(
    authorization: AuthorizationFixture,
) -> None:
    auth_transaction_id = await authorization.back("alice")

    with authorization.failing("INSERT ON codes"), pytest.raises(StorageError, match="disk full"):
        await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)

    sent = await authorization.authorization.confirm(auth_transaction_id, browser=COOKIE)
    assert await exchanged(authorization, sent.code.get_secret_value()) == READ


async def test_a_code_is_for_its_client_its_verifier_and_its_place_alone(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.register("mcp-codex")
    sent = await authorization.connect("alice")

    with pytest.raises(OAuthRefusal):
        await exchanged(authorization, sent.code.get_secret_value(), client_id="mcp-codex")

    bearer = await authorization.tokens.exchange_code(
        (await authorization.connect("alice")).code.get_secret_value(),
        client_id=CLIENT,
        redirect_uri=CALLBACK,
        verifier=VERIFIER,
        resource=RESOURCE,
    )
    who = await authorization.tokens.verify(bearer.access_token.get_secret_value())
    assert (who.principal, who.client_id, who.scopes) == (ALICE, CLIENT, READ)
