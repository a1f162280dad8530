import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.oauth_client import (
    OAuthClient,
    TokenAnswer,
    authorize_url,
    exchange_code,
    new_secret,
    refresh,
    revoke,
)
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import GrantDead, GrantRefused, IssuerUnavailable
from nextcloud_mcp_server.nextcloud.http import open_pool
from tests.issuer_fake import html, huge

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ENDPOINT = "https://id.test/token"
GOOD = {"access_token": "access", "token_type": "bearer", "expires_in": 900, "refresh_token": "refresh"}
CODE = "a-code-of-some-length"

Handler = Callable[[httpx2.Request], httpx2.Response]


async def exchange(
    handler: Handler,
    *,
    client: OAuthClient | None = None,
    code: str = CODE,
    verifier: SecretStr | None = None,
    needs: frozenset[str] = frozenset(),
) -> TokenAnswer:
    async with open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(handler)) as pool:
        return await exchange_code(
            Outgoing(pool),
            ENDPOINT,
            client or OAuthClient("us", SecretStr("s/cret:")),
            code=SecretStr(code),
            redirect_uri="https://mcp.test/back",
            verifier=verifier,
            now=lambda: NOW,
            needs=needs,
        )


def answering(body: object, status: int = 200) -> Handler:
    return lambda _: httpx2.Response(status, json=body)


def never(request: httpx2.Request) -> httpx2.Response:
    raise NotImplementedError


async def test_a_code_is_exchanged_for_tokens() -> None:
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={**GOOD, "id_token": "a.b.c", "scope": "openid profile"})

    answer = await exchange(handler, verifier=SecretStr("verifier"))

    assert answer.tokens.access_token.get_secret_value() == "access"
    assert answer.tokens.refresh_token == SecretStr("refresh")
    assert answer.tokens.expires_at == NOW + timedelta(seconds=900)
    assert answer.id_token == SecretStr("a.b.c")
    assert answer.scopes == {"openid", "profile"}
    assert dict(parse_qsl(asked[0].content.decode())) == {
        "grant_type": "authorization_code",
        "code": CODE,
        "redirect_uri": "https://mcp.test/back",
        "code_verifier": "verifier",
    }


@pytest.mark.parametrize(
    ("client", "fields", "has_header"),
    [
        (OAuthClient("us", SecretStr("s/cret:")), {}, True),
        (
            OAuthClient("us", SecretStr("s/cret:"), posts_secret=True),
            {"client_id": "us", "client_secret": "s/cret:"},
            False,
        ),
        (OAuthClient("us", None), {"client_id": "us"}, False),
    ],
    ids=["client_secret_basic", "client_secret_post", "none"],
)
async def test_the_client_says_who_it_is_in_the_way_the_provider_reads(
    client: OAuthClient, fields: dict[str, str], *, has_header: bool
) -> None:
    asked: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=GOOD)

    await exchange(handler, client=client)

    form = dict(parse_qsl(asked[0].content.decode()))
    assert {name: form[name] for name in form if name.startswith("client")} == fields
    # RFC 6749 §2.3.1: both are encoded like a form before they are joined.
    expected = f"Basic {base64.b64encode(b'us:s%2Fcret%3A').decode()}" if has_header else None
    assert asked[0].headers.get("Authorization") == expected


@pytest.mark.parametrize("code", ["", "short", "with a space", "line\nbreak", "ünicode-code", "x" * 5000])
async def test_what_cannot_be_a_code_is_never_sent(code: str) -> None:
    with pytest.raises(GrantRefused):
        await exchange(never, code=code)


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_request", "<script>", None])
async def test_a_code_that_is_not_accepted_is_refused_in_our_own_words(error: str | None) -> None:
    body = {"error": error, "error_description": "<b>evil</b>"}

    with pytest.raises(GrantRefused) as caught:
        await exchange(answering(body, 400))

    assert "evil" not in str(caught.value)
    assert "script" not in str(caught.value)


@pytest.mark.parametrize("status", [201, 400, 401, 403])
async def test_tokens_beside_another_status_than_200_are_none(status: int) -> None:
    with pytest.raises(GrantRefused):
        await exchange(answering(GOOD, status))


async def test_a_wrong_client_secret_is_not_taken_for_a_wrong_code() -> None:
    with pytest.raises(IssuerUnavailable, match="id and secret"):
        await exchange(answering({"error": "invalid_client"}, 401))


def redirecting(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(302, headers={"Location": "https://evil.test/"})


ODD: dict[str, Handler] = {
    "html": lambda _: html(),
    "huge": lambda _: huge(),
    "redirect": redirecting,
    "list": answering([]),
    "empty": answering({}),
    "fault": answering({}, 500),
    "no token": answering({"token_type": "bearer"}),
    "empty token": answering({"token_type": "bearer", "access_token": ""}),
    "number": answering({**GOOD, "access_token": 7}),
    "space": answering({**GOOD, "access_token": "two words"}),
    "long": answering({**GOOD, "access_token": "a" * 20_000}),
    "line break": answering({**GOOD, "refresh_token": "line\nbreak"}),
    "id token": answering({**GOOD, "id_token": ["a"]}),
    "other type": answering({**GOOD, "token_type": "mac"}),
    "no type": answering({"access_token": "access"}),
}


@pytest.mark.parametrize("handler", ODD.values(), ids=ODD)
async def test_an_answer_of_another_kind_is_not_used(handler: Handler) -> None:
    with pytest.raises(IssuerUnavailable):
        await exchange(handler)


async def test_an_answer_without_refresh_token_and_scopes_says_so() -> None:
    answer = await exchange(answering({"access_token": "access", "token_type": "Bearer"}))

    assert answer.tokens.refresh_token is None
    assert answer.tokens.expires_at is None
    assert answer.id_token is None
    assert answer.scopes is None


async def test_fewer_scopes_than_needed_are_refused() -> None:
    with pytest.raises(GrantRefused, match="fewer scopes than were requested"):
        await exchange(answering({**GOOD, "scope": "profile"}), needs=frozenset({"openid"}))


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [("900", 900), (-5, 0), (10**30, 315_360_000), ("soon", None), (None, None), ([], None)],
)
async def test_a_life_is_read_in_every_spelling(expires_in: object, seconds: int | None) -> None:
    answer = await exchange(answering({**GOOD, "expires_in": expires_in}))

    assert answer.tokens.expires_at == (None if seconds is None else NOW + timedelta(seconds=seconds))


def test_the_address_carries_the_challenge_and_keeps_the_endpoints_own_query() -> None:
    verifier = new_secret()

    url = authorize_url(
        "https://id.test/authorize?tenant=7",
        client_id="us",
        redirect_uri="https://mcp.test/back",
        scope="openid",
        state="state",
        verifier=verifier,
        nonce=SecretStr("nonce"),
        extra={"resource": "https://cloud.test"},
    )

    digest = hashlib.sha256(verifier.get_secret_value().encode()).digest()
    assert parse_qs(urlsplit(url).query) == {
        "tenant": ["7"],
        "response_type": ["code"],
        "client_id": ["us"],
        "redirect_uri": ["https://mcp.test/back"],
        "scope": ["openid"],
        "state": ["state"],
        "code_challenge": [base64.urlsafe_b64encode(digest).decode().rstrip("=")],
        "code_challenge_method": ["S256"],
        "nonce": ["nonce"],
        "resource": ["https://cloud.test"],
    }
    assert verifier.get_secret_value() not in url


def test_a_provider_without_pkce_nonce_and_scopes_gets_none() -> None:
    url = authorize_url(
        "https://cloud.test/authorize",
        client_id="us",
        redirect_uri="https://mcp.test/back",
        scope=None,
        state="state",
        verifier=None,
        nonce=None,
    )

    assert set(parse_qs(urlsplit(url).query)) == {"response_type", "client_id", "redirect_uri", "state"}


def test_secrets_are_long_and_differ() -> None:
    secrets = {new_secret().get_secret_value() for _ in range(100)}

    assert len(secrets) == 100
    assert {len(one) for one in secrets} == {43}


@pytest.mark.parametrize("error", [["invalid_client"], {"x": 1}, None, 1])
async def test_an_error_that_is_no_text_is_a_refusal_like_any_other(error: object) -> None:
    with pytest.raises(GrantRefused):
        await exchange(answering({"error": error}, 400))


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (400, "invalid_grant", GrantDead),
        (400, "invalid_scope", IssuerUnavailable),
        (400, "temporarily_unavailable", IssuerUnavailable),
        (400, None, IssuerUnavailable),
        (401, "invalid_client", IssuerUnavailable),
        (429, "slow_down", IssuerUnavailable),
        (503, "server_error", IssuerUnavailable),
    ],
)
async def test_only_the_word_for_it_says_that_a_refresh_token_is_dead(
    status: int, error: str | None, outcome: type[Exception]
) -> None:
    """RFC 6749 §5.2: whatever else a provider answers may pass, and the grant is kept."""
    transport = httpx2.MockTransport(answering({"error": error}, status))
    async with open_pool(ca_bundle=None, user_agent="test", transport=transport) as pool:
        with pytest.raises(outcome):
            await refresh(
                Outgoing(pool),
                ENDPOINT,
                OAuthClient("us", SecretStr("secret")),
                refresh_token=SecretStr("refresh"),
                now=lambda: NOW,
            )


@pytest.mark.parametrize(
    ("status", "ended"), [(200, True), (400, False), (401, False), (429, False), (503, False)]
)
async def test_a_token_is_revoked_when_the_provider_says_so_and_not_before(
    status: int, *, ended: bool
) -> None:
    """RFC 7009 §2.2 and §2.2.1."""
    transport = httpx2.MockTransport(answering({}, status))
    async with open_pool(ca_bundle=None, user_agent="test", transport=transport) as pool:
        revoking = revoke(
            Outgoing(pool),
            ENDPOINT,
            OAuthClient("us", SecretStr("secret")),
            refresh_token=SecretStr("refresh"),
        )
        if ended:
            await revoking
        else:
            with pytest.raises(IssuerUnavailable):
                await revoking
