"""Nextcloud's own app `oauth2`, part of every Nextcloud: codes, tokens, and rotating refresh tokens.

    POST /index.php/apps/oauth2/api/v1/token
    200 {"access_token", "token_type", "expires_in": 3600, "refresh_token", "user_id"}
    400 {"error": "invalid_request"}    the code or refresh token is unknown or used
    400 {"error": "invalid_client"}     it belongs to another client
    429 (a page)                        there were ten failures from this server's address

It supports neither PKCE nor scopes, and redirects the browser to the registered address only
(apps/oauth2/lib/Controller/OauthApiController.php).
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import httpx2
from pydantic import Field, SecretStr, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import error_mapping
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

_CAPABILITIES = "/ocs/v2.php/cloud/capabilities"
#: `ClientFlowLoginController` generates 128 letters and digits, in every version so far.
_CODE = re.compile(r"[A-Za-z0-9]{64,512}")
_AUTHORIZE = "/index.php/apps/oauth2/authorize"
_TOKEN = "/index.php/apps/oauth2/api/v1/token"  # noqa: S105 - a path
_MAX_BYTES = 65_536
_REFUSALS = frozenset({400, 401})

#: Nextcloud delays the response to a failure by up to 25 s; a response after that is lost.
SECONDS = 25.0


class TokenAnswer(Answer):
    """The response of the token endpoint."""

    access_token: SecretStr = Field(min_length=1)
    refresh_token: SecretStr | None = Field(default=None, min_length=1)
    expires_in: int | None = Field(default=None, ge=0, le=315_360_000)
    user_id: str | None = None


class OAuth2Client:
    """Requests tokens at the configured address; builds URLs for browsers at the public one."""

    def __init__(self, http: NextcloudHttp, *, public_url: NextcloudUrl) -> None:
        self._http = http
        self._public_url = public_url

    def authorize_url(self, *, client_id: str, state: str) -> str:
        """Return the URL at which a user confirms; the redirect URI is registered at Nextcloud."""
        query = urlencode({"client_id": client_id, "response_type": "code", "state": state})
        return f"{self._public_url}{_AUTHORIZE}?{query}"

    async def exchange_code(
        self, *, client_id: str, client_secret: SecretStr, code: SecretStr
    ) -> TokenAnswer:
        """Exchange an authorization code for tokens.

        Raises:
          GrantRefused: The code is wrong, used or expired.
          MalformedCode: It cannot be from Nextcloud; no request was sent.
          Throttled: Too many failures from this server's address.
        """
        form = {"grant_type": "authorization_code", "code": code.get_secret_value()}
        refused = errors.GrantRefused(
            "Nextcloud did not accept the confirmation: it was used already, or is too old. "
            "Ask your assistant again for a new link."
        )
        if not _CODE.fullmatch(code.get_secret_value()):
            raise errors.MalformedCode(str(refused))
        return await self._token(form, client_id, client_secret, refused)

    async def is_allow_listed(self) -> bool:
        """Tell whether this server's address is on Nextcloud's allow list, so that failures do not count.

        Sent without credentials, as any visitor may. False where the request fails or the answer is unclear.
        """
        try:
            response = await self._http.request("GET", _CAPABILITIES, params={"format": "json"})
            body: Any = untrusted.read_json(response.content)
            return body["ocs"]["data"]["capabilities"]["bruteforce"]["allow-listed"] is True
        except (errors.NextcloudError, ValueError, TypeError, KeyError):
            return False

    async def refresh(
        self, *, client_id: str, client_secret: SecretStr, refresh_token: SecretStr
    ) -> TokenAnswer:
        """Exchange a refresh token for a new pair; the old one becomes invalid at once.

        Raises:
          GrantDead: The refresh token is unknown or used.
          Throttled: Too many failures from this server's address.
        """
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token.get_secret_value()}
        dead = errors.GrantDead("Nextcloud no longer accepts the access given earlier.")
        return await self._token(form, client_id, client_secret, dead)

    async def _token(
        self,
        form: Mapping[str, str],
        client_id: str,
        client_secret: SecretStr,
        refused: errors.NextcloudError,
    ) -> TokenAnswer:
        # In the body and not as Basic authentication, which Nextcloud would take for a user's login.
        body = {**form, "client_id": client_id, "client_secret": client_secret.get_secret_value()}
        response = await self._http.request(
            "POST",
            _TOKEN,
            content=urlencode(body),
            headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
            timeout_seconds=SECONDS,
            max_bytes=_MAX_BYTES,
            answers=_REFUSALS,
        )
        if response.status_code in _REFUSALS:
            raise _refusal(response, refused)
        return decoded(response, TypeAdapter(TokenAnswer))


def _refusal(response: httpx2.Response, refused: errors.NextcloudError) -> errors.NextcloudError:
    match _error(response):
        case "invalid_request" | "invalid_grant":
            return refused
        case "invalid_client":
            return errors.Forbidden(
                "Nextcloud does not accept this server's OAuth client. The operator should check "
                "NEXTCLOUD_OAUTH_CLIENT_ID and NEXTCLOUD_OAUTH_CLIENT_SECRET."
            )
        case _:
            # Such as for a host that Nextcloud does not trust: an error that is not about these tokens.
            return error_mapping.from_response(response, {})


def _error(response: httpx2.Response) -> object:
    try:
        body = untrusted.read_json(response.content)
    except ValueError:
        return None
    return cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
