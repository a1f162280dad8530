"""The pages of a consent request in single-user mode: request, waiting page, result.

There is no sign-in: the operator is the user. A GET changes nothing, whatever sends it. Unknown, malformed,
used and expired links get the same answer, to the byte.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.errors import ElicitationUnknown, FormRefused
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.browser_session import BrowserSession
from nextcloud_mcp_server.web.consent_page import (
    ConsentForm,
    consent_page,
    done_page,
    failed_page,
    to_waiting,
    waiting_page,
)
from nextcloud_mcp_server.web.forms import one_id, read_form, require_our_page, single
from nextcloud_mcp_server.web.pages import page

_FOLLOW_SECONDS = 2
_PROVISION = "/oauth/provision"


class SingleUserConsent(Protocol):
    """What the pages need of the consent state machine."""

    async def view(self, elicitation_id: str) -> ConsentRequest | None:
        """Return a consent request, or None if there is none."""
        ...

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> ConsentRequest:
        """Record the ticked scopes, and start or reuse the login flow at Nextcloud."""
        ...

    async def decline(self, elicitation_id: str) -> None:
        """End a consent request that is not final yet; nothing is connected."""
        ...


class NothingToAllow:
    """Used where the operator's settings hold the credential: every link is unknown."""

    async def view(self, elicitation_id: str) -> ConsentRequest | None:
        """Return None, so that an attacker who tries links learns nothing about the settings."""
        del elicitation_id

    async def approve(self, elicitation_id: str, scopes: frozenset[str]) -> ConsentRequest:
        """Refuse, as for every unknown link."""
        del elicitation_id, scopes
        raise ElicitationUnknown("There is no such request.")

    async def decline(self, elicitation_id: str) -> None:
        """Refuse, as for every unknown link."""
        del elicitation_id
        raise ElicitationUnknown("There is no such request.")


@dataclass(frozen=True, slots=True)
class _Context:
    """One request: the consent state machine, and the session of the browser."""

    consent: SingleUserConsent
    session: BrowserSession

    async def find(self, elicitation_id: str) -> ConsentRequest:
        consent_request = await self.consent.view(elicitation_id)
        if consent_request is None:
            raise ElicitationUnknown("There is no such request.")
        return consent_request


class ConsentPages:
    """The handlers of the consent pages; exceptions pass through to `middleware.PageErrors`."""

    def __init__(
        self,
        consent: Callable[[], Awaitable[SingleUserConsent]],
        *,
        csrf_keys: Callable[[], Sequence[bytes]],
        clock: Callable[[], datetime],
    ) -> None:
        self._consent = consent
        self._csrf_keys = csrf_keys
        self._clock = clock

    async def show(self, request: Request) -> Response:
        """Render the consent request; this changes nothing."""
        elicitation_id = one_id(request.query_params.getlist("elicitationId"))
        context = await self._context(request)
        consent_request = await context.find(elicitation_id)
        if context.session.holds_ticket(elicitation_id) and (
            consent_request.state.final or consent_request.login_url
        ):
            return to_waiting(elicitation_id)
        if consent_request.state.final:
            raise ElicitationUnknown("This request is over.")
        return self._consent_page(request, context.session, consent_request, ticked=consent_request.needed)

    async def answer(self, request: Request) -> Response:
        """Handle the form with the user's answer."""
        elicitation_id, form, context = await self._checked_form(request)
        consent_request = await context.find(elicitation_id)
        if consent_request.state.final:
            if context.session.holds_ticket(elicitation_id):
                return to_waiting(elicitation_id)
            raise ElicitationUnknown("This request is over.")
        # Scopes that are granted already stay so, whatever this form says: this page does not end them.
        ticked = (frozenset(form.get("allow", ())) | consent_request.granted) & consent_request.offered
        answer = single(form.get("answer", []))
        if answer == "deny":
            await context.consent.decline(elicitation_id)
        elif answer != "allow":
            return self._consent_page(request, context.session, consent_request, ticked=ticked)
        elif not ticked:
            return self._consent_page(
                request, context.session, consent_request, ticked=ticked, nothing_ticked=True
            )
        else:
            await context.consent.approve(elicitation_id, ticked)
        response = to_waiting(
            elicitation_id, without=consent_request.needed - ticked if answer == "allow" else ()
        )
        context.session.give_ticket(response, elicitation_id)
        return response

    async def wait(self, request: Request) -> Response:
        """Render the waiting page, in the browser that answered."""
        elicitation_id = one_id(request.query_params.getlist("elicitationId"))
        context = await self._context(request)
        if not context.session.holds_ticket(elicitation_id):
            raise ElicitationUnknown("Another browser gave the answer, or none did.")
        consent_request = await context.find(elicitation_id)
        match consent_request.state:
            case ElicitationState.COMPLETE:
                return done_page(request.headers, consent_request)
            case ElicitationState.DECLINED:
                return page(request.headers, "closed.html", kind="declined")
            case ElicitationState.FAILED:
                return failed_page(request.headers, consent_request)
            case ElicitationState.PENDING | ElicitationState.OPENED if consent_request.login_url is not None:
                return waiting_page(
                    request,
                    consent_request,
                    login_url=consent_request.login_url.get_secret_value(),
                    csrf=context.session.form_check(elicitation_id),
                    now=self._clock(),
                    follow_seconds=_FOLLOW_SECONDS,
                )
            case _:
                raise ElicitationUnknown("This request is over.")

    async def cancel(self, request: Request) -> Response:
        """Decline the consent request from the waiting page."""
        elicitation_id, _, context = await self._checked_form(request)
        if not context.session.holds_ticket(elicitation_id):
            raise ElicitationUnknown("Another browser gave the answer, or none did.")
        consent_request = await context.find(elicitation_id)
        if not consent_request.state.final:
            await context.consent.decline(elicitation_id)
        return to_waiting(elicitation_id)

    async def _context(self, request: Request) -> _Context:
        # The keys come with the state machine, which is created on first use.
        consent = await self._consent()
        return _Context(consent, BrowserSession.of(request, self._csrf_keys()))

    async def _checked_form(self, request: Request) -> tuple[str, dict[str, list[str]], _Context]:
        """Read a form that this server's page in this browser sent; nothing is looked up before this check."""
        require_our_page(request)
        form = await read_form(request)
        elicitation_id = one_id(form.get("elicitationId", []))
        request.state.retry = f"{_PROVISION}?elicitationId={elicitation_id}"
        context = await self._context(request)
        if not context.session.accepts(elicitation_id, single(form.get("csrf", [])) or ""):
            raise FormRefused("The form was made for another browser, or is too old.")
        return elicitation_id, form, context

    def _consent_page(
        self,
        request: Request,
        session: BrowserSession,
        consent_request: ConsentRequest,
        *,
        ticked: frozenset[str],
        nothing_ticked: bool = False,
    ) -> Response:
        response = consent_page(
            request.headers,
            consent_request,
            ConsentForm(_PROVISION, session.form_check(consent_request.id)),
            ticked=ticked,
            nothing_ticked=nothing_ticked,
        )
        session.remember(response)
        return response
