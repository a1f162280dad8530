from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.provider import OrphanedTokens
from nextcloud_mcp_server.errors import (
    Forbidden,
    GrantDead,
    GrantRefused,
    NextcloudError,
    Throttled,
    Unreachable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BearerCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.storage.records import Tokens
from tests.auth_fixtures import Clock
from tests.oauth_fixtures import REDIRECT, TOKEN, Office, Replica

WRONG = SecretStr("wrong" * 20)


async def exchange_code(replica: Replica, code: SecretStr) -> Tokens:
    return (await replica.provider.exchange_code(code=code, verifier=None, nonce=None)).tokens


async def test_the_browser_is_sent_to_the_public_address_with_nothing_but_state_and_client() -> None:
    pool = open_pool(
        ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(lambda _: httpx2.Response(500))
    )
    public = NextcloudUrl.parse("https://cloud.example.org/nextcloud")
    nextcloud = Nextcloud(NextcloudUrl.parse("http://inside/nextcloud"), pool, public_url=public)
    provider = NextcloudOAuth2(
        nextcloud, client_id="c&d", client_secret=WRONG, redirect_uri=REDIRECT, clock=Clock()
    )

    url = urlsplit(await provider.authorize_url(state="s&t", verifier=None, nonce=None))

    assert f"{url.scheme}://{url.netloc}{url.path}" == (
        "https://cloud.example.org/nextcloud/index.php/apps/oauth2/authorize"
    )
    assert parse_qs(url.query) == {"client_id": ["c&d"], "response_type": ["code"], "state": ["s&t"]}
    assert (provider.name, provider.redirect_uri) == ("nextcloud_oauth2", REDIRECT)
    assert await provider.callback_issuer() is None
    assert (provider.uses_pkce, provider.uses_nonce) == (False, False)


async def test_an_access_says_whose_it_is_and_in_which_groups_they_are(
    office: Office, replica: Replica
) -> None:
    exchanged = await replica.provider.exchange_code(code=office.code("alice"), verifier=None, nonce=None)

    identity = exchanged.identity
    assert (identity.uid, identity.display_name, identity.groups) == ("alice", "Alice Example", {"team"})
    assert identity.storage_id


async def test_the_token_request_goes_inside_with_the_public_host_and_no_login() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(400, json={"error": "invalid_request"})

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    nextcloud = Nextcloud(
        NextcloudUrl.parse("http://inside"), pool, public_url=NextcloudUrl.parse("https://cloud.example.org")
    )
    provider = NextcloudOAuth2(
        nextcloud, client_id="id", client_secret=SecretStr("s&cret"), redirect_uri=REDIRECT, clock=Clock()
    )

    with pytest.raises(GrantRefused):
        await provider.exchange_code(code=SecretStr("c" * 128), verifier=None, nonce=None)

    (request,) = asked
    assert (request.url.host, request.headers["Host"]) == ("inside", "cloud.example.org")
    assert "Authorization" not in request.headers
    assert request.headers["Accept"] == "application/json"
    assert parse_qs(request.content.decode()) == {
        "grant_type": ["authorization_code"],
        "code": ["c" * 128],
        "client_id": ["id"],
        "client_secret": ["s&cret"],
    }


async def test_a_code_gives_tokens_and_says_whose_account_they_open(office: Office, replica: Replica) -> None:
    exchanged = await replica.provider.exchange_code(code=office.code("bob"), verifier=None, nonce=None)

    assert exchanged.identity.uid == "bob"
    assert exchanged.identity.display_name == office.harness.sandbox.state.users["bob"].display_name
    assert exchanged.identity.storage_id
    assert exchanged.tokens.expires_at == office.harness.clock() + timedelta(hours=1)
    assert exchanged.tokens.refresh_token is not None


async def test_what_a_code_gave_is_noted_before_it_is_known_whose_it_is(
    office: Office, replica: Replica
) -> None:
    noted: list[Tokens] = []

    async def note(tokens: Tokens) -> None:
        noted.append(tokens)
        office.harness.network.before = office.harness.network.cut

    with pytest.raises((OrphanedTokens, Unreachable)):
        await replica.provider.exchange_code(code=office.code("alice"), verifier=None, nonce=None, note=note)

    assert len(noted) == 1


async def test_a_code_works_once_and_a_wrong_one_never(office: Office, replica: Replica) -> None:
    code = office.code()
    await exchange_code(replica, code)

    for spent in (code, WRONG):
        with pytest.raises(GrantRefused):
            await exchange_code(replica, spent)


async def test_a_refresh_rotates_and_the_old_token_is_dead(office: Office, replica: Replica) -> None:
    first = await exchange_code(replica, office.code())
    assert first.refresh_token is not None

    second = await replica.provider.refresh(first.refresh_token)

    assert second.access_token != first.access_token
    with pytest.raises(GrantDead):
        await replica.provider.refresh(first.refresh_token)


async def test_a_wrong_client_secret_is_the_operators_fault_and_not_the_grants(
    office: Office, replica: Replica
) -> None:
    tokens = await exchange_code(replica, office.code())
    assert tokens.refresh_token is not None
    office.client = replace(office.client, client_secret=WRONG)
    wrong = await office.replica()

    with pytest.raises(Forbidden, match="NEXTCLOUD_OAUTH_CLIENT_SECRET"):
        await wrong.provider.refresh(tokens.refresh_token)
    assert (await replica.provider.refresh(tokens.refresh_token)).access_token


async def test_ten_failures_hold_off_good_requests_too(office: Office, replica: Replica) -> None:
    for _ in range(10):
        with pytest.raises(GrantRefused):
            await exchange_code(replica, WRONG)

    with pytest.raises(Throttled):
        await exchange_code(replica, office.code())


async def test_a_living_access_token_ends_everything_and_a_dead_one_says_so(
    office: Office, replica: Replica
) -> None:
    tokens = await exchange_code(replica, office.code())

    assert await replica.provider.revoke(tokens)
    assert not await replica.provider.revoke(tokens)
    assert office.families == 0


ANSWERS = {
    "a page": httpx2.Response(200, html="<html>Nextcloud</html>"),
    "nothing": httpx2.Response(200),
    "a list": httpx2.Response(200, json=[]),
    "no token": httpx2.Response(200, json={"access_token": "", "token_type": "Bearer"}),
    "a number": httpx2.Response(200, json={"access_token": 5}),
    "a life without end": httpx2.Response(200, json={"access_token": "a", "expires_in": 10**30}),
    "something huge": httpx2.Response(200, content=b"x" * 100_000),
    "a redirect": httpx2.Response(302, headers={"Location": "https://elsewhere.test/token"}),
    "an unknown error": httpx2.Response(400, json={"error": "strange"}),
    "an error that is no object": httpx2.Response(400, json=["invalid_request"]),
    "an error page": httpx2.Response(400, html="<html>Access through untrusted domain</html>"),
    "deep nonsense": httpx2.Response(400, content=b"[" * 60_000),
    "a server error": httpx2.Response(500),
    "maintenance": httpx2.Response(503, headers={"X-Nextcloud-Maintenance-Mode": "1"}),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_that_is_none_leaves_everything_as_it_is(
    office: Office, replica: Replica, kind: str
) -> None:
    tokens = await exchange_code(replica, office.code())
    assert tokens.refresh_token is not None
    given = ANSWERS[kind]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            given.status_code, headers=given.headers, content=given.content, request=request
        )

    office.harness.network.before = answer
    with pytest.raises(NextcloudError) as caught:
        await replica.provider.refresh(tokens.refresh_token)

    assert not isinstance(caught.value, GrantDead)
    assert [
        request.url.host for request in office.harness.network.asked if "elsewhere" in str(request.url)
    ] == []


async def test_access_that_cannot_be_renewed_is_refused_and_ended(office: Office, replica: Replica) -> None:
    office.harness.network.before = altered(office, {"refresh_token": None})

    with pytest.raises(GrantRefused, match="operator"):
        await exchange_code(replica, office.code())

    assert office.families == 0


async def test_an_answer_that_names_another_user_is_refused_and_ended(
    office: Office, replica: Replica
) -> None:
    office.harness.network.before = altered(office, {"user_id": "bob"})

    with pytest.raises(WrongAccount):
        await exchange_code(replica, office.code("alice"))

    assert office.families == 0


async def test_a_response_without_user_and_expiry_is_enough(office: Office, replica: Replica) -> None:
    office.harness.network.before = altered(office, {"user_id": None, "expires_in": None})

    exchanged = await replica.provider.exchange_code(code=office.code("alice"), verifier=None, nonce=None)

    assert exchanged.identity.uid == "alice"
    assert exchanged.tokens.expires_at is None


async def test_tokens_whose_owner_cannot_be_asked_for_are_left_to_the_caller_when_they_cannot_be_ended(
    office: Office, replica: Replica
) -> None:
    async def cut_the_rest(request: httpx2.Request) -> httpx2.Response | None:
        return None if request.url.path.endswith(TOKEN) else await office.harness.network.cut(request)

    office.harness.network.before = cut_the_rest

    with pytest.raises(OrphanedTokens) as left:
        await exchange_code(replica, office.code())

    assert isinstance(left.value.reason, Unreachable)
    assert left.value.tokens.refresh_token is not None
    assert len(office.harness.network.to("/core/apppassword")) == 1


def altered(office: Office, changes: dict[str, object]):  # noqa: ANN201 - the answer of `Network.before`
    """Let Nextcloud answer a token request, with some values changed."""
    through = httpx2.ASGITransport(office.harness.sandbox.app)

    async def answer(request: httpx2.Request) -> httpx2.Response | None:
        if not request.url.path.endswith(TOKEN):
            return None
        response = await through.handle_async_request(request)
        await response.aread()
        return httpx2.Response(200, json={**response.json(), **changes}, request=request)

    return answer


async def test_a_token_says_nothing_of_itself_when_it_is_printed(office: Office, replica: Replica) -> None:
    tokens = await exchange_code(replica, office.code())

    shown = f"{tokens!r} {BearerCredential(tokens.access_token)!r} {replica.provider!r}"

    assert tokens.access_token.get_secret_value() not in shown


async def test_an_account_without_a_picture_of_its_own_has_none(office: Office, replica: Replica) -> None:
    tokens = await exchange_code(replica, office.code("alice"))

    assert await replica.provider.picture(tokens, uid="alice") is None


@pytest.mark.parametrize(
    ("status", "told", "listed"),
    [
        (200, {"bruteforce": {"delay": 0, "allow-listed": True}}, True),
        (200, {"bruteforce": {"delay": 0, "allow-listed": False}}, False),
        (200, {"bruteforce": {"delay": 0, "allow-listed": "true"}}, False),
        (200, {"bruteforce": []}, False),
        (200, {}, False),
        (503, {}, False),
    ],
)
async def test_nextcloud_is_asked_without_a_login_whether_it_counts_failures_of_ours(
    *, status: int, told: dict[str, object], listed: bool
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(status, json={"ocs": {"meta": {}, "data": {"capabilities": told}}})

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    nextcloud = Nextcloud(NextcloudUrl.parse("https://cloud.example.org"), pool)

    assert await nextcloud.oauth2.is_allow_listed() is listed
    assert all("Authorization" not in request.headers for request in asked)
