"""Rate limits for pages, callbacks and refused tokens, by address and by user.

Counts are kept in memory, per process, and never in the database: unauthenticated requests must not leave rows.
Many users share an address (an office, a hosted chat service), so an address's limits are generous. What others do
there never blocks a client whose token worked. A browser in which a user signed in before has a mark, by which it is
counted; the marked browsers of one network together have a limit, too, because one user can collect marks.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.rate_limiter import RateLimiter, network_of
from nextcloud_mcp_server.auth.requester import current_requester
from nextcloud_mcp_server.errors import NextcloudMcpError, TooManyRequests
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.metadata import CORS
from nextcloud_mcp_server.web.problem import Problem, problem_page
from nextcloud_mcp_server.web.proxies import client_address
from nextcloud_mcp_server.web.request_context import params_of

logger = logging.getLogger(__name__)

#: Per kind: an attacker with many addresses must not displace the counts of other kinds.
_MAX_KEYS = 16_384
#: Tokens that worked.
_MOST_TOKENS = 8_192
_CALLBACKS = "/oauth/callback/"
#: Pages of a sign-in or of a signed-in user.
PAGES = ("/oauth/", "/account", "/authorize")
#: Many users of a chat service come from few addresses, so its token endpoints count failures alone; health checks are
#: asked under the address of the machine.
_NOT_COUNTED = frozenset({"/token", "/revoke", "/register", "/healthz", "/readyz"})


class Kind(StrEnum):
    """The kinds of requests, each with its own counts."""

    PAGE = "page"
    CALLBACK = "callback"
    MARKED_PAGE = "marked_page"
    MARKED_CALLBACK = "marked_callback"
    OTHER = "other"
    EXCESS = "excess"
    FAILURE = "failure"
    CLIENT = "client"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Rates:
    """Limits per minute: pages, callbacks, refused tokens and refused clients per address, pages per user.

    `page` and `callback` also apply to each marked browser; `marked_page` and `marked_callback` to all marked browsers
    of a network together. Requests of marked browsers beyond them are counted for the address, as all others.

    `other` is for whatever anyone may ask for besides: documents about this server, stylesheets, and paths that do not
    exist.

    Of the callbacks beyond `callback`, as many as `excess` have their `state` looked up; if it is known, the code
    is marked as spent.
    """

    page: int = 300
    callback: int = 60
    marked_page: int = 3_000
    marked_callback: int = 600
    other: int = 1_200
    excess: int = 600
    failure: int = 120
    client: int = 300
    person: int = 120


class Limits:
    """Counts requests, and refuses those beyond the limits."""

    def __init__(
        self, rates: Rates | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        given = rates or Rates()
        self._limiters = {
            kind: RateLimiter(
                getattr(given, kind),
                seconds=60,
                monotonic=monotonic,
                max_keys=_MAX_KEYS,
                refusal="Too many requests came from here; wait {seconds} seconds, then try again.",
            )
            for kind in Kind
        }

    async def count(self, kind: Kind, who: str) -> None:
        """Count one request.

        Raises:
            TooManyRequests: It is one too many in this minute.
        """
        limiter = self._limiters[kind]
        limiter.check(who)
        limiter.count(who)

    async def check(self, kind: Kind, who: str) -> None:
        """Refuse an address, client or user that has reached its limit; does not count.

        Raises:
            TooManyRequests: The limit of this minute is reached.
        """
        self._limiters[kind].check(who)

    async def person(self, principal: Principal) -> None:
        """Count one request of a signed-in user.

        Raises:
            TooManyRequests: It is one too many in this minute.
        """
        await self.count(Kind.PERSON, f"{principal.issuer}\n{principal.subject}")


class AddressLimits:
    """Applies the limits of each address: pages, callbacks, and refused tokens.

    `spend` gets the parameters of a callback beyond the limit, and marks its code as spent if its `state` was
    made here: else junk from a user's address would leave the code of that user's callback usable.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        mcp_path: str = "/mcp",
        most_tokens: int = _MOST_TOKENS,
        spend: Callable[[Params], Awaitable[None]] | None = None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._spend = spend
        self._mcp_path = mcp_path
        self._most_tokens = most_tokens
        self._worked: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429 to an address beyond its limits, with the time to wait."""
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        address = network_of(client_address(scope))
        if path == self._mcp_path or path.startswith(f"{self._mcp_path}/"):
            await self._mcp(address, scope, receive, send)
            return
        try:
            if path.startswith(_CALLBACKS):
                await self._count(Kind.CALLBACK, Kind.MARKED_CALLBACK, address)
            elif path.startswith(PAGES):
                await self._count(Kind.PAGE, Kind.MARKED_PAGE, address)
            elif path not in _NOT_COUNTED:
                await self._limits.count(Kind.OTHER, address)
        except TooManyRequests as error:
            response = _answer(error, Headers(scope=scope))
            if path.startswith(_CALLBACKS):
                await self._spend_known(address, scope)
                # Its URL has a code, and must not stay in the address bar.
                retry_after = {"Retry-After": str(error.retry_after_seconds)}
                response = Response(status_code=303, headers={"Location": TOO_MANY_RESULT, **retry_after})
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _count(self, kind: Kind, of_marked: Kind, address: str) -> None:
        """Count a request for the browser that sent it if that is marked, else for its address."""
        who = address
        if mark := current_requester.get().mark:
            who = f"mark {mark}"
            # What is refused here is not counted below: one browser alone must not use up the share of all.
            await self._limits.check(kind, who)
            try:
                await self._limits.count(of_marked, address)
            except TooManyRequests:
                # A user may have collected marks: from here on they are of no use in this network.
                who = address
        await self._limits.count(kind, who)

    def _remember(self, token: bytes) -> None:
        self._worked[token] = None
        self._worked.move_to_end(token)
        if len(self._worked) > self._most_tokens:
            self._worked.popitem(last=False)

    async def _spend_known(self, address: str, scope: Scope) -> None:
        if self._spend is None:
            return
        try:
            await self._limits.count(Kind.EXCESS, address)
            await self._spend(params_of(Request(scope)))
        except TooManyRequests:
            return
        except NextcloudMcpError as error:
            logger.warning("a code could not be marked as spent: %s", error)

    async def _mcp(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("authorization", "")
        known = _digest(given)
        if known not in self._worked:
            try:
                await self._limits.check(Kind.FAILURE, address)
                if not given or scope["path"] != self._mcp_path:
                    # Answered to everyone: that a token is needed, or a document.
                    await self._limits.count(Kind.OTHER, address)
            except TooManyRequests as error:
                response = _answer(error, Headers(scope=scope))
                response.headers.update(CORS)
                await response(scope, receive, send)
                return

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._learn(known if given else None, address, message["status"], scope["path"])
            await send(message)

        await self._app(scope, receive, send_counted)

    async def _learn(self, token: bytes | None, address: str, status: int, path: str) -> None:
        if token is None:
            # Every client's first request has no token, to learn where to get one.
            return
        if status == HTTPStatus.UNAUTHORIZED:
            self._worked.pop(token, None)
            try:
                await self._limits.count(Kind.FAILURE, address)
            except TooManyRequests:
                # This request has been refused already; the next one is refused unread.
                return
        elif status < HTTPStatus.BAD_REQUEST and path == self._mcp_path:
            # Below the endpoint are documents for everyone, whose answer says nothing about the token.
            self._remember(token)


def _digest(authorization: str) -> bytes:
    """Return the same for every spelling of a token: in many it would take the places of others' tokens."""
    scheme, _, token = authorization.strip().partition(" ")
    return hashlib.sha256(f"{scheme.lower()} {token.strip()}".encode()).digest()


def _answer(error: TooManyRequests, headers: Headers) -> Response:
    if "text/html" in headers.get("accept", ""):
        response = problem_page(headers, Problem("too_many", HTTPStatus.TOO_MANY_REQUESTS))
    else:
        body = {"error": "too_many_requests", "message": str(error)}
        response = JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS)
    response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
