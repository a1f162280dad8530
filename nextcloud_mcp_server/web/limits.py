"""How often a user may ask, by address and by user.

Counted in memory, per process, and in no row of the database: requests of strangers must cost nothing
that stays. Many users share an address (an office, a chat service in the cloud), so an address's
limits are generous, and anyone who brings a token that worked is never turned away for the failures of others.
"""

import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

from limits import RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.errors import NextcloudMcpError, TooManyRequests
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.callback_result import TOO_MANY_RESULT
from nextcloud_mcp_server.web.consent_backend import Params
from nextcloud_mcp_server.web.metadata import CORS
from nextcloud_mcp_server.web.problem import Problem, problem_page
from nextcloud_mcp_server.web.proxies import client_address
from nextcloud_mcp_server.web.request_context import params_of

logger = logging.getLogger(__name__)

_MOST_WINDOWS = 65_536
_MOST_TOKENS = 8_192
#: Anyone who has an IPv6 address has this many bits of them to choose from.
_IPV6_HOST_BITS = 64
_CALLBACKS = "/oauth/callback/"
#: Pages that a user signs in on, or is signed in on.
PAGES = ("/oauth/", "/account", "/authorize")


class Kind(StrEnum):
    """What is counted, each for itself."""

    PAGE = "page"
    CALLBACK = "callback"
    EXCESS = "excess"
    FAILURE = "failure"
    CLIENT = "client"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Rates:
    """How many a minute: pages, callbacks, refused tokens and refused clients per address, pages per user.

    `excess` is how many callbacks beyond `callback` have their `state` looked up, to spend the code of a known one.
    """

    page: int = 300
    callback: int = 60
    excess: int = 600
    failure: int = 120
    client: int = 300
    person: int = 120


class Windows(Storage):
    """Counts per key until its window ends; never more keys than `most`, the oldest go first.

    The library's own storage in memory reads the wall clock and looks through all keys with every
    request, which a stranger with many addresses could make slow.
    """

    STORAGE_SCHEME = None

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, most: int = _MOST_WINDOWS) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._most = most
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    @property
    def base_exceptions(self) -> type[Exception]:
        """Name what may go wrong: nothing does."""
        return LookupError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count, and return the count."""
        self._forget()
        ends_at, count = self._windows.get(key, (self._monotonic() + expiry, 0))
        self._windows[key] = (ends_at, count + amount)
        if len(self._windows) > self._most:
            self._windows.popitem(last=False)
        return count + amount

    async def get(self, key: str) -> int:
        """Return the count of a key's window."""
        self._forget()
        return self._windows.get(key, (0.0, 0))[1]

    async def get_expiry(self, key: str) -> float:
        """Return when a key's window ends, on the clock given."""
        return self._windows.get(key, (self._monotonic(), 0))[0]

    async def check(self) -> bool:
        """Tell that memory is there."""
        return True

    async def reset(self) -> int:
        """Forget everything."""
        known = len(self._windows)
        self._windows.clear()
        return known

    async def clear(self, key: str) -> None:
        """Forget a key."""
        self._windows.pop(key, None)

    def _forget(self) -> None:
        # All windows are equally long, so the first one made ends first.
        now = self._monotonic()
        while self._windows and next(iter(self._windows.values()))[0] <= now:
            self._windows.popitem(last=False)


class Limits:
    """Counts, and refuses what is too much."""

    def __init__(
        self, rates: Rates | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        given = rates or Rates()
        self._monotonic = monotonic
        self._limiter = FixedWindowRateLimiter(Windows(monotonic))
        self._items = {kind: RateLimitItemPerMinute(getattr(given, kind)) for kind in Kind}

    async def count(self, kind: Kind, who: str) -> None:
        """Count one.

        Raises:
            TooManyRequests: It is one too many in this minute.
        """
        if not await self._limiter.hit(self._items[kind], kind, who):
            raise await self._too_many(kind, who)

    async def check(self, kind: Kind, who: str) -> None:
        """Refuse anyone who has used up their minute, without counting.

        Raises:
            TooManyRequests: They have.
        """
        if not await self._limiter.test(self._items[kind], kind, who):
            raise await self._too_many(kind, who)

    async def person(self, principal: Principal) -> None:
        """Count what a signed-in user asks for.

        Raises:
            TooManyRequests: It is one too many in this minute.
        """
        await self.count(Kind.PERSON, f"{principal.issuer}\n{principal.subject}")

    async def _too_many(self, kind: Kind, who: str) -> TooManyRequests:
        ends_at, _ = await self._limiter.get_window_stats(self._items[kind], kind, who)
        wait = max(1, math.ceil(ends_at - self._monotonic()))
        return TooManyRequests(
            f"Too many requests came from here; wait {wait} seconds, then try again.",
            retry_after_seconds=wait,
        )


class AddressLimits:
    """Holds each address to its limits: pages, callbacks, and tokens that were refused.

    `spend` gets the parameters of a callback beyond the limit, and spends its code where its `state` is one of ours:
    else junk from the address of a user would keep the code that the user brings usable.
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
        """Answer 429 to anyone who asks too much, with the time to wait."""
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
                await self._limits.count(Kind.CALLBACK, address)
            elif path.startswith(PAGES):
                await self._limits.count(Kind.PAGE, address)
        except TooManyRequests as error:
            response = _answer(error, Headers(scope=scope))
            if path.startswith(_CALLBACKS):
                await self._spend_known(address, scope)
                # Its address holds a code, and must not stay in the browser's bar.
                retry_after = {"Retry-After": str(error.retry_after_seconds)}
                response = Response(status_code=303, headers={"Location": TOO_MANY_RESULT, **retry_after})
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _spend_known(self, address: str, scope: Scope) -> None:
        if self._spend is None:
            return
        try:
            await self._limits.count(Kind.EXCESS, address)
            await self._spend(params_of(Request(scope)))
        except TooManyRequests:
            return
        except NextcloudMcpError as error:
            logger.warning("a code could not be spent: %s", error)

    async def _mcp(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        token = Headers(scope=scope).get("authorization", "")
        known = hashlib.sha256(token.encode()).digest()
        if known not in self._worked:
            try:
                await self._limits.check(Kind.FAILURE, address)
            except TooManyRequests as error:
                response = _answer(error, Headers(scope=scope))
                response.headers.update(CORS)
                await response(scope, receive, send)
                return

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._learn(known if token else None, address, message["status"])
            await send(message)

        await self._app(scope, receive, send_counted)

    async def _learn(self, token: bytes | None, address: str, status: int) -> None:
        if token is None:
            # Every client's first request comes without one, to learn where to get it.
            return
        if status == HTTPStatus.UNAUTHORIZED:
            self._worked.pop(token, None)
            try:
                await self._limits.count(Kind.FAILURE, address)
            except TooManyRequests:
                # This one has been checked already and hears so; the next one is not.
                return
        elif status < HTTPStatus.BAD_REQUEST:
            self._worked[token] = None
            self._worked.move_to_end(token)
            if len(self._worked) > self._most_tokens:
                self._worked.popitem(last=False)


def network_of(address: str) -> str:
    """Name what one party may have many addresses of: an IPv6 network, or else the address itself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Address(int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS))
    return address


def _answer(error: TooManyRequests, headers: Headers) -> Response:
    if "text/html" in headers.get("accept", ""):
        response = problem_page(headers, Problem("too_many", HTTPStatus.TOO_MANY_REQUESTS))
    else:
        body = {"error": "too_many_requests", "message": str(error)}
        response = JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS)
    response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
