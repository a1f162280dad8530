"""The pages around a sign-in: before it, on the way to it, and coming back from it."""

from starlette.responses import Response

from nextcloud_mcp_server.errors import ElicitationUnknown
from nextcloud_mcp_server.web.cookies import RedirectTarget
from nextcloud_mcp_server.web.forms import require_our_page
from nextcloud_mcp_server.web.known_browser import remember_browser
from nextcloud_mcp_server.web.pages import Name, page
from nextcloud_mcp_server.web.proxies import client_address, network_of
from nextcloud_mcp_server.web.request_context import (
    ACCOUNT,
    ACCOUNT_TARGET,
    CONSENT,
    OTHER_ACCOUNT,
    PROVISION,
    SIGN_IN,
    RequestContext,
    asked_id,
    consent_path,
    consent_target,
    elicitation_id_of,
    our_form,
    params_of,
    path_of,
    redirect_page,
    require_check,
    see,
)


class SignInPages:
    """The handlers; `nextcloud_host` is what the page before a sign-in may name."""

    def __init__(self, nextcloud_host: str) -> None:
        self._host = nextcloud_host

    async def ask(self, context: RequestContext) -> Response:
        """Say that a user wants something, and nothing more.

        The page is the same for every link, also for those who are signed in, and holds no id: its form
        is sent to its own address. Nothing is looked up, so nothing can be told apart.
        """
        asked_id(context, context.request.query_params.getlist("elicitationId"))
        return page(context.request.headers, "provision.html", host=Name.of_host(self._host))

    async def begin(self, context: RequestContext) -> Response:
        """Start a sign-in for a consent request; who is signed in already goes straight on."""
        require_our_page(context.request)
        elicitation_id = asked_id(context, context.request.query_params.getlist("elicitationId"))
        if context.who is not None:
            return see(consent_path(CONSENT, elicitation_id))
        return await _start(context, consent_target(elicitation_id))

    async def begin_for_account(self, context: RequestContext) -> Response:
        """Start a sign-in for the account page."""
        require_our_page(context.request)
        context.request.state.retry = ACCOUNT
        return see(ACCOUNT) if context.who is not None else await _start(context, ACCOUNT_TARGET)

    async def change_person(self, context: RequestContext) -> Response:
        """Sign out anyone who is signed in, and start again for the same consent request."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        if context.who is not None:
            require_check(context, form, OTHER_ACCOUNT)
            await context.consent_service.sign_out(context.cookies.session)
        if context.consent_service.can_switch:
            response = await _start(context, consent_target(elicitation_id), another=True)
        else:
            again = consent_path(PROVISION, elicitation_id)
            response = page(context.request.headers, "closed.html", kind="switch", again=again)
        context.cookies.end_session(response)
        return response

    async def go_on(self, context: RequestContext) -> Response:
        """Lead on to the sign-in that this browser has begun."""
        redirect_target = context.cookies.where_to("sign-in")
        if redirect_target is None:
            raise ElicitationUnknown("This browser has begun no sign-in.")
        return redirect_page(context, redirect_target, "sign_in")

    async def come_back(self, context: RequestContext) -> Response:
        """Take the answer of the identity provider, and replace its address at once."""
        redirect_target = context.cookies.where_to("sign-in")
        if redirect_target is not None:
            context.request.state.retry = _retry_path(redirect_target.target)
        # Also where this browser began none: another one may have, and then its code is ended.
        done = await context.consent_service.finish_sign_in(
            context.cookies.flow,
            params_of(context.request),
            place=network_of(client_address(context.request.scope)),
        )
        if context.cookies.session:
            await context.consent_service.sign_out(context.cookies.session)
        remember_browser(context.request)
        response = see(path_of(done.target))
        context.cookies.set_session(response, done.token.get_secret_value())
        return response


async def _start(context: RequestContext, target: str, *, another: bool = False) -> Response:
    started = await context.consent_service.begin_sign_in(target, another=another)
    response = see(SIGN_IN)
    context.cookies.set_flow(response, started.flow.get_secret_value(), RedirectTarget(started.url, target))
    return response


def _retry_path(target: str) -> str:
    return ACCOUNT if target == ACCOUNT_TARGET else consent_path(PROVISION, elicitation_id_of(target))
