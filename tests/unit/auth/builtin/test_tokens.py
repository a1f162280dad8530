import contextlib
import sqlite3
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.tokens import ACCESS_TIME, CODE_TIME, GRACE, REFRESH_TIME, Tokens
from nextcloud_mcp_server.errors import (
    AlreadyAnswered,
    IssuerUnavailable,
    OAuthRefusal,
    SignInRefused,
    TokenRefused,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.storage.oauth_records import TransactionKey
from nextcloud_mcp_server.storage.records import Principal
from tests.sign_in_fixtures import BROWSER, back, leaving
from tests.tokens_fixtures import (
    ALICE,
    BOB,
    CLIENT,
    ISSUER,
    NOTES,
    NOW,
    OTHER_CLIENT,
    RESOURCE,
    Desk,
    Moment,
    access_of,
    code_grant,
    open_desk,
    refresh_of,
)

SECOND = timedelta(seconds=1)
READ = frozenset({"notes:read"})
KEYS = [SecretStr(new_key()) for _ in range(2)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mcp.db"


@pytest.fixture
def url(path: Path) -> str:
    return file_url(path)


@pytest.fixture
async def desk(url: str) -> AsyncGenerator[Desk]:
    async with open_desk(url, KeyRing.parse(KEYS[:1]), Moment()) as made:
        yield made


async def test_a_code_gives_tokens_for_what_was_allowed(desk: Desk) -> None:
    issued = await desk.exchange_code(await desk.code())

    bearer = await desk.tokens.verify(access_of(issued))

    assert (issued.expires_in, issued.scopes) == (3600, NOTES)
    assert (bearer.principal, bearer.client_id, bearer.scopes) == (ALICE, CLIENT, NOTES)
    assert bearer.expires_at == int((NOW + ACCESS_TIME).timestamp())
    assert bearer.claims == {
        "iss": ISSUER,
        "sub": "alice",
        "aud": RESOURCE,
        "client_id": CLIENT,
        "scope": "notes:read notes:write",
        "iat": int(NOW.timestamp()),
        "exp": bearer.expires_at,
        "sid": bearer.claims["sid"],
    }


@pytest.mark.parametrize("resource", [None, RESOURCE, f"{RESOURCE}/"])
async def test_a_resource_that_is_ours_or_absent_is_ours(desk: Desk, resource: str | None) -> None:
    code = await desk.give(code_grant(resource=resource or RESOURCE))

    issued = await desk.exchange_code(code, resource=resource)
    refreshed = await desk.refresh(issued, resource=resource)

    assert desk.tokens.audience(resource) == RESOURCE
    assert (await desk.tokens.verify(access_of(refreshed))).claims["aud"] == RESOURCE


async def test_a_redirect_uri_may_be_absent_because_the_verifier_binds_the_code(desk: Desk) -> None:
    issued = await desk.exchange_code(await desk.code(), redirect_uri=None)

    assert await desk.is_good(issued)


async def test_a_resource_of_another_user_is_refused(desk: Desk) -> None:
    with pytest.raises(OAuthRefusal) as caught:
        desk.tokens.audience("https://cloud.example.org")

    assert caught.value.error == "invalid_target"


async def test_a_challenge_of_another_form_than_s256_gets_no_code(desk: Desk) -> None:
    with pytest.raises(OAuthRefusal, match="S256") as caught:
        await desk.give(code_grant(code_challenge="plain"))

    assert caught.value.error == "invalid_request"


async def test_a_user_gets_a_code_while_they_may_continue(desk: Desk) -> None:
    completed = back(leaving(desk.moment), ALICE, desk.moment)
    await desk.database.auth_transactions.hold(completed, browser=BROWSER)
    came = TransactionKey(completed.auth_transaction.id, BROWSER)
    code = await desk.tokens.new_code(code_grant(), transaction=came, request="request")
    again = await desk.tokens.new_code(code_grant(), transaction=came, request="request")

    assert again == code
    assert (await desk.exchange_code(code.get_secret_value())).scopes == NOTES
    with pytest.raises(AlreadyAnswered):
        await desk.tokens.new_code(code_grant(), transaction=came, request="request")
    await desk.tokens.end(ALICE)
    with pytest.raises(SignInRefused, match="ended meanwhile"):
        await desk.tokens.new_code(code_grant(), transaction=came)


@pytest.mark.parametrize(("verifier", "error"), [(None, "invalid_request"), ("short", "invalid_grant")])
async def test_a_verifier_that_is_none_gives_nothing(desk: Desk, verifier: str | None, error: str) -> None:
    with pytest.raises(OAuthRefusal) as caught:
        await desk.exchange_code(await desk.code(), verifier=verifier)

    assert caught.value.error == error


async def test_a_code_lives_for_a_minute(desk: Desk) -> None:
    code, late = await desk.code(), await desk.code()

    desk.moment.forward(CODE_TIME - SECOND)
    issued = await desk.exchange_code(code)
    desk.moment.forward(SECOND)

    assert await desk.is_good(issued)
    with pytest.raises(OAuthRefusal) as caught:
        await desk.exchange_code(late)
    assert (caught.value.error, caught.value.status) == ("invalid_grant", 400)


@pytest.mark.parametrize("code", ["", "ncc_short", "nca_" + "x" * 43, "ncc_" + "x" * 43, "ncc_" + "ä" * 43])
async def test_what_is_no_code_of_ours_gives_nothing(desk: Desk, code: str) -> None:
    with pytest.raises(OAuthRefusal, match="unknown") as caught:
        await desk.exchange_code(code)

    assert caught.value.error == "invalid_grant"


@pytest.mark.parametrize("token", ["", "ncr_short", "nca_" + "x" * 65, "ncr_" + "x" * 65])
async def test_what_is_no_refresh_token_of_ours_gives_nothing(desk: Desk, token: str) -> None:
    with pytest.raises(OAuthRefusal, match="unknown") as caught:
        await desk.tokens.refresh(token, client_id=CLIENT, scopes=None, resource=None)

    assert caught.value.error == "invalid_grant"


async def test_an_access_token_lives_for_an_hour(desk: Desk) -> None:
    issued = await desk.issue()

    desk.moment.forward(ACCESS_TIME - SECOND)
    before = await desk.tokens.verify(access_of(issued))
    desk.moment.forward(SECOND)

    assert before.principal == ALICE
    with pytest.raises(TokenRefused):
        await desk.tokens.verify(access_of(issued))


async def test_a_refresh_gives_a_new_pair_and_leaves_the_access_token_before_it(desk: Desk) -> None:
    first = await desk.issue()

    second = await desk.refresh(first)

    assert refresh_of(second) != refresh_of(first)
    assert access_of(second) != access_of(first)
    assert await desk.is_good(first)
    assert await desk.is_good(second)


async def test_a_family_lives_for_its_lifetime_however_often_it_is_used(desk: Desk) -> None:
    issued = await desk.issue()
    for _ in range(3):
        desk.moment.forward(REFRESH_TIME / 4)
        issued = await desk.refresh(issued)

    desk.moment.forward(REFRESH_TIME / 4 - SECOND)
    last = await desk.refresh(issued)
    desk.moment.forward(SECOND)

    assert not await desk.is_good(last), "an access token ends with its family"
    with pytest.raises(OAuthRefusal):
        await desk.refresh(last)


async def test_the_same_keys_and_rows_make_another_code_for_another_browser(
    desk: Desk, tmp_path: Path
) -> None:
    async def code_in(made: Desk, browser: str) -> str:
        completed = back(leaving(made.moment, "came back"), ALICE, made.moment, name="came back")
        await made.database.auth_transactions.hold(completed, browser=browser)
        came = TransactionKey(completed.auth_transaction.id, browser)
        return (await made.tokens.new_code(code_grant(), transaction=came)).get_secret_value()

    async with open_desk(file_url(tmp_path / "other.db"), KeyRing.parse(KEYS[:1]), Moment()) as other:
        codes = [await code_in(desk, BROWSER), await code_in(other, f"{BROWSER}2")]

    assert codes[0] != codes[1]


async def test_a_shorter_lifetime_counts_for_sign_ins_of_before(desk: Desk) -> None:
    keys, lifetime = KeyRing.parse(KEYS[:1]), timedelta(days=2)
    shorter = Desk(
        desk.database,
        Tokens(
            desk.database,
            issuer=ISSUER,
            resource=RESOURCE,
            keys=keys,
            clock=desk.moment,
            lifetime=lifetime,
        ),
        desk.moment,
    )
    issued = await desk.issue()

    desk.moment.forward(lifetime - SECOND)
    renewed = await shorter.refresh(issued)
    desk.moment.forward(SECOND)

    with pytest.raises(OAuthRefusal):
        await shorter.refresh(renewed)


async def test_a_person_who_is_not_allowed_any_more_gets_no_tokens_and_loses_those_of_the_client(
    desk: Desk,
) -> None:
    asked: list[Principal] = []

    async def still_allowed(principal: Principal) -> str | None:
        asked.append(principal)
        return "the Nextcloud account is disabled"

    strict = Desk(
        desk.database,
        Tokens(
            desk.database,
            issuer=ISSUER,
            resource=RESOURCE,
            keys=KeyRing.parse(KEYS[:1]),
            clock=desk.moment,
            still_allowed=still_allowed,
        ),
        desk.moment,
    )
    issued, other = await desk.issue(), await desk.issue(BOB)

    with pytest.raises(OAuthRefusal, match="does not let this person in") as caught:
        await strict.refresh(issued)
    with pytest.raises(OAuthRefusal, match="unknown"):
        await strict.refresh(issued)

    assert caught.value.error == "invalid_grant"
    assert asked == [ALICE], "no request for tokens that are invalid anyway"
    assert [await desk.is_good(one) for one in (issued, other)] == [False, True]
    assert (await desk.database.audit.recent(ALICE, 1))[
        0
    ].result == "ended: the Nextcloud account is disabled"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, NOTES),
        (frozenset[str](), NOTES),
        (READ, READ),
        (NOTES | {"files:read"}, NOTES),
    ],
)
async def test_scopes_narrow_the_access_token_and_not_the_family(
    desk: Desk, asked: frozenset[str] | None, given: frozenset[str]
) -> None:
    narrowed = await desk.refresh(await desk.issue(), scopes=asked)
    after = await desk.refresh(narrowed)

    assert narrowed.scopes == given
    assert (await desk.tokens.verify(access_of(narrowed))).scopes == given
    assert after.scopes == NOTES


async def test_scopes_of_which_none_was_granted_are_refused_and_spend_nothing(desk: Desk) -> None:
    issued = await desk.issue()

    with pytest.raises(OAuthRefusal) as caught:
        await desk.refresh(issued, scopes=frozenset({"files:write"}))

    assert caught.value.error == "invalid_scope"
    assert await desk.is_good(await desk.refresh(issued))


async def test_a_token_of_before_the_keys_were_changed_gets_the_same_successor_after_it(url: str) -> None:
    moment = Moment()
    async with open_desk(url, KeyRing.parse(KEYS[:1]), moment) as desk:
        first = await desk.issue()
        second = await desk.refresh(first)

    async with open_desk(url, KeyRing.parse(KEYS[::-1]), moment) as desk:
        again = await desk.refresh(first)
        third = await desk.refresh(second)

    assert refresh_of(again) == refresh_of(second)
    assert refresh_of(third) not in map(refresh_of, (first, second))


async def test_the_grace_may_be_another(desk: Desk, url: str) -> None:
    keys = KeyRing.parse(KEYS[:1])
    short = Tokens(
        desk.database, issuer=ISSUER, resource=RESOURCE, keys=keys, clock=desk.moment, grace=GRACE / 2
    )
    first = await desk.issue()
    await desk.refresh(first)
    desk.moment.forward(GRACE / 2 + SECOND)

    with pytest.raises(OAuthRefusal, match="used before"):
        await short.refresh(refresh_of(first), client_id=CLIENT, scopes=None, resource=None)


async def test_revoking_an_access_token_ends_that_one_only(desk: Desk) -> None:
    first = await desk.issue()
    second = await desk.refresh(first)

    for _ in range(2):
        await desk.tokens.revoke(access_of(first), client_id=CLIENT)

    assert not await desk.is_good(first)
    assert await desk.is_good(second)


async def test_revoking_a_refresh_token_ends_all_that_came_with_it(desk: Desk) -> None:
    first, other = await desk.issue(), await desk.issue()
    second = await desk.refresh(first)

    for _ in range(2):
        await desk.tokens.revoke(refresh_of(first), client_id=CLIENT)

    assert [await desk.is_good(one) for one in (first, second, other)] == [False, False, True]
    assert [entry.result for entry in await desk.database.audit.recent(ALICE, 5)] == [
        "ended: the client signed out"
    ]


@pytest.mark.parametrize("token", ["", "x", "nca_" + "x" * 43, "ncr_" + "x" * 65, "ncc_" + "x" * 43])
async def test_revoking_what_is_unknown_changes_nothing(desk: Desk, token: str) -> None:
    issued = await desk.issue()

    await desk.tokens.revoke(token, client_id=CLIENT)

    assert await desk.is_good(issued)


@pytest.mark.parametrize("kind", ["refresh", "code", "unknown", "empty", "signed"])
async def test_what_is_no_access_token_is_refused(desk: Desk, kind: str) -> None:
    token = {
        "refresh": refresh_of(await desk.issue()),
        "code": await desk.code(),
        "unknown": "nca_" + "x" * 43,
        "empty": "",
        "signed": "e30.e30.e30",
    }[kind]

    with pytest.raises(TokenRefused):
        await desk.tokens.verify(token)


@pytest.mark.parametrize(
    ("issuer", "resource"), [("https://new.example.org", RESOURCE), (ISSUER, "https://new.example.org/mcp")]
)
async def test_a_server_that_has_moved_takes_none_of_its_former_tokens(
    desk: Desk, issuer: str, resource: str
) -> None:
    issued = await desk.issue()
    keys = KeyRing.parse(KEYS[:1])
    moved = Tokens(desk.database, issuer=issuer, resource=resource, keys=keys, clock=desk.moment)

    with pytest.raises(TokenRefused, match="another address"):
        await moved.verify(access_of(issued))


async def test_a_server_that_has_moved_takes_none_of_its_former_codes_and_refresh_tokens(desk: Desk) -> None:
    code, issued = await desk.code(), await desk.issue()
    keys = KeyRing.parse(KEYS[:1])
    tokens = Tokens(
        desk.database, issuer=ISSUER, resource="https://new.example.org/mcp", keys=keys, clock=desk.moment
    )
    moved = Desk(desk.database, tokens, desk.moment)

    for asking in (moved.exchange_code(code, resource=None), moved.refresh(issued, resource=None)):
        with pytest.raises(OAuthRefusal) as caught:
            await asking
        assert caught.value.error == "invalid_grant"


async def test_while_the_database_cannot_be_read_no_token_is_accepted(desk: Desk, path: Path) -> None:
    issued = await desk.issue()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE access_tokens")

    with pytest.raises(IssuerUnavailable):
        await desk.tokens.verify(access_of(issued))
    # A text of another form is refused as such: it costs no look at the database.
    with pytest.raises(TokenRefused, match="not an access token"):
        await desk.tokens.verify("e30.e30.e30")


async def test_ending_can_be_limited_to_one_client(desk: Desk) -> None:
    of_client, of_other = await desk.issue(), await desk.issue(client_id=OTHER_CLIENT)
    of_bob = await desk.issue(BOB)

    ended = await desk.tokens.end(ALICE, client_id=OTHER_CLIENT)

    assert ended == 1
    assert [await desk.is_good(one) for one in (of_client, of_other, of_bob)] == [True, False, True]
    assert await desk.tokens.end(ALICE) == 1


async def test_what_is_over_is_forgotten(desk: Desk) -> None:
    issued = await desk.issue()
    desk.moment.forward(60 * SECOND)
    kept = await desk.issue(BOB)
    await desk.code()
    desk.moment.forward(REFRESH_TIME - 61 * SECOND)
    kept = await desk.refresh(kept)
    desk.moment.forward(SECOND)

    await desk.tokens.purge()

    assert await desk.tokens.end(ALICE) == 0
    assert await desk.is_good(kept)
    with pytest.raises(OAuthRefusal):
        await desk.refresh(issued)


async def test_no_token_shows_itself_in_what_is_printed(desk: Desk) -> None:
    code = await desk.code()
    issued = await desk.exchange_code(code)

    with contextlib.suppress(OAuthRefusal):
        await desk.exchange_code(code)

    bearer = code_grant()
    assert access_of(issued) not in repr(issued)
    assert refresh_of(issued) not in repr(issued)
    assert bearer.code_challenge not in repr(bearer)
