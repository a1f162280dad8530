"""The authorization server's endpoints for clients: `/token`, `/register`, `/revoke` and its metadata.

All of them are for programs: JSON, never a page, never a cookie. Pages of every origin may send requests, since
nothing that a browser adds by itself counts here.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.auth.builtin.clients import Clients, authenticate
from nextcloud_mcp_server.auth.builtin.metadata import KEYS, KEYS_PATH, server_metadata
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.auth.builtin.tokens import Issued, Tokens
from nextcloud_mcp_server.auth.scopes import expand, shorten
from nextcloud_mcp_server.errors import NextcloudMcpError, OAuthRefusal, StorageError, TooManyRequests
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.web.client_limits import ClientLimits
from nextcloud_mcp_server.web.metadata import CORS, preflight
from nextcloud_mcp_server.web.oauth_form import Credentials, Form, body_of, form_of, only
from nextcloud_mcp_server.web.proxies import client_address

logger = logging.getLogger(__name__)

#: Paths that pages of other origins may request, besides the MCP endpoint.
OPEN_PATHS = ("/token", "/register", "/revoke", "/.well-known")

_AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_RETRY_AFTER_SECONDS = 5
_UNAVAILABLE = "This server cannot look that up now. Try again in a moment; nothing is lost."

Endpoint = Callable[[Request], Awaitable[Response]]


class Api(Protocol):
    """The services behind the endpoints; `registration` is None if clients may not register themselves."""

    @property
    def clients(self) -> Clients:
        """The known clients."""
        ...

    @property
    def registration(self) -> Registration | None:
        """Registers new clients."""
        ...

    @property
    def tokens(self) -> Tokens:
        """Issues and revokes codes and tokens."""
        ...


def oauth_routes(
    api: Callable[[], Awaitable[Api]],
    *,
    issuer: str,
    mcp_path: str,
    scopes: frozenset[str],
    registers: bool,
    limits: ClientLimits,
    documents: bool = True,
) -> list[BaseRoute]:
    """Build the routes. `api` is awaited with each request; `registers` says whether `/register` exists.

    `scopes` are all possible ones; the metadata names them by bundles, since some clients request each name in
    it. `documents` says that ids may be URLs of documents.
    """
    answers = _Answers(api, limits)
    described, openid = (
        _described(issuer, scopes, registers=registers, documents=documents, openid=openid)
        for openid in (False, True)
    )
    routes: list[BaseRoute] = [
        _route("/token", "POST", answers.token),
        _route("/revoke", "POST", answers.revoke),
        _route(KEYS_PATH, "GET", _document(KEYS)),
    ]
    if registers:
        routes.append(_route("/register", "POST", answers.register))
    for path, document in ((_AUTHORIZATION_SERVER, described), (_OPENID, openid)):
        # RFC 8414 §3.1 appends the resource's path, OpenID Connect Discovery §4 prepends it; clients try both.
        routes += [
            _route(one, "GET", _document(document))
            for one in (path, f"{path}{mcp_path}", f"{mcp_path}{path}")
        ]
    unknown = [f"{prefix}/.well-known/{{rest:path}}" for prefix in ("", mcp_path)]
    return [*routes, *(Route(path, _unknown, methods=_EVERY_METHOD) for path in unknown)]


class _Answers:
    """The endpoints that need only the database."""

    def __init__(self, api: Callable[[], Awaitable[Api]], limits: ClientLimits) -> None:
        self._api = api
        self._limits = limits

    async def token(self, request: Request) -> Response:
        """Exchange a code or a refresh token (RFC 6749 §4.1.3 and §6)."""
        form = await form_of(request)
        credentials = Credentials.of(request, form)
        async with self._limits.attempt(client_address(request.scope), credentials.client_id):
            api = await self._api()
            client = await _client(api, credentials)
            if not api.clients.allows(client):
                # The client may still sign out.
                raise OAuthRefusal(
                    "unauthorized_client", "The administrator does not let people connect this client."
                )
            issued = await self._issue(api.tokens, client, form)
        await _touch(api.clients, client)
        return JSONResponse(_token_answer(issued))

    async def revoke(self, request: Request) -> Response:
        """Revoke a token; an unknown one counts as revoked (RFC 7009 §2.2)."""
        form = await form_of(request)
        credentials = Credentials.of(request, form)
        token = only(form, "token")
        if token is None:
            raise OAuthRefusal("invalid_request", "The token is missing.")
        address = client_address(request.scope)
        async with self._limits.attempt(address, credentials.client_id, always_counts=True):
            api = await self._api()
            client = await _client(api, credentials)
            await api.tokens.revoke(token, client_id=client.client_id)
        return JSONResponse({})

    async def register(self, request: Request) -> Response:
        """Register a client (RFC 7591 §3)."""
        body = await body_of(request, "application/json", error="invalid_client_metadata")
        try:
            described = strict_json.read(body)
        except ValueError as error:
            raise OAuthRefusal("invalid_client_metadata", f"The body was not read: {error}.") from None
        address = client_address(request.scope)
        async with self._limits.attempt(address):
            registration = (await self._api()).registration
            if registration is None:
                raise OAuthRefusal("access_denied", "Clients cannot register themselves here.", status=403)
            answer = await registration.register(described, address=address)
        return JSONResponse(answer, 201)

    async def _issue(self, tokens: Tokens, client: Client, form: Form) -> Issued:
        resource = _resource(tokens, form)
        match only(form, "grant_type"):
            case "authorization_code":
                return await tokens.exchange_code(
                    _needed(form, "code"),
                    client_id=client.client_id,
                    redirect_uri=only(form, "redirect_uri"),
                    verifier=only(form, "code_verifier"),
                    resource=resource,
                )
            case "refresh_token":
                return await tokens.refresh(
                    _needed(form, "refresh_token"),
                    client_id=client.client_id,
                    scopes=_narrowed(form),
                    resource=resource,
                )
            case None:
                raise OAuthRefusal("invalid_request", "The grant_type is missing.")
            case _:
                raise OAuthRefusal(
                    "unsupported_grant_type",
                    "Only authorization_code and refresh_token are supported here.",
                )


def _narrowed(form: Form) -> frozenset[str] | None:
    """Return the scopes that a refresh requests; None if it names none that this server knows.

    Clients repeat the scopes of their first request, which may be those of other servers (`openid profile`):
    these have no meaning here. A scope that is known and not offered does have one (RFC 6749 §6).
    """
    scope = only(form, "scope")
    return (expand(scope.split()) or None) if scope else None


async def _client(api: Api, credentials: Credentials) -> Client:
    client = await api.clients.find(credentials.client_id)
    if client is None:
        raise OAuthRefusal(
            "invalid_client",
            "The client is not known here, or not any more: it has to register again.",
            status=401,
        )
    authenticate(client, credentials.secret)
    return client


async def _touch(clients: Clients, client: Client) -> None:
    """Record a use, but ignore a failure: the tokens are issued already, and must reach the client."""
    try:
        await clients.touch(client)
    except StorageError as error:
        logger.warning("the last use of a client could not be stored: %s", error)


def _resource(tokens: Tokens, form: Form) -> str | None:
    """Check every `resource` of a request (RFC 8707 §2.2 allows several), and return one."""
    named = form.get("resource", ())
    for resource in named:
        tokens.audience(resource)
    return next(iter(named), None)


def _needed(form: Form, name: str) -> str:
    value = only(form, name)
    if not value:
        raise OAuthRefusal("invalid_request", f"The {name} is missing.")
    return value


def _token_answer(issued: Issued) -> dict[str, Any]:
    return {
        "access_token": issued.access_token.get_secret_value(),
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "refresh_token": issued.refresh_token.get_secret_value(),
        "scope": " ".join(sorted(issued.scopes)),
    }


def _described(
    issuer: str, scopes: frozenset[str], *, registers: bool, documents: bool, openid: bool
) -> dict[str, Any]:
    document = server_metadata(issuer, scopes=shorten(scopes, of=scopes), documents=documents, openid=openid)
    if not registers:
        del document["registration_endpoint"]
    return document


def _document(document: Mapping[str, Any]) -> Endpoint:
    async def answer(request: Request) -> Response:
        del request
        return JSONResponse(document, headers={"Cache-Control": "public, max-age=300"})

    return answer


def _route(path: str, method: str, answer: Endpoint) -> Route:
    """Build a route for one method, its CORS preflight, and a 405 for the others."""

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return preflight(f"{method}, OPTIONS")
        if request.method != method and (request.method, method) != ("HEAD", "GET"):
            response = _error(405, "invalid_request", f"Only {method} is answered here.")
            response.headers["Allow"] = f"{method}, OPTIONS"
        else:
            response = await _safely(request, answer)
        response.headers.update(CORS)
        return response

    return Route(path, endpoint, methods=_EVERY_METHOD)


async def _safely(request: Request, answer: Endpoint) -> Response:
    try:
        return await answer(request)
    except OAuthRefusal as refusal:
        return _refused(request, refusal)
    except ClientDisconnect:
        response = _error(400, "invalid_request", "The body ended early.")  # the client has disconnected
    except TooManyRequests as error:
        response = _error(429, "temporarily_unavailable", str(error))
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    except NextcloudMcpError as error:
        logger.warning("a request of a client failed: %s", error)
        response = _unavailable()
    except Exception:  # a boundary: a client is told what it can do, and the log the rest
        logger.exception("a client could not be answered")
        response = _unavailable()
    return response


def _refused(request: Request, refusal: OAuthRefusal) -> Response:
    response = _error(refusal.status, refusal.error, refusal.description)
    if refusal.status == 401 and "authorization" in request.headers:  # noqa: PLR2004 - RFC 6749 §5.2
        response.headers["WWW-Authenticate"] = 'Basic realm="Nextcloud MCP server"'
    return response


def _unavailable() -> Response:
    response = _error(503, "temporarily_unavailable", _UNAVAILABLE)
    response.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS)
    return response


def _error(status: int, error: str, description: str) -> Response:
    return JSONResponse({"error": error, "error_description": description}, status)


async def _unknown(request: Request) -> Response:
    """Answer 404 for an unknown well-known document: clients try many, and a challenge would mislead them."""
    if request.method == "OPTIONS":
        return preflight("GET, OPTIONS")
    return JSONResponse({"error": "not_found"}, 404, headers=CORS)
