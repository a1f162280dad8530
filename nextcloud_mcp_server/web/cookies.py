"""The cookies of a browser in which users sign in, and the values bound to them.

`session` is the browser session, `sign-in` the sealed state of a sign-in that has begun, `redirect` the
redirect target of a page, `message` the message of the next page. Nothing is stored here. A value that must not
be forged has a MAC over the session's value, which no other browser has.
"""

import hashlib
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from nextcloud_mcp_server.errors import ConfigurationError

SESSION_SECONDS = 900
#: How long a user may take to sign in, or to confirm in Nextcloud.
AWAY_SECONDS = 600
_MESSAGE_SECONDS = 60
#: So often the name of a cookie may be in a header, also as the end of other names.
_MOST_NAMES_ALIKE = 16
_SESSION, _FLOW, _REDIRECT_TARGET, _MESSAGE = "session", "sign-in", "redirect", "message"
_SESSION_VALUE = re.compile(r"[A-Za-z0-9_-]{20,200}")
# Browsers keep 4,096 bytes of a cookie, name and attributes included (RFC 6265bis §5.6).
_SEALED_VALUE = re.compile(r"[A-Za-z0-9_.=-]{1,3800}")
# What may stand in a Refresh header and in a link: no blanks, no quotes, nothing that ends a line.
_ADDRESS = re.compile(r"https?://[!#-&(-;=?-[\]-~]{1,2600}")

RedirectKind = Literal["sign-in", "nextcloud"]


@dataclass(frozen=True, slots=True)
class RedirectTarget:
    """The redirect target of a page, and what its callback is for."""

    url: str
    target: str


@dataclass(frozen=True, slots=True)
class Cookies:
    """The cookies of one request; read once, and set on responses."""

    secure: bool
    session: str = field(repr=False)
    flow: str = field(repr=False)
    redirect_target: str = field(repr=False)
    message: str = field(repr=False)
    keys: Sequence[bytes] = field(repr=False)

    @classmethod
    def of(cls, request: Request, keys: Sequence[bytes]) -> "Cookies":
        """Read the cookies; one that is there twice, or is malformed, counts as absent."""
        scope = request.scope
        return cls(
            secure=request.url.scheme == "https",
            session=cookie_of(scope, _SESSION, _SESSION_VALUE),
            flow=cookie_of(scope, _FLOW, _SEALED_VALUE),
            redirect_target=cookie_of(scope, _REDIRECT_TARGET, _SEALED_VALUE),
            message=cookie_of(scope, _MESSAGE, _SEALED_VALUE),
            keys=keys,
        )

    def form_check(self, purpose: str) -> str:
        """Return the hidden value that proves that a form came from this server's page in this session."""
        return _mac(self.keys[0], "form", self.session, purpose)

    def accepts(self, purpose: str, form_check: str) -> bool:
        """Tell whether a form has a valid check value; every key of the ring is accepted."""
        return bool(self.session) and self._matches(form_check, "form", self.session, purpose)

    def holds_ticket(self, elicitation_id: str) -> bool:
        """Return True: a signed-in user may see the progress of each of their consent requests."""
        del elicitation_id
        return True

    def give_ticket(self, response: Response, elicitation_id: str) -> None:
        """Do nothing: the browser session is enough."""

    def remember(self, response: Response) -> None:
        """Do nothing: the session's cookie is set by the sign-in alone."""

    def set_session(self, response: Response, token: str) -> None:
        """Set the session cookie. Its value is new, so a value that another site set is worthless."""
        self._set(response, _SESSION, token, SESSION_SECONDS)
        self._delete(response, _FLOW)
        self._delete(response, _REDIRECT_TARGET)

    def end_session(self, response: Response) -> None:
        """Delete the session cookie."""
        self._delete(response, _SESSION)

    def set_flow(self, response: Response, flow: str, redirect_target: RedirectTarget) -> None:
        """Set the cookies of a sign-in: its sealed state, and the redirect target."""
        self._set(response, _FLOW, flow, AWAY_SECONDS)
        self._set(response, _REDIRECT_TARGET, self._pack("sign-in", flow, redirect_target), AWAY_SECONDS)

    def set_redirect_target(self, response: Response, redirect_target: RedirectTarget) -> None:
        """Set the redirect target before the browser goes to Nextcloud."""
        self._set(
            response, _REDIRECT_TARGET, self._pack("nextcloud", self.session, redirect_target), AWAY_SECONDS
        )

    def end_redirect_target(self, response: Response) -> None:
        """Delete the redirect target after the callback."""
        self._delete(response, _REDIRECT_TARGET)

    def where_to(self, kind: RedirectKind) -> RedirectTarget | None:
        """Return the redirect target; None unless this server set it, for this flow, in this browser.

        Without the MAC, a cookie set by another site could make the page redirect anywhere.
        """
        payload, _, mac = self.redirect_target.partition(".")
        bound_to = self.flow if kind == "sign-in" else self.session
        if not bound_to or not self._matches(mac, kind, bound_to, payload):
            return None
        stored: dict[str, Any] = json.loads(urlsafe_b64decode(payload))
        return RedirectTarget(cast("str", stored["url"]), cast("str", stored["target"]))

    def set_message(self, response: Response, what: str) -> None:
        """Set the message of the next page; it is not in the URL, where anyone could put it."""
        self._set(response, _MESSAGE, what, _MESSAGE_SECONDS)

    def clear_message(self, response: Response) -> None:
        """Delete the message after it was shown."""
        if self.message:
            self._delete(response, _MESSAGE)

    def _pack(self, kind: RedirectKind, bound_to: str, redirect_target: RedirectTarget) -> str:
        if not _ADDRESS.fullmatch(redirect_target.url):
            raise ConfigurationError(
                "The address of the sign-in or of the authorization page is not a web address."
            )
        stored = json.dumps({"url": redirect_target.url, "target": redirect_target.target})
        payload = urlsafe_b64encode(stored.encode()).decode()
        return f"{payload}.{_mac(self.keys[0], kind, bound_to, payload)}"

    def _matches(self, given: str, *parts: str) -> bool:
        return any(hmac.compare_digest(_mac(key, *parts).encode(), given.encode()) for key in self.keys)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            cookie_name(name, secure=self.secure),
            value,
            max_age=seconds,
            path="/",
            secure=self.secure,
            httponly=True,
            # Not strict: users come back from their sign-in and from Nextcloud, which are other sites.
            samesite="lax",
        )

    def _delete(self, response: Response, name: str) -> None:
        response.delete_cookie(
            cookie_name(name, secure=self.secure),
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )


def _mac(key: bytes, *parts: str) -> str:
    return hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def cookie_of(scope: Scope, name: str, shape: re.Pattern[str]) -> str:
    """Return the value of one cookie of a request; empty if it is there twice, or malformed.

    Only this cookie is read: 16 KB hold thousands of others, which anyone can send.
    """
    start = cookie_name(name, secure=scope["scheme"] == "https").encode() + b"="
    # HTTP/2 divides cookies into several headers (RFC 9113 §8.2.3).
    header = b";".join(value for key, value in scope["headers"] if key == b"cookie")
    # If there are two, a page on another port of this computer may have set either.
    values = list(islice(_values(header, start), 2))
    value = values[0].decode("latin-1") if len(values) == 1 else ""
    return value if shape.fullmatch(value) else ""


def _values(header: bytes, start: bytes) -> Iterator[bytes]:
    at = -1
    for _ in range(_MOST_NAMES_ALIKE):
        at = header.find(start, at + 1)
        if at < 0:
            return
        if header[:at].rstrip(b" \t")[-1:] in (b"", b";"):
            value = header[at + len(start) :].partition(b";")[0].strip(b" \t")
            # Values with an equals sign are sent in quotes.
            yield value.removeprefix(b'"').removesuffix(b'"')
    # Like one that is there twice: what stands behind is not read.
    yield from (b"", b"")


def cookie_name(name: str, *, secure: bool) -> str:
    """Return the name of a cookie that no other host, and nothing without TLS, can set."""
    # Browsers refuse the prefix on loopback http, which has no TLS (RFC 6265bis §4.1.3.2).
    return f"__Host-{name}" if secure else name
