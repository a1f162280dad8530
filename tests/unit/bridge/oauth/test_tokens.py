"""Token requests (RFC 6749, RFC 7009, RFC 8707): what is sent, and what an answer may not do."""

import base64
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.bridge.oauth.discovery import AuthorizationServer
from nextcloud_mcp_server.bridge.oauth.faults import GrantEnded
from nextcloud_mcp_server.bridge.oauth.grant import ClientIdentity, Grant
from nextcloud_mcp_server.bridge.oauth.tokens import exchange_code, known_error, refresh, revoke
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import ISSUER, SERVER, FakeServers

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CLIENT = ClientIdentity(client_id="me", redirect_uri="http://127.0.0.1:9/callback")
GRANT = Grant(
    issuer=ISSUER,
    resource=SERVER,
    token_endpoint=f"{ISSUER}/token",
    revocation_endpoint=f"{ISSUER}/revoke",
    client=CLIENT,
    access_token=SecretStr("access-0"),
    refresh_token=SecretStr("refresh-0"),
    expires_at=NOW,
    scope="read",
)
SECRETS = ("the-code", "the-verifier", "access-0", "refresh-0", "the-secret")


def clock() -> datetime:
    return NOW


async def exchange(servers: FakeServers, client: ClientIdentity = CLIENT) -> Grant:
    server = AuthorizationServer(ISSUER, f"{ISSUER}/authorize", f"{ISSUER}/token")
    return await exchange_code(
        servers.network(),
        server,
        client,
        code="the-code",
        verifier="the-verifier",
        resource=SERVER,
        requested="read write",
        clock=clock,
    )


def answering(path: str, *, status: int = 200, **fields: object) -> FakeServers:
    return FakeServers(replies={f"{ISSUER}{path}": httpx2.Response(status, json=fields)})


async def test_a_code_is_exchanged_with_its_verifier_and_the_resource() -> None:
    servers = answering("/token", access_token="a", token_type="Bearer", expires_in=3600, refresh_token="r")

    grant = await exchange(servers)

    assert servers.forms("/token") == [
        {
            "grant_type": "authorization_code",
            "code": "the-code",
            "redirect_uri": "http://127.0.0.1:9/callback",
            "client_id": "me",
            "code_verifier": "the-verifier",
            "resource": SERVER,
        }
    ]
    assert grant.access_token.get_secret_value() == "a"
    assert grant.expires_at == NOW + timedelta(hours=1)
    # RFC 6749 §5.1: left out, the scope is what was asked for.
    assert grant.scope == "read write"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_secret_is_sent_as_was_agreed(method: str) -> None:
    servers = answering("/token", access_token="a", token_type="Bearer")
    client = ClientIdentity.model_validate(
        {"client_id": "me:too", "client_secret": "the-secret%", "auth_method": method}
    )

    await exchange(servers, client)

    form, header = servers.forms("/token")[0], servers.requests[0].headers.get("Authorization")
    if method == "client_secret_post":
        assert (form["client_id"], form["client_secret"], header) == ("me:too", "the-secret%", None)
    else:
        # RFC 6749 §2.3.1: both are form-encoded first.
        assert header == "Basic " + base64.b64encode(b"me%3Atoo:the-secret%25").decode()
        assert "client_secret" not in form


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"access_token": ""},
        {"access_token": 7},
        {"access_token": "tok3n", "token_type": "DPoP"},
        {"access_token": "tok3n\r\nX-Evil: 1"},
        {"access_token": "tok3n b"},
        {"access_token": "ä"},
        {"access_token": "a" * 100_000},
        {"access_token": "tok3n", "expires_in": "soon"},
    ],
)
async def test_what_is_no_token_is_refused_without_a_word_of_it(fields: dict[str, object]) -> None:
    servers = FakeServers(replies={f"{ISSUER}/token": httpx2.Response(200, json=fields)})

    with pytest.raises(AuthorizationFailed) as caught:
        await exchange(servers)

    assert caught.value.__cause__ is None
    assert not any(secret in str(caught.value) for secret in (*SECRETS, "tok3n", "ä", "aaaa", "7"))


async def test_an_error_is_named_without_the_text_of_the_server() -> None:
    servers = answering(
        "/token", status=400, error="invalid_grant", error_description="the-code and the-verifier are wrong"
    )

    with pytest.raises(AuthorizationFailed) as caught:
        await exchange(servers)

    assert "invalid_grant" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in SECRETS)


@pytest.mark.parametrize("code", ["the-code", "x" * 500, "\x1b[2J", "", None])
def test_an_unknown_error_is_not_repeated(code: str | None) -> None:
    assert known_error(code) == "an unknown error"


async def test_a_refresh_keeps_what_the_answer_leaves_out() -> None:
    servers = answering("/token", access_token="a", token_type="Bearer", expires_in=60)

    grant = await refresh(servers.network(), GRANT, clock)

    assert servers.forms("/token") == [
        {"grant_type": "refresh_token", "refresh_token": "refresh-0", "resource": SERVER, "client_id": "me"}
    ]
    assert grant.refresh_token == GRANT.refresh_token
    assert grant.scope == "read"
    assert grant.expires_at == NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("error", "forgets"), [("invalid_grant", False), ("unauthorized_client", False), ("invalid_client", True)]
)
async def test_a_dead_refresh_token_ends_the_grant(error: str, forgets: bool) -> None:  # noqa: FBT001 - a parameter of the test
    servers = answering("/token", status=400, error=error)

    with pytest.raises(GrantEnded) as caught:
        await refresh(servers.network(), GRANT, clock)

    assert caught.value.forgets_client is forgets


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_cannot_refresh_now_ends_nothing(status: int) -> None:
    servers = answering("/token", status=status, error="server_error")

    with pytest.raises(AuthorizationFailed) as caught:
        await refresh(servers.network(), GRANT, clock)

    assert not isinstance(caught.value, GrantEnded)


async def test_both_tokens_are_revoked_the_refresh_token_first() -> None:
    servers = FakeServers()

    assert await revoke(servers.network(), GRANT)

    assert [form["token"] for form in servers.forms("/revoke")] == ["refresh-0", "access-0"]
    assert [form["token_type_hint"] for form in servers.forms("/revoke")] == ["refresh_token", "access_token"]


async def test_nothing_is_revoked_where_it_is_not_offered() -> None:
    servers = FakeServers()

    assert not await revoke(servers.network(), GRANT.model_copy(update={"revocation_endpoint": None}))

    assert servers.requests == []


def test_a_grant_shows_none_of_its_secrets() -> None:
    shown = f"{GRANT!r} {GRANT}"

    assert not any(secret in shown for secret in SECRETS)
