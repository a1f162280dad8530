"""The issuer's pages: the authorization endpoint, and signing in and out."""

import secrets
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.issuer_state import Account, Code, Family, IssuerClient, IssuerContext
from nextcloud_mcp_server.sandbox.reply import page

COOKIE = "issuer_session"

_SINGLE = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "prompt",
)


class SignInPages:
    """Answers of /authorize, /login and /logout."""

    def __init__(self, context: IssuerContext) -> None:
        self._context = context
        self._state = context.state

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/authorize", self._authorize),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["GET", "POST"]),
        ]

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        client = self._state.clients.get(asked.get("client_id", ""))
        redirect_uri = asked.get("redirect_uri", "")
        # Whatever is wrong with these two must not be told by a redirect (RFC 6749 §4.1.2.1).
        if client is None or not client.may_redirect_to(redirect_uri):
            return _problem("This application is not registered here.")
        if any(len(asked.getlist(name)) > 1 for name in _SINGLE):
            return _problem("A parameter was sent twice.")
        if (error := _error_of(request, client)) is not None:
            return self._back(request, {"error": error})
        signed_in = self._signed_in(request)
        prompt = asked.get("prompt")
        if signed_in is None or prompt == "login":
            if prompt == "none":
                return self._back(request, {"error": "login_required"})
            return self._login_page(request.url.query)
        return self._back(request, {"code": self._code(request, client, *signed_in)})

    def _code(self, request: Request, client: IssuerClient, account: Account, signed_in_at: int) -> str:
        asked = request.query_params
        if self._context.faults.take("other_subject", "authorize") is not None:
            account = next(one for one in self._state.accounts.values() if one is not account)
        family = Family(
            client_id=client.client_id,
            account=account,
            scopes=tuple(asked.get("scope", "").split()),
            resources=tuple(asked.getlist("resource")),
            nonce=asked.get("nonce"),
            signed_in_at=signed_in_at,
        )
        code = secrets.token_urlsafe(32)
        self._state.codes[code] = Code(
            family, asked["redirect_uri"], asked.get("code_challenge"), self._context.clock()
        )
        return code

    def _back(self, request: Request, answer: dict[str, str]) -> Response:
        redirect_uri, state = request.query_params["redirect_uri"], request.query_params.get("state")
        if state is not None:
            answer["state"] = state
        faults = self._context.faults
        if faults.take("wrong_iss", "authorize") is not None:
            answer["iss"] = f"{self._context.url}/other"
        elif faults.take("no_iss", "authorize") is None:
            answer["iss"] = self._context.url
        joint = "&" if "?" in redirect_uri else "?"
        return RedirectResponse(f"{redirect_uri}{joint}{urlencode(answer)}", status_code=303)

    def _signed_in(self, request: Request) -> tuple[Account, int] | None:
        username, at = self._state.sessions.get(request.cookies.get(COOKIE, ""), ("", 0))
        account = self._state.accounts.get(username)
        return None if account is None else (account, at)

    async def _login(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(errors="replace")))
        asked = form.get("request", "")
        account = self._state.accounts.get(form.get("user", ""))
        if account is None or account.password != form.get("password"):
            return self._login_page(asked, message="Wrong user name or password.")
        # A new session for each sign-in; the old one's cookie is worth nothing in another browser.
        cookie = secrets.token_urlsafe(24)
        self._state.sessions[cookie] = (account.username, self._context.now())
        again = urlencode([pair for pair in parse_qsl(asked, keep_blank_values=True) if pair[0] != "prompt"])
        response = RedirectResponse(f"/authorize?{again}", status_code=303)
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="lax")
        return response

    async def _logout(self, request: Request) -> Response:
        self._state.sessions.pop(request.cookies.get(COOKIE, ""), None)
        response = page(
            "Signed out", "<h1>Signed out</h1><p>You are signed out of the sandbox's accounts.</p>"
        )
        response.delete_cookie(COOKIE)
        return response

    def _login_page(self, asked: str, *, message: str = "") -> Response:
        people = " or ".join(f"<strong>{escape(name)}</strong>" for name in self._state.accounts)
        alert = f'<p role="alert"><strong>{escape(message)}</strong></p>' if message else ""
        return page(
            "Sign in",
            "<h1>Sign in to the sandbox's accounts</h1>"
            f"<p>This stands for your identity provider. Sign in as {people}; the password is the same word."
            f"</p>{alert}"
            '<form method="post" action="/login">'
            f'<input type="hidden" name="request" value="{escape(asked)}">'
            '<label for="user">User name</label>'
            '<input id="user" name="user" autocomplete="username" required>'
            '<label for="password">Password</label>'
            '<input id="password" name="password" type="password" autocomplete="current-password" required>'
            '<button type="submit">Sign in</button></form>',
            headers={"Cache-Control": "no-store"},
        )


def _error_of(request: Request, client: IssuerClient) -> str | None:
    asked = request.query_params
    if asked.get("response_type") != "code":
        return "unsupported_response_type"
    challenge = asked.get("code_challenge")
    if challenge is None:
        return "invalid_request" if client.secret is None else None
    return None if asked.get("code_challenge_method") == "S256" else "invalid_request"


def _problem(message: str) -> Response:
    return page("Problem", f"<h1>This does not work</h1><p>{escape(message)}</p>", status=400)
