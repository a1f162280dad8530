"""The layers around all routes: checks of requests, limits on bodies, and headers of every answer.

Pure ASGI, because a streamed response must pass through unchanged. `guard` wraps the whole application, MCP
included; `PageErrors` wraps each page and converts errors to pages.
"""

import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

import anyio
from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.errors import ElicitationUnknown, NextcloudMcpError, NoCookies, TooManyRequests
from nextcloud_mcp_server.nextcloud import spelling
from nextcloud_mcp_server.web.callback_result import keep_gone, keep_problem
from nextcloud_mcp_server.web.problem import (
    PERSONAL,
    Problem,
    Problems,
    address_of,
    gone_page,
    new_reference,
    problem_of,
    problem_page,
)
from nextcloud_mcp_server.web.proxies import TrustedProxies, names_proxy
from nextcloud_mcp_server.web.query import BoundedQuery

logger = logging.getLogger(__name__)

_PROBED = frozenset({"/healthz", "/readyz"})
# Python refuses to parse numbers of thousands of digits; a longer length is invalid anyway.
_LONGEST_LENGTH = 18
_ALWAYS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Without includeSubDomains: the subdomains' owners and their TLS are not known here.
_ENCRYPTED = {"Strict-Transport-Security": "max-age=31536000"}
# Defaults: the stylesheet may be cached, and an event stream sets its own; see `KeepsOpener` for the other.
_USUALLY = {"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin"}


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of `guard`.

    `allowed_hosts` are values of the Host header, port included where there is one; `allowed_origins` those of
    the Origin header. Without `bearer_secret` the MCP path is open to everything that reaches it.
    `secure_cookies` says that browsers reach this server by https, also if a proxy ends TLS. With
    `refuse_forwarded` no proxy is allowed; without it `proxies` are allowed and trusted. Pages of other origins
    may send requests below the paths of `any_origin`, where no credentials of the browser count.
    """

    allowed_hosts: frozenset[str]
    allowed_origins: frozenset[str]
    bearer_secret: SecretStr | None
    secure_cookies: bool
    mcp_path: str = "/mcp"
    max_body_bytes: int = 4_194_304
    body_seconds: float = 60.0
    any_origin: tuple[str, ...] = ()
    refuse_forwarded: bool = True
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused: a problem for the page, a code and a sentence for programs."""

    problem: Problem
    code: str
    message: str


_HOST = Refusal(
    Problem("host", 421),
    "unknown_host",
    "This server does not answer under that name. Use the address it printed when it started.",
)
_ORIGIN = Refusal(
    Problem("origin", 403),
    "foreign_origin",
    "The request was sent by a page of another site. Only this server's own pages and programs may ask.",
)
_FORWARDED = Refusal(
    Problem("forwarded", 403),
    "forwarded",
    "The request carries a Forwarded, Via or X-Forwarded-* header, so it came through a proxy or a tunnel. "
    "In personal mode this server works for one person and only answers directly.",
)
_DROP_SECONDS = 2.0
_TOO_LARGE = Refusal(
    Problem("too_large", 413), "too_large", "The request is larger than this server accepts."
)
_TOO_SLOW = Refusal(
    Problem("too_slow", 408), "too_slow", "The request took too long to arrive. Send it again."
)
#: The message for a client without the secret of a single-user server.
UNAUTHORIZED_MESSAGE = (
    "This server needs its secret, sent as 'Authorization: Bearer <secret>'. On the computer it runs on, "
    "'nextcloud-mcp-server config claude-code --http' prints what to put into your client; it also knows "
    "vscode, cursor and codex."
)


def guard(app: ASGIApp, config: WebConfig) -> ASGIApp:
    """Wrap the application in all checks, and add the security headers to every answer."""
    gate = BoundedQuery(_Gate(app, config))
    inner = OneSpelling(gate if config.refuse_forwarded else TrustedProxies(gate, config.proxies))
    # RFC 6797 §7.2: never over http, so only where browsers reach this server by https.
    return _SecurityHeaders(inner, _ALWAYS | (_ENCRYPTED if config.secure_cookies else {}))


class OneSpelling:
    """Removes a slash at the end of a path: users and clients write both forms.

    Outside of every check, so that all of them see the same path.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with the path without the slash; the query is not changed."""
        path: str = scope.get("path", "")
        if scope["type"] == "http" and path.endswith("/") and path != "/":
            scope = {**scope, "path": path.removesuffix("/")}
            if scope.get("raw_path"):
                scope["raw_path"] = scope["raw_path"].removesuffix(b"/")
        await self._app(scope, receive, send)


class _SecurityHeaders:
    def __init__(self, app: ASGIApp, always: Mapping[str, str]) -> None:
        self._app = app
        self._always = always

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._always.items():
                    headers[name] = value
                for name, value in _USUALLY.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class KeepsOpener:
    """Keeps a page connected to its opener, for clients that open it in a window of their own.

    Under `same-origin` the browser separates the two for good: the client takes its window for closed and gives
    up, and its own page, to which the answer leads, cannot reach its opener. Little protection is lost: an
    opener could always navigate its window, and can read nothing in it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the header on every answer, redirects and problems too: one answer without it separates the two."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cross-Origin-Opener-Policy"] = "unsafe-none"
            await send(message)

        await self._app(scope, receive, send_with_header)


class _TimedBody:
    """Yields the parts of a body within so many seconds, and then the following messages.

    The time begins with the first `receive`: time that the application spends before does not count.
    """

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._seconds = seconds
        self._deadline: float | None = None
        self._whole = False

    async def receive(self) -> Message | None:
        """Return the next message; None when the time is over."""
        if self._whole:
            return await self._receive()
        self._deadline = self._deadline or anyio.current_time() + self._seconds
        with anyio.CancelScope(deadline=self._deadline):
            message = await self._receive()
            self._whole = not message.get("more_body", False)
            return message
        return None

    async def drop_rest(self, most_bytes: int) -> None:
        """Read on for a moment, so that a client that is still sending gets the answer before the close.

        Closing with unread data makes the client's system drop the answer (RFC 9112, section 9.6).
        """
        dropped = 0
        with anyio.move_on_after(_DROP_SECONDS):
            while dropped <= most_bytes and (message := await self.receive()) is not None:
                dropped += len(message.get("body", b""))
                if self._whole:
                    return


class _Gate:
    def __init__(self, app: ASGIApp, config: WebConfig) -> None:
        self._app = app
        self._config = config
        self._origins = {spelling.canonical(origin) for origin in config.allowed_origins}
        self._hosts = {
            scheme: {spelling.host(name, scheme) for name in config.allowed_hosts}
            for scheme in ("http", "https")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            # WebSocket is not used here, and its handshake would bypass the checks below.
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await self._refuse(refusal, scope)(scope, receive, send)
        elif self._for_mcp(scope) and scope["method"] != "OPTIONS" and not self._knows_secret(headers):
            await _unauthorized()(scope, receive, send)
        else:
            scheme = "https" if self._config.secure_cookies else scope["scheme"]
            await self._capped({**scope, "scheme": scheme}, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        scheme = "https" if self._config.secure_cookies else scope["scheme"]
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or not (
            spelling.host(hosts[0], scheme) in self._hosts[scheme] or _is_probe(scope, headers, hosts[0])
        ):
            return _HOST
        own = f"{scope['scheme']}://{hosts[0]}"
        if not self._for_any_origin(scope) and not self._may_come_from(headers, own=own):
            return _ORIGIN
        if self._config.refuse_forwarded and any(names_proxy(name) for name in headers):
            return _FORWARDED
        length = headers.get("content-length", "")
        if length.isdecimal() and (
            len(length) > _LONGEST_LENGTH or int(length) > self._config.max_body_bytes
        ):
            return _TOO_LARGE
        return None

    def _may_come_from(self, headers: Headers, *, own: str) -> bool:
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if origins == ["null"]:
            # Under Referrer-Policy no-referrer browsers send this with this server's own forms. Browsers set
            # Sec-Fetch-Site themselves, so another page cannot forge it.
            return headers.getlist("sec-fetch-site") == ["same-origin"]
        return all(
            spelling.canonical(origin) in {*self._origins, spelling.canonical(own)} for origin in origins
        )

    def _for_any_origin(self, scope: Scope) -> bool:
        return any(_is_below(scope["path"], path) for path in self._config.any_origin)

    def _for_mcp(self, scope: Scope) -> bool:
        return _is_below(scope["path"], self._config.mcp_path)

    def _knows_secret(self, headers: Headers) -> bool:
        secret = self._config.bearer_secret
        if secret is None:
            return True
        given = headers.getlist("authorization")
        scheme, _, value = (given[0] if len(given) == 1 else "").partition(" ")
        same = hmac.compare_digest(value.strip().encode(), secret.get_secret_value().encode())
        return same and scheme.lower() == "bearer"

    def _refuse(self, refusal: Refusal, scope: Scope) -> Response:
        headers = Headers(scope=scope)
        logger.warning("refused a request: %s", refusal.code)
        if "text/html" in headers.get("accept", "") and not self._for_mcp(scope):
            return problem_page(headers, refusal.problem)
        body = {"error": refusal.code, "message": refusal.message}
        return JSONResponse(body, refusal.problem.status)

    async def _capped(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, but answer in its place if the body is too large or too slow.

        Raising from `receive` does not work: a layer in between might turn it into a 500.
        """
        taken = 0
        started = cut_off = False
        timed = _TimedBody(receive, self._config.body_seconds)

        async def receive_capped() -> Message:
            nonlocal taken, cut_off
            if cut_off:
                return {"type": "http.disconnect"}
            message = await timed.receive()
            if message is not None:
                taken += len(message.get("body", b""))
                if taken <= self._config.max_body_bytes:
                    return message
            if not started:
                refusal = _TOO_SLOW if message is None else _TOO_LARGE
                await timed.drop_rest(self._config.max_body_bytes)
                response = self._refuse(refusal, scope)
                response.headers["Connection"] = "close"
                await response(scope, receive, send)
            cut_off = True
            return {"type": "http.disconnect"}

        async def send_unless_cut_off(message: Message) -> None:
            nonlocal started
            if not cut_off:
                started = True
                await send(message)

        try:
            await self._app(scope, receive_capped, send_unless_cut_off)
        except Exception:
            # After the limit the application sees a disconnect; its error about that does not matter.
            if not cut_off or started:
                raise


def _is_probe(scope: Scope, headers: Headers, host: str) -> bool:
    """Tell whether a request is a health check, which names the pod by its address.

    No page can send it: a browser adds headers that name the origin, and the answer reveals nothing.
    """
    asks = scope["method"] in {"GET", "HEAD"} and scope["path"] in _PROBED
    by_browser = "origin" in headers or "sec-fetch-site" in headers
    return asks and not by_browser and spelling.is_address(host)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def _unauthorized() -> Response:
    body = {"error": "unauthorized", "message": UNAUTHORIZED_MESSAGE}
    return JSONResponse(body, 401, {"WWW-Authenticate": 'Bearer realm="nextcloud-mcp-server"'})


class PageErrors:
    """Converts exceptions of a page to pages, with a reference that is in the log.

    Wraps each page's route, inside Starlette: Starlette's own error handler would answer first.
    """

    def __init__(self, app: ASGIApp, problems: Problems = PERSONAL) -> None:
        self._app = app
        self._problems = problems

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the page; pages are sent in one piece, so an error comes before the response starts."""
        try:
            await self._app(scope, receive, send)
        except ElicitationUnknown:
            keep_gone(scope)
            gone = gone_page(Headers(scope=scope), has_account_page=self._problems is not PERSONAL)
            await gone(scope, receive, send)
        except NextcloudMcpError as error:
            reference = new_reference()
            logger.warning("page failed, reference %s: %s: %r", reference, type(error).__name__, str(error))
            await self._answer(error, reference, scope)(scope, receive, send)
        except Exception as error:
            reference = new_reference()
            logger.exception("page failed, reference %s", reference)
            await self._answer(error, reference, scope)(scope, receive, send)

    def _answer(self, error: Exception, reference: str, scope: Scope) -> Response:
        retry: str = scope.get("state", {}).get("retry", "")
        problem = problem_of(error, self._problems)
        keep_problem(scope, problem, reference=reference, retry=retry)
        elsewhere = address_of(scope, retry) if isinstance(error, NoCookies) else ""
        page = problem_page(
            Headers(scope=scope), problem, reference=reference, retry=retry, elsewhere=elsewhere
        )
        if isinstance(error, TooManyRequests):
            page.headers["Retry-After"] = str(error.retry_after_seconds)
        return page
