"""The URLs under which an HTTP server is reached."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from nextcloud_mcp_server.settings.environment import Settings

MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class PublicUrls:
    """Clients reach the server under `url`, browsers under `public_url`."""

    url: str
    public_url: str

    @classmethod
    def of(cls, settings: Settings, host: str, port: int) -> "PublicUrls":
        """Derive them from the address the server listens on, and from the settings."""
        # A wildcard address is for listening, not for connecting.
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        return cls(url, (settings.nextcloud_mcp_server_url or url).rstrip("/"))

    @property
    def encrypted(self) -> bool:
        """Whether browsers reach the server over TLS, so that cookies can be limited to it."""
        return self.public_url.startswith("https://")

    def page_url(self, elicitation_id: str) -> str:
        """Return the URL of the consent page: it names a consent request and grants nothing."""
        return f"{self.public_url}/oauth/provision?elicitationId={elicitation_id}"

    def names(self) -> frozenset[str]:
        """Return the values of the Host header that this server answers."""
        own = urlsplit(self.url)
        port = f":{own.port}"
        return frozenset(
            {
                own.netloc,
                f"127.0.0.1{port}",
                f"localhost{port}",
                f"[::1]{port}",
                urlsplit(self.public_url).netloc,
            }
        )

    def origins(self) -> frozenset[str]:
        """Return the origins whose pages may call this server: its own."""
        scheme = urlsplit(self.public_url).scheme
        return frozenset(
            {f"{scheme}://{name}" for name in self.names()} | {f"http://{n}" for n in self.names()}
        )
