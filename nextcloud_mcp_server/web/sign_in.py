"""The pages around a sign-in: before it, the redirect to it, and its callback."""

from starlette.responses import Response

from nextcloud_mcp_server.errors import ElicitationUnknown, NoCookies
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
    """The handlers; `nextcloud_host` may be shown before a sign-in."""

    def __init__(self, nextcloud_host: str) -> None:
        self._host = nextcloud_host

    async def ask(self, context: RequestContext) -> Response:
        """Render the page before a sign-in, which says nothing about the consent request.

        The page is the same for every link, also for signed-in users, and holds no id: its form is sent to its
        own URL. Nothing is looked up, so that links cannot be told apart.
        """
        asked_id(context, context.request.query_params.getlist("elicitationId"))
        return page(context.request.headers, "provision.html", host=Name.of_host(self._host))

    async def begin(self, context: RequestContext) -> Response:
        """Start a sign-in for a consent request; redirect a signed-in user to the request."""
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
        """End the browser session, and start a sign-in for the same consent request."""
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

    async def redirect(self, context: RequestContext) -> Response:
        """Render the page that redirects to the sign-in that this browser has begun."""
        redirect_target = context.cookies.where_to("sign-in")
        if redirect_target is None:
            if "cookie" not in context.request.headers:
                # Only a form of this server leads here, and it has set two.
                raise NoCookies("The browser came without any cookie.")
            raise ElicitationUnknown("This browser has begun no sign-in.")
        return redirect_page(context, redirect_target, "sign_in")

    async def callback(self, context: RequestContext) -> Response:
        """Handle the callback of the identity provider, and redirect to an address without the code."""
        redirect_target = context.cookies.where_to("sign-in")
        if redirect_target is not None:
            context.request.state.retry = _retry_path(redirect_target.target)
        # Also if this browser began no sign-in: another one may have, and then its code is ended.
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
