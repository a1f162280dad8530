"""The pages of one visit: what is asked for, waiting for Nextcloud, and how it ended.

In personal mode nobody signs in here: the operator is the person. A GET changes nothing, whatever
fetches it. Links that are unknown, malformed, used or expired look the same, to the byte.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.auth.visit import Visit
from nextcloud_mcp_server.errors import ElicitationUnknown, FormRefused
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.browser_session import BrowserSession
from nextcloud_mcp_server.web.forms import one_id, read_form, require_our_page, single
from nextcloud_mcp_server.web.pages import page
from nextcloud_mcp_server.web.visit_pages import (
    ConsentForm,
    consent_page,
    done_page,
    failed_page,
    to_waiting,
    waiting_page,
)

_FOLLOW_SECONDS = 2
_PROVISION = "/oauth/provision"


class Consent(Protocol):
    """What the pages need of the state machine behind them."""

    async def view(self, elicitation_id: str) -> Visit | None:
        """Show a visit, or None when there is none."""
        ...

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> Visit:
        """Record what was ticked and start, or reuse, the sign-in at Nextcloud."""
        ...

    async def decline(self, elicitation_id: str) -> None:
        """End a visit that is not final yet; nothing is connected."""
        ...


class NothingToAllow:
    """Stands behind the pages where the operator's settings give the access: every link leads nowhere."""

    async def view(self, elicitation_id: str) -> Visit | None:
        """Know no visit, so that whoever tries links learns nothing about the settings."""
        del elicitation_id

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> Visit:
        """Refuse, as for every link that is unknown."""
        del elicitation_id, scopes
        raise ElicitationUnknown("There is no such request.")

    async def decline(self, elicitation_id: str) -> None:
        """Refuse, as for every link that is unknown."""
        del elicitation_id
        raise ElicitationUnknown("There is no such request.")


@dataclass(frozen=True, slots=True)
class _Context:
    """One request: the state machine, and the session of the browser."""

    consent: Consent
    session: BrowserSession

    async def find(self, visit_id: str) -> Visit:
        visit = await self.consent.view(visit_id)
        if visit is None:
            raise ElicitationUnknown("There is no such request.")
        return visit


class ConsentPages:
    """The handlers of the consent pages; errors pass through to `middleware.PageErrors`."""

    def __init__(
        self,
        consent: Callable[[], Awaitable[Consent]],
        *,
        csrf_keys: Callable[[], Sequence[bytes]],
        clock: Callable[[], datetime],
    ) -> None:
        self._consent = consent
        self._csrf_keys = csrf_keys
        self._clock = clock

    async def show(self, request: Request) -> Response:
        """Show what is asked for, without any effect."""
        visit_id = one_id(request.query_params.getlist("elicitationId"))
        context = await self._context(request)
        visit = await context.find(visit_id)
        if context.session.holds_ticket(visit_id) and (visit.state.final or visit.login_url):
            return to_waiting(visit_id)
        if visit.state.final:
            raise ElicitationUnknown("This request is over.")
        return self._consent_page(request, context.session, visit, ticked=visit.needed)

    async def answer(self, request: Request) -> Response:
        """Take the person's answer."""
        visit_id, form, context = await self._checked_form(request)
        visit = await context.find(visit_id)
        if visit.state.final:
            if context.session.holds_ticket(visit_id):
                return to_waiting(visit_id)
            raise ElicitationUnknown("This request is over.")
        # What is allowed already stays so, whatever this form says: it is ended elsewhere.
        ticked = (frozenset(form.get("allow", ())) | visit.granted) & visit.offered
        answer = single(form.get("answer", []))
        if answer == "deny":
            await context.consent.decline(visit_id)
        elif answer != "allow":
            return self._consent_page(request, context.session, visit, ticked=ticked)
        elif not ticked:
            return self._consent_page(request, context.session, visit, ticked=ticked, nothing_ticked=True)
        else:
            await context.consent.approve(visit_id, ticked)
        response = to_waiting(visit_id, without=visit.needed - ticked if answer == "allow" else ())
        context.session.give_ticket(response, visit_id)
        return response

    async def wait(self, request: Request) -> Response:
        """Follow a visit to its end, in the browser that gave the answer."""
        visit_id = one_id(request.query_params.getlist("elicitationId"))
        context = await self._context(request)
        if not context.session.holds_ticket(visit_id):
            raise ElicitationUnknown("Another browser gave the answer, or none did.")
        visit = await context.find(visit_id)
        match visit.state:
            case ElicitationState.COMPLETE:
                return done_page(request.headers, visit)
            case ElicitationState.DECLINED:
                return page(request.headers, "closed.html", kind="declined")
            case ElicitationState.FAILED:
                return failed_page(request.headers, visit)
            case ElicitationState.PENDING | ElicitationState.OPENED if visit.login_url is not None:
                return waiting_page(
                    request,
                    visit,
                    login_url=visit.login_url.get_secret_value(),
                    csrf=context.session.form_check(visit_id),
                    now=self._clock(),
                    follow_seconds=_FOLLOW_SECONDS,
                )
            case _:
                raise ElicitationUnknown("This request is over.")

    async def cancel(self, request: Request) -> Response:
        """End the visit from the waiting page."""
        visit_id, _, context = await self._checked_form(request)
        if not context.session.holds_ticket(visit_id):
            raise ElicitationUnknown("Another browser gave the answer, or none did.")
        visit = await context.find(visit_id)
        if not visit.state.final:
            await context.consent.decline(visit_id)
        return to_waiting(visit_id)

    async def _context(self, request: Request) -> _Context:
        # The keys come with the state machine, which is built when it is first asked for.
        consent = await self._consent()
        return _Context(consent, BrowserSession.of(request, self._csrf_keys()))

    async def _checked_form(self, request: Request) -> tuple[str, dict[str, list[str]], _Context]:
        """Read a form that our own page in this browser sent; before anything is looked up by it."""
        require_our_page(request)
        form = await read_form(request)
        visit_id = one_id(form.get("elicitationId", []))
        request.state.retry = f"{_PROVISION}?elicitationId={visit_id}"
        context = await self._context(request)
        if not context.session.accepts(visit_id, single(form.get("csrf", [])) or ""):
            raise FormRefused("The form was made for another browser, or is too old.")
        return visit_id, form, context

    def _consent_page(
        self,
        request: Request,
        session: BrowserSession,
        visit: Visit,
        *,
        ticked: frozenset[str],
        nothing_ticked: bool = False,
    ) -> Response:
        response = consent_page(
            request.headers,
            visit,
            ConsentForm(_PROVISION, session.form_check(visit.id)),
            ticked=ticked,
            nothing_ticked=nothing_ticked,
        )
        session.remember(response)
        return response
