"""Who is at the other end of a request, in the mode of many users, and where they go next.

Every place a user is sent to is a path of ours that is made here; nothing of a request is ever
taken as an address.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nextcloud_mcp_server.errors import FormRefused, OtherPerson
from nextcloud_mcp_server.storage.records import Principal, SignedIn
from nextcloud_mcp_server.web.callback_result import keep_other_account
from nextcloud_mcp_server.web.consent_backend import ConsentBackend, Params
from nextcloud_mcp_server.web.cookies import Cookies, RedirectTarget
from nextcloud_mcp_server.web.forms import one_id, read_form, require_our_page, single
from nextcloud_mcp_server.web.pages import Name, page

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
    """One request: the state machine, the browser's cookies, and who is signed in there."""

    request: Request
    consent_service: ConsentBackend
    cookies: Cookies
    who: SignedIn | None

    @property
    def name(self) -> Name:
        """How the pages call the user who is signed in."""
        return person_name(self.who) if self.who else Name("")


Handler = Callable[[RequestContext], Awaitable[Response]]
PersonHandler = Callable[[RequestContext, SignedIn], Awaitable[Response]]


class EndpointFactory:
    """Makes endpoints of handlers: finds out who asks, and shows who is signed in as another user.

    `on_person` hears of each request of a user who is signed in, and may refuse it.
    """

    def __init__(
        self,
        consent_service: Callable[[], Awaitable[ConsentBackend]],
        *,
        keys: Callable[[], Sequence[bytes]],
        on_person: Callable[[Principal], Awaitable[None]] | None = None,
    ) -> None:
        self._consent_service = consent_service
        self._keys = keys
        self._on_person = on_person

    def public(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that needs no browser session."""

        async def endpoint(request: Request) -> Response:
            context = await self._meet(request)
            try:
                return await handler(context)
            except OtherPerson:
                return _other_account_page(context)

        return endpoint

    def require_session(
        self, handler: PersonHandler, *, otherwise: Handler, is_callback: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that needs a browser session; without one `otherwise` answers.

        A callback is counted by its address alone: a code that is refused before it is read stays usable.
        """

        async def either(context: RequestContext) -> Response:
            if context.who is None:
                return await otherwise(context)
            if self._on_person is not None and not is_callback:
                await self._on_person(context.who.principal)
            return await handler(context, context.who)

        return self.public(either)

    async def _meet(self, request: Request) -> RequestContext:
        # The keys come with the state machine, which is built when it is first asked for.
        consent_service = await self._consent_service()
        cookies = Cookies.of(request, self._keys())
        who = await consent_service.signed_in(cookies.session) if cookies.session else None
        return RequestContext(request, consent_service, cookies, who)


def person_name(who: SignedIn) -> Name:
    """Call a user by the name the sign-in gave, or by what it knows them as."""
    return Name.of(who.display_name) or Name.of(who.uid or "") or Name.of(who.principal.subject)


async def our_form(context: RequestContext) -> dict[str, list[str]]:
    """Read a form that one of our pages sent.

    Raises:
        FormRefused: Another page sent it.
    """
    require_our_page(context.request)
    return await read_form(context.request)


def require_check(context: RequestContext, form: dict[str, list[str]], purpose: str) -> None:
    """Let a form pass only when it was made for this purpose in this session.

    Raises:
        FormRefused: It was made in another session, or long ago.
    """
    if not context.cookies.accepts(purpose, single(form.get("csrf", [])) or ""):
        raise FormRefused("The form was made in another session, or is too old.")


def asked_id(context: RequestContext, values: Sequence[str]) -> str:
    """Take the id of the consent request that a request is about, and remember it for the pages of problems.

    Raises:
        ElicitationUnknown: It is missing, there twice, or has another shape.
    """
    elicitation_id = one_id(values)
    context.request.state.elicitation_id = elicitation_id
    context.request.state.retry = consent_path(PROVISION, elicitation_id)
    return elicitation_id


def params_of(request: Request) -> Params:
    """Read the parameters of a callback, each with every value it has.

    Of an address that is longer than any provider sends only the codes are read: without a `state` it is refused, and
    the codes are spent.
    """
    query = request.query_params
    wanted = ("code",) if is_too_long(request) else tuple(query)
    return {name: query.getlist(name) for name in wanted}


def is_too_long(request: Request) -> bool:
    """Tell whether a query is longer than any that is expected."""
    return len(request.url.query) > _LONGEST_QUERY


def consent_target(elicitation_id: str) -> str:
    """Name a consent request as what a sign-in is for."""
    return f"{_CONSENT_REQUEST}{elicitation_id}"


def path_of(target: str) -> str:
    """Find the page that a sign-in was for."""
    return (
        consent_path(CONSENT, elicitation_id_of(target)) if target.startswith(_CONSENT_REQUEST) else ACCOUNT
    )


def elicitation_id_of(target: str) -> str:
    """Find the consent request that a sign-in was for.

    Raises:
        ElicitationUnknown: It was for something else.
    """
    return one_id([target.removeprefix(_CONSENT_REQUEST)])


def consent_path(path: str, elicitation_id: str) -> str:
    """Address a page of a consent request."""
    return f"{path}?{urlencode({'elicitationId': elicitation_id})}"


def see(path: str) -> Response:
    """Send the browser to a page of ours. 303, never 307: nothing is posted again (RFC 9700 §4.12)."""
    return RedirectResponse(path, 303)


def redirect_page(context: RequestContext, redirect_target: RedirectTarget, kind: str) -> Response:
    """Lead on to another site.

    A form's answer may not redirect there: `form-action 'self'` stops that in Chromium. The header is
    no part of the form's answer any more, and the link is for those whose browser does not follow it.
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
