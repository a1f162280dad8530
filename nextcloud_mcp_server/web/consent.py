"""The pages of a consent request, in every mode: request, confirmation of the account, waiting page, result.

A GET changes nothing, whatever sends it. Unknown, malformed, used and expired links get the same answer, to the
byte. In single-user mode there is no sign-in: only the browser that answered sees how the request goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.responses import Response

from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.errors import AccountTaken, ElicitationUnknown, SignInRefused, WrongAccount
from nextcloud_mcp_server.storage.records import ElicitationState, SignedIn
from nextcloud_mcp_server.web.access_rows import scopes_in, told
from nextcloud_mcp_server.web.consent_page import (
    ConsentForm,
    consent_page,
    done_page,
    failed_page,
    to_waiting,
    waiting_page,
)
from nextcloud_mcp_server.web.cookies import RedirectTarget
from nextcloud_mcp_server.web.forms import one_id, single
from nextcloud_mcp_server.web.pages import Name, page
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
from nextcloud_mcp_server.web.root_path import rooted


@dataclass(frozen=True, slots=True)
class ConsentFlow:
    """What differs between the modes.

    `question` is the path of the consent page. Where users sign in, the result has a page of its own, and the form
    of the waiting page is not that of the consent page.
    """

    question: str
    signs_in: bool
    follow_seconds: int

    def to_result(self, elicitation_id: str, *, without: Iterable[str] = ()) -> Response:
        """Redirect to the result, which the waiting page shows where there is no sign-in."""
        if self.signs_in:
            return see(consent_path(DONE, elicitation_id))
        return to_waiting(elicitation_id, without=without)

    def cancel_check(self, elicitation_id: str) -> str:
        """Return the purpose of the form on the waiting page."""
        return f"wait {elicitation_id}" if self.signs_in else elicitation_id


SINGLE_USER = ConsentFlow(PROVISION, signs_in=False, follow_seconds=2)
# Many users may wait at once behind one address, which has a limit on requests.
MULTI_USER = ConsentFlow(CONSENT, signs_in=True, follow_seconds=5)


class ConsentPages:
    """The handlers. Each reads the consent request as its user, and so may be refused."""

    def __init__(self, flow: ConsentFlow, *, clock: Callable[[], datetime]) -> None:
        self._flow = flow
        self._clock = clock

    async def show(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the consent request; this changes nothing."""
        consent_request = await context.consent_service.view(self._id_in_address(context), who)
        response = await self._further_on(context, who, consent_request)
        return response or self._consent_page(context, consent_request, chosen=consent_request.needed)

    async def sign_in_first(self, context: RequestContext) -> Response:
        """Redirect a browser without a session to the page before the sign-in."""
        return see(consent_path(PROVISION, self._id_in_address(context)))

    async def answer(self, context: RequestContext, who: SignedIn) -> Response:
        """Handle the form with the user's answer."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        require_check(context, form, elicitation_id)
        consent_request = await context.consent_service.view(elicitation_id, who)
        if consent_request.state.final:
            _require_ticket(context, elicitation_id)
            return self._flow.to_result(elicitation_id)
        # Scopes that are granted already stay so, whatever this form says: this page does not end them.
        offered = consent_request.offered
        chosen = scopes_in(form, offered) | consent_request.granted & offered
        answer = single(form.get("answer", []))
        if answer == "deny":
            await context.consent_service.decline(elicitation_id, who)
            response = self._flow.to_result(elicitation_id)
        elif answer != "allow" or not chosen:
            return self._consent_page(
                context, consent_request, chosen=chosen, nothing_chosen=answer == "allow"
            )
        else:
            response = await self._allow(context, who, elicitation_id, chosen)
        context.session.give_ticket(response, elicitation_id)
        return response

    async def _allow(
        self, context: RequestContext, who: SignedIn, elicitation_id: str, chosen: frozenset[str]
    ) -> Response:
        url = await context.consent_service.allow(elicitation_id, who, context.cookies.session, chosen)
        if url is not None:
            response = see(NEXTCLOUD)
            context.cookies.set_redirect_target(response, RedirectTarget(url, consent_target(elicitation_id)))
            return response
        now = await context.consent_service.view(elicitation_id, who)
        if now.state.final:
            return self._flow.to_result(elicitation_id, without=now.needed - chosen)
        return to_waiting(elicitation_id, without=now.needed - chosen)

    async def answer_signed_out(self, context: RequestContext) -> Response:
        """Redirect a form to the sign-in if its session has ended; nothing of the form is used."""
        form = await our_form(context)
        return see(consent_path(PROVISION, asked_id(context, form.get("elicitationId", []))))

    async def wait(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the waiting page of a login flow, or redirect to where the consent request is."""
        elicitation_id = self._id_in_address(context)
        _require_ticket(context, elicitation_id)
        consent_request = await context.consent_service.view(elicitation_id, who)
        if consent_request.state.final and not self._flow.signs_in:
            return self._result(context, consent_request)
        if consent_request.state.final:
            return self._flow.to_result(elicitation_id)
        if consent_request.login_url is None:
            return self._not_begun(context, consent_request)
        return waiting_page(
            context.request,
            consent_request,
            login_url=consent_request.login_url.get_secret_value(),
            csrf=context.session.form_check(self._flow.cancel_check(elicitation_id)),
            now=self._clock(),
            follow_seconds=self._flow.follow_seconds,
        )

    def _not_begun(self, context: RequestContext, consent_request: ConsentRequest) -> Response:
        if not self._flow.signs_in:
            raise ElicitationUnknown("This request has no login flow to wait for.")
        failure = consent_request.failure
        if failure is not None:
            context.request.state.retry = consent_path(CONSENT, consent_request.id)
            raise (AccountTaken if failure.code == "account_taken" else WrongAccount)(failure)
        return see(consent_path(CONSENT, consent_request.id))

    async def cancel(self, context: RequestContext, who: SignedIn) -> Response:
        """Decline a consent request from the waiting page."""
        form = await our_form(context)
        elicitation_id = asked_id(context, form.get("elicitationId", []))
        require_check(context, form, self._flow.cancel_check(elicitation_id))
        _require_ticket(context, elicitation_id)
        consent_request = await context.consent_service.view(elicitation_id, who)
        if not consent_request.state.final:
            await context.consent_service.decline(elicitation_id, who)
        return self._flow.to_result(elicitation_id)

    async def done(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the result of a consent request."""
        consent_request = await context.consent_service.view(self._id_in_address(context), who)
        if not consent_request.state.final:
            return see(consent_path(CONSENT, consent_request.id))
        return self._result(context, consent_request)

    def _result(self, context: RequestContext, consent_request: ConsentRequest) -> Response:
        match consent_request.state:
            case ElicitationState.COMPLETE:
                has_account_page = self._flow.signs_in
                return done_page(context.request.headers, consent_request, has_account_page=has_account_page)
            case ElicitationState.DECLINED:
                return page(context.request.headers, "closed.html", kind="declined")
            case ElicitationState.FAILED:
                return failed_page(context.request.headers, consent_request)
            case _:
                raise ElicitationUnknown("This request is over.")

    def _id_in_address(self, context: RequestContext) -> str:
        values: Sequence[str] = context.request.query_params.getlist("elicitationId")
        return asked_id(context, values) if self._flow.signs_in else one_id(values)

    async def _further_on(
        self, context: RequestContext, who: SignedIn, consent_request: ConsentRequest
    ) -> Response | None:
        """Redirect a user who has answered already to the page of the next step; None if they have not."""
        elicitation_id, final = consent_request.id, consent_request.state.final
        if not context.session.holds_ticket(elicitation_id):
            if final:
                raise ElicitationUnknown("This request is over.")
            return None
        if final:
            return self._flow.to_result(elicitation_id)
        if self._flow.signs_in and await context.consent_service.pending_grant(
            elicitation_id, who, context.cookies.session
        ):
            return see(consent_path(CONFIRM, elicitation_id))
        return to_waiting(elicitation_id) if consent_request.login_url is not None else None

    def _consent_page(
        self,
        context: RequestContext,
        consent_request: ConsentRequest,
        *,
        chosen: frozenset[str],
        nothing_chosen: bool = False,
    ) -> Response:
        check = context.session.form_check
        form = ConsentForm(rooted(self._flow.question), check(consent_request.id))
        if self._flow.signs_in:
            form = replace(form, person=context.name, change_csrf=check(OTHER_ACCOUNT))
        response = consent_page(
            context.request.headers, consent_request, form, chosen=chosen, nothing_chosen=nothing_chosen
        )
        context.session.remember(response)
        return response

    async def redirect(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the page that redirects to Nextcloud."""
        redirect_target = context.cookies.where_to("nextcloud")
        if redirect_target is None:
            raise ElicitationUnknown("This browser has no redirect to Nextcloud under way.")
        consent_request = await context.consent_service.view(elicitation_id_of(redirect_target.target), who)
        return await self._further_on(context, who, consent_request) or redirect_page(
            context, redirect_target, "nextcloud"
        )

    async def refuse_without_session(self, context: RequestContext) -> Response:
        """Raise as for an unknown link: this page needs a browser session."""
        del context
        raise ElicitationUnknown("No user is signed in.")

    async def callback(self, context: RequestContext, who: SignedIn) -> Response:
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

    async def callback_signed_out(self, context: RequestContext) -> Response:
        """Refuse a callback in a browser without a session, and end the flow that it belongs to."""
        await context.consent_service.end_foreign(params_of(context.request))
        raise SignInRefused("The answer came from a browser in which no user is signed in.")

    async def ask_whose_account(self, context: RequestContext, who: SignedIn) -> Response:
        """Render the account of the pending grant, and ask whether it is this user's."""
        consent_request = await context.consent_service.view(self._id_in_address(context), who)
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
            told=told(pending_grant.scopes),
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

    async def revoked(self, context: RequestContext, who: SignedIn) -> Response:
        """Render that the access was revoked, and what to do before the next try."""
        consent_request = await context.consent_service.view(self._id_in_address(context), who)
        again = "" if consent_request.state.final else consent_path(CONSENT, consent_request.id)
        return page(context.request.headers, "closed.html", kind="not_me", again=again)


def _require_ticket(context: RequestContext, elicitation_id: str) -> None:
    if not context.session.holds_ticket(elicitation_id):
        raise ElicitationUnknown("Another browser gave the answer, or none did.")


def _confirming(elicitation_id: str) -> str:
    return f"confirm {elicitation_id}"
