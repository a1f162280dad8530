"""The pages of a consent request in multi-user modes: request, confirmation of the account, result."""

from collections.abc import Callable
from datetime import datetime

from starlette.responses import Response

from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.errors import ElicitationUnknown, SignInRefused, WrongAccount
from nextcloud_mcp_server.storage.records import ElicitationState, SignedIn
from nextcloud_mcp_server.web.consent_page import (
    ConsentForm,
    consent_page,
    done_page,
    failed_page,
    to_waiting,
    waiting_page,
)
from nextcloud_mcp_server.web.cookies import RedirectTarget
from nextcloud_mcp_server.web.forms import single
from nextcloud_mcp_server.web.pages import Name, in_order, page
from nextcloud_mcp_server.web.request_context import (
    CONFIRM,
    CONSENT,
    DONE,
    NEXTCLOUD,
    NOT_ME,
    OTHER_ACCOUNT,
    PROVISION,
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

# Many users may wait at once behind one address, which has a limit on requests.
_FOLLOW_SECONDS = 5


class MultiUserConsentPages:
    """The handlers. Each reads the consent request as the signed-in user, and so may be refused."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    async def show(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the consent request."""
        consent_request = await context.consent_service.view(_id_in_address(context), who)
        response = await _further_on(context, who, consent_request)
        return response or consent_page(
            context.request.headers,
            consent_request,
            _form(context, consent_request.id),
            ticked=consent_request.needed,
        )

    async def sign_in_first(self, context: RequestContext) -> Response:
        """Redirect a browser without a session to the page before the sign-in."""
        return see(consent_path(PROVISION, _id_in_address(context)))

    async def answer(self, context: RequestContext, who: SignedIn) -> Response:
        """Handle the form with the user's answer."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        require_check(context, form, elicitation_id)
        consent_request = await context.consent_service.view(elicitation_id, who)
        if consent_request.state.final:
            return see(consent_path(DONE, elicitation_id))
        # Scopes that are granted already stay so, whatever this form says: they are ended on the account page.
        ticked = (frozenset(form.get("allow", ())) | consent_request.granted) & consent_request.offered
        answer = single(form.get("answer", []))
        if answer == "deny":
            await context.consent_service.decline(elicitation_id, who)
            return see(consent_path(DONE, elicitation_id))
        if answer != "allow" or not ticked:
            return consent_page(
                context.request.headers,
                consent_request,
                _form(context, elicitation_id),
                ticked=ticked,
                nothing_ticked=answer == "allow",
            )
        url = await context.consent_service.allow(elicitation_id, who, context.cookies.session, ticked)
        if url is None:
            now = await context.consent_service.view(elicitation_id, who)
            done = see(consent_path(DONE, elicitation_id))
            return done if now.state.final else to_waiting(elicitation_id, without=now.needed - ticked)
        response = see(NEXTCLOUD)
        context.cookies.set_redirect_target(response, RedirectTarget(url, consent_target(elicitation_id)))
        return response

    async def answer_signed_out(self, context: RequestContext) -> Response:
        """Redirect a form to the sign-in if its session has ended; nothing of the form is used."""
        form = await our_form(context)
        return see(consent_path(PROVISION, asked_id(context, form.get("elicitationId", []))))

    async def go_on(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the page that redirects to Nextcloud."""
        redirect_target = context.cookies.where_to("nextcloud")
        if redirect_target is None:
            raise ElicitationUnknown("This browser was sent nowhere.")
        consent_request = await context.consent_service.view(elicitation_id_of(redirect_target.target), who)
        return await _further_on(context, who, consent_request) or redirect_page(
            context, redirect_target, "nextcloud"
        )

    async def nowhere(self, context: RequestContext) -> Response:
        """Raise as for an unknown link: this page needs a browser session."""
        del context
        raise ElicitationUnknown("No user is signed in.")

    async def wait(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the waiting page of a login flow, or redirect to where the consent request is."""
        consent_request = await context.consent_service.view(_id_in_address(context), who)
        if consent_request.state.final:
            return see(consent_path(DONE, consent_request.id))
        if consent_request.login_url is None:
            if consent_request.error is not None:
                context.request.state.retry = consent_path(CONSENT, consent_request.id)
                raise WrongAccount(consent_request.error)
            return see(consent_path(CONSENT, consent_request.id))
        return waiting_page(
            context.request,
            consent_request,
            login_url=consent_request.login_url.get_secret_value(),
            csrf=context.cookies.form_check(_waiting_for(consent_request.id)),
            now=self._clock(),
            follow_seconds=_FOLLOW_SECONDS,
        )

    async def cancel(self, context: RequestContext, who: SignedIn) -> Response:
        """Decline a consent request from the waiting page."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        require_check(context, form, _waiting_for(elicitation_id))
        consent_request = await context.consent_service.view(elicitation_id, who)
        if not consent_request.state.final:
            await context.consent_service.decline(elicitation_id, who)
        return see(consent_path(DONE, elicitation_id))

    async def come_back(self, context: RequestContext, who: SignedIn) -> Response:
        """Handle the callback of the grant provider, and redirect to an address without the code."""
        redirect_target = context.cookies.where_to("nextcloud")
        if redirect_target is not None:
            asked_id(context, [elicitation_id_of(redirect_target.target)])
            context.request.state.retry = path_of(redirect_target.target)
        params = params_of(context.request)
        done = await context.consent_service.finish_grant(params, who, context.cookies.session)
        response = see(consent_path(CONFIRM if done.pending_grant else DONE, done.elicitation_id))
        context.cookies.end_redirect_target(response)
        return response

    async def come_back_signed_out(self, context: RequestContext) -> Response:
        """Refuse a callback in a browser without a session, and end the flow that it belongs to."""
        await context.consent_service.end_foreign(params_of(context.request))
        raise SignInRefused("The answer came from a browser in which no user is signed in.")

    async def ask_whose_account(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the account of the pending grant, and ask whether it is this user's."""
        consent_request = await context.consent_service.view(_id_in_address(context), who)
        pending_grant = await context.consent_service.pending_grant(
            consent_request.id, who, context.cookies.session
        )
        if pending_grant is None:
            return see(consent_path(DONE if consent_request.state.final else CONSENT, consent_request.id))
        picture = await context.consent_service.picture(pending_grant)
        return page(
            context.request.headers,
            "connected_as.html",
            id=consent_request.id,
            csrf=context.cookies.form_check(_confirming(consent_request.id)),
            person=context.name,
            client=Name.of(consent_request.client_name),
            host=Name.of_host(consent_request.nextcloud_host),
            account=Name.of(pending_grant.display_name) or Name.of(pending_grant.uid),
            uid=Name.of(pending_grant.uid),
            picture="" if picture is None else picture.data_uri,
            reading=in_order(pending_grant.scopes, writing=False),
            changing=in_order(pending_grant.scopes, writing=True),
        )

    async def confirm(self, context: RequestContext, who: SignedIn) -> Response:
        """Handle the form with the answer whether the account is the user's."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        require_check(context, form, _confirming(elicitation_id))
        answer = single(form.get("answer", []))
        if answer not in ("mine", "not-mine"):
            return see(consent_path(CONFIRM, elicitation_id))
        mine = answer == "mine"
        await context.consent_service.confirm(elicitation_id, who, context.cookies.session, mine=mine)
        return see(consent_path(DONE if mine else NOT_ME, elicitation_id))

    async def not_me(self, context: RequestContext, who: SignedIn) -> Response:
        """Render that the access was revoked, and what to do before the next try."""
        consent_request = await context.consent_service.view(_id_in_address(context), who)
        again = "" if consent_request.state.final else consent_path(CONSENT, consent_request.id)
        return page(context.request.headers, "closed.html", kind="not_me", again=again)

    async def done(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the result of a consent request."""
        consent_request = await context.consent_service.view(_id_in_address(context), who)
        match consent_request.state:
            case ElicitationState.COMPLETE:
                return done_page(context.request.headers, consent_request, has_account_page=True)
            case ElicitationState.DECLINED:
                return page(context.request.headers, "closed.html", kind="declined")
            case ElicitationState.FAILED:
                return failed_page(context.request.headers, consent_request)
            case ElicitationState.EXPIRED:
                raise ElicitationUnknown("This request is over.")
            case _:
                return see(consent_path(CONSENT, consent_request.id))


async def _further_on(
    context: RequestContext, who: SignedIn, consent_request: ConsentRequest
) -> Response | None:
    """Redirect a user who has answered already to the page of the next step; None if they have not."""
    if consent_request.state.final:
        return see(consent_path(DONE, consent_request.id))
    if await context.consent_service.pending_grant(consent_request.id, who, context.cookies.session):
        return see(consent_path(CONFIRM, consent_request.id))
    return to_waiting(consent_request.id) if consent_request.login_url is not None else None


def _id_in_address(context: RequestContext) -> str:
    return asked_id(context, context.request.query_params.getlist("elicitationId"))


def _form(context: RequestContext, elicitation_id: str) -> ConsentForm:
    check = context.cookies.form_check
    return ConsentForm(CONSENT, check(elicitation_id), context.name, check(OTHER_ACCOUNT))


def _confirming(elicitation_id: str) -> str:
    return f"confirm {elicitation_id}"


def _waiting_for(elicitation_id: str) -> str:
    return f"wait {elicitation_id}"
