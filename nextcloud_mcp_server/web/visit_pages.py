"""The pages of one visit that all modes share: what is asked for, waiting for Nextcloud, how it ended."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nextcloud_mcp_server.auth.provisioning import LIFETIME
from nextcloud_mcp_server.auth.visit import Visit
from nextcloud_mcp_server.web.pages import Name, in_order, page, time_left
from nextcloud_mcp_server.web.problem import Problem, new_reference, problem_page

logger = logging.getLogger(__name__)

_WAITING = "/oauth/waiting"


@dataclass(frozen=True, slots=True)
class ConsentForm:
    """Where the answer goes, and what shows that it comes from our page.

    `person` is who is signed in, None where one person uses the server; `change_csrf` is for the
    button with which somebody else takes their place.
    """

    action: str
    csrf: str = field(repr=False)
    person: Name | None = None
    change_csrf: str = field(default="", repr=False)


def consent_page(
    request_headers: Headers,
    visit: Visit,
    form: ConsentForm,
    *,
    ticked: frozenset[str],
    nothing_ticked: bool = False,
) -> Response:
    """Show what is asked for."""
    return page(
        request_headers,
        "consent.html",
        status=422 if nothing_ticked else 200,
        id=visit.id,
        form=form,
        client=Name.of(visit.client_name),
        identity=visit.client,
        origin=Name.of_host((visit.client and visit.client.host) or ""),
        leads_to=[Name.of_host(place) for place in visit.client.leads_to] if visit.client else [],
        client_id=Name.of(visit.client.id if visit.client else ""),
        host=Name.of_host(visit.nextcloud_host),
        reading=in_order(visit.offered, writing=False),
        changing=in_order(visit.offered, writing=True),
        needed=visit.needed,
        granted=visit.granted,
        ticked=ticked,
        nothing_ticked=nothing_ticked,
    )


def to_waiting(visit_id: str, *, without: Iterable[str] = ()) -> Response:
    """Send the browser to the page that follows a visit; `without` is what the person left out."""
    # 303, never 307: the answer must not be posted again (RFC 9700 §4.12).
    return RedirectResponse(_waiting_url(visit_id, without=without), 303)


def waiting_page(
    request: Request, visit: Visit, *, login_url: str, csrf: str, now: datetime, follow_seconds: int
) -> Response:
    """Follow a visit while its person confirms at Nextcloud; the page looks again by itself."""
    seconds_left = max(0, int((visit.expires_at - now).total_seconds()))
    at_most = int(LIFETIME.total_seconds())
    sentence, minutes = time_left(seconds_left)
    without = in_order(visit.needed.intersection(request.query_params.getlist("without")))
    here = _waiting_url(visit.id, without=without)
    paused = "paused" in request.query_params
    return page(
        request.headers,
        "waiting.html",
        headers={} if paused else {"Refresh": str(follow_seconds)},
        id=visit.id,
        csrf=csrf,
        host=Name.of_host(visit.nextcloud_host),
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


def _waiting_url(visit_id: str, *, without: Iterable[str]) -> str:
    """Address the waiting page; `without` is only for telling the person what they left out."""
    fields = [("elicitationId", visit_id), *(("without", scope) for scope in in_order(without))]
    return f"{_WAITING}?{urlencode(fields, safe=':')}"


def done_page(request_headers: Headers, visit: Visit, *, has_account_page: bool = False) -> Response:
    """Say what was connected, to which account, and where it ends."""
    return page(
        request_headers,
        "done.html",
        account=Name.of(visit.account_name or ""),
        client=Name.of(visit.client_name),
        host=Name.of_host(visit.nextcloud_host),
        reading=in_order(visit.granted, writing=False),
        changing=in_order(visit.granted, writing=True),
        left_out=in_order(visit.needed - visit.granted),
        has_account_page=has_account_page,
    )


def failed_page(request_headers: Headers, visit: Visit) -> Response:
    """Say why a visit failed, with a reference that is in the log."""
    reference = new_reference()
    logger.warning("visit failed, reference %s: %r", reference, visit.error)
    problem = Problem("failed", 200)
    return problem_page(request_headers, problem, reference=reference, sentence=visit.error or "")
