"""The pages of one visit for the person it is for: what is asked, whose account it is, how it ended."""

from collections.abc import Callable
from datetime import datetime

from starlette.responses import Response

from nextcloud_mcp_server.auth.visit import Visit
from nextcloud_mcp_server.errors import ElicitationUnknown, SignInRefused, WrongAccount
from nextcloud_mcp_server.storage.records import ElicitationState, SignedIn
from nextcloud_mcp_server.web.cookies import Onward
from nextcloud_mcp_server.web.forms import single
from nextcloud_mcp_server.web.pages import Name, in_order, page
from nextcloud_mcp_server.web.visit_pages import (
    ConsentForm,
    consent_page,
    done_page,
    failed_page,
    to_waiting,
    waiting_page,
)
from nextcloud_mcp_server.web.visitor import (
    CONFIRM,
    CONSENT,
    DONE,
    NEXTCLOUD,
    NOT_ME,
    OTHER_ACCOUNT,
    PROVISION,
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

# Many people wait at once, maybe behind one address, which may ask only so often.
_FOLLOW_SECONDS = 5


class VisitPages:
    """The handlers. Each asks for the visit as the person who is signed in, and so may be refused."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    async def show(self, visitor: Visitor, who: SignedIn) -> Response:
        """Show what is asked for."""
        visit = await visitor.visits.view(_id_in_address(visitor), who)
        onward = await _further_on(visitor, who, visit)
        return onward or consent_page(
            visitor.request.headers, visit, _form(visitor, visit.id), ticked=visit.needed
        )

    async def sign_in_first(self, visitor: Visitor) -> Response:
        """Send who is not signed in to the page before the sign-in."""
        return see(visit_path(PROVISION, _id_in_address(visitor)))

    async def answer(self, visitor: Visitor, who: SignedIn) -> Response:
        """Take the person's answer."""
        form = await our_form(visitor)
        elicitation_id = asked_id(visitor, form.get("elicitationId", []))
        require_check(visitor, form, elicitation_id)
        visit = await visitor.visits.view(elicitation_id, who)
        if visit.state.final:
            return see(visit_path(DONE, elicitation_id))
        # What is allowed already stays so, whatever this form says: it is ended on the account page.
        ticked = (frozenset(form.get("allow", ())) | visit.granted) & visit.offered
        answer = single(form.get("answer", []))
        if answer == "deny":
            await visitor.visits.decline(elicitation_id, who)
            return see(visit_path(DONE, elicitation_id))
        if answer != "allow" or not ticked:
            return consent_page(
                visitor.request.headers,
                visit,
                _form(visitor, elicitation_id),
                ticked=ticked,
                nothing_ticked=answer == "allow",
            )
        url = await visitor.visits.allow(elicitation_id, who, visitor.cookies.session, ticked)
        if url is None:
            now = await visitor.visits.view(elicitation_id, who)
            done = see(visit_path(DONE, elicitation_id))
            return done if now.state.final else to_waiting(elicitation_id, without=now.needed - ticked)
        response = see(NEXTCLOUD)
        visitor.cookies.set_onward(response, Onward(url, visit_target(elicitation_id)))
        return response

    async def answer_signed_out(self, visitor: Visitor) -> Response:
        """Send who was signed out meanwhile to sign in again; nothing of the form counts."""
        form = await our_form(visitor)
        return see(visit_path(PROVISION, asked_id(visitor, form.get("elicitationId", []))))

    async def go_on(self, visitor: Visitor, who: SignedIn) -> Response:
        """Lead on to Nextcloud."""
        onward = visitor.cookies.where_to("nextcloud")
        if onward is None:
            raise ElicitationUnknown("This browser was sent nowhere.")
        visit = await visitor.visits.view(visit_of(onward.target), who)
        return await _further_on(visitor, who, visit) or onward_page(visitor, onward, "nextcloud")

    async def nowhere(self, visitor: Visitor) -> Response:
        """Show the page for old links to who is not signed in."""
        del visitor
        raise ElicitationUnknown("Nobody is signed in.")

    async def wait(self, visitor: Visitor, who: SignedIn) -> Response:
        """Follow a visit that no browser comes back from to its end."""
        visit = await visitor.visits.view(_id_in_address(visitor), who)
        if visit.state.final:
            return see(visit_path(DONE, visit.id))
        if visit.login_url is None:
            if visit.error is not None:
                visitor.request.state.retry = visit_path(CONSENT, visit.id)
                raise WrongAccount(visit.error)
            return see(visit_path(CONSENT, visit.id))
        return waiting_page(
            visitor.request,
            visit,
            login_url=visit.login_url.get_secret_value(),
            csrf=visitor.cookies.form_check(_waiting_for(visit.id)),
            now=self._clock(),
            follow_seconds=_FOLLOW_SECONDS,
        )

    async def cancel(self, visitor: Visitor, who: SignedIn) -> Response:
        """End a visit from the page that follows it."""
        form = await our_form(visitor)
        elicitation_id = asked_id(visitor, form.get("elicitationId", []))
        require_check(visitor, form, _waiting_for(elicitation_id))
        visit = await visitor.visits.view(elicitation_id, who)
        if not visit.state.final:
            await visitor.visits.decline(elicitation_id, who)
        return see(visit_path(DONE, elicitation_id))

    async def come_back(self, visitor: Visitor, who: SignedIn) -> Response:
        """Take the answer of the grant provider, and replace its address at once."""
        onward = visitor.cookies.where_to("nextcloud")
        if onward is not None:
            asked_id(visitor, [visit_of(onward.target)])
            visitor.request.state.retry = path_of(onward.target)
        params = params_of(visitor.request)
        done = await visitor.visits.finish_grant(params, who, visitor.cookies.session)
        response = see(visit_path(CONFIRM if done.held else DONE, done.elicitation_id))
        visitor.cookies.end_onward(response)
        return response

    async def come_back_signed_out(self, visitor: Visitor) -> Response:
        """Refuse an answer that no signed-in browser brings, and end what it belongs to."""
        await visitor.visits.end_foreign(params_of(visitor.request))
        raise SignInRefused("The answer came from a browser in which nobody is signed in.")

    async def ask_whose(self, visitor: Visitor, who: SignedIn) -> Response:
        """Name the account that was given, and ask whether it is this person's."""
        visit = await visitor.visits.view(_id_in_address(visitor), who)
        held = await visitor.visits.held(visit.id, who, visitor.cookies.session)
        if held is None:
            return see(visit_path(DONE if visit.state.final else CONSENT, visit.id))
        picture = await visitor.visits.picture(held)
        return page(
            visitor.request.headers,
            "connected_as.html",
            id=visit.id,
            csrf=visitor.cookies.form_check(_confirming(visit.id)),
            person=visitor.name,
            client=Name.of(visit.client_name),
            host=Name.of_host(visit.nextcloud_host),
            account=Name.of(held.display_name) or Name.of(held.uid),
            uid=Name.of(held.uid),
            picture="" if picture is None else picture.data_uri,
            reading=in_order(held.scopes, writing=False),
            changing=in_order(held.scopes, writing=True),
        )

    async def confirm(self, visitor: Visitor, who: SignedIn) -> Response:
        """Take the answer whose account it is."""
        form = await our_form(visitor)
        elicitation_id = asked_id(visitor, form.get("elicitationId", []))
        require_check(visitor, form, _confirming(elicitation_id))
        answer = single(form.get("answer", []))
        if answer not in ("mine", "not-mine"):
            return see(visit_path(CONFIRM, elicitation_id))
        mine = answer == "mine"
        await visitor.visits.confirm(elicitation_id, who, visitor.cookies.session, mine=mine)
        return see(visit_path(DONE if mine else NOT_ME, elicitation_id))

    async def not_me(self, visitor: Visitor, who: SignedIn) -> Response:
        """Say that what was given was taken back, and what to do before the next try."""
        visit = await visitor.visits.view(_id_in_address(visitor), who)
        again = "" if visit.state.final else visit_path(CONSENT, visit.id)
        return page(visitor.request.headers, "closed.html", kind="not_me", again=again)

    async def done(self, visitor: Visitor, who: SignedIn) -> Response:
        """Say how it ended."""
        visit = await visitor.visits.view(_id_in_address(visitor), who)
        match visit.state:
            case ElicitationState.COMPLETE:
                return done_page(visitor.request.headers, visit, has_account_page=True)
            case ElicitationState.DECLINED:
                return page(visitor.request.headers, "closed.html", kind="declined")
            case ElicitationState.FAILED:
                return failed_page(visitor.request.headers, visit)
            case ElicitationState.EXPIRED:
                raise ElicitationUnknown("This request is over.")
            case _:
                return see(visit_path(CONSENT, visit.id))


async def _further_on(visitor: Visitor, who: SignedIn, visit: Visit) -> Response | None:
    """Send who has answered already to where the visit stands."""
    if visit.state.final:
        return see(visit_path(DONE, visit.id))
    if await visitor.visits.held(visit.id, who, visitor.cookies.session):
        return see(visit_path(CONFIRM, visit.id))
    return to_waiting(visit.id) if visit.login_url is not None else None


def _id_in_address(visitor: Visitor) -> str:
    return asked_id(visitor, visitor.request.query_params.getlist("elicitationId"))


def _form(visitor: Visitor, elicitation_id: str) -> ConsentForm:
    check = visitor.cookies.form_check
    return ConsentForm(CONSENT, check(elicitation_id), visitor.name, check(OTHER_ACCOUNT))


def _confirming(elicitation_id: str) -> str:
    return f"confirm {elicitation_id}"


def _waiting_for(elicitation_id: str) -> str:
    return f"wait {elicitation_id}"
