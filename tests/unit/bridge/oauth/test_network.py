"""What an authorization server may answer: garbage, too much, nothing, and redirects."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from nextcloud_mcp_server.bridge.oauth.network import Network
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import ISSUER, SERVER, FakeServers

URL = f"{ISSUER}/.well-known/openid-configuration"


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"a" * 65_536


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'"text"', b"{", b"[" * 100_000, b"1" * 5_000, b"\xff\xfe", b"null"]
)
async def test_what_is_no_json_object_has_no_members(body: bytes) -> None:
    servers = FakeServers()
    servers.replies[URL] = httpx2.Response(200, content=body)

    reply = await servers.network().get(URL, "The metadata")

    assert (reply.status, reply.fields, reply.text("issuer")) == (200, None, None)


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=endless()))
    network = Network(SERVER, lambda: httpx2.AsyncClient(transport=transport))

    with pytest.raises(
        AuthorizationFailed, match=r"The metadata at as\.example sends more than this client reads"
    ):
        await network.get(URL, "The metadata")


@pytest.mark.parametrize(
    "fault", [httpx2.ConnectError("no"), httpx2.ReadTimeout("no"), httpx2.RemoteProtocolError("x")]
)
async def test_a_server_that_is_not_there_is_one_sentence(fault: Exception) -> None:
    servers = FakeServers(replies={URL: fault})

    with pytest.raises(
        AuthorizationFailed, match=r"The metadata at as\.example cannot be reached; try again later\."
    ):
        await servers.network().get(URL, "The metadata")


async def test_a_certificate_that_is_not_trusted_is_named() -> None:
    fault = httpx2.ConnectError(
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed (_ssl.c:1)"
    )
    servers = FakeServers(replies={URL: fault})

    with pytest.raises(
        AuthorizationFailed, match=r"^The certificate of as\.example is not trusted here .*SSL_CERT_FILE"
    ):
        await servers.network().get(URL, "The metadata")


async def test_a_redirect_on_the_same_host_is_followed() -> None:
    servers = FakeServers()
    servers.replies[URL] = httpx2.Response(307, headers={"Location": "/other"})
    servers.replies[f"{ISSUER}/other"] = httpx2.Response(200, json={"issuer": "x"})

    assert (await servers.network().get(URL, "The metadata")).text("issuer") == "x"


@pytest.mark.parametrize(
    "location", ["https://evil.example/", "http://as.example/x", "https://as.example:8443/x"]
)
async def test_a_redirect_to_another_host_is_not(location: str) -> None:
    servers = FakeServers()
    servers.replies[URL] = httpx2.Response(302, headers={"Location": location})

    reply = await servers.network().get(URL, "The metadata")

    assert not reply.is_success
    assert servers.asked() == [URL]


async def test_redirects_end() -> None:
    servers = FakeServers()
    servers.replies[URL] = httpx2.Response(302, headers={"Location": URL})

    assert not (await servers.network().get(URL, "The metadata")).is_success
    assert len(servers.requests) < 5


async def test_a_form_is_never_sent_on() -> None:
    servers = FakeServers()
    servers.replies[f"{ISSUER}/token"] = httpx2.Response(307, headers={"Location": "/elsewhere"})

    reply = await servers.network().post_form(f"{ISSUER}/token", {"code": "secret"}, "The server")

    assert not reply.is_success
    assert len(servers.requests) == 1
