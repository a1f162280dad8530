"""The issuer's tokens, and the endpoints that issue, introspect and revoke them."""

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.issuer_state import Family, IssuerClient, IssuerContext

_CODE_LIFETIME = timedelta(minutes=1)
_NO_STORE = {"Cache-Control": "no-store"}

#: A form, with every value of each field.
Form = dict[str, list[str]]


class TokenMaker:
    """Makes access tokens, ID tokens and refresh tokens."""

    def __init__(self, context: IssuerContext, *, seconds: int) -> None:
        self._context = context
        self._state = context.state
        self.seconds = seconds

    def access_token(self, family: Family, resources: tuple[str, ...] = ()) -> str:
        """Issue a token for the requested resources, else for the client itself (RFC 8707, RFC 9068)."""
        now, wanted = self._context.now(), resources or family.resources or (family.client_id,)
        claims: dict[str, Any] = {
            "iss": self._context.url,
            "sub": family.account.subject,
            "aud": wanted[0] if len(wanted) == 1 else list(wanted),
            "exp": now + self.seconds,
            "iat": now,
            "auth_time": family.signed_in_at,
            "jti": secrets.token_hex(12),
            "client_id": family.client_id,
            "scope": " ".join(family.scopes),
            "preferred_username": family.account.username,
        }
        client = self._state.clients.get(family.client_id)
        if client is not None and client.opaque_tokens:
            token = secrets.token_urlsafe(32)
        else:
            token = self._sign(claims, "at+jwt")
        self._state.access_tokens[token] = (family, claims)
        return token

    def id_token(self, family: Family) -> str:
        """Issue an ID token of the user."""
        now, account = self._context.now(), family.account
        claims: dict[str, Any] = {
            "iss": self._context.url,
            "sub": account.subject,
            "aud": family.client_id,
            "exp": now + 300,
            "iat": now,
            "auth_time": family.signed_in_at,
            "name": account.name,
            "email": account.email,
            "preferred_username": account.username,
        }
        if family.nonce is not None:
            wrong = self._context.faults.take("wrong_nonce", "token") is not None
            claims["nonce"] = secrets.token_hex(8) if wrong else family.nonce
        return self._sign(claims, "JWT")

    def answer(self, family: Family, resources: tuple[str, ...] = ()) -> dict[str, object]:
        """Return the response of the token endpoint; with a refresh token only for `offline_access`."""
        answer: dict[str, object] = {
            "access_token": self.access_token(family, resources),
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "scope": " ".join(family.scopes),
        }
        if "openid" in family.scopes:
            answer["id_token"] = self.id_token(family)
        withheld = self._context.faults.take("no_refresh_token", "token") is not None
        if "offline_access" in family.scopes and not withheld:
            family.refresh_token = secrets.token_urlsafe(48)
            self._state.refresh_tokens[family.refresh_token] = family
            answer["refresh_token"] = family.refresh_token
        return answer

    def live_claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of an access token while it is valid."""
        found = self._state.access_tokens.get(token)
        if found is None or found[0].ended or found[1]["exp"] <= self._context.now():
            return None
        return found[1]

    def _sign(self, claims: dict[str, Any], typ: str) -> str:
        unpublished = self._context.faults.take("unpublished_key", "token") is not None
        return self._context.keys.sign(claims, typ=typ, published=not unpublished)


class TokenEndpoints:
    """Answers of /token, /introspect, /revoke and /userinfo."""

    def __init__(self, context: IssuerContext, tokens: TokenMaker) -> None:
        self._context = context
        self._tokens = tokens
        self._state = context.state

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/token", self._token, methods=["POST"]),
            Route("/introspect", self._introspect, methods=["POST"]),
            Route("/revoke", self._revoke, methods=["POST"]),
            Route("/userinfo", self._userinfo, methods=["GET", "POST"]),
        ]

    async def _token(self, request: Request) -> Response:
        form = await _form(request)
        client = self._client(request, form)
        if client is None:
            return _refused("invalid_client", status=401)
        resources = tuple(form.get("resource", []))
        match _one(form, "grant_type"):
            case "authorization_code":
                family = self._exchange_code(client, form)
            case "refresh_token":
                family = self._refresh(client, form)
            case _:
                return _refused("unsupported_grant_type")
        if family is None:
            return _refused("invalid_grant")
        if family.resources and not set(resources) <= set(family.resources):
            return _refused("invalid_target")
        return JSONResponse(self._tokens.answer(family, resources), headers=_NO_STORE)

    def _exchange_code(self, client: IssuerClient, form: Form) -> Family | None:
        code = self._state.codes.get(_one(form, "code"))
        if code is None or code.family.client_id != client.client_id:
            return None
        if code.used:
            # Another party has the code as well (RFC 6749 §4.1.2).
            code.family.ended = True
            return None
        code.used = True
        if self._context.clock() - code.made_at > _CODE_LIFETIME:
            return None
        if _one(form, "redirect_uri") != code.redirect_uri or not _verified(
            code.challenge, _one(form, "code_verifier")
        ):
            return None
        return code.family

    def _refresh(self, client: IssuerClient, form: Form) -> Family | None:
        token = _one(form, "refresh_token")
        family = self._state.refresh_tokens.get(token)
        if family is None or family.ended or family.client_id != client.client_id:
            return None
        if family.refresh_token != token:
            # An old one: it was stolen, or its successor was (RFC 9700 §4.14).
            family.ended = True
            return None
        return family

    async def _introspect(self, request: Request) -> Response:
        form = await _form(request)
        client = self._client(request, form)
        if client is None or client.secret is None:
            return _refused("invalid_client", status=401)
        claims = self._tokens.live_claims(_one(form, "token"))
        if claims is None:
            return JSONResponse({"active": False}, headers=_NO_STORE)
        named = {"active": True, "token_type": "Bearer", "username": claims["preferred_username"]}
        return JSONResponse(claims | named, headers=_NO_STORE)

    async def _revoke(self, request: Request) -> Response:
        form = await _form(request)
        client = self._client(request, form)
        if client is None:
            return _refused("invalid_client", status=401)
        token = _one(form, "token")
        family = self._state.refresh_tokens.get(token)
        if family is not None and family.client_id == client.client_id:
            family.ended = True
        elif (known := self._state.access_tokens.get(token)) and known[0].client_id == client.client_id:
            del self._state.access_tokens[token]
        # A made-up token is as good as revoked (RFC 7009 §2.2).
        return Response(status_code=200)

    async def _userinfo(self, request: Request) -> Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._tokens.live_claims(token) is None:
            return Response(status_code=401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
        account = self._state.access_tokens[token][0].account
        return JSONResponse(
            {
                "sub": account.subject,
                "name": account.name,
                "email": account.email,
                "preferred_username": account.username,
            },
            headers=_NO_STORE,
        )

    def _client(self, request: Request, form: Form) -> IssuerClient | None:
        client_id, secret = _credentials(request, form)
        client = self._state.clients.get(client_id)
        if client is None or not hmac.compare_digest((client.secret or "").encode(), secret.encode()):
            return None
        return client


async def _form(request: Request) -> Form:
    return parse_qs((await request.body()).decode(errors="replace"), keep_blank_values=True)


def _one(form: Form, name: str) -> str:
    values = form.get(name, [])
    return values[0] if len(values) == 1 else ""


def _credentials(request: Request, form: Form) -> tuple[str, str]:
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return _one(form, "client_id"), _one(form, "client_secret")
    try:
        client_id, _, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    # Both are form-encoded inside (RFC 6749 §2.3.1).
    return unquote_plus(client_id), unquote_plus(secret)


def _verified(challenge: str | None, verifier: str) -> bool:
    if challenge is None:
        return not verifier
    digest = hashlib.sha256(verifier.encode()).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), challenge)


def _refused(error: str, *, status: int = 400) -> Response:
    headers = {**_NO_STORE, "WWW-Authenticate": "Basic"} if status == 401 else _NO_STORE  # noqa: PLR2004 - a status
    return JSONResponse({"error": error}, status_code=status, headers=headers)
