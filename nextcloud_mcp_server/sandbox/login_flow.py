"""Login Flow v2: its start and poll endpoints and its pages."""

import json
import re
import secrets
from datetime import timedelta
from html import escape
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, address_of, session_of
from nextcloud_mcp_server.sandbox.reply import (
    account_page,
    empty_html,
    forbidden,
    json_reply,
    redirect,
    too_many_requests,
)
from nextcloud_mcp_server.sandbox.state import LoginFlow

_LIFETIME = timedelta(minutes=20)
_TOKEN_BYTES = 64
_STATE_TOKEN_BYTES = 32
# The pages that send a person to the login page and wait for their return.
_TARGETS = ("/login/v2/", "/login/flow/")


class LoginFlows:
    """Answers below /login."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._state = context.state
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/login/v2", self._start, methods=["POST"]),
            Route("/login/v2/poll", self._poll, methods=["POST"]),
            Route("/login/v2/poll", self._wrong_method, methods=["GET", "PUT", "DELETE", "PATCH"]),
            Route("/login/v2/flow/{token}", self._landing),
            Route("/login/v2/flow", self._picker),
            Route("/login/v2/grant", self._grant_page),
            Route("/login/v2/grant", self._grant, methods=["POST"]),
            Route("/login", self._login_page),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    async def _start(self, request: Request) -> Response:
        flow = LoginFlow(
            poll_token=secrets.token_hex(_TOKEN_BYTES),
            login_token=secrets.token_hex(_TOKEN_BYTES),
            client_name=request.headers.get("User-Agent", "unknown"),
            started_at=self._context.clock(),
        )
        self._state.login_flows.append(flow)
        base = f"{self._context.origin(request)}{self._context.path('/login/v2')}"
        return json_reply(
            {
                "poll": {"token": flow.poll_token, "endpoint": f"{base}/poll"},
                "login": f"{base}/flow/{flow.login_token}",
            }
        )

    async def _poll(self, request: Request) -> Response:
        token = _token_of(await request.body(), request.headers.get("Content-Type", ""))
        flow = next((flow for flow in self._live_flows() if flow.poll_token == token), None)
        # Pending, expired and made-up tokens look the same.
        if flow is None or flow.granted is None:
            return json_reply([], status=404)
        self._state.login_flows.remove(flow)
        return json_reply(
            {
                "server": f"{self._context.origin(request)}{self._context.base_path}",
                "loginName": flow.granted.login_name,
                "appPassword": flow.granted.secret,
            }
        )

    async def _wrong_method(self, request: Request) -> Response:
        del request
        return empty_html(405)

    async def _landing(self, request: Request) -> Response:
        flow = self._find_flow(request.path_params["token"])
        if flow is None:
            return forbidden("Your login token is invalid or has expired")
        session_of(request).flow_token = flow.login_token
        return redirect(
            f"{self._context.origin(request)}{self._context.path('/login/v2/flow')}?user=&direct=0"
        )

    async def _picker(self, request: Request) -> Response:
        session = session_of(request)
        flow = self._find_flow(session.flow_token)
        if flow is None:
            return forbidden("Your login token is invalid or has expired")
        # As in 32.0.1: not before this page, and with the name that started the flow.
        allowed = self._state.allowed_user_agents
        if allowed and not any(re.search(pattern, flow.client_name) for pattern in allowed):
            return forbidden("Please use original client")
        session.state_token = secrets.token_hex(_STATE_TOKEN_BYTES)
        target = self._context.path(f"/login/v2/grant?user=&direct=0&stateToken={session.state_token}")
        return account_page(
            "Connect to your account",
            "<h1>Connect to your account</h1>"
            "<p>Please log in before granting "
            f"<strong>{escape(flow.client_name)}</strong> access to your Nextcloud account.</p>"
            "<p>If you are not trying to set up a new device or app, someone is trying to trick you "
            "into granting them access to your data. In this case do not proceed.</p>"
            f'<a class="button" href="{escape(target)}">Log in</a>',
        )

    async def _grant_page(self, request: Request) -> Response:
        session = session_of(request)
        flow = self._flow_of_session(request, request.query_params.get("stateToken"))
        if flow is None:
            return forbidden("State token does not match")
        user = self._gate.signed_in_user(request)
        if user is None:
            here = f"/login/v2/grant?user=&direct=0&stateToken={session.state_token}"
            return redirect(self._context.path(f"/login?redirect_url={quote(here, safe='/?')}"))
        return account_page(
            "Account access",
            "<h1>Account access</h1>"
            f"<p>You are currently logged in as <strong>{escape(user.display_name)}</strong>.</p>"
            f"<p>You are about to grant <strong>{escape(flow.client_name)}</strong> "
            "access to your Nextcloud account.</p>"
            f'<form method="post" action="{self._context.path("/login/v2/grant")}">'
            f'<input type="hidden" name="stateToken" value="{session.state_token}">'
            '<button type="submit">Grant access</button></form>'
            f'<form method="post" action="{self._context.path("/logout")}">'
            '<button type="submit" class="quiet">Use another account</button></form>',
            uid=user.uid,
        )

    async def _grant(self, request: Request) -> Response:
        user = self._gate.signed_in_user(request)
        if user is None:
            return forbidden("You are not logged in")
        form = parse_qs((await request.body()).decode(errors="replace"))
        flow = self._flow_of_session(request, form.get("stateToken", [""])[0])
        if flow is None:
            return forbidden("State token does not match")
        session = session_of(request)
        session.state_token = session.flow_token = None
        # A second person may grant the same flow; the last one wins.
        flow.granted = self._state.new_app_password(
            user, login_name=session.login_name, name=flow.client_name
        )
        return account_page(
            "Account connected",
            "<h1>Account connected</h1>"
            f"<p><strong>{escape(flow.client_name)}</strong> should now be connected! "
            "You can close this window.</p>",
            uid=user.uid,
        )

    async def _login_page(self, request: Request) -> Response:
        return self._login_form(request.query_params.get("redirect_url", ""))

    async def _login(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode(errors="replace"))
        login_name, password, target = (
            form.get(name, [""])[0] for name in ("user", "password", "redirect_url")
        )
        found = self._gate.sign_in(login_name, password, address_of(request))
        if found is Refusal.THROTTLED:
            return too_many_requests()
        if isinstance(found, Refusal):
            message = "Account disabled" if found is Refusal.DISABLED else "Wrong login or password."
            return self._login_form(target, message=message)
        session = session_of(request)
        session.uid, session.login_name, session.cors = found.user.uid, found.login_name, False
        session.app_password = None
        return redirect(self._context.path(target if target.startswith(_TARGETS) else "/"))

    async def _logout(self, request: Request) -> Response:
        session = session_of(request)
        session.uid = session.login_name = None
        if session.state_token is None:
            return redirect(self._context.path("/login"))
        return redirect(
            self._context.path(f"/login/v2/grant?user=&direct=0&stateToken={session.state_token}")
        )

    def _login_form(self, target: str, *, message: str = "") -> Response:
        people = " or ".join(
            f"<strong>{escape(uid)}</strong>" for uid, user in self._state.users.items() if not user.admin
        )
        alert = f'<p role="alert"><strong>{escape(message)}</strong></p>' if message else ""
        return account_page(
            "Login",
            "<h1>Log in to Nextcloud</h1>"
            f"<p>This is a sandbox. Log in as {people}; the password is the same word.</p>{alert}"
            f'<form method="post" action="{self._context.path("/login")}">'
            f'<input type="hidden" name="redirect_url" value="{escape(target)}">'
            '<label for="user">Account name or email</label>'
            '<input id="user" name="user" autocomplete="username" required value="alice">'
            '<label for="password">Password</label>'
            '<input id="password" name="password" type="password" autocomplete="current-password" required>'
            '<button type="submit">Log in</button></form>',
        )

    def _flow_of_session(self, request: Request, state_token: str | None) -> LoginFlow | None:
        session = session_of(request)
        if not state_token or state_token != session.state_token:
            return None
        return self._find_flow(session.flow_token)

    def _find_flow(self, login_token: str | None) -> LoginFlow | None:
        return next((flow for flow in self._live_flows() if flow.login_token == login_token), None)

    def _live_flows(self) -> list[LoginFlow]:
        since = self._context.clock() - _LIFETIME
        self._state.login_flows[:] = [flow for flow in self._state.login_flows if flow.started_at > since]
        return self._state.login_flows


def _token_of(body: bytes, content_type: str) -> str:
    if "json" not in content_type:
        return parse_qs(body.decode(errors="replace")).get("token", [""])[0]
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    return str(document.get("token", "")) if isinstance(document, dict) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - any JSON
