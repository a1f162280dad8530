"""The pages of one visit that all modes share: what is asked for, and how it ended."""

import logging
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.responses import Response

from nextcloud_mcp_server.auth.visit import Visit
from nextcloud_mcp_server.web.pages import Name, in_order, page
from nextcloud_mcp_server.web.problem import Problem, new_reference, problem_page

logger = logging.getLogger(__name__)


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
        host=Name.of_host(visit.nextcloud_host),
        reading=in_order(visit.offered, writing=False),
        changing=in_order(visit.offered, writing=True),
        needed=visit.needed,
        granted=visit.granted,
        ticked=ticked,
        nothing_ticked=nothing_ticked,
    )


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
