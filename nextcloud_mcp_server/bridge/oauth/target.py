"""What the configuration says about the authorization for one server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.errors import ConfigurationError

PORT_VARIABLE: Final = "NEXTCLOUD_MCP_CLIENT_OAUTH_PORT"
METADATA_VARIABLE: Final = "NEXTCLOUD_MCP_CLIENT_METADATA_URL"
_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Target:
    """A server that needs access tokens.

    `manual` takes the endpoints from here instead of discovery. `metadata_url` names the authorization server's
    metadata, `client_metadata_url` the document that describes this client (its URL is then the client id).
    `port` is the callback's on this computer; 0 lets the system choose.
    """

    server_id: str
    url: str
    manual: bool = False
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    metadata_url: str | None = None
    client_metadata_url: str | None = None
    port: int = 0


def target_of(
    server: Server,
    environment: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    name: str | None = None,
) -> Target:
    """Return what is configured for a server; `port` goes before the variable, which goes before the file.

    `name` is what the user calls it on the command line, if that is not its id.

    Raises:
      ConfigurationError: The port is none.
    """
    variables, config = environment or {}, server.oauth_config
    secret = config.client_secret
    if port is None:
        port = _port(variables.get(PORT_VARIABLE, "")) or config.redirect_port
    return Target(
        server_id=name or server.id,
        url=server.url,
        manual=server.oauth == "manual",
        client_id=config.client_id or None,
        client_secret=None if secret is None else secret.get_secret_value() or None,
        authorization_url=config.auth_url,
        token_url=config.token_url,
        issuer=config.issuer,
        scopes=config.scopes,
        metadata_url=config.metadata_url,
        client_metadata_url=config.client_metadata_url or variables.get(METADATA_VARIABLE) or None,
        port=port,
    )


def _port(text: str) -> int:
    if not text.strip():
        return 0
    if not (text.strip().isascii() and text.strip().isdecimal()) or int(text[:6]) > _LARGEST_PORT:
        raise ConfigurationError(f"{PORT_VARIABLE} must be a port from 1 to {_LARGEST_PORT}, or 0 for any.")
    return int(text)
