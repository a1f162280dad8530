"""`client auth` and `client logout`, below the command line."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed
from nextcloud_mcp_server.bridge.oauth.sign_in import SignedOut, sign_in, sign_out
from nextcloud_mcp_server.bridge.oauth.store import TokenStore
from nextcloud_mcp_server.bridge.oauth.token_file import FileVault
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import ISSUER, SERVER, FakeServers, described, target

SELF_SIGNED = (
    "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(FileVault(tmp_path / "tokens.json"), tmp_path)


async def signed_in(servers: FakeServers, store: TokenStore) -> None:
    await sign_in(target(), store, servers.browser(), open_http=servers.http, clock=lambda: NOW)


async def test_a_sign_in_asks_the_server_what_it_wants(store: TokenStore) -> None:
    servers = FakeServers(challenge='Bearer scope="from-the-challenge"')

    await signed_in(servers, store)

    assert parse_qs(urlsplit(servers.opened[0]).query)["scope"] == ["from-the-challenge"]
    assert await store.load(SERVER) is not None


async def test_a_sign_in_can_be_repeated(store: TokenStore) -> None:
    servers = FakeServers()

    await signed_in(servers, store)
    await signed_in(servers, store)

    assert len(servers.opened) == 2
    assert len(servers.forms("/register")) == 1


async def test_a_server_that_is_not_there_is_one_sentence(store: TokenStore) -> None:
    servers = FakeServers(replies={SERVER: httpx2.ConnectError("no")})

    with pytest.raises(AuthorizationFailed, match="example cannot be reached"):
        await signed_in(servers, store)


async def test_a_certificate_that_is_not_trusted_is_named(store: TokenStore) -> None:
    servers = FakeServers(replies={SERVER: httpx2.ConnectError(SELF_SIGNED)})

    with pytest.raises(
        AuthorizationFailed, match=r"^The certificate of example is not trusted here .*SSL_CERT_FILE"
    ):
        await signed_in(servers, store)


async def test_a_store_that_cannot_be_read_is_told_before_the_user_signs_in(
    store: TokenStore, tmp_path: Path
) -> None:
    servers = FakeServers()
    (tmp_path / "tokens.json").write_text("{")

    with pytest.raises(TokenStoreFailed):
        await signed_in(servers, store)

    assert servers.opened == []


async def test_a_sign_out_revokes_and_deletes(store: TokenStore) -> None:
    servers = FakeServers()
    await signed_in(servers, store)

    assert await sign_out(target(), store, open_http=servers.http) == SignedOut(
        had_tokens=True, revoked="revoked"
    )

    assert (servers.valid, servers.refresh_tokens) == ({}, {})
    assert await store.load(SERVER) is None


async def test_where_nothing_is_revoked_the_tokens_here_are_deleted(store: TokenStore) -> None:
    servers = FakeServers(metadata=described(revocation_endpoint=None))
    await signed_in(servers, store)

    assert await sign_out(target(), store, open_http=servers.http) == SignedOut(had_tokens=True)

    assert await store.load(SERVER) is None


@pytest.mark.parametrize("reply", [httpx2.Response(503), httpx2.ConnectError("no")])
async def test_where_a_revocation_fails_the_tokens_here_are_deleted_all_the_same(
    store: TokenStore, reply: httpx2.Response | Exception
) -> None:
    servers = FakeServers()
    await signed_in(servers, store)
    servers.replies[f"{ISSUER}/revoke"] = reply

    assert await sign_out(target(), store, open_http=servers.http) == SignedOut(
        had_tokens=True, revoked="failed"
    )

    assert await store.load(SERVER) is None


async def test_a_sign_out_of_a_server_without_tokens_asks_no_one(store: TokenStore) -> None:
    servers = FakeServers()

    assert await sign_out(target(), store, open_http=servers.http) == SignedOut(had_tokens=False)

    assert servers.requests == []
