"""One authorization request to Nextcloud: the checks before anything is sent, and what becomes of the tokens."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CLIENT, CallbackResult, Kind, SignInCancelled
from nextcloud_mcp_server.auth.consent.code_exchange import REVOKE_AFTER, ExchangedTokens
from nextcloud_mcp_server.auth.consent.provider import OrphanedTokens
from nextcloud_mcp_server.errors import (
    GrantRefused,
    NotAMember,
    NotNextcloud,
    OtherBrowser,
    SignInRefused,
    StorageError,
    Throttled,
    TimedOut,
    Unavailable,
    Unreachable,
)
from nextcloud_mcp_server.storage.oauth_records import CompletedTransaction
from nextcloud_mcp_server.storage.records import Tokens
from tests.auth_fixtures import NEXTCLOUD, READ
from tests.authorization_fixtures import ALICE, COOKIE, AuthorizationFixture, open_authorization, query_of

CONSENT_TARGET = "consent:550e8400-e29b-41d4-a716-446655440000"
MINUTE = 60


@pytest.fixture
async def authorization(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    async with open_authorization(tmp_path, template) as made:
        await made.register()
        yield made


@pytest.fixture
async def club(tmp_path: Path, template: Path) -> AsyncGenerator[AuthorizationFixture]:
    """Only the family and the staff may use this server."""
    async with open_authorization(tmp_path, template, groups=frozenset({"family", "staff"})) as made:
        await made.register()
        yield made


async def came(
    authorization: AuthorizationFixture, uid: str = "alice", cookie: str = COOKIE
) -> CallbackResult:
    """Come back as a user, in the browser that set out."""
    params = authorization.provider.confirm(await authorization.to_nextcloud(cookie), uid)
    return await authorization.sign_in.check_callback(params, browser=cookie, kind="client")


async def seen(completed: CompletedTransaction, _given: ExchangedTokens) -> CompletedTransaction:
    """Keep what came, as far as this test knows."""
    return completed


async def test_an_authorization_transaction_keeps_what_it_is_for(authorization: AuthorizationFixture) -> None:
    asked = await authorization.asked()

    url = await authorization.sign_in.begin(CLIENT, browser=COOKIE, request=asked.request, scopes=READ)
    back = await authorization.sign_in.check_callback(
        authorization.provider.confirm(url, "alice"), browser=COOKIE, kind="client"
    )

    assert url.startswith(f"{NEXTCLOUD}/authorize?state=c-")
    assert authorization.provider.sent == [(None, None)]
    assert (back.auth_transaction.target, back.auth_transaction.request, back.auth_transaction.scopes) == (
        CLIENT,
        asked.request,
        READ,
    )
    assert back.code.get_secret_value() == "granted-by-alice-0"


@pytest.mark.parametrize("target", ["account", CONSENT_TARGET])
async def test_a_sign_in_for_a_page_is_known_by_its_state(
    authorization: AuthorizationFixture, target: str
) -> None:
    url = await authorization.sign_in.begin(target, browser=COOKIE)

    back = await authorization.sign_in.check_callback(
        authorization.provider.confirm(url, "alice"), browser=COOKIE, kind="page"
    )

    assert query_of(url)["state"].startswith("s-")
    assert (back.auth_transaction.target, back.auth_transaction.request, back.auth_transaction.scopes) == (
        target,
        None,
        frozenset(),
    )


async def test_no_two_authorization_transactions_have_anything_in_common(
    authorization: AuthorizationFixture,
) -> None:
    urls = {await authorization.sign_in.begin("account", browser=COOKIE) for _ in range(20)}

    assert len(urls) == 20
    assert all(len(query_of(url)["state"]) >= 45 for url in urls)


@pytest.mark.parametrize("change", ["none", "empty", "twice", "wrong", "prefix", "upper"])
async def test_a_wrong_state_is_refused_and_the_authorization_transaction_stays(
    authorization: AuthorizationFixture, change: str
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")
    state = params["state"][0]
    changed = {
        "none": [],
        "empty": [""],
        "twice": [state, state],
        "wrong": ["c-wrong"],
        "prefix": [state.removeprefix("c-")],
        "upper": [state.upper()],
    }[change]

    with pytest.raises(SignInRefused):
        await authorization.sign_in.check_callback(
            {**params, "state": changed}, browser=COOKIE, kind="client"
        )

    assert (
        await authorization.sign_in.check_callback(params, browser=COOKIE, kind="client")
    ).auth_transaction.target == CLIENT


@pytest.mark.parametrize("cookie", ["cookie-of-bob", ""])
async def test_another_browser_ends_a_sign_in_for_both(
    authorization: AuthorizationFixture, cookie: str
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")

    with pytest.raises(OtherBrowser):
        await authorization.sign_in.check_callback(params, browser=cookie, kind="client")

    with pytest.raises(SignInRefused):
        await authorization.sign_in.check_callback(params, browser=COOKIE, kind="client")
    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_an_authorization_transaction_is_finished_once_and_within_ten_minutes(
    authorization: AuthorizationFixture,
) -> None:
    used, old = [
        authorization.provider.confirm(await authorization.to_nextcloud(), "alice") for _ in range(2)
    ]
    await authorization.sign_in.check_callback(used, browser=COOKIE, kind="client")

    with pytest.raises(SignInRefused, match="was used"):
        await authorization.sign_in.check_callback(used, browser=COOKIE, kind="client")
    authorization.clock.forward(10 * MINUTE)
    with pytest.raises(SignInRefused):
        await authorization.sign_in.check_callback(old, browser=COOKIE, kind="client")

    assert await authorization.given_back() == [f"access-{old['code'][0]}"]


@pytest.mark.parametrize(
    ("target", "kind"), [(CLIENT, "page"), ("account", "client"), (CONSENT_TARGET, "client")]
)
async def test_an_authorization_transaction_of_one_kind_is_not_finished_as_the_other(
    authorization: AuthorizationFixture, target: str, kind: Kind
) -> None:
    request = (await authorization.asked()).request if target == CLIENT else None
    url = await authorization.sign_in.begin(target, browser=COOKIE, request=request)

    with pytest.raises(SignInRefused):
        await authorization.sign_in.check_callback(
            authorization.provider.confirm(url, "alice"), browser=COOKIE, kind=kind
        )


@pytest.mark.parametrize(
    "change",
    [
        {"code": []},
        {"code": ["one-code-and", "another-code"]},
        {"code": ["short"]},
        {"code": ["with a space in it"]},
        {"error": ["access_denied"]},
        {"iss": ["https://evil.example"]},
        {"iss": [NEXTCLOUD]},
        {"iss": ["a", "a"]},
        {"anything": ["a", "b"]},
    ],
)
async def test_a_malformed_callback_is_refused_and_ends_the_authorization_transaction(
    authorization: AuthorizationFixture, change: dict[str, list[str]]
) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(), "alice")

    for _ in range(2):
        with pytest.raises(SignInRefused) as caught:
            await authorization.sign_in.check_callback({**params, **change}, browser=COOKIE, kind="client")
        assert not isinstance(caught.value, SignInCancelled)


async def test_a_provider_that_names_itself_must_be_the_one_that_was_asked(
    authorization: AuthorizationFixture,
) -> None:
    authorization.provider.issuer = NEXTCLOUD
    good, evil = [
        authorization.provider.confirm(await authorization.to_nextcloud(), "alice") for _ in range(2)
    ]

    assert await authorization.sign_in.check_callback(good, browser=COOKIE, kind="client")
    with pytest.raises(SignInRefused, match="another issuer"):
        await authorization.sign_in.check_callback(
            {**evil, "iss": [f"{NEXTCLOUD}/"]}, browser=COOKIE, kind="client"
        )


async def test_declining_at_nextcloud_names_the_authorization_transaction(
    authorization: AuthorizationFixture,
) -> None:
    asked = await authorization.asked()
    state = query_of(await authorization.to_nextcloud())["state"]

    with pytest.raises(SignInCancelled) as caught:
        await authorization.sign_in.check_callback(
            {"state": [state], "error": ["access_denied"]}, browser=COOKIE, kind="client"
        )

    assert caught.value.auth_transaction.request == asked.request


async def test_another_error_of_nextcloud_is_not_repeated(authorization: AuthorizationFixture) -> None:
    state = query_of(await authorization.to_nextcloud())["state"]
    answer = {"state": [state], "error": ["<script>"], "error_description": ["Call 0900 1234"]}

    with pytest.raises(SignInRefused) as caught:
        await authorization.sign_in.check_callback(answer, browser=COOKIE, kind="client")

    assert "0900" not in str(caught.value)
    assert "script" not in str(caught.value)


async def test_the_user_is_the_one_that_nextcloud_names(authorization: AuthorizationFixture) -> None:
    completed = await authorization.sign_in.exchange_code(
        await came(authorization), browser=COOKIE, keep=seen
    )

    assert completed.principal == ALICE
    assert (completed.display_name, completed.storage_id, completed.provider) == (
        "Alice",
        "home-alice",
        "nextcloud_oauth2",
    )
    assert completed.tokens is not None
    assert completed.tokens.access_token.get_secret_value() == "access-granted-by-alice-0"
    assert not completed.connected
    assert await authorization.given_back() == []


async def test_what_a_server_was_given_that_dies_before_it_stores_it_is_ended_by_the_next_one(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)
    at_once = list(await authorization.given_back())
    authorization.clock.forward(REVOKE_AFTER.total_seconds())

    assert at_once == []
    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_what_is_stored_too_late_is_not_stored_and_ended_once(
    authorization: AuthorizationFixture,
) -> None:
    back = await came(authorization)

    async def keep(completed: CompletedTransaction, given: ExchangedTokens) -> None:
        authorization.clock.forward(REVOKE_AFTER.total_seconds())
        await authorization.given_back()
        assert not await authorization.database.auth_transactions.hold(
            completed, browser=COOKIE, note=given.note
        )
        raise SignInRefused("too late")

    with pytest.raises(SignInRefused, match="too late"):
        await authorization.sign_in.exchange_code(back, browser=COOKIE, keep=keep)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]
    assert (
        await authorization.database.auth_transactions.find(back.auth_transaction.id, browser=COOKIE) is None
    )


async def test_a_stored_grant_has_no_pending_revocation_any_more(authorization: AuthorizationFixture) -> None:
    await authorization.back()

    assert await authorization.database.outbox.next_due_at() is None


async def test_access_that_no_user_keeps_is_revoked(authorization: AuthorizationFixture) -> None:
    async def fails(completed: CompletedTransaction, _given: ExchangedTokens) -> None:
        raise StorageError(completed.display_name)

    with pytest.raises(StorageError, match="Alice"):
        await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=fails)

    assert await authorization.given_back() == ["access-granted-by-alice-0"]


async def test_what_can_neither_be_kept_nor_be_ended_later_is_ended_now(
    authorization: AuthorizationFixture,
) -> None:
    back = await came(authorization)

    async def fails(completed: CompletedTransaction, _given: ExchangedTokens) -> None:
        raise StorageError(completed.display_name)

    with authorization.failing("INSERT ON outbox"), pytest.raises(StorageError, match="disk full"):
        await authorization.sign_in.exchange_code(back, browser=COOKIE, keep=fails)

    assert authorization.provider.revoked == ["access-granted-by-alice-0"]


async def test_orphaned_tokens_of_the_provider_are_revoked(authorization: AuthorizationFixture) -> None:
    tokens = Tokens(SecretStr("left"), SecretStr("refresh-left"), None)
    back = await came(authorization)
    authorization.provider.failure = OrphanedTokens(tokens, Unavailable("Nextcloud does not say who it is."))

    with pytest.raises(Unavailable, match="does not say"):
        await authorization.sign_in.exchange_code(back, browser=COOKIE, keep=seen)

    assert await authorization.given_back() == ["left"]


async def test_what_the_provider_has_ended_itself_is_not_ended_again(
    authorization: AuthorizationFixture,
) -> None:
    async def fails() -> None:
        raise Unavailable("Nextcloud does not say who it is.")

    back = await came(authorization)
    authorization.provider.afterwards = fails

    with pytest.raises(Unavailable, match="does not say"):
        await authorization.sign_in.exchange_code(back, browser=COOKIE, keep=seen)

    assert await authorization.database.outbox.next_due_at() is None


@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("no"),
        TimedOut("no"),
        Unavailable("no"),
        NotNextcloud("no"),
        Throttled("no", retry_after_seconds=None),
    ],
)
async def test_a_nextcloud_that_does_not_answer_is_no_wrong_code(
    authorization: AuthorizationFixture, failure: Exception
) -> None:
    authorization.provider.failure = failure
    for _ in range(3):
        with pytest.raises(type(failure)):
            await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)

    authorization.provider.failure = None
    assert await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)


async def wrong_code(authorization: AuthorizationFixture, cookie: str = COOKIE) -> None:
    params = authorization.provider.confirm(await authorization.to_nextcloud(cookie), "alice")
    back = await authorization.sign_in.check_callback(
        {**params, "code": [f"made-up-{params['code'][0]}"]}, browser=cookie, kind="client"
    )
    await authorization.sign_in.exchange_code(back, browser=cookie, keep=seen)


async def test_two_wrong_codes_are_enough_for_one_browser_for_half_an_hour(
    authorization: AuthorizationFixture,
) -> None:
    for _ in range(2):
        with pytest.raises(GrantRefused):
            await wrong_code(authorization)

    with pytest.raises(Throttled, match="wait half an hour"):
        await wrong_code(authorization)
    with pytest.raises(Throttled):
        await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)
    assert await authorization.sign_in.exchange_code(
        await came(authorization, cookie="other"), browser="other", keep=seen
    )
    authorization.clock.forward(30 * MINUTE + 1)
    assert await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)

    assert sum(code.startswith("made-up-") for code in authorization.provider.exchanged) == 2


async def test_a_code_that_was_refused_unasked_is_good_for_no_other_sign_in(
    authorization: AuthorizationFixture,
) -> None:
    for _ in range(2):
        with pytest.raises(GrantRefused):
            await wrong_code(authorization)
    throttled = await came(authorization)
    with pytest.raises(Throttled):
        await authorization.sign_in.exchange_code(throttled, browser=COOKIE, keep=seen)

    params = authorization.provider.confirm(await authorization.to_nextcloud("other"), "bob")
    again = {**params, "code": [throttled.code.get_secret_value()]}
    callback = await authorization.sign_in.check_callback(again, browser="other", kind="client")
    with pytest.raises(SignInRefused, match="used already, or the sign-in was ended"):
        await authorization.sign_in.exchange_code(callback, browser="other", keep=seen)

    assert throttled.code.get_secret_value() not in authorization.provider.exchanged


async def test_wrong_codes_that_come_at_once_are_counted_one_by_one(
    authorization: AuthorizationFixture,
) -> None:
    outcomes: list[type[Exception]] = []

    async def one(cookie: str) -> None:
        try:
            await wrong_code(authorization, cookie)
        except (GrantRefused, Throttled) as error:
            outcomes.append(type(error))

    async with anyio.create_task_group() as group:
        for number in range(4):
            for _ in range(3):
                group.start_soon(one, f"cookie-{number}")

    assert outcomes.count(GrantRefused) == 3
    assert outcomes.count(Throttled) == 9
    assert len(authorization.provider.exchanged) == 3


async def test_a_browser_that_goes_away_after_the_exchange_leaves_nothing_at_nextcloud(
    authorization: AuthorizationFixture,
) -> None:
    back = await came(authorization)
    kept: list[CompletedTransaction] = []

    async def keep(completed: CompletedTransaction, _given: ExchangedTokens) -> None:
        await anyio.lowlevel.checkpoint()
        kept.append(completed)

    with anyio.CancelScope() as scope:

        async def goes_away() -> None:
            scope.cancel()
            await anyio.lowlevel.checkpoint()

        authorization.provider.meanwhile = goes_away
        await authorization.sign_in.exchange_code(back, browser=COOKIE, keep=keep)

    assert [completed.principal for completed in kept] == [ALICE]


async def test_members_of_one_of_the_groups_come_in(club: AuthorizationFixture) -> None:
    club.provider.groups = {"alice": frozenset({"admin", "staff"})}

    assert (await club.sign_in.exchange_code(await came(club), browser=COOKIE, keep=seen)).principal == ALICE


@pytest.mark.parametrize("groups", [frozenset[str](), frozenset({"Staff", "admin", "staff2"})])
async def test_others_do_not_and_what_they_gave_is_ended(
    club: AuthorizationFixture, groups: frozenset[str]
) -> None:
    club.provider.groups = {"alice": groups}

    with pytest.raises(NotAMember):
        await club.sign_in.exchange_code(await came(club), browser=COOKIE, keep=seen)

    assert await club.given_back() == ["access-granted-by-alice-0"]
    assert await club.audit() == [("sign-in", "refused: not in a group")]


async def test_a_new_user_with_a_former_name_finds_nothing_of_the_former_user(
    authorization: AuthorizationFixture,
) -> None:
    await authorization.connect()
    consent_request = await authorization.ask(client="mcp-codex")
    before = await authorization.browser()
    authorization.provider.homes["alice"] = "home-of-another-alice"

    completed = await authorization.sign_in.exchange_code(
        await came(authorization), browser=COOKIE, keep=seen
    )

    assert completed.storage_id == "home-of-another-alice"
    assert await authorization.grant() is None
    assert await authorization.consent_service.signed_in(before.token) is None
    found = await authorization.database.elicitations.find(consent_request)
    assert found is None or found.state.final
    assert "access-granted-by-alice-0" in await authorization.given_back()
    assert ("account", "ended: made anew at Nextcloud") in await authorization.audit()


@pytest.mark.parametrize("home", ["home-alice", None])
async def test_the_same_person_keeps_what_they_have(
    authorization: AuthorizationFixture, home: str | None
) -> None:
    await authorization.connect()
    authorization.provider.homes["alice"] = home

    await authorization.sign_in.exchange_code(await came(authorization), browser=COOKIE, keep=seen)

    assert await authorization.grant() is not None
    assert ("account", "ended: made anew at Nextcloud") not in await authorization.audit()
