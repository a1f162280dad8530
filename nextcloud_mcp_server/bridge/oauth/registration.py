"""Decides who this client is at an authorization server: a configured id, its document, or a registration."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl, SecretStr, ValidationError

from nextcloud_mcp_server.bridge.oauth.discovery import AuthorizationServer
from nextcloud_mcp_server.bridge.oauth.grant import AuthMethod, ClientIdentity
from nextcloud_mcp_server.bridge.oauth.network import Network, Reply
from nextcloud_mcp_server.bridge.oauth.target import Target
from nextcloud_mcp_server.bridge.oauth.tokens import known_error
from nextcloud_mcp_server.errors import AuthorizationFailed

CLIENT_NAME: Final = "Nextcloud MCP client"
_WHAT: Final = "The registration of this client at the authorization server"
_METHODS: Final[tuple[AuthMethod, ...]] = ("none", "client_secret_basic", "client_secret_post")


async def identify(
    network: Network,
    target: Target,
    server: AuthorizationServer,
    *,
    redirect_uri: str,
    scopes: tuple[str, ...],
    known: ClientIdentity | None,
    clock: Callable[[], datetime],
) -> ClientIdentity:
    """Return who this client is, and register it if nothing else is left; `known` is its identity of last time.

    Raises:
      AuthorizationFailed: No way is left, or the registration was refused.
    """
    if target.client_id is not None:
        return _static(target, server, redirect_uri)
    if target.client_metadata_url is not None and server.takes_documents:
        if not is_valid_client_metadata_url(target.client_metadata_url):
            raise AuthorizationFailed("client_metadata_url must be an https URL with a path.")
        return ClientIdentity(
            client_id=target.client_metadata_url, redirect_uri=redirect_uri, origin="document"
        )
    if known is not None and is_usable(known, redirect_uri, clock()):
        return known
    if server.registration_endpoint is None:
        raise AuthorizationFailed(
            f"no viable client registration mechanism: the authorization server of {target.server_id} registers no "
            "clients; set client_id in its oauth_config."
        )
    metadata = client_metadata(redirect_uri, scopes, _asked_method(server))
    body = metadata.model_dump(by_alias=True, mode="json", exclude_none=True)
    return _registered(await network.post_json(server.registration_endpoint, body, _WHAT), redirect_uri)


def client_metadata(redirect_uri: str, scopes: tuple[str, ...], method: AuthMethod) -> OAuthClientMetadata:
    """Describe this client (RFC 7591 §2)."""
    return OAuthClientMetadata(
        client_name=CLIENT_NAME,
        redirect_uris=[AnyUrl(redirect_uri)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method=method,
        scope=" ".join(scopes) or None,
        software_id="nextcloud-mcp-server",
    )


def is_usable(known: ClientIdentity, redirect_uri: str, now: datetime) -> bool:
    """Tell whether a registration still serves: with this callback, and a secret that has not expired."""
    return (
        known.origin == "registered"
        and known.redirect_uri == redirect_uri
        and (known.secret_expires_at is None or now < known.secret_expires_at)
    )


def _static(target: Target, server: AuthorizationServer, redirect_uri: str) -> ClientIdentity:
    secret = target.client_secret
    return ClientIdentity(
        client_id=target.client_id or "",
        client_secret=None if secret is None else SecretStr(secret),
        auth_method="none" if secret is None else _secret_method(server),
        redirect_uri=redirect_uri,
    )


def _secret_method(server: AuthorizationServer) -> AuthMethod:
    """Choose how a secret is sent; RFC 8414 §2: `client_secret_basic` where nothing is said."""
    offered = server.token_auth_methods
    return "client_secret_post" if offered and "client_secret_basic" not in offered else "client_secret_basic"


def _asked_method(server: AuthorizationServer) -> AuthMethod:
    """Choose what to ask for: nothing, where that is offered, since a program on a computer keeps no secret."""
    offered = server.token_auth_methods or ("none",)
    for method in _METHODS:
        if method in offered:
            return method
    return "none"


def _registered(reply: Reply, redirect_uri: str) -> ClientIdentity:
    if not reply.is_success or reply.fields is None:
        error = known_error(reply.text("error"))
        raise AuthorizationFailed(f"{_WHAT} was refused ({error}, status {reply.status}).")
    try:
        found = OAuthClientInformationFull.model_validate(reply.fields)
    except ValidationError:
        # The text of the exception would hold the secret.
        raise AuthorizationFailed(f"{_WHAT} was answered with something that is none.") from None
    # RFC 7591 §3.2.1: the server may choose another method than the one that was asked for. RFC 7591 §2: left out,
    # it is `client_secret_basic`; without a secret it can only be none.
    method = found.token_endpoint_auth_method or ("client_secret_basic" if found.client_secret else "none")
    if method not in _METHODS or (method != "none" and found.client_secret is None):
        raise AuthorizationFailed(f"{_WHAT} ended in a way of authentication that this client cannot use.")
    secret, until = found.client_secret, found.client_secret_expires_at or 0
    return ClientIdentity(
        client_id=found.client_id,
        client_secret=None if secret is None or method == "none" else SecretStr(secret),
        auth_method=method,
        redirect_uri=redirect_uri,
        origin="registered",
        # RFC 7591 §3.2.1: 0 means never.
        secret_expires_at=datetime.fromtimestamp(until, UTC) if 0 < until < 10**11 else None,
    )
