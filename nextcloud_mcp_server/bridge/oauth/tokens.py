"""Exchanges codes, refreshes and revokes tokens (RFC 6749, RFC 7009, RFC 8707)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from mcp.shared.auth import OAuthToken
from pydantic import SecretStr, ValidationError

from nextcloud_mcp_server.bridge.oauth.discovery import AuthorizationServer
from nextcloud_mcp_server.bridge.oauth.faults import GrantEnded
from nextcloud_mcp_server.bridge.oauth.grant import ClientIdentity, Grant
from nextcloud_mcp_server.bridge.oauth.network import Network, Reply
from nextcloud_mcp_server.errors import AuthorizationFailed

_WHAT: Final = "The authorization server"
#: The codes that may be repeated to the user: a text of the server could repeat a code or a token.
_KNOWN: Final = frozenset(
    {
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "login_required",
        "consent_required",
        "interaction_required",
        "account_selection_required",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_grant_type",
        "unsupported_response_type",
        "unsupported_token_type",
        "invalid_client_metadata",
        "invalid_redirect_uri",
        "invalid_software_statement",
        "unapproved_software_statement",
    }
)
#: After these a refresh token is of no use any more (RFC 6749 §5.2).
_ENDED: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
#: What an access token may consist of (RFC 6750 §2.1), generously: it becomes a header.
_LONGEST: Final = 64_000

Clock = Callable[[], datetime]


def known_error(code: str | None) -> str:
    """Name an error of an authorization server without repeating a text of it."""
    return code if code in _KNOWN else "an unknown error"


async def exchange_code(
    network: Network,
    server: AuthorizationServer,
    client: ClientIdentity,
    *,
    code: str,
    verifier: str,
    resource: str,
    requested: str,
    clock: Clock,
) -> Grant:
    """Exchange an authorization code for tokens.

    Raises:
      AuthorizationFailed: The authorization server refused, or its answer is not valid.
    """
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": verifier,
        "resource": resource,
    }
    asked_at = clock()
    reply = await _post(network, server.token_endpoint, client, form)
    if not reply.is_success:
        raise AuthorizationFailed(
            f"{_WHAT} gave no token after the sign-in ({known_error(reply.text('error'))}); sign in again."
        )
    token = _token(reply)
    return Grant(
        issuer=server.issuer,
        resource=resource,
        token_endpoint=server.token_endpoint,
        revocation_endpoint=server.revocation_endpoint,
        client=client,
        access_token=SecretStr(token.access_token),
        refresh_token=_secret(token.refresh_token),
        expires_at=_expires_at(token, asked_at),
        # RFC 6749 §5.1: left out, it is what was asked for.
        scope=requested if token.scope is None else token.scope,
        requested=requested,
        obtained_at=asked_at,
    )


async def refresh(network: Network, grant: Grant, clock: Clock) -> Grant:
    """Get a new access token.

    Raises:
      GrantEnded: The refresh token is not valid any more: only a new sign-in helps.
      AuthorizationFailed: The authorization server cannot answer now.
    """
    if grant.refresh_token is None:
        raise GrantEnded("The access has expired; sign in again.")
    form = {
        "grant_type": "refresh_token",
        "refresh_token": grant.refresh_token.get_secret_value(),
        "resource": grant.resource,
    }
    asked_at = clock()
    reply = await _post(network, grant.token_endpoint, grant.client, form)
    if not reply.is_success:
        error = reply.text("error")
        if error in _ENDED:
            raise GrantEnded(
                f"The access has ended ({known_error(error)}); sign in again.",
                forgets_client=error == "invalid_client",
            )
        raise AuthorizationFailed(
            f"{_WHAT} did not refresh the access (status {reply.status}); try again later."
        )
    token = _token(reply)
    # RFC 6749 §6: left out, the refresh token and the scope stay.
    return grant.model_copy(
        update={
            "access_token": SecretStr(token.access_token),
            "refresh_token": _secret(token.refresh_token) or grant.refresh_token,
            "expires_at": _expires_at(token, asked_at),
            "scope": grant.scope if token.scope is None else token.scope,
            "obtained_at": asked_at,
        }
    )


async def revoke(network: Network, grant: Grant) -> bool:
    """Revoke the tokens where the authorization server offers it (RFC 7009); return whether it did."""
    if grant.revocation_endpoint is None:
        return False
    done = True
    # The refresh token first: with it, most servers end the access tokens as well.
    for hint, token in (("refresh_token", grant.refresh_token), ("access_token", grant.access_token)):
        if token is None:
            continue
        form = {"token": token.get_secret_value(), "token_type_hint": hint}
        reply = await _post(network, grant.revocation_endpoint, grant.client, form)
        done = done and reply.is_success
    return done


async def _post(network: Network, url: str, client: ClientIdentity, form: dict[str, str]) -> Reply:
    """Send a form as the client (RFC 6749 §2.3.1)."""
    secret = None if client.client_secret is None else client.client_secret.get_secret_value()
    if secret is not None and client.auth_method == "client_secret_basic":
        auth = (quote(client.client_id, safe=""), quote(secret, safe=""))
        return await network.post_form(url, form, _WHAT, auth=auth)
    form = form | {"client_id": client.client_id}
    if secret is not None and client.auth_method == "client_secret_post":
        form = form | {"client_secret": secret}
    return await network.post_form(url, form, _WHAT)


def _token(reply: Reply) -> OAuthToken:
    try:
        token = OAuthToken.model_validate(reply.fields)
    except ValidationError:
        # The text of the exception would hold the tokens.
        raise AuthorizationFailed(
            f"{_WHAT} answered with something that is no token; sign in again."
        ) from None
    if not (
        token.access_token.isascii() and token.access_token.isprintable() and " " not in token.access_token
    ):
        raise AuthorizationFailed(f"{_WHAT} answered with a token that no header can hold.")
    if not 0 < len(token.access_token) <= _LONGEST:
        raise AuthorizationFailed(f"{_WHAT} answered with a token that is too long, or empty.")
    return token


def _expires_at(token: OAuthToken, asked_at: datetime) -> datetime | None:
    if token.expires_in is None:
        return None
    # A lifetime of centuries would leave what a date can say.
    return asked_at + timedelta(seconds=min(max(token.expires_in, 0), 10**9))


def _secret(text: str | None) -> SecretStr | None:
    return SecretStr(text) if text else None
