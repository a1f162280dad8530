"""Restricts requests to the configured Nextcloud; URLs in responses are never followed."""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.nextcloud.spelling import DEFAULT_PORTS

_ENTRY_POINTS = re.compile(r"/(?:index\.php|remote\.php|public\.php|status\.php|ocs)(?:/.*)?$")
#: What follows the address of a Nextcloud that was copied from a browser.
_PAGES = re.compile(
    r"/(?:apps/[a-z][a-z0-9_]*|login|settings|dashboard|s/[A-Za-z0-9]+|f/[0-9]+|call/[a-z0-9]+)(?:/.*)?$"
)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
_ROUTES = ("/index.php/", "/login/", "/apps/")


@dataclass(frozen=True, slots=True)
class NextcloudUrl:
    """The base URL of one Nextcloud.

    `port` is None for the scheme's default; `prefix` is "" or, say, "/nextcloud".
    """

    scheme: str
    host: str
    port: int | None
    prefix: str

    @classmethod
    def parse(cls, text: str) -> "NextcloudUrl":
        """Parse an address as users type or copy it.

        Raises:
          ConfigurationError: It is not an address of a Nextcloud. The error does not quote the text: it may contain
            a password.
        """
        try:
            parts = urlsplit(text.strip())
            scheme, host, port = parts.scheme, _host(parts), parts.port
        except ValueError:
            raise _refusal("is not a URL") from None
        if scheme not in DEFAULT_PORTS or not host:
            raise _refusal("must start with https:// (or http://) and name a host")
        if parts.username is not None or parts.password is not None:
            raise _refusal("must not hold a user name or password")
        if parts.query or parts.fragment:
            raise _refusal("must end before any ? or #")
        prefix = _ENTRY_POINTS.sub("", parts.path).rstrip("/")
        if not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
            raise _refusal("has a path that Nextcloud cannot be installed under")
        return cls(
            scheme=scheme, host=host, port=None if port == DEFAULT_PORTS[scheme] else port, prefix=prefix
        )

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix}"

    @property
    def netloc(self) -> str:
        """Host and port, as in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def page(self) -> str:
        """The part of the path that looks like a page of Nextcloud; "" without one."""
        found = _PAGES.search(self.prefix)
        return found[0] if found else ""

    def rebuild(self, url: str) -> str:
        """Move a URL from a Nextcloud response to this base.

        Nextcloud builds URLs from the host it assumes for itself, which behind a proxy is often wrong (a lost port,
        an internal name, a doubled prefix); path and query are right.
        """
        parts = urlsplit(url)
        path = self._below_prefix(parts.path)
        query = f"?{parts.query}" if parts.query else ""
        return f"{self}/{path.lstrip('/')}{query}"

    def _below_prefix(self, path: str) -> str:
        if not self.prefix or not path.startswith(f"{self.prefix}/"):
            return path
        rest = path.removeprefix(self.prefix)
        # `overwritewebroot` and a proxy that adds the prefix as well make it appear twice.
        twice = rest.removeprefix(self.prefix)
        return twice if twice != rest and twice.startswith(_ROUTES) else rest


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if re.search(r"[\s\\%]", parts.netloc):
        raise ValueError(host)
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _refusal(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"NEXTCLOUD_HOST {what}. Set it to the address of your Nextcloud, such as https://cloud.example.org"
    )
