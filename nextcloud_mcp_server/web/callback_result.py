"""Shows the result of a callback that connected nothing, at a URL without code and state.

The URL of a callback has both, and a browser keeps it in its address bar and its history. So each callback
answers with a redirect. What the next page shows is stored in a cookie with a MAC, for this browser only.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nextcloud_mcp_server.web.cookies import cookie_name
from nextcloud_mcp_server.web.pages import Name, page
from nextcloud_mcp_server.web.problem import Problem, gone_page, problem_page

#: The redirect target of every callback that connected nothing.
RESULT: Final = "/oauth/result"
_TOO_MANY: Final = "too-many"
# A browser keeps the fragment of a redirected URL unless the new one has its own (RFC 9110 §10.2.2), and some
# providers can be asked to put code and state into the fragment.
_FRAGMENT: Final = "#ended"
#: The same for a callback that was not handled, because too many came from its address.
TOO_MANY_RESULT: Final = f"{RESULT}?{_TOO_MANY}{_FRAGMENT}"
_COOKIE: Final = "result"
_SECONDS: Final = 300
# Reverse proxies answer 502 to headers of more than 4,096 bytes, and there are other headers.
_LONGEST: Final = 3_000

_KEPT_HEADERS: Final = (b"set-cookie", b"retry-after")

Keys = Callable[[], Sequence[bytes]]


class CallbackResults:
    """Wraps a callback: replaces each answer that is no redirect by a redirect to `RESULT`.

    The page's values are in `request.state.result`; see `keep_problem` and `keep_back`.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the callback; send its own answer only if that is a redirect already."""
        answer = _Answer()
        await self._app(scope, receive, answer.take)
        if answer.redirects:
            await answer.give(send)
            return
        request = Request(scope)
        values: dict[str, Any] = scope.get("state", {}).get("result", {})
        response = Response(status_code=303, headers={"Location": f"{RESULT}{_FRAGMENT}"})
        secure = request.url.scheme == "https"
        response.set_cookie(
            cookie_name(_COOKIE, secure=secure),
            _packed_short(values, self._keys()[0]),
            max_age=_SECONDS,
            path="/",
            secure=secure,
            httponly=True,
            samesite="lax",
        )
        response.raw_headers += [each for each in answer.headers if each[0] in _KEPT_HEADERS]
        await response(scope, receive, send)


class _Answer:
    """Buffers an answer until it is known whether it may be sent; pages are sent in one piece."""

    def __init__(self) -> None:
        self._messages: list[Any] = []

    async def take(self, message: Any) -> None:  # noqa: ANN401 - ASGI's message
        self._messages.append(message)

    @property
    def redirects(self) -> bool:
        return 300 <= self._messages[0]["status"] < 400  # noqa: PLR2004 - the class of redirects

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return self._messages[0]["headers"]

    async def give(self, send: Send) -> None:
        for message in self._messages:
            await send(message)


def keep_problem(scope: Scope, problem: Problem, *, reference: str, retry: str) -> None:
    """Store the values of the problem page for the redirect."""
    kept = {"page": "problem", "kind": problem.kind, "status": problem.status}
    scope.setdefault("state", {})["result"] = {**kept, "reference": reference, "retry": retry}


def keep_other_account(scope: Scope, *, elicitation_id: str, csrf: str, person: str) -> None:
    """Store that the consent request is another account's than the one signed in here."""
    kept = {"page": "other_account", "id": elicitation_id, "csrf": csrf, "person": person}
    scope.setdefault("state", {})["result"] = kept


def keep_gone(scope: Scope) -> None:
    """Store that the link is not valid."""
    scope.setdefault("state", {})["result"] = {"page": "gone"}


def keep_back(scope: Scope, kind: str, *, status: int, url: str, again: str, client: str, app: bool) -> None:
    """Store the values of the page that leads back to a client."""
    kept = {"page": "back", "kind": kind, "status": status, "url": url}
    scope.setdefault("state", {})["result"] = {**kept, "again": again, "client": client, "app": app}


def pack(values: Mapping[str, Any], key: bytes) -> str:
    """Serialize the values of a page for a cookie, with a MAC."""
    payload = urlsafe_b64encode(json.dumps(values).encode()).decode()
    return f"{payload}.{_mac(key, payload)}"


def _packed_short(values: Mapping[str, Any], key: bytes) -> str:
    """Serialize the values of a page; leave out the retry URL, or all of them, if they are too long."""
    shorter: list[Mapping[str, Any]] = [values, {**values, "again": ""}]
    packed = (pack(each, key) for each in shorter)
    return next((each for each in packed if len(each) <= _LONGEST), pack({}, key))


def unpack(packed: str, keys: Sequence[bytes]) -> dict[str, Any]:
    """Parse the cookie of `pack`; empty if there is none, or its MAC is wrong."""
    payload, _, mac = packed.partition(".")
    if not any(hmac.compare_digest(_mac(key, payload).encode(), mac.encode()) for key in keys):
        return {}
    values: dict[str, Any] = json.loads(urlsafe_b64decode(payload))
    return values


def _mac(key: bytes, payload: str) -> str:
    return hmac.new(key, f"callback result\0{payload}".encode(), hashlib.sha256).hexdigest()


def result_page(keys: Keys) -> Callable[[Request], Any]:
    """Build the endpoint that shows the result of a callback."""

    async def show(request: Request) -> Response:
        """Show what this browser's callback left; a general sentence for a browser that kept no cookie."""
        name = cookie_name(_COOKIE, secure=request.url.scheme == "https")
        values = {} if request.url.query == _TOO_MANY else unpack(request.cookies.get(name, ""), keys())
        match values.get("page"):
            case "back":
                return page(
                    request.headers,
                    "back.html",
                    status=values["status"],
                    kind=values["kind"],
                    url=values["url"],
                    again=values["again"],
                    client=Name.of(values["client"]),
                    app=values["app"],
                )
            case "problem":
                problem = Problem(values["kind"], values["status"])
                reference, retry = values["reference"], values["retry"]
                return problem_page(request.headers, problem, reference=reference, retry=retry)
            case "other_account":
                return page(
                    request.headers,
                    "other_account.html",
                    status=403,
                    id=values["id"],
                    csrf=values["csrf"],
                    person=Name.of(values["person"]),
                )
            case "gone":
                return gone_page(request.headers, has_account_page=True)
            case _ if request.url.query == _TOO_MANY:
                return problem_page(request.headers, Problem("too_many", 429))
            case _:
                return problem_page(request.headers, Problem("sign_in", 403))

    return show
