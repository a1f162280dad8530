"""The endpoint for logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.5)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.errors import IssuerUnavailable, OAuthRefusal, StorageError, TokenRefused
from nextcloud_mcp_server.web.oauth_form import form_of, only

logger = logging.getLogger(__name__)

LOGOUT_PATH = "/oauth/backchannel-logout"


class Logouts(Protocol):
    """Receives logout tokens."""

    async def receive(self, token: str) -> None:
        """End the sessions that a logout token names."""
        ...


def logout_route(logouts: Callable[[], Awaitable[Logouts]]) -> Route:
    """Build the route for logout tokens; the token's signature is the only authentication."""

    async def receive(request: Request) -> Response:
        try:
            token = only(await form_of(request), "logout_token")
            if token is None:
                return _refused("The logout_token is missing.")
            await (await logouts()).receive(token)
        except OAuthRefusal as error:
            return _refused(error.description)
        except TokenRefused as error:
            logger.warning("refused a logout token: %s", error)
            return _refused("The logout token is not valid here.")
        except (IssuerUnavailable, StorageError) as error:
            logger.warning("a logout could not be stored: %s", error)
            answer = _refused("The logout cannot be stored now. Send it again in a moment.")
            answer.status_code = 503
            return answer
        return Response(status_code=200)

    return Route(LOGOUT_PATH, receive, methods=["POST"])


def _refused(sentence: str) -> Response:
    return JSONResponse({"error": "invalid_request", "error_description": sentence}, 400)
