"""The state of the issuer: accounts, clients, browser sessions, codes and token families."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from nextcloud_mcp_server.sandbox.issuer_faults import IssuerFaults
from nextcloud_mcp_server.sandbox.issuer_keys import SigningKeys
from nextcloud_mcp_server.sandbox.state import Clock

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True, slots=True)
class Account:
    """An account at the issuer. The subject differs from the user name, so that a mix-up shows."""

    subject: str
    username: str
    password: str
    name: str
    email: str


@dataclass(frozen=True, slots=True)
class IssuerClient:
    """A client that was registered by hand. Without a secret it is public and has to use PKCE."""

    client_id: str
    redirect_uris: tuple[str, ...]
    secret: str | None
    opaque_tokens: bool

    def may_redirect_to(self, uri: str) -> bool:
        """Return whether a redirect URI is one of the client's; on loopback any port is (RFC 8252 §7.3)."""
        return uri in self.redirect_uris or _without_port(uri) in self.redirect_uris


def _without_port(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        host, port = parts.netloc.rpartition(":")[0], parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or port is None or host not in _LOOPBACK:
        return None
    return parts._replace(netloc=host).geturl()


@dataclass(slots=True)
class Family:
    """All codes and tokens of one sign-in; they end together."""

    client_id: str
    account: Account
    scopes: tuple[str, ...]
    resources: tuple[str, ...]
    nonce: str | None
    signed_in_at: int
    refresh_token: str | None = None
    ended: bool = False


@dataclass(slots=True)
class Code:
    """An authorization code. It is kept after its use, so that a second use can end the family."""

    family: Family
    redirect_uri: str
    challenge: str | None
    made_at: datetime
    used: bool = False


@dataclass(slots=True)
class IssuerState:
    """The whole state; tests may read and change it."""

    accounts: dict[str, Account] = field(default_factory=dict[str, Account])
    clients: dict[str, IssuerClient] = field(default_factory=dict[str, IssuerClient])
    # Cookie → user name and when they signed in.
    sessions: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    codes: dict[str, Code] = field(default_factory=dict[str, Code])
    # Every refresh token ever given → its family, so that an old one is recognised.
    refresh_tokens: dict[str, Family] = field(default_factory=dict[str, Family])
    # Every access token → its family and its claims.
    access_tokens: dict[str, tuple[Family, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[Family, dict[str, Any]]]
    )


@dataclass(slots=True)
class IssuerContext:
    """The parts of the issuer that every request handler uses."""

    url: str
    clock: Clock
    state: IssuerState
    faults: IssuerFaults = field(default_factory=IssuerFaults)
    keys: SigningKeys = field(default_factory=SigningKeys)

    def now(self) -> int:
        """Return the current time in Unix seconds, as JWTs have it."""
        return int(self.clock().timestamp())
