"""Which certificates a connection accepts, and when they are read (RFC 5280, RFC 9525)."""

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.trust import Trust


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that signed itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a private authority")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "authority.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return pem


@pytest.fixture
def port(authority: Path) -> Iterator[int]:
    """A server with this certificate that answers "ok" once to every connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as tls:
                    tls.recv(65_536)
                    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            except OSError:
                plain.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


async def test_a_private_authority_is_trusted_only_where_the_operator_named_it(
    authority: Path, port: int
) -> None:
    async with open_pool(ca_bundle=str(authority), user_agent="tests") as pool:
        assert (await pool.get(f"https://127.0.0.1:{port}/")).text == "ok"
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            await pool.get(f"https://localhost:{port}/")
    async with open_pool(ca_bundle=None, user_agent="tests") as pool:
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            await pool.get(f"https://127.0.0.1:{port}/")


async def test_the_certificates_are_read_at_the_first_connection(port: int) -> None:
    trust = Trust()
    async with httpx2.AsyncClient(verify=trust) as pool:
        assert not trust.is_read
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            await pool.get(f"https://127.0.0.1:{port}/")
    assert trust.is_read


def test_a_connection_that_bypasses_the_certificates_trusts_nobody(port: int) -> None:
    trust = Trust()

    assert trust.verify_mode is ssl.CERT_REQUIRED
    assert trust.check_hostname
    assert trust.cert_store_stats()["x509_ca"] == 0
    plain = socket.create_connection(("127.0.0.1", port))
    with plain, pytest.raises(ssl.SSLCertVerificationError):
        trust.wrap_socket(plain, server_hostname="127.0.0.1")
