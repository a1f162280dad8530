import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from nextcloud_mcp_server.auth.builtin import pinned
from nextcloud_mcp_server.auth.builtin.pinned import AddressRefused, PinnedTransport, open_outside
from tests.clients_fixtures import PUBLIC, Internet, Said

URL = "https://app.example.org/client.json"
PUBLIC_V6 = "2606:2800:220:1::1"


async def test_the_checked_address_is_asked_by_the_original_name() -> None:
    internet = Internet()
    internet.put(URL, {})

    async with internet.open() as client:
        response = await client.get(URL)

    asked = internet.asked[0]
    assert asked.url.host == PUBLIC
    assert asked.headers["Host"] == "app.example.org"
    assert asked.extensions["sni_hostname"] == "app.example.org"
    assert str(response.request.url) == URL


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC, "10.0.0.1"],
        ["10.0.0.1", PUBLIC],
        [PUBLIC, "::1"],
        [PUBLIC_V6, "::ffff:169.254.169.254"],
        ["64:ff9b::a9fe:a9fe"],
        ["2002:7f00:1::1"],
        ["fe80::1%eth0"],
    ],
)
async def test_one_address_that_is_not_public_spoils_all(addresses: Sequence[str]) -> None:
    internet = Internet(names={"app.example.org": addresses})

    async with internet.open() as client:
        with pytest.raises(AddressRefused):
            await client.get(URL)

    assert internet.asked == []


async def test_of_a_name_with_many_addresses_few_are_tried() -> None:
    internet = Internet(names={"app.example.org": [f"93.184.216.{number}" for number in range(100)]})
    internet.answers[URL] = httpx2.ConnectError("refused")

    async with internet.open() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(URL)

    assert len(internet.asked) == 3


@pytest.mark.parametrize("url", ["http://app.example.org/", "https://app.example.org:8443/"])
async def test_only_https_on_its_own_port_is_asked(url: str) -> None:
    internet = Internet()

    async with internet.open() as client:
        with pytest.raises(AddressRefused):
            await client.get(url)

    assert internet.asked == []


async def test_a_redirect_is_not_followed() -> None:
    internet = Internet()
    internet.answers[URL] = Said(302, headers={"Location": "https://169.254.169.254/"})

    async with internet.open() as client:
        assert (await client.get(URL)).status_code == 302

    assert len(internet.asked) == 1


async def test_ipv4_is_tried_first_and_the_next_address_when_one_is_silent() -> None:
    tried: list[str] = []

    async def handler(request: httpx2.Request) -> httpx2.Response:
        tried.append(request.url.host)
        if len(tried) == 1:
            raise httpx2.ConnectTimeout("silent")
        return httpx2.Response(200)

    async def resolve(_: str) -> list[str]:
        return [PUBLIC_V6, PUBLIC_V6, PUBLIC]

    async with open_outside(
        user_agent="test", inner=httpx2.MockTransport(handler), resolve=resolve
    ) as client:
        assert (await client.get(URL)).status_code == 200

    assert tried == [PUBLIC, PUBLIC_V6]


async def test_a_host_without_an_address_that_answers_cannot_be_reached() -> None:
    async def handler(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    async def nobody(_: str) -> list[str]:
        return []

    async def unknown(_: str) -> list[str]:
        raise OSError

    for resolve in (nobody, unknown, Internet().resolve):
        async with open_outside(
            user_agent="test", inner=httpx2.MockTransport(handler), resolve=resolve
        ) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get(URL)


async def test_cookies_are_neither_kept_nor_sent() -> None:
    internet = Internet()
    internet.put(URL, {}, {"Set-Cookie": "a=b; Domain=example.org; Secure"})

    async with internet.open() as client:
        await client.get(URL)
        await client.get(URL)

    assert "Cookie" not in internet.asked[1].headers


async def test_names_are_looked_up_by_the_system() -> None:
    assert set(await pinned.resolve("localhost")) <= {"127.0.0.1", "::1"}


class Rerouted(httpx2.AsyncBaseTransport):
    """Stands for the way through the internet: what goes to the public address arrives at a port here."""

    def __init__(self, trust: ssl.SSLContext, port: int) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=trust)
        self._port = port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.host == PUBLIC
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1", port=self._port),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def certificate(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make what a host of this name serves with, and what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(Encoding.PEM)
    file = folder / "server.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
    serve = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serve.load_cert_chain(file)
    return serve, ssl.create_default_context(cadata=pem.decode())


@asynccontextmanager
async def serving(name: str, folder: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    serve, trust = certificate(name, folder)

    async def answer(stream: ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = tcp.extra(SocketAttribute.local_port)
    async with (
        TLSListener(tcp, serve, standard_compatible=False) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        async with open_outside(
            user_agent="test", inner=Rerouted(trust, port), resolve=Internet().resolve
        ) as client:
            yield client
        tasks.cancel_scope.cancel()


async def test_tls_checks_the_certificate_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    async with serving("app.example.org", tmp_path) as client:
        assert (await client.get(URL)).json() == {}


@pytest.mark.parametrize("name", ["other.example.org", "127.0.0.1", PUBLIC])
async def test_a_certificate_of_another_name_is_not_accepted(tmp_path: Path, name: str) -> None:
    async with serving(name, tmp_path) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(URL)


async def test_closing_closes_what_is_below() -> None:
    closed: list[bool] = []

    class Below(httpx2.AsyncBaseTransport):
        async def aclose(self) -> None:
            closed.append(True)

    await PinnedTransport(Below()).aclose()

    assert closed == [True]


async def test_without_a_transport_given_it_is_the_real_one() -> None:
    async with open_outside(
        user_agent="test", resolve=Internet(names={"app.example.org": ["10.0.0.1"]}).resolve
    ) as client:
        with pytest.raises(AddressRefused):
            await client.get(URL)
