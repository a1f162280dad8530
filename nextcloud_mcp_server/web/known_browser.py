"""Marks browsers in which a user signed in before.

Such a browser has a cookie with a random value and its MAC. It does not identify the user, and grants no
access: it only reserves a share of the failed code exchanges that unknown browsers cannot use up, and its requests
are counted separately from those of its address. Every process with the key ring knows it, also after a restart.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.auth.rate_limiter import network_of
from nextcloud_mcp_server.auth.requester import Requester, current_requester
from nextcloud_mcp_server.web.cookies import cookie_name, cookie_of
from nextcloud_mcp_server.web.limits import PAGES
from nextcloud_mcp_server.web.proxies import client_address

#: Longer than the time between two sign-ins of most users.
KNOWN_SECONDS = 180 * 86_400
_COOKIE = "known-browser"
_VALUE = re.compile(r"[A-Za-z0-9_-]{24}\.[0-9a-f]{64}")
_SIGNED_IN = "signed_in_here"


def remember_browser(request: Request) -> None:
    """Mark the browser with the answer to this request: a user has just signed in there."""
    setattr(request.state, _SIGNED_IN, True)


class KnownBrowsers:
    """Wraps the pages and their limits: sets the requester of each request, and marks browsers after a sign-in."""

    def __init__(self, app: ASGIApp, *, keys: Callable[[], Sequence[bytes]]) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with `current_requester` set."""
        if scope["type"] != "http" or not scope["path"].startswith(PAGES):
            await self._app(scope, receive, send)
            return
        keys = self._keys()
        scope = {**scope, "state": scope.get("state", {})}
        value, is_newest = _value_of(scope, keys)

        async def send_marked(message: Message) -> None:
            # A mark with an older key is renewed, so that it stays valid when that key is removed.
            marks = scope["state"].get(_SIGNED_IN) or (value and not is_newest)
            if message["type"] == "http.response.start" and marks:
                random = value or secrets.token_urlsafe(18)
                message = {**message, "headers": [*message["headers"], _set_cookie(scope, keys[0], random)]}
            await send(message)

        # A known browser is counted by its network, too: one user can get any number of marks.
        kind = "known browsers of a network" if value else "network"
        source = _mac(keys[0], kind, network_of(client_address(scope)))
        token = current_requester.set(Requester(source, mark=value))
        try:
            await self._app(scope, receive, send_marked)
        finally:
            current_requester.reset(token)


def _value_of(scope: Scope, keys: Sequence[bytes]) -> tuple[str, bool]:
    """Return the random value of a marked browser, and whether its key is the newest; else an empty value."""
    given = cookie_of(scope, _COOKIE, _VALUE)
    if not given:
        return "", False
    value, _, mac = given.partition(".")
    fits = [hmac.compare_digest(_mac(key, "mark", value), mac) for key in keys]
    return (value, fits[0]) if any(fits) else ("", False)


def _set_cookie(scope: Scope, key: bytes, value: str) -> tuple[bytes, bytes]:
    secure = scope["scheme"] == "https"
    response = Response()
    response.set_cookie(
        cookie_name(_COOKIE, secure=secure),
        f"{value}.{_mac(key, 'mark', value)}",
        max_age=KNOWN_SECONDS,
        path="/",
        secure=secure,
        httponly=True,
        # Not strict: the sign-in comes back from another site.
        samesite="lax",
    )
    return next((name, cookie) for name, cookie in response.raw_headers if name == b"set-cookie")


def _mac(key: bytes, *parts: str) -> str:
    return hmac.new(key, "\0".join(("known-browser", *parts)).encode(), hashlib.sha256).hexdigest()
