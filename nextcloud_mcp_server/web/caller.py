"""The caller of an MCP request, from the verified token that the SDK keeps.

The SDK binds a session to (client, issuer, subject) of the `AccessToken` in `scope["user"]`. A component that
is not set is not compared, and another user's session id would be accepted.
"""

from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import TokenRefused
from nextcloud_mcp_server.protocol import wire


class BearerUser(AuthenticatedUser):
    """The user of one request. It does not hold the token, so that no code can pass it on."""

    def __init__(self, bearer: Bearer) -> None:
        super().__init__(
            AccessToken(
                token="",
                client_id=bearer.client_id,
                scopes=sorted(bearer.scopes or ()),
                expires_at=bearer.expires_at,
                subject=bearer.principal.subject,
                claims={"iss": bearer.principal.issuer},
            )
        )
        self.bearer = bearer


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Return the caller of a request, in multi-user modes.

    Raises:
        TokenRefused: The request was not verified, which must not happen.
    """
    bearer = bearer_of(ctx)
    if bearer is None:
        raise TokenRefused("This call needs an access token.")
    return Caller(bearer.principal, bearer.client_id, wire.client_name(ctx), bearer.scopes)


def scopes_of(ctx: ServerRequestContext[Any, Any]) -> frozenset[str] | None:
    """Return the scopes of a request's token; None if it limits nothing."""
    bearer = bearer_of(ctx)
    return frozenset() if bearer is None else bearer.scopes


def bearer_of(ctx: ServerRequestContext[Any, Any]) -> Bearer | None:
    """Return the verified token of a request; None if it has none."""
    user = getattr(ctx.request, "scope", {}).get("user")
    return user.bearer if isinstance(user, BearerUser) else None
