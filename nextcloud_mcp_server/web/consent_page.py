"""The pages of a consent request that all modes share: request, waiting page, result."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.auth.consent.views import ConsentRequest
from nextcloud_mcp_server.web.pages import Name, in_order, page, time_left
from nextcloud_mcp_server.web.problem import Problem, new_reference, problem_page
from nextcloud_mcp_server.web.root_path import rooted

logger = logging.getLogger(__name__)

_WAITING = "/oauth/waiting"


@dataclass(frozen=True, slots=True)
class ConsentForm:
    """The target of the form, and the value that proves that it came from this server's page.

    `person` is the signed-in user, None on a single-user server; `change_csrf` is for the button with which
    another user signs in.
    """

    action: str
    csrf: str = field(repr=False)
    person: Name | None = None
    change_csrf: str = field(default="", repr=False)


def consent_page(
    request_headers: Headers,
    consent_request: ConsentRequest,
    form: ConsentForm,
    *,
    ticked: frozenset[str],
    nothing_ticked: bool = False,
) -> Response:
    """Render a consent request."""
    return page(
        request_headers,
        "consent.html",
        status=422 if nothing_ticked else 200,
        id=consent_request.id,
        form=form,
        client=Name.of(consent_request.client_name),
        identity=consent_request.client,
        origin=Name.of_host((consent_request.client and consent_request.client.host) or ""),
        leads_to=[Name.of_host(place) for place in consent_request.client.leads_to]
        if consent_request.client
        else [],
        client_id=Name.of(consent_request.client.id if consent_request.client else ""),
        host=Name.of_host(consent_request.nextcloud_host),
        reading=in_order(consent_request.offered, writing=False),
        changing=in_order(consent_request.offered, writing=True),
        needed=consent_request.needed,
        granted=consent_request.granted,
        ticked=ticked,
        nothing_ticked=nothing_ticked,
    )


def to_waiting(elicitation_id: str, *, without: Iterable[str] = ()) -> Response:
    """Redirect to the waiting page of a consent request; `without` are the scopes that the user unticked."""
    # 303, never 307: the form must not be posted again (RFC 9700 §4.12).
    return RedirectResponse(_waiting_url(elicitation_id, without=without), 303)


def waiting_page(
    request: Request,
    consent_request: ConsentRequest,
    *,
    login_url: str,
    csrf: str,
    now: datetime,
    follow_seconds: int,
) -> Response:
    """Render the waiting page, while the user confirms at Nextcloud; the page reloads itself."""
    seconds_left = max(0, int((consent_request.expires_at - now).total_seconds()))
    at_most = int(LIFETIME.total_seconds())
    sentence, minutes = time_left(seconds_left)
    without = in_order(consent_request.needed.intersection(request.query_params.getlist("without")))
    here = _waiting_url(consent_request.id, without=without)
    paused = "paused" in request.query_params
    return page(
        request.headers,
        "waiting.html",
        headers={} if paused else {"Refresh": str(follow_seconds)},
        id=consent_request.id,
        csrf=csrf,
        host=Name.of_host(consent_request.nextcloud_host),
        login_url=login_url,
        seconds_left=min(seconds_left, at_most),
        seconds_at_most=at_most,
        time_left=sentence,
        minutes=minutes,
        left_out=without,
        paused=paused,
        here=here,
        paused_here=f"{here}&paused=1",
    )


def _waiting_url(elicitation_id: str, *, without: Iterable[str]) -> str:
    """Build the URL of the waiting page; `without` only tells the user what they unticked."""
    fields = [("elicitationId", elicitation_id), *(("without", scope) for scope in in_order(without))]
    return f"{rooted(_WAITING)}?{urlencode(fields, safe=':')}"


def done_page(
    request_headers: Headers, consent_request: ConsentRequest, *, has_account_page: bool = False
) -> Response:
    """Render what was connected, to which account, and where the user can end it."""
    return page(
        request_headers,
        "done.html",
        account=Name.of(consent_request.account_name or ""),
        client=Name.of(consent_request.client_name),
        host=Name.of_host(consent_request.nextcloud_host),
        reading=in_order(consent_request.granted, writing=False),
        changing=in_order(consent_request.granted, writing=True),
        left_out=in_order(consent_request.needed - consent_request.granted),
        has_account_page=has_account_page,
    )


def failed_page(request_headers: Headers, consent_request: ConsentRequest) -> Response:
    """Render why a consent request failed, with a reference that is in the log."""
    reference = new_reference()
    logger.warning("consent request failed, reference %s: %r", reference, consent_request.error)
    problem = Problem("failed", 200)
    return problem_page(request_headers, problem, reference=reference, sentence=consent_request.error or "")
