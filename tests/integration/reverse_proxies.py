"""Reverse proxies of others, started with what docs/operate says, in front of a server of the tests."""

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration.personal_app import until
from tests.node import missing

#: The name of this server on the page.
NAME = "mcp.example.org"
#: The address that the page sends requests to.
UPSTREAM = "127.0.0.1:8765"
SECOND = "127.0.0.1:8766"
ROOT = Path(__file__).parents[2]


def snippet(program: str, name: str = "proxies") -> str:
    """Return a page's configuration for a program: the first code block below its heading."""
    page = (ROOT / "docs" / "operate" / f"{name}.md").read_text(encoding="utf-8")
    found = re.search(rf"^##+ {re.escape(program)}$.*?^```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/operate/{name}.md has no configuration for {program}"
    return found[1]


def replaced(text: str, old: str, new: str) -> str:
    """Replace what must be there once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


@dataclass(frozen=True)
class Place:
    """Where a proxy listens, where it sends requests, and its files.

    With a `second` server it has the configuration for two replicas; `in_turn` removes what keeps sessions at one.
    """

    folder: Path
    port: int
    upstream: int
    second: int | None = None
    in_turn: bool = False

    @property
    def certificate(self) -> Path:
        """The certificate of the name, signed by itself."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """The certificate's key."""
        return self.folder / "key.pem"

    def requests(self) -> list[str]:
        """Return the lines of nginx's access log; with replicas, each ends with the address that answered."""
        return (self.folder / "mcp.log").read_text(encoding="utf-8").splitlines()

    def clear(self) -> None:
        """Empty nginx's access log."""
        (self.folder / "mcp.log").write_bytes(b"")

    def logged(self) -> str:
        """Return everything that the proxy wrote."""
        return "".join(path.read_text(encoding="utf-8") for path in self.folder.glob("*.log"))


def nginx(place: Place) -> list[str]:
    """Write the page's configuration of nginx, and return the command."""
    text = snippet("nginx")
    if place.second is not None:
        two = replaced(snippet("nginx", "replicas"), SECOND, f"127.0.0.1:{place.second}")
        if place.in_turn:
            two = replaced(two, "    hash $replica_key consistent;\n", "")
        text = replaced(text, f"http://{UPSTREAM}", "http://mcp") + two
        text = replaced(text, "$status $body_bytes_sent", "$status $upstream_addr")
    text = replaced(text, "listen 443 ssl;", f"listen 127.0.0.1:{place.port} ssl;")
    text = replaced(
        text,
        "# ssl_certificate …; ssl_certificate_key …;",
        f"ssl_certificate {place.certificate}; ssl_certificate_key {place.key};",
    )
    text = replaced(text, UPSTREAM, f"127.0.0.1:{place.upstream}")
    text = text.replace("/var/log/nginx/", f"{place.folder}/")
    folders = "".join(
        f"{kind}_temp_path {place.folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    file = place.folder / "nginx.conf"
    file.write_text(
        f"{user}daemon off;\npid {place.folder}/pid;\nerror_log {place.folder}/start.log;\n"
        f"events {{}}\nhttp {{\n{folders}{text}}}\n",
        encoding="utf-8",
    )
    return [program("nginx"), "-p", str(place.folder), "-c", str(file), "-e", str(place.folder / "start.log")]


def caddy(place: Place) -> list[str]:
    """Write the page's configuration of Caddy, and return the command."""
    text = snippet("Caddy")
    if place.second is not None:
        one = text[text.index("    reverse_proxy") : text.index("    log {\n        format")]
        two = replaced(snippet("Caddy", "replicas"), SECOND, f"127.0.0.1:{place.second}")
        text = replaced(text, one, two)
    # A certificate of a public authority, which Caddy would fetch by itself, is not to be had here.
    text = text.replace("{\n", f"{{\n    admin off\n    auto_https off\n    https_port {place.port}\n", 1)
    site = f"{NAME} {{\n    bind 127.0.0.1\n    tls {place.certificate} {place.key}\n"
    text = replaced(text, f"{NAME} {{\n", site)
    text = replaced(text, UPSTREAM, f"127.0.0.1:{place.upstream}")
    file = place.folder / "Caddyfile"
    file.write_text(text, encoding="utf-8")
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(file)]


PROXIES: dict[str, Callable[[Place], list[str]]] = {"nginx": nginx, "caddy": caddy}


def program(name: str) -> str:
    """Return the path of a program of Debian."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        missing(f"{name} is not installed (apt-get install {name})")
    return found


def environment_of(folder: Path) -> dict[str, str]:
    """Return an environment in which Caddy keeps its files below a folder."""
    return {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


@asynccontextmanager
async def running(proxy: str, place: Place) -> AsyncGenerator[None]:
    """Run a proxy while the block runs."""
    write_certificate(place)
    command = PROXIES[proxy](place)
    with (place.folder / "output.log").open("wb") as output:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment_of(place.folder)
        )
        try:
            await until(lambda: process.returncode is not None or _listens(place.port))
            assert process.returncode is None, place.logged()
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            with anyio.CancelScope(shield=True), anyio.fail_after(60):
                await process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def write_certificate(place: Place) -> None:
    """Make a certificate for the name, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    place.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    place.key.write_bytes(pem)


class ThroughProxy(httpx2.AsyncBaseTransport):
    """Sends requests for the name to the proxy's port, from an address of this computer."""

    def __init__(self, place: Place, *, source: str = "127.0.0.1") -> None:
        context = ssl.create_default_context(cafile=str(place.certificate))
        self._port = place.port
        self._inner = httpx2.AsyncHTTPTransport(verify=context, local_address=source)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Connect to the port in place of the name; TLS and the Host header still have the name."""
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1", port=self._port),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": NAME},
            )
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
