"""Requires a verified token at the MCP endpoint of multi-user servers (RFC 6750, RFC 9728).

Pure ASGI. A body is read completely before it is passed on, because the scopes of a call depend on it, and
because a body that two parsers could read differently must not get any further.
"""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.auth.jwt_check import LEEWAY_SECONDS
from nextcloud_mcp_server.auth.token_scopes import asked, covers
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable, TokenRefused, TooManyRequests
from nextcloud_mcp_server.nextcloud import pace
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.web.caller import BearerUser
from nextcloud_mcp_server.web.exchanges import MESSAGE, METHODS
from nextcloud_mcp_server.web.json_bounds import JsonBounds
from nextcloud_mcp_server.web.metadata import CORS, Resource, preflight
from nextcloud_mcp_server.web.query import names_parameter
from nextcloud_mcp_server.web.request_limiter import LARGE_BODY, Admission, RequestLimiter
from nextcloud_mcp_server.web.server_card import CARD_PATH
from nextcloud_mcp_server.web.stream_expiry import OpenStreams, lasts, run_for

logger = logging.getLogger(__name__)

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MAX_TOKEN_CHARS = 16_384
_PARSE_ERROR = -32700
_RETRY_AFTER_SECONDS = 10
#: A token is verified again before a call whose body or turn came later than this, and for each stream.
VERIFIED_SECONDS = 1.0
#: Between two lines of the log that say that tokens cannot be checked.
_WARN_SECONDS = 10.0

Verify = Callable[[str], Awaitable[Bearer]]


class _Refused(Exception):
    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class BearerLayer:
    """Lets requests for the MCP path in with a verified token; passes all other requests through.

    `needs` returns the scopes of a tool or of a resource's URI, none for an unknown one. `words` writes scopes
    as clients must request them. A stream ends when the token that opened it has expired, after the leeway;
    `streams` are the open streams.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        resource: Resource,
        verify: Verify,
        needs: Callable[[str], frozenset[str]],
        clock: Callable[[], datetime],
        words: Callable[[frozenset[str]], Iterable[str]] = asked,
        mcp_path: str = "/mcp",
        max_body_bytes: int = 4_194_304,
        streams: OpenStreams | None = None,
        limiter: RequestLimiter | None = None,
    ) -> None:
        self._app = app
        self._resource = resource
        self._verify = verify
        self._needs = needs
        self._clock = clock
        self._words = words
        self._mcp_path = mcp_path
        self._max_body_bytes = max_body_bytes
        self._streams = streams or OpenStreams()
        self._warns_at = 0.0
        self._limiter = limiter or RequestLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the application's place, or run it."""
        if scope["type"] != "http" or not self._for_mcp(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def send_with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in CORS.items():
                    headers[name] = value
            await send(message)

        try:
            await self._pass(scope, receive, send_with_cors)
        except TooManyRequests as error:
            logger.info("refused a request: %s", error)
            await _too_many(error)(scope, receive, send_with_cors)
        except _Refused as refused:
            await refused.response(scope, receive, send_with_cors)

    def _for_mcp(self, path: str) -> bool:
        # The metadata that says where tokens come from needs no token, nor does what clients read before they connect.
        if path.startswith(f"{self._mcp_path}/.well-known/") or path == f"{self._mcp_path}{CARD_PATH}":
            return False
        return path == self._mcp_path or path.startswith(f"{self._mcp_path}/")

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            # A browser sends a preflight request without the token.
            await preflight(METHODS)(scope, receive, send)
            return
        bearer = await self._authenticate(scope)
        async with self._limiter.admit(bearer) as admission:
            await self._serve(admission, scope, receive, send)

    async def _serve(self, admission: Admission, scope: Scope, receive: Receive, send: Send) -> None:
        bearer, value, verified_at = admission.bearer, cast("object", None), anyio.current_time()
        user = BearerUser(bearer)
        scope = {**scope, "user": user, "auth": AuthCredentials(user.scopes)}
        async with AsyncExitStack() as working:
            if scope["method"] == "POST":
                working.enter_context(pace.request_of(bearer.principal))
                await working.enter_async_context(admission.call())
                body = await self._read(receive, admission, working)
                if body is None:
                    return
                receive = _replaying(body, receive)
                await working.enter_async_context(admission.slot())
                if anyio.current_time() - verified_at > VERIFIED_SECONDS:
                    # A client chooses how slowly its body comes; the sign-in may have ended meanwhile.
                    await self._authenticate(scope)
                value = scope[MESSAGE] = _parsed(body)
                self._check_call(value, bearer, Headers(scope=scope).get("mcp-protocol-version"))
            if not lasts(scope["method"], value):
                await self._app(scope, receive, send)
                return
        # The place for the call is released: a stream may be open for hours.
        async with admission.stream():
            seconds = bearer.expires_at + LEEWAY_SECONDS - self._clock().timestamp()
            with self._streams.opened(bearer) as cut:
                # What ended since the first check did not end this stream, which was not open then.
                await self._authenticate(scope)
                await run_for(self._app, scope, receive, send, seconds=seconds, cut=cut)

    async def _authenticate(self, scope: Scope) -> Bearer:
        token = self._token(scope)
        try:
            return await self._verify(token)
        except TokenRefused as error:
            logger.info("refused a token: %s", error)
            raise _Refused(self._invalid_token()) from None
        except (IssuerUnavailable, ConfigurationError) as error:
            # Every request fails then, so the log has it now and then.
            is_time = anyio.current_time() >= self._warns_at
            logger.log(
                logging.WARNING if is_time else logging.DEBUG, "tokens cannot be checked now: %s", error
            )
            if is_time:
                self._warns_at = anyio.current_time() + _WARN_SECONDS
            raise _Refused(_unavailable()) from None

    def _token(self, scope: Scope) -> str:
        given = Headers(scope=scope).getlist("authorization")
        if len(given) > 1 or names_parameter(scope["query_string"], "access_token"):
            # URLs end up in logs and histories. Of two tokens, two parsers may use different ones.
            raise _Refused(self._invalid_request())
        scheme, _, token = (given[0] if given else "").strip().partition(" ")
        if scheme.lower() != "bearer":
            raise _Refused(self._no_token())
        token = token.strip()
        if len(token) > _MAX_TOKEN_CHARS or not _TOKEN.fullmatch(token):
            raise _Refused(self._invalid_token())
        return token

    async def _read(self, receive: Receive, admission: Admission, working: AsyncExitStack) -> bytes | None:
        """Read a whole body; None if the client has disconnected."""
        body, bounds, is_large = bytearray(), JsonBounds(), False
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                chunk = message.get("body", b"")
                body += chunk
                if len(body) > self._max_body_bytes:
                    raise _Refused(
                        _error(413, "too_large", "The request is larger than this server accepts.")
                    )
                bounds.feed(chunk)
                if not message.get("more_body", False):
                    return bytes(body)
                if len(body) > LARGE_BODY and not is_large:
                    is_large = True
                    await working.enter_async_context(admission.large_body())
                # Counting took a millisecond; other requests may run before the next part.
                await checkpoint()
        except ValueError as error:
            raise _Refused(_not_read(error)) from None
        finally:
            # Reading a body that is refused, or that its client gives up, costs as much.
            admission.charge_body(len(body), bounds.elements)

    def _check_call(self, value: object, bearer: Bearer, version: str | None) -> None:
        needed = frozenset(scope for name in _called(value) for scope in self._needs(name))
        if not covers(bearer.scopes, needed):
            kept = frozenset[str]() if wire.keeps_scopes(version) else bearer.scopes or frozenset[str]()
            raise _Refused(self._insufficient(kept | needed))

    def _no_token(self) -> Response:
        # RFC 6750 §3.1: a request without a token gets no error code.
        message = "This server needs an access token; who gives one is named in resource_metadata."
        challenge = self._challenge(scope=" ".join(self._resource.scopes))
        return _error(401, "unauthorized", message, challenge)

    def _invalid_token(self) -> Response:
        # The same words for every failure: an attacker must not learn which check failed.
        message = "The access token is not valid here, or not any more."
        challenge = self._challenge(
            error="invalid_token", error_description=message, scope=" ".join(self._resource.scopes)
        )
        return _error(401, "invalid_token", message, challenge)

    def _invalid_request(self) -> Response:
        message = "Send one access token, and only in the Authorization header."
        return _error(
            400,
            "invalid_request",
            message,
            self._challenge(error="invalid_request", error_description=message),
        )

    def _insufficient(self, needed: frozenset[str]) -> Response:
        message = "The access token does not allow this call: sign in again, and allow what scope names."
        challenge = self._challenge(
            error="insufficient_scope",
            error_description=message,
            scope=" ".join(self._words(needed)),
        )
        return _error(403, "insufficient_scope", message, challenge)

    def _challenge(self, **parameters: str) -> str:
        parts = {**parameters, "resource_metadata": self._resource.metadata_url}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())


#: Methods that need scopes, and the parameter that names the tool or resource.
_NAMED_BY = {"tools/call": "name", "resources/read": "uri", "resources/subscribe": "uri"}


def _parsed(body: bytes) -> object:
    try:
        return strict_json.read(body)
    except ValueError as error:
        raise _Refused(_not_read(error)) from None


def _called(value: object) -> list[str]:
    """Return the tools that a JSON-RPC message or batch calls, and the resources it names."""
    messages = cast("list[object]", value) if isinstance(value, list) else [value]
    names: list[str] = []
    for message in messages:
        fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        params: object = fields.get("params")
        called = _NAMED_BY.get(str(fields.get("method")), "")
        name = cast("dict[str, Any]", params).get(called) if isinstance(params, dict) else None
        if isinstance(name, str):
            names.append(name)
    return names


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once more, then the next messages, such as a disconnect."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _error(status: int, code: str, message: str, challenge: str | None = None) -> Response:
    headers = {} if challenge is None else {"WWW-Authenticate": challenge}
    return JSONResponse({"error": code, "error_description": message}, status, headers)


def _unavailable() -> Response:
    response = _error(
        503,
        "temporarily_unavailable",
        "Access tokens cannot be checked now. Nothing is lost: try again in a moment.",
    )
    response.headers["Retry-After"] = str(_RETRY_AFTER_SECONDS)
    return response


def _too_many(error: TooManyRequests) -> Response:
    response = _error(429, "too_many_requests", str(error))
    response.headers["Retry-After"] = str(math.ceil(error.retry_after_seconds))
    return response


def _not_read(error: ValueError) -> Response:
    message = f"The body was not read: {error}."
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": message}}
    return JSONResponse(body, 400)
