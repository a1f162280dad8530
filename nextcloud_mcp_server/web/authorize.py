"""The pages of `/authorize`: the client's request, the signed-in user, and the way back to the client."""

import re
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.auth.builtin.authorization import Authorization
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked, ReturnToClient
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import SignInCancelled
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.scopes import shorten
from nextcloud_mcp_server.errors import (
    AlreadyAnswered,
    AuthorizeRefused,
    NotAMember,
    SignInRefused,
)
from nextcloud_mcp_server.web.access_rows import rows_of, scopes_in, told
from nextcloud_mcp_server.web.browser_session import BrowserSession
from nextcloud_mcp_server.web.callback_result import keep_back
from nextcloud_mcp_server.web.consent_page import Fact, Question, question_page
from nextcloud_mcp_server.web.forms import read_form, refused, require_our_page, single
from nextcloud_mcp_server.web.known_browser import remember_browser
from nextcloud_mcp_server.web.pages import Name, page
from nextcloud_mcp_server.web.proxies import client_address
from nextcloud_mcp_server.web.request_context import is_too_long, params_of, see

AUTHORIZE = "/authorize"
CONFIRM_CLIENT = "/authorize/confirm"

_ARRIVAL = re.compile(r"[A-Za-z0-9_-]{32}")
# Reverse proxies answer 502 to headers of more than 4,096 bytes, and there are other headers.
_LONGEST_HEADER = 3_000


class AuthorizePages:
    """The handlers. Everything is bound to the browser's anonymous cookie; there is no browser session."""

    def __init__(
        self,
        authorizations: Callable[[], Awaitable[Authorization]],
        *,
        keys: Callable[[], Sequence[bytes]],
        nextcloud_host: str,
    ) -> None:
        self._authorizations = authorizations
        self._keys = keys
        self._host = nextcloud_host

    async def ask(self, request: Request) -> Response:
        """Render what the client requests; nothing is stored."""
        authorizations = await self._authorizations()
        try:
            asked = await authorizations.read(_question(request), sender=client_address(request.scope))
        except ReturnToClient as error:
            return _back_page(request, "not_possible", error.asked, error.url, status=400)
        return await self._consent(request, authorizations, asked)

    async def answer(self, request: Request) -> Response:
        """Handle the form with the user's answer."""
        require_our_page(request)
        form = await read_form(request)
        authorizations = await self._authorizations()
        session = BrowserSession.of(request, self._keys())
        sealed = single(form.get("request", [])) or ""
        if not session.accepts(sealed, single(form.get("csrf", [])) or ""):
            raise refused(request)
        asked = await authorizations.unseal(sealed)
        request.state.retry = again_path(asked)
        answer = single(form.get("answer", []))
        if answer == "deny":
            return _sent_page(request, asked, authorizations.denied(asked), kind="denied")
        chosen = scopes_in(form, asked.request.scopes)
        if answer != "allow" or not chosen:
            return await self._consent(
                request, authorizations, asked, chosen=chosen, nothing_chosen=answer == "allow"
            )
        try:
            url = await authorizations.approve(asked, chosen, browser=session.browser)
        except AlreadyAnswered:
            # Asking the same question again would end here again.
            request.state.retry = ""
            raise
        return page(
            request.headers,
            "redirect.html",
            headers=_by_itself(url),
            kind="to_sign_in",
            url=url,
            there=Name.of_host(urlsplit(url).netloc),
            person=Name(""),
        )

    async def callback(self, request: Request) -> Response:
        """Handle Nextcloud's callback, and redirect to an address without the code."""
        authorizations = await self._authorizations()
        session = BrowserSession.of(request, self._keys())
        try:
            callback = await authorizations.check_callback(params_of(request), browser=session.browser)
        except SignInCancelled as cancelled:
            asked = await authorizations.asked(cancelled.auth_transaction)
            return _back_page(request, "cancelled", asked, authorizations.denied(asked))
        asked = await authorizations.asked_by(callback)
        request.state.retry = again_path(asked)
        try:
            auth_transaction_id = await authorizations.finish_sign_in(callback, browser=session.browser)
        except NotAMember:
            return _back_page(request, "not_member", asked, authorizations.denied(asked), status=403)
        remember_browser(request)
        return _whose(auth_transaction_id)

    async def ask_whose_account(self, request: Request) -> Response:
        """Render the name of the signed-in user, and ask whether that is the user at the browser."""
        authorizations = await self._authorizations()
        session = BrowserSession.of(request, self._keys())
        auth_transaction_id = _auth_transaction_id(request.query_params.getlist("transaction"))
        welcome = await authorizations.completed(auth_transaction_id, browser=session.browser)
        client, account = welcome.asked.client, Name.of(welcome.display_name)
        scopes = welcome.scopes | welcome.before
        return page(
            request.headers,
            "signed_in_as.html",
            id=auth_transaction_id,
            csrf=session.form_check(auth_transaction_id),
            client=Name.of(client.name),
            where=_where(welcome.asked),
            app=_app(welcome.asked),
            host=Name.of_host(self._host),
            account=account or Name.of(welcome.uid),
            uid=Name.of(welcome.uid),
            told=told(scopes),
            more=not welcome.connected and not welcome.before <= welcome.scopes,
            connected=welcome.connected,
        )

    async def confirm(self, request: Request) -> Response:
        """Handle the form with the answer whether the account is the user's."""
        require_our_page(request)
        form = await read_form(request)
        authorizations = await self._authorizations()
        session = BrowserSession.of(request, self._keys())
        auth_transaction_id = _auth_transaction_id(form.get("transaction", []))
        if not session.accepts(auth_transaction_id, single(form.get("csrf", [])) or ""):
            raise refused(request)
        match single(form.get("answer", [])):
            case "mine":
                sent = await authorizations.confirm(auth_transaction_id, browser=session.browser)
                code = sent.code.get_secret_value()
                return _sent_page(request, sent.asked, sent.url, kind="sent", code=code)
            case "not-mine" if not await self._is_connected(auth_transaction_id, session):
                asked = await authorizations.reject(auth_transaction_id, browser=session.browser)
                return _back_page(request, "not_me", asked, authorizations.denied(asked))
            case _:
                return _whose(auth_transaction_id)

    async def _is_connected(self, auth_transaction_id: str, session: BrowserSession) -> bool:
        """Tell whether the user has confirmed already, and then went back to the page that asks."""
        welcome = await (await self._authorizations()).completed(auth_transaction_id, browser=session.browser)
        return welcome.connected

    async def _consent(
        self,
        request: Request,
        authorizations: Authorization,
        asked: Asked,
        *,
        chosen: frozenset[str] = frozenset(),
        nothing_chosen: bool = False,
    ) -> Response:
        """Render what the client requests. No call waits yet, so nothing is chosen beforehand."""
        session = BrowserSession.of(request, self._keys())
        sealed = authorizations.seal(asked)
        logo = await authorizations.logo(asked)
        question = Question(
            kind="authorize",
            client=Name.of(asked.client.name),
            host=Name.of_host(self._host),
            action=AUTHORIZE,
            fields={"request": sealed, "csrf": session.form_check(sealed)},
            asks="authorize.choose",
            notes=(
                "consent.know_server",
                "authorize.later",
                "authorize.know_next",
                "consent.know_stored",
                "consent.know_account",
            ),
            facts=_facts(asked),
            imitates=asked.imitates or "",
            warning="authorize.warn_program" if _app(asked) else "",
            logo="" if logo is None else logo.data_uri,
        )
        rows = rows_of(asked.request.scopes, chosen=chosen)
        response = question_page(request.headers, question, rows, nothing_chosen=400 if nothing_chosen else 0)
        session.remember(response)
        return response


def _facts(asked: Asked) -> list[Fact]:
    host = asked.document_host
    known = Fact("authorize.from", (Name.of_host(host),)) if host else None
    if asked.loopback:
        to = Fact("authorize.to", sentence="authorize.to_computer")
    elif asked.private:
        to = Fact("authorize.to", (_where(asked),), sentence="authorize.to_program")
    else:
        to = Fact("authorize.to", (_where(asked),))
    return [known or Fact("authorize.from", sentence="authorize.from_itself"), to]


def again_path(asked: Asked) -> str:
    """Build the path of the same authorization request."""
    request = asked.request
    fields = {
        "response_type": "code",
        "client_id": request.client_id,
        "redirect_uri": request.redirect_uri,
        "code_challenge": request.code_challenge,
        "code_challenge_method": "S256",
        "resource": request.resource,
        "scope": " ".join(shorten(request.scopes)),
    }
    if request.state is not None:
        fields["state"] = request.state
    return f"{AUTHORIZE}?{urlencode(fields)}"


def _question(request: Request) -> Params:
    if is_too_long(request):
        raise AuthorizeRefused("The app's request is longer than this server reads.")
    return params_of(request)


def _sent_page(request: Request, asked: Asked, url: str, *, kind: str, code: str = "") -> Response:
    """Render the page that leads back to the client.

    A form's response may not redirect there, and the client may be on another device than the browser.
    """
    return page(
        request.headers,
        "sent.html",
        headers=_by_itself(url),
        kind=kind,
        url=url,
        code=code,
        client=Name.of(asked.client.name),
        where=_where(asked),
        app=_app(asked),
    )


def _back_page(request: Request, kind: str, asked: Asked, url: str, *, status: int = 200) -> Response:
    """Render that nothing was connected, with a link back to the client."""
    again = "" if kind == "not_possible" else again_path(asked)
    client, app = Name.of(asked.client.name), _app(asked)
    keep_back(request.scope, kind, status=status, url=url, again=again, client=client.plain, app=app)
    return page(
        request.headers,
        "back.html",
        status=status,
        kind=kind,
        url=url,
        again=again,
        client=client,
        app=app,
    )


def _by_itself(url: str) -> dict[str, str]:
    """Return a Refresh header to the URL; none if the URL is too long for a header.

    The page's button remains in any case.
    """
    return {"Refresh": f"0; url={url}"} if len(url) <= _LONGEST_HEADER else {}


def _whose(auth_transaction_id: str) -> Response:
    return see(f"{CONFIRM_CLIENT}?{urlencode({'transaction': auth_transaction_id})}")


def _where(asked: Asked) -> Name:
    return Name.of_host(asked.leads_to)


def _app(asked: Asked) -> bool:
    """Tell whether the redirect URI leads to a program on the user's computer."""
    return asked.loopback or asked.private


def _auth_transaction_id(values: Sequence[str]) -> str:
    value = single(values)
    if value is None or not _ARRIVAL.fullmatch(value):
        raise SignInRefused("There is no such sign-in.")
    return value
