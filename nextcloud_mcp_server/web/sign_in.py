"""The pages around a sign-in: before it, on the way to it, and coming back from it."""

from starlette.responses import Response

from nextcloud_mcp_server.errors import ElicitationUnknown
from nextcloud_mcp_server.web.cookies import Onward
from nextcloud_mcp_server.web.forms import require_our_page
from nextcloud_mcp_server.web.known_browser import remember_browser
from nextcloud_mcp_server.web.pages import Name, page
from nextcloud_mcp_server.web.proxies import client_address, network_of
from nextcloud_mcp_server.web.visitor import (
    ACCOUNT,
    ACCOUNT_TARGET,
    CONSENT,
    OTHER_ACCOUNT,
    PROVISION,
    SIGN_IN,
    Visitor,
    asked_id,
    onward_page,
    our_form,
    params_of,
    path_of,
    require_check,
    see,
    visit_of,
    visit_path,
    visit_target,
)


class SignInPages:
    """The handlers; `nextcloud_host` is what the page before a sign-in may name."""

    def __init__(self, nextcloud_host: str) -> None:
        self._host = nextcloud_host

    async def ask(self, visitor: Visitor) -> Response:
        """Say that somebody wants something, and nothing more.

        The page is the same for every link, also for those who are signed in, and holds no id: its form
        is sent to its own address. Nothing is looked up, so nothing can be told apart.
        """
        asked_id(visitor, visitor.request.query_params.getlist("elicitationId"))
        return page(visitor.request.headers, "provision.html", host=Name.of_host(self._host))

    async def begin(self, visitor: Visitor) -> Response:
        """Start a sign-in for a visit; who is signed in already goes straight on."""
        require_our_page(visitor.request)
        elicitation_id = asked_id(visitor, visitor.request.query_params.getlist("elicitationId"))
        if visitor.who is not None:
            return see(visit_path(CONSENT, elicitation_id))
        return await _start(visitor, visit_target(elicitation_id))

    async def begin_for_account(self, visitor: Visitor) -> Response:
        """Start a sign-in for the account page."""
        require_our_page(visitor.request)
        visitor.request.state.retry = ACCOUNT
        return see(ACCOUNT) if visitor.who is not None else await _start(visitor, ACCOUNT_TARGET)

    async def change_person(self, visitor: Visitor) -> Response:
        """Sign out whoever is signed in, and start again for the same visit."""
        form = await our_form(visitor)
        elicitation_id = asked_id(visitor, form.get("elicitationId", []))
        if visitor.who is not None:
            require_check(visitor, form, OTHER_ACCOUNT)
            await visitor.visits.sign_out(visitor.cookies.session)
        if visitor.visits.can_switch:
            response = await _start(visitor, visit_target(elicitation_id), another=True)
        else:
            again = visit_path(PROVISION, elicitation_id)
            response = page(visitor.request.headers, "closed.html", kind="switch", again=again)
        visitor.cookies.end_session(response)
        return response

    async def go_on(self, visitor: Visitor) -> Response:
        """Lead on to the sign-in that this browser has begun."""
        onward = visitor.cookies.where_to("sign-in")
        if onward is None:
            raise ElicitationUnknown("This browser has begun no sign-in.")
        return onward_page(visitor, onward, "sign_in")

    async def come_back(self, visitor: Visitor) -> Response:
        """Take the answer of the identity provider, and replace its address at once."""
        onward = visitor.cookies.where_to("sign-in")
        if onward is not None:
            visitor.request.state.retry = _retry_path(onward.target)
        # Also where this browser began none: another one may have, and then its code is ended.
        done = await visitor.visits.finish_sign_in(
            visitor.cookies.flow,
            params_of(visitor.request),
            place=network_of(client_address(visitor.request.scope)),
        )
        if visitor.cookies.session:
            await visitor.visits.sign_out(visitor.cookies.session)
        remember_browser(visitor.request)
        response = see(path_of(done.target))
        visitor.cookies.set_session(response, done.token.get_secret_value())
        return response


async def _start(visitor: Visitor, target: str, *, another: bool = False) -> Response:
    started = await visitor.visits.begin_sign_in(target, another=another)
    response = see(SIGN_IN)
    visitor.cookies.set_flow(response, started.flow.get_secret_value(), Onward(started.url, target))
    return response


def _retry_path(target: str) -> str:
    return ACCOUNT if target == ACCOUNT_TARGET else visit_path(PROVISION, visit_of(target))
