"""The request context: the user at the browser, and the next redirect target.

Every redirect target is a path that is made here; no part of a request is ever used as a URL.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.errors import OtherPerson
from nextcloud_mcp_server.storage.records import Principal, SignedIn
from nextcloud_mcp_server.web.browser_session import BrowserSession
from nextcloud_mcp_server.web.callback_result import keep_other_account
from nextcloud_mcp_server.web.cookies import Cookies, RedirectTarget
from nextcloud_mcp_server.web.forms import one_id, read_form, refused, require_our_page, single
from nextcloud_mcp_server.web.pages import Name, page
from nextcloud_mcp_server.web.root_path import rooted

PROVISION = "/oauth/provision"
SIGN_IN = "/oauth/sign-in"
CONSENT = "/oauth/consent"
NEXTCLOUD = "/oauth/nextcloud"
CONFIRM = "/oauth/confirm"
NOT_ME = "/oauth/not-me"
DONE = "/oauth/done"
OTHER_ACCOUNT = "/oauth/other-account"
ACCOUNT = "/account"

ACCOUNT_TARGET = "account"
_CONSENT_REQUEST = "consent:"
# Some providers' codes are JWTs of two thousand characters.
_LONGEST_QUERY = 8_000


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request: the consent service, the browser's cookies, and the user.

    `session` makes and checks the values of forms: the browser session, or without a sign-in the browser's own.
    """

    request: Request
    consent_service: ConsentService
    cookies: Cookies
    session: Cookies | BrowserSession
    who: SignedIn | None

    @property
    def name(self) -> Name:
        """The name of the signed-in user on the pages."""
        return person_name(self.who) if self.who else Name("")


Handler = Callable[[RequestContext], Awaitable[Response]]
PersonHandler = Callable[[RequestContext, SignedIn], Awaitable[Response]]


class EndpointFactory:
    """Makes endpoints of handlers: reads the browser session, and handles requests of another user.

    `on_person` is called with each request of a signed-in user, and may refuse it.
    """

    def __init__(
        self,
        consent_service: Callable[[], Awaitable[ConsentService]],
        *,
        keys: Callable[[], Sequence[bytes]],
        on_person: Callable[[Principal], Awaitable[None]] | None = None,
    ) -> None:
        self._consent_service = consent_service
        self._keys = keys
        self._on_person = on_person

    def public(
        self, handler: Handler, *, is_callback: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that needs no browser session."""

        async def endpoint(request: Request) -> Response:
            context = await self._meet(request, is_callback=is_callback)
            try:
                return await handler(context)
            except OtherPerson:
                return _other_account_page(context)

        return endpoint

    def require_session(
        self, handler: PersonHandler, *, otherwise: Handler, is_callback: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that needs a browser session; without one `otherwise` answers.

        A callback is counted by its address only: refusing it unread would leave its code usable.
        """

        async def either(context: RequestContext) -> Response:
            if context.who is None:
                return await otherwise(context)
            if self._on_person is not None and not is_callback:
                await self._on_person(context.who.principal)
            return await handler(context, context.who)

        return self.public(either, is_callback=is_callback)

    async def _meet(self, request: Request, *, is_callback: bool) -> RequestContext:
        # The keys come with the consent service, which is created on first use.
        consent_service = await self._consent_service()
        keys = self._keys()
        cookies = Cookies.of(request, keys)
        if consent_service.implicit_user is not None:
            session = BrowserSession.of(request, keys)
            return RequestContext(request, consent_service, cookies, session, consent_service.implicit_user)
        who = None
        if cookies.session:
            who = await consent_service.signed_in(cookies.session, is_callback=is_callback)
        return RequestContext(request, consent_service, cookies, cookies, who)


def person_name(who: SignedIn) -> Name:
    """Return a user's name from the sign-in, or else their id."""
    return Name.of(who.display_name) or Name.of(who.uid or "") or Name.of(who.principal.subject)


async def our_form(context: RequestContext) -> dict[str, list[str]]:
    """Read a form that one of this server's pages sent.

    Raises:
        FormRefused: Another page sent it, or its session has ended while it came.
    """
    require_our_page(context.request)
    form = await read_form(context.request)
    if context.who is not None and context.consent_service.implicit_user is None:
        # The session was looked up before; a browser chooses how slowly the form comes.
        now = await context.consent_service.signed_in(context.cookies.session, is_callback=True)
        if now is None or now.principal != context.who.principal:
            raise refused(context.request)
    return form


def require_check(context: RequestContext, form: dict[str, list[str]], purpose: str) -> None:
    """Refuse a form unless it was made for this purpose in this session.

    Raises:
        FormRefused: It was made in another session, or long ago.
    """
    if not context.session.accepts(purpose, single(form.get("csrf", [])) or ""):
        raise refused(context.request)


def asked_id(context: RequestContext, values: Sequence[str]) -> str:
    """Return the id of the consent request of a request, and store it for the error pages.

    Raises:
        ElicitationUnknown: It is missing, there twice, or malformed.
    """
    elicitation_id = one_id(values)
    context.request.state.elicitation_id = elicitation_id
    context.request.state.retry = consent_path(PROVISION, elicitation_id)
    return elicitation_id


def params_of(request: Request) -> Params:
    """Return the parameters of a callback, each with all its values.

    Of a query that is longer than any provider's only the codes are read: without a `state` the callback is
    refused, and the codes are marked as spent.
    """
    query = request.query_params
    wanted = ("code",) if is_too_long(request) else tuple(query)
    return {name: query.getlist(name) for name in wanted}


def is_too_long(request: Request) -> bool:
    """Tell whether a query is longer than any that is expected."""
    return len(request.url.query) > _LONGEST_QUERY


def consent_target(elicitation_id: str) -> str:
    """Return the sign-in target for a consent request."""
    return f"{_CONSENT_REQUEST}{elicitation_id}"


def path_of(target: str) -> str:
    """Return the path of the page for a sign-in target."""
    return (
        consent_path(CONSENT, elicitation_id_of(target)) if target.startswith(_CONSENT_REQUEST) else ACCOUNT
    )


def elicitation_id_of(target: str) -> str:
    """Return the id of the consent request in a sign-in target.

    Raises:
        ElicitationUnknown: The target is no consent request.
    """
    return one_id([target.removeprefix(_CONSENT_REQUEST)])


def consent_path(path: str, elicitation_id: str) -> str:
    """Build the path of a page of a consent request."""
    return f"{rooted(path)}?{urlencode({'elicitationId': elicitation_id})}"


def see(path: str) -> Response:
    """Redirect to a page of this server. 303, never 307: nothing is posted again (RFC 9700 §4.12)."""
    return RedirectResponse(path, 303)


def redirect_page(context: RequestContext, redirect_target: RedirectTarget, kind: str) -> Response:
    """Render a page that redirects to another site.

    A form's response may not redirect there: `form-action 'self'` stops that in Chromium. The Refresh header is
    not part of the form submission any more, and the link is for browsers that ignore it.
    """
    return page(
        context.request.headers,
        "redirect.html",
        headers={"Refresh": f"0; url={redirect_target.url}"},
        kind=kind,
        url=redirect_target.url,
        there=Name.of_host(urlsplit(redirect_target.url).netloc),
        person=context.name,
    )


def _other_account_page(context: RequestContext) -> Response:
    elicitation_id: str = getattr(context.request.state, "elicitation_id", "")
    csrf = context.cookies.form_check(OTHER_ACCOUNT)
    scope = context.request.scope
    keep_other_account(scope, elicitation_id=elicitation_id, csrf=csrf, person=context.name.plain)
    return page(
        context.request.headers,
        "other_account.html",
        status=403,
        id=elicitation_id,
        csrf=csrf,
        person=context.name,
    )
