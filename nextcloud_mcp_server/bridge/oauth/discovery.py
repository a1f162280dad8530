"""Finds the authorization server of an MCP server (RFC 9728, RFC 8414, OpenID Connect Discovery).

The SDK's functions list the URLs to try; its models read the answers. What is compared here is the text that was
sent: a model would normalize an issuer, and RFC 8414 §3.3 and RFC 9207 §2.4 compare it character by character.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from nextcloud_mcp_server.bridge.browser import page_url
from nextcloud_mcp_server.bridge.oauth.network import Network, Reply
from nextcloud_mcp_server.bridge.oauth.target import Target
from nextcloud_mcp_server.errors import AuthorizationFailed

_RESOURCE: Final = "The metadata of the server"
_METADATA: Final = "The metadata of the authorization server"
_SERVER_FAULT: Final = 500
_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class Resource:
    """What a server says of itself: the id that tokens are for, its authorization servers, and scopes.

    `described` is false for a server of before RFC 9728, whose origin is its authorization server.
    """

    id: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None
    described: bool = True


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """An authorization server; `issuer` is its name as it wrote it, "" where none is known (`oauth = "manual"`)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    token_auth_methods: tuple[str, ...] | None = None
    scopes: tuple[str, ...] = ()
    takes_documents: bool = False
    sends_issuer: bool = False


async def find_resource(network: Network, target: Target, named: str | None) -> Resource:
    """Read the metadata of the server; `named` is the URL in its `WWW-Authenticate`.

    Raises:
      AuthorizationFailed: It describes another server, or cannot be read now.
    """
    wanted = resource_url_from_server_url(target.url)
    failed = False
    for url in build_protected_resource_metadata_discovery_urls(named, target.url):
        reply = await network.get(url, _RESOURCE)
        failed = failed or reply.status >= _SERVER_FAULT or reply.status == _TOO_MANY
        if not reply.is_success or reply.fields is None:
            continue
        try:
            found = ProtectedResourceMetadata.model_validate(reply.fields)
        except ValidationError:
            continue
        # As it was sent: what a token request names must be what the server compares it with.
        resource = reply.text("resource") or ""
        if not check_resource_allowed(requested_resource=wanted, configured_resource=str(found.resource)):
            raise AuthorizationFailed(
                f"The server at {target.url} says that its tokens are for another server; it gets none."
            )
        return Resource(
            resource, _texts(reply, "authorization_servers") or (), _texts(reply, "scopes_supported")
        )
    if failed:
        raise AuthorizationFailed(f"{_RESOURCE} at {_host(target.url)} cannot be read now; try again later.")
    return Resource(wanted, (_origin(target.url),), described=False)


async def find_server(network: Network, target: Target, resource: Resource) -> AuthorizationServer:
    """Read the metadata of the authorization server, and check it.

    Raises:
      AuthorizationFailed: None is found that names this issuer and uses PKCE with S256.
      UnsafeUrl: One of its endpoints is not encrypted, or no page for a browser.
    """
    if target.manual:
        return manual_server(network, target)
    issuer = resource.issuers[0]
    network.check(issuer, "The issuer")
    urls = [target.metadata_url] if target.metadata_url else metadata_urls(issuer)
    other_issuer = False
    for url in urls:
        reply = await network.get(url, _METADATA)
        if not reply.is_success or reply.fields is None or (said := reply.text("issuer")) is None:
            continue
        # The operator's own `metadata_url` may name any issuer. A server of before RFC 9728 names its origin.
        is_same = said == issuer or bool(target.metadata_url)
        if not is_same and not (issuers_match(said, issuer) and not resource.described):
            other_issuer = True
            continue
        return _checked(network, reply, said)
    if other_issuer:
        raise AuthorizationFailed(
            f"{_METADATA} at {_host(issuer)} names another issuer; no one is asked to sign in."
        )
    raise AuthorizationFailed(f"{_METADATA} was not found at {_host(issuer)}.")


def metadata_urls(issuer: str) -> list[str]:
    """List where the metadata of an issuer may be.

    The path goes behind the well-known part (RFC 8414 §3.1), or before it (OpenID Connect Discovery §4); the root of
    the host comes last. Only metadata that names the issuer counts, so one more place tells nothing wrong.
    """
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = build_oauth_authorization_server_metadata_discovery_urls(issuer, issuer)
    for name in ("oauth-authorization-server", "openid-configuration"):
        urls += [f"{base}{path}/.well-known/{name}", f"{base}/.well-known/{name}"]
    return list(dict.fromkeys(urls))


def manual_server(network: Network, target: Target) -> AuthorizationServer:
    """Return the authorization server of `oauth = "manual"`.

    Raises:
      AuthorizationFailed: The configuration lacks an endpoint.
    """
    if not (target.client_id and target.authorization_url and target.token_url):
        raise AuthorizationFailed(
            f'oauth = "manual" of {target.server_id} needs client_id, auth_url and token_url in oauth_config.'
        )
    page_url(network.check(target.authorization_url, "auth_url"))
    network.check(target.token_url, "token_url")
    return AuthorizationServer(target.issuer or "", target.authorization_url, target.token_url)


def wanted_scopes(
    target: Target, resource: Resource, server: AuthorizationServer, challenged: str | None
) -> tuple[str, ...]:
    """Choose the scopes: configured ones, else those of the challenge, else those of the server's metadata.

    `offline_access` comes with them where the authorization server knows it, since it gives refresh tokens.
    """
    scopes = target.scopes or (tuple(challenged.split()) if challenged else resource.scopes) or ()
    if scopes and not target.scopes and "offline_access" in server.scopes:
        scopes = (*scopes, "offline_access")
    return tuple(dict.fromkeys(scopes))


def _checked(network: Network, reply: Reply, issuer: str) -> AuthorizationServer:
    # Before the model, which takes no other schemes and would only say that the document is not valid.
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"):
        if (url := reply.text(name)) is not None:
            network.check(url, f"The {name} of the authorization server")
    page_url(reply.text("authorization_endpoint") or "")
    try:
        metadata = OAuthMetadata.model_validate(reply.fields)
    except ValidationError:
        raise AuthorizationFailed(f"{_METADATA} at {_host(issuer)} is not complete.") from None
    # RFC 7636: without it, a code that is intercepted on this computer could be exchanged by who has it.
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise AuthorizationFailed(
            f"PKCE S256 not supported by authorization server {_host(issuer)}; no one signs in."
        )
    methods = metadata.token_endpoint_auth_methods_supported
    return AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=reply.text("authorization_endpoint") or "",
        token_endpoint=reply.text("token_endpoint") or "",
        registration_endpoint=reply.text("registration_endpoint"),
        revocation_endpoint=reply.text("revocation_endpoint"),
        token_auth_methods=None if methods is None else tuple(methods),
        scopes=tuple(metadata.scopes_supported or ()),
        takes_documents=metadata.client_id_metadata_document_supported is True,
        sends_issuer=metadata.authorization_response_iss_parameter_supported is True,
    )


def _texts(reply: Reply, name: str) -> tuple[str, ...] | None:
    """Return a member that is a list of texts; its model has been checked."""
    value = (reply.fields or {}).get(name)
    return tuple(str(one) for one in value) if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
