"""The core app `oauth2`: the registration of clients, the consent pages, and the token endpoint.

As weak as the real app, on purpose: no PKCE, no scopes, no `iss`, any redirect URI at the token endpoint,
a code that also works as a refresh token, and one pending request per browser session.
"""

import base64
import binascii
import json
from dataclasses import replace
from datetime import timedelta
from html import escape
from typing import Literal
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import (
    Gate,
    Refusal,
    address_of,
    administrator,
    refuse_json,
    session_of,
)
from nextcloud_mcp_server.sandbox.reply import (
    account_page,
    forbidden,
    internal_error,
    json_reply,
    redirect,
    too_many_requests,
)
from nextcloud_mcp_server.sandbox.state import OAuthClient, OAuthGrant, User, random_text
from nextcloud_mcp_server.sandbox.throttle import Throttle

#: Eleven bad logins block an address, but ten bad token requests do.
TOKEN_REQUESTS_ALLOWED = 9

_CODE_LIFETIME = timedelta(minutes=10)
# Nextcloud caches a token for so long, so the old one outlives its successor's birth.
_OLD_TOKEN_LIFETIME = timedelta(seconds=10)

TokenError = Literal["invalid_grant", "invalid_request", "invalid_client"]


class OAuth2App:
    """Answers below /apps/oauth2 and /login/flow."""

    def __init__(self, context: Context, gate: Gate, throttle: Throttle) -> None:
        self._context = context
        self._state = context.state
        self._gate = gate
        self._throttle = throttle

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/apps/oauth2/clients", self._add_client, methods=["POST"]),
            Route("/apps/oauth2/clients/{row:int}", self._delete_client, methods=["DELETE"]),
            Route("/apps/oauth2/authorize", self._authorize),
            Route("/apps/oauth2/api/v1/token", self._token, methods=["POST"]),
            Route("/login/flow", self._picker),
            Route("/login/flow", self._grant, methods=["POST"]),
            Route("/login/flow/grant", self._grant_page),
        ]

    async def _add_client(self, request: Request) -> Response:
        admin = self._admin(request, confirmed=True)
        if isinstance(admin, Response):
            return admin
        fields = await _fields(request)
        name, redirect_uri = fields.get("name", ""), fields.get("redirectUri", "")
        parts = urlsplit(redirect_uri)
        if not (parts.scheme and parts.netloc):
            message = "Your redirect URL needs to be a full URL for example: https://yourdomain.com/path"
            return json_reply({"message": message}, status=400, headers={"X-User-Id": admin.uid})
        client = self._state.new_oauth_client(name, redirect_uri)
        document = {
            "id": client.id,
            "name": client.name,
            "redirectUri": client.redirect_uri,
            "clientId": client.client_id,
            "clientSecret": client.client_secret,
        }
        return json_reply(document, headers={"X-User-Id": admin.uid})

    async def _delete_client(self, request: Request) -> Response:
        admin = self._admin(request)
        if isinstance(admin, Response):
            return admin
        client = self._client_of(int(request.path_params["row"]))
        if client is None:
            return internal_error()
        # By its name: a device password that happens to be called the same goes too.
        named = [one for one in self._state.app_passwords.values() if one.name == client.name]
        for app_password in named:
            self._state.remove_app_password(app_password)
        self._state.oauth_grants[:] = [
            grant for grant in self._state.oauth_grants if grant.client_row != client.id
        ]
        self._state.oauth_clients.remove(client)
        return json_reply([], headers={"X-User-Id": admin.uid})

    def _admin(self, request: Request, *, confirmed: bool = False) -> User | Response:
        """Return the administrator who sent the request; `confirmed` requires their password in it."""
        found = administrator(self._gate, request)
        if isinstance(found, Response):
            return found
        if confirmed and self._context.profile.confirms_passwords and found.app_password is not None:
            # `PasswordConfirmationRequired(strict: true)` on `SettingsController::addClient`, since 34.
            message, unconfirmed = "Password confirmation is required", {"X-NC-Auth-NotConfirmed": "true"}
            return json_reply({"message": message}, status=403, headers=unconfirmed)
        return found.user

    async def _authorize(self, request: Request) -> Response:
        query, uid = request.query_params, self._uid(request)
        client = self._client_called(query.get("client_id", ""))
        if client is None:
            text = "Your client is not authorized to connect. Please inform the administrator of your client."
            return account_page("Nextcloud", f"<h1>Page not found</h1><p>{text}</p>", uid=uid)
        state = query.get("state", "")
        if query.get("response_type") != "code":
            error = f"{client.redirect_uri}?error=unsupported_response_type&state={quote(state)}"
            return redirect(error, uid=uid)
        session_of(request).oauth_state = state
        target = self._context.path("/login/flow")
        asked = urlencode({"providedRedirectUri": "", "clientIdentifier": client.client_id})
        return redirect(f"{self._context.origin(request)}{target}?{asked}", uid=uid)

    async def _picker(self, request: Request) -> Response:
        client = self._client_called(request.query_params.get("clientIdentifier", ""))
        if client is None:
            return internal_error()
        session = session_of(request)
        session.oauth_state_token = random_text(64)
        asked = urlencode(
            {
                "user": "",
                "providedRedirectUri": "",
                "direct": "0",
                "oauthState": session.oauth_state or "",
                "stateToken": session.oauth_state_token,
                "clientIdentifier": client.client_id,
            }
        )
        return account_page(
            "Connect to your account",
            "<h1>Connect to your account</h1>"
            f"<p>Please log in before granting <strong>{escape(client.name)}</strong> "
            "access to your Nextcloud account.</p>"
            f'<a class="button" href="{escape(self._context.path(f"/login/flow/grant?{asked}"))}">Log in</a>',
            uid=self._uid(request),
        )

    async def _grant_page(self, request: Request) -> Response:
        user = self._gate.signed_in_user(request)
        if user is None:
            return self._login_first(request)
        state_token = request.query_params.get("stateToken", "")
        if not state_token or state_token != session_of(request).oauth_state_token:
            return forbidden("State token does not match")
        client = self._client_called(request.query_params.get("clientIdentifier", ""))
        if client is None:
            return internal_error()
        # There is no way to say no here, and none to another account.
        return account_page(
            "Account access",
            "<h1>Account access</h1>"
            f"<p>Currently logged in as <strong>{escape(user.display_name)}</strong> "
            f"({escape(user.uid)}).</p>"
            f"<p>You are about to grant <strong>{escape(client.name)}</strong> "
            "access to your Nextcloud account.</p>"
            f'<form method="post" action="{self._context.path("/login/flow")}">'
            f'<input type="hidden" name="clientIdentifier" value="{client.client_id}">'
            f'<input type="hidden" name="stateToken" value="{state_token}">'
            '<button type="submit">Grant access</button></form>',
            uid=user.uid,
        )

    async def _grant(self, request: Request) -> Response:
        user, session = self._gate.signed_in_user(request), session_of(request)
        if user is None:
            return self._login_first(request)
        fields = await _fields(request)
        expected, session.oauth_state_token = session.oauth_state_token, None
        # The wrong token ends the request of the right tab as well.
        if expected is None or fields.get("stateToken") != expected:
            return forbidden("State token does not match")
        client = self._client_called(fields.get("clientIdentifier", ""))
        if client is None:
            return internal_error()
        grant = self._state.new_oauth_grant(user, client, login_name=session.login_name)
        state, session.oauth_state = session.oauth_state or "", None
        joint = "&" if urlsplit(client.redirect_uri).query else "?"
        return redirect(
            f"{client.redirect_uri}{joint}state={quote_plus(state)}&code={grant.code}", uid=user.uid
        )

    async def _token(self, request: Request) -> Response:
        address = address_of(request)
        if self._throttle.blocks(address):
            return too_many_requests()
        given = self._exchange_code(request, await _fields(request))
        if not isinstance(given, OAuthGrant):
            self._throttle.count(address)
            throttled = {"X-Nextcloud-Bruteforce-Throttled": f"{self._throttle.delay_ms(address)}ms"}
            return json_reply({"error": given}, status=400, headers=throttled)
        return json_reply(
            {
                "access_token": given.access_token,
                "token_type": "Bearer",
                "expires_in": self._state.oauth_token_seconds,
                "refresh_token": given.code,
                "user_id": self._state.app_passwords[given.access_token].uid,
            }
        )

    def _exchange_code(self, request: Request, fields: dict[str, str]) -> OAuthGrant | TokenError:
        grant_type = fields.get("grant_type")
        if grant_type not in {"authorization_code", "refresh_token"}:
            return "invalid_grant"
        # Looked up alike, so a code is good as a refresh token, even when it is too old for a code.
        fresh = grant_type == "authorization_code"
        code = fields.get("code" if fresh else "refresh_token", "")
        grant = self._find_grant(code)
        if grant is None or (fresh and grant.delivered):
            return "invalid_request"
        if fresh and self._context.clock() - grant.created_at > _CODE_LIFETIME:
            self._state.oauth_grants.remove(grant)
            return "invalid_request"
        client = self._client_of(grant.client_row)
        if client is None or (client.client_id, client.client_secret) != _client_credentials(request, fields):
            return "invalid_client"
        if grant.access_token not in self._state.app_passwords:
            self._state.oauth_grants.remove(grant)
            return "invalid_request"
        self._rotate(grant)
        return grant

    def _find_grant(self, code: str) -> OAuthGrant | None:
        grants = self._state.oauth_grants
        found = next((one for one in grants if one.code == code), None)
        # As far as a refresh is one transaction, two that come together cannot both win (nextcloud/server#59767).
        racing = self._state.oauth_races > 0 and not self._context.profile.atomic_tokens
        if found is None and code and racing:
            found = next((one for one in grants if one.last_code == code), None)
            if found is not None:
                self._state.oauth_races -= 1
                found.code = code
        return found

    def _rotate(self, grant: OAuthGrant) -> None:
        now, kept = self._context.clock(), self._state.app_passwords
        old = kept[grant.access_token]
        for one in [one for one in kept.values() if one.grant_id == grant.id and one is not old]:
            if one.expires_at is not None and one.expires_at <= now:
                del kept[one.secret]
        dies_at = now + _OLD_TOKEN_LIFETIME
        kept[old.secret] = replace(old, expires_at=min(old.expires_at or dies_at, dies_at))
        expires_at = now + timedelta(seconds=self._state.oauth_token_seconds)
        new = replace(old, secret=random_text(72), created_at=now, expires_at=expires_at)
        kept[new.secret] = new
        grant.last_code, grant.code = grant.code, random_text(128)
        grant.access_token = new.secret
        grant.delivered += 1

    def _login_first(self, request: Request) -> Response:
        # Nextcloud sends a browser to its login page; a client that does not ask for HTML learns only the fact.
        if "html" not in request.headers.get("Accept", "").lower():
            return refuse_json(Refusal.ANONYMOUS)
        here = request.url.path.removeprefix(self._context.base_path).removeprefix("/index.php")
        if request.url.query:
            here += f"?{request.url.query}"
        return redirect(self._context.path(f"/login?redirect_url={quote(here, safe='/?')}"))

    def _uid(self, request: Request) -> str | None:
        user = self._gate.signed_in_user(request)
        return None if user is None else user.uid

    def _client_called(self, client_id: str) -> OAuthClient | None:
        return next((one for one in self._state.oauth_clients if one.client_id == client_id), None)

    def _client_of(self, row: int) -> OAuthClient | None:
        return next((one for one in self._state.oauth_clients if one.id == row), None)


async def _fields(request: Request) -> dict[str, str]:
    body = (await request.body()).decode(errors="replace")
    if "json" not in request.headers.get("Content-Type", ""):
        return dict(parse_qsl(body, keep_blank_values=True))
    try:
        document: object = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {str(key): str(value) for key, value in document.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any JSON


def _client_credentials(request: Request, fields: dict[str, str]) -> tuple[str, str]:
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return fields.get("client_id", ""), fields.get("client_secret", "")
    try:
        name, _, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, secret
