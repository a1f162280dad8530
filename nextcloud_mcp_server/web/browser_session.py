"""Cookies of a browser without a sign-in: a form's check value, and a ticket for a consent request.

Nothing is stored: both are MACs under keys derived from the key ring. The MAC covers a random value in a
cookie, so the values of one browser are of no use in another.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.web.cookies import cookie_name
from nextcloud_mcp_server.web.root_path import rooted

_BROWSER_COOKIE = "browser"
_BROWSER_SECONDS = 3600
# Longer than a consent request, so that the last page can be viewed again for a while.
_TICKET_SECONDS = 1800
_BROWSER_VALUE = re.compile(r"[A-Za-z0-9_-]{24}")


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """The two cookies of one browser, read from a request and written to a response."""

    browser: str
    secure: bool
    cookies: dict[str, str] = field(repr=False)
    keys: Sequence[bytes] = field(repr=False)

    @classmethod
    def of(cls, request: Request, keys: Sequence[bytes]) -> "BrowserSession":
        """Read the session of a request, or begin a new one; `remember` stores it in a cookie."""
        secure = request.url.scheme == "https"
        known = request.cookies.get(cookie_name(_BROWSER_COOKIE, secure=secure), "")
        browser = known if _BROWSER_VALUE.fullmatch(known) else secrets.token_urlsafe(18)
        return cls(browser=browser, secure=secure, cookies=request.cookies, keys=keys)

    def form_check(self, elicitation_id: str) -> str:
        """Return the hidden value that proves that a form came from this server's page in this browser."""
        return self._mac(self.keys[0], "form", elicitation_id)

    def accepts(self, elicitation_id: str, form_check: str) -> bool:
        """Tell whether a form has a valid check value; every key of the ring is accepted."""
        return self._matches("form", elicitation_id, form_check)

    def holds_ticket(self, elicitation_id: str) -> bool:
        """Tell whether this browser answered a consent request, and so may see its progress."""
        ticket = self.cookies.get(cookie_name(_ticket(elicitation_id), secure=self.secure), "")
        return self._matches("ticket", elicitation_id, ticket)

    def remember(self, response: Response) -> None:
        """Set the session's cookie, so that the form on this page can be sent."""
        self._set(response, _BROWSER_COOKIE, self.browser, _BROWSER_SECONDS)

    def give_ticket(self, response: Response, elicitation_id: str) -> None:
        """Let only this browser see the progress of a consent request."""
        self.remember(response)
        self._set(
            response,
            _ticket(elicitation_id),
            self._mac(self.keys[0], "ticket", elicitation_id),
            _TICKET_SECONDS,
        )

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            cookie_name(name, secure=self.secure),
            value,
            max_age=seconds,
            path=rooted("/"),
            secure=self.secure,
            httponly=True,
            # Not strict: the link to a consent request is opened from another program.
            samesite="lax",
        )

    def _mac(self, key: bytes, purpose: str, elicitation_id: str) -> str:
        text = f"{purpose}\0{elicitation_id}\0{self.browser}"
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def _matches(self, purpose: str, elicitation_id: str, given: str) -> bool:
        return any(
            hmac.compare_digest(self._mac(key, purpose, elicitation_id).encode(), given.encode())
            for key in self.keys
        )


def _ticket(elicitation_id: str) -> str:
    # One cookie per consent request: two at the same time must not overwrite each other's.
    return f"consent-{hashlib.sha256(elicitation_id.encode()).hexdigest()[:12]}"
