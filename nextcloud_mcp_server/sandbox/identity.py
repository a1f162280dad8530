"""The user of a request: from session cookies first, then Basic, then Bearer."""

import base64
import binascii
import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.faults import Area
from nextcloud_mcp_server.sandbox.reply import OCS_UNAUTHORISED, dav_error, json_reply, ocs_reply
from nextcloud_mcp_server.sandbox.state import AppPassword, Session, State, User
from nextcloud_mcp_server.sandbox.throttle import Throttle

SESSION_KEY = "nextcloud_mcp_server.sandbox.session"
IDENTITY_KEY = "nextcloud_mcp_server.sandbox.identity"
PROBED_KEY = "nextcloud_mcp_server.sandbox.probed"
COOKIE_PROBE = "cookie_test"

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_DAV_REALM = {"WWW-Authenticate": 'Basic realm="Nextcloud", charset="UTF-8"'}
_OCS_REALM = {"WWW-Authenticate": 'Basic realm="Authorisation Required"'}
_NO_BASIC = (
    "No 'Authorization: Basic' header found. "
    "Either the client didn't send one, or the server is misconfigured"
)
_NO_BEARER = (
    "No 'Authorization: Bearer' header found. "
    "Either the client didn't send one, or the server is mis-configured"
)
_BAD_BEARER = "Bearer token was incorrect"
_BAD_PASSWORD = "Username or password was incorrect"  # noqa: S105 - a message
_DAV_REASONS = (
    "No public access to this resource., AppAPIAuth has not passed, "
    "This request is not for a federated calendar"
)


class Refusal(StrEnum):
    """Why a request is refused; the value is the message, where the area shows one."""

    ANONYMOUS = "Current user is not logged in"
    BAD_PASSWORD = ""
    THROTTLED = "Reached maximum delay"
    DISABLED = "Account disabled"
    CSRF = "CSRF check not passed."
    CORS = "CORS requires basic auth"


@dataclass(frozen=True, slots=True)
class Identity:
    """The acting person, and the app password that was used, if any."""

    user: User
    login_name: str
    kind: Literal["cookie", "basic", "bearer"]
    app_password: AppPassword | None


def session_of(request: Request) -> Session:
    """Return the session that the outer application attached to this request."""
    return request.scope[SESSION_KEY]


def address_of(request: Request) -> str:
    """Return the address that bad logins are counted for."""
    return request.client.host if request.client else "unknown"


class Gate:
    """Identifies the user of a request."""

    def __init__(self, state: State, throttle: Throttle) -> None:
        self._state = state
        self._throttle = throttle

    def identify(self, request: Request, area: Area) -> Identity | Refusal:
        """Identify the user, and record them for the request log."""
        found = self._identify(request, area)
        request.scope[IDENTITY_KEY] = found
        return found

    def _identify(self, request: Request, area: Area) -> Identity | Refusal:
        # A session cookie beats whatever Authorization says.
        session = session_of(request)
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        # The Notes API is open to other origins, so without the OCS header its session is not used.
        cors = area == "notes" and "OCS-APIRequest" not in request.headers
        if cors and scheme.lower() != "basic":
            return Refusal.CORS
        if cors and session.uid is not None:
            session = self._renew(request)
        if session.uid is not None:
            if area == "dav" and session.cors and request.method not in _READING:
                return Refusal.CSRF
            return self._from_session(session)
        if scheme.lower() == "basic":
            found = self._from_basic(credentials, address_of(request))
        elif scheme.lower() == "bearer":
            found = self._from_bearer(credentials.strip())
        else:
            found = Refusal.ANONYMOUS
        if isinstance(found, Identity) and self._opens_session(request, found):
            session.uid = found.user.uid
            session.login_name = found.login_name
            session.app_password = found.app_password.secret if found.app_password else None
            session.cors = cors or found.kind == "bearer"
        return found

    def _opens_session(self, request: Request, found: Identity) -> bool:
        """Return whether the cookies of this response open a session of the user.

        A password opens a session only for clients that bring back a first cookie; tokens always do.
        """
        if found.kind != "basic" or found.app_password is not None or COOKIE_PROBE in request.cookies:
            return True
        request.scope[PROBED_KEY] = True
        return False

    def sign_in(self, login_name: str, password: str, address: str) -> Identity | Refusal:
        """Check a name and a password, and count a bad one."""
        if self._throttle.blocks(address):
            return Refusal.THROTTLED
        user = self._state.find_user(login_name)
        app_password = self._state.find_app_password(password)
        if app_password is not None and app_password.login_name == login_name:
            found = self._from_app_password(app_password, "basic")
        elif user is not None and hmac.compare_digest(user.password.encode(), password.encode()):
            found = Identity(user, login_name, "basic", None) if user.enabled else Refusal.DISABLED
        else:
            self._throttle.count(address)
            return Refusal.BAD_PASSWORD
        if isinstance(found, Identity):
            self._throttle.reset(address)
        return found

    def signed_in_user(self, request: Request) -> User | None:
        """Return the user who is signed in with this browser."""
        user = self._state.users.get(session_of(request).uid or "")
        return user if user is not None and user.enabled else None

    def _renew(self, request: Request) -> Session:
        """End the session of the request's cookie and open another."""
        self._state.sessions.pop(session_of(request).id, None)
        request.scope[SESSION_KEY] = self._state.new_session()
        return session_of(request)

    def _from_session(self, session: Session) -> Identity | Refusal:
        user = self._state.users.get(session.uid or "")
        app_password = self._state.find_app_password(session.app_password or "")
        if user is None or (session.app_password is not None and app_password is None):
            session.uid = None
            return Refusal.ANONYMOUS
        return (
            Identity(user, session.login_name or user.uid, "cookie", app_password)
            if user.enabled
            else Refusal.DISABLED
        )

    def _from_basic(self, credentials: str, address: str) -> Identity | Refusal:
        try:
            login_name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return Refusal.ANONYMOUS
        return self.sign_in(login_name, password, address)

    def _from_bearer(self, token: str) -> Identity | Refusal:
        # A bogus bearer is not counted as a bad login.
        app_password = self._state.find_app_password(token)
        if app_password is not None or self._state.check_bearer is None:
            return self._from_app_password(app_password, "bearer")
        user = self._state.users.get(self._state.check_bearer(token) or "")
        if user is None:
            return Refusal.ANONYMOUS
        return Identity(user, user.uid, "bearer", None) if user.enabled else Refusal.DISABLED

    def _from_app_password(
        self, app_password: AppPassword | None, kind: Literal["basic", "bearer"]
    ) -> Identity | Refusal:
        user = self._state.users.get(app_password.uid) if app_password else None
        if user is None or app_password is None:
            return Refusal.ANONYMOUS
        return (
            Identity(user, app_password.login_name, kind, app_password) if user.enabled else Refusal.DISABLED
        )


def administrator(gate: Gate, request: Request) -> Identity | Response:
    """Return the administrator who sent the request, as AppFramework's middleware does for their routes."""
    found = gate.identify(request, "other")
    if isinstance(found, Refusal):
        return refuse_json(found)
    if not found.user.admin:
        return json_reply({"message": "Logged in account must be an admin"}, status=403)
    # A page's script sends the request token instead; nothing here makes or checks one.
    if not {"ocs-apirequest", "requesttoken"} & set(request.headers):
        return json_reply({"message": "CSRF check failed"}, status=412)
    return found


def refuse_dav(request: Request, refusal: Refusal) -> Response:
    """Refuse a request in the form of DAV."""
    not_authenticated = "Sabre\\DAV\\Exception\\NotAuthenticated"
    if refusal is Refusal.THROTTLED:
        return dav_error(
            429, "OCA\\DAV\\Connector\\Sabre\\Exception\\TooManyRequests", "", hint="too many requests"
        )
    if refusal is Refusal.DISABLED:
        return dav_error(
            503,
            "Sabre\\DAV\\Exception\\ServiceUnavailable",
            "OC\\User\\DisabledUserException: Account disabled",
        )
    if refusal is Refusal.CSRF:
        return dav_error(401, not_authenticated, refusal.value)
    scheme = request.headers.get("Authorization", "").partition(" ")[0].lower()
    first = _BAD_PASSWORD if scheme == "basic" else _NO_BASIC
    second = _BAD_BEARER if scheme == "bearer" else _NO_BEARER
    return dav_error(
        401, not_authenticated, f"{_DAV_REASONS}, {first}, {second}, {first}", headers=_DAV_REALM
    )


def refuse_ocs(request: Request, refusal: Refusal) -> Response:
    """Refuse a request in the form of OCS."""
    if refusal is Refusal.THROTTLED:
        return ocs_reply(request, code=429, message=refusal.value)
    if refusal is Refusal.ANONYMOUS:
        return ocs_reply(request, code=OCS_UNAUTHORISED, message=refusal.value)
    return ocs_reply(request, code=OCS_UNAUTHORISED, message="Unauthorised", headers=_OCS_REALM)


def refuse_json(refusal: Refusal) -> Response:
    """Refuse a request in the form of the apps' JSON APIs."""
    response = json_reply({"message": refusal.value}, status=429 if refusal is Refusal.THROTTLED else 401)
    if refusal not in {Refusal.CORS, Refusal.ANONYMOUS}:
        # A failed login ends before the app runs, whose answers alone carry this.
        del response.headers["Cache-Control"]
    return response
