"""The pages of a consent request that all modes share: request, waiting page, result."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from nextcloud_mcp_server.auth.consent.views import ClientIdentity, ConsentRequest
from nextcloud_mcp_server.web.access_rows import Row, first_and_more, rows_of, told
from nextcloud_mcp_server.web.pages import Name, in_order, page, time_left
from nextcloud_mcp_server.web.problem import Problem, new_reference, problem_page
from nextcloud_mcp_server.web.root_path import rooted

logger = logging.getLogger(__name__)

_WAITING = "/oauth/waiting"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known of a client: a key of the catalogue, and names or another key.

    An empty name stands for a program on the user's computer.
    """

    label: str
    names: tuple[Name, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """All that the page shows besides the rows, in every mode.

    `kind` is where the catalogue has its title and heading. `about`, `warning`, `asks` and `notes` are keys of the
    catalogue, the first two empty for none. `fields` are hidden ones, among them the value that proves that the
    form came from this server's page. `person` is the signed-in user, None where nobody is signed in;
    `change_fields` are for the button with which another user signs in. `logo` is the client's, as a data URI.
    """

    kind: str
    client: Name
    host: Name
    action: str
    fields: Mapping[str, str] = field(repr=False)
    asks: str
    notes: Sequence[str]
    facts: Sequence[Fact] = ()
    imitates: str = ""
    about: str = ""
    warning: str = ""
    person: Name | None = None
    change_fields: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    logo: str = field(default="", repr=False)


def question_page(
    request_headers: Headers, question: Question, rows: Sequence[Row], *, nothing_chosen: int = 0
) -> Response:
    """Render the page on which a user chooses what a client may do; `nothing_chosen` is a status code, or 0."""
    first, more = first_and_more(rows)
    return page(
        request_headers,
        "consent.html",
        status=nothing_chosen or 200,
        question=question,
        first=first,
        more=more,
        more_open=any(row.chosen and not row.granted for row in more),
        nothing_chosen=bool(nothing_chosen),
    )


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
    chosen: frozenset[str],
    nothing_chosen: bool = False,
) -> Response:
    """Render a consent request. What the user allowed before stays chosen, and cannot be ended here."""
    needed, granted = consent_request.needed, consent_request.granted
    rows = rows_of(
        consent_request.offered,
        chosen=(chosen | granted) & consent_request.offered,
        needed=needed,
        granted=granted,
    )
    question = _question(consent_request, form)
    return question_page(request_headers, question, rows, nothing_chosen=422 if nothing_chosen else 0)


def _question(consent_request: ConsentRequest, form: ConsentForm) -> Question:
    needed, granted = consent_request.needed, consent_request.granted
    signs_in = form.person is not None
    may_skip_nextcloud = signs_in or (granted and needed - granted)
    known = consent_request.client
    return Question(
        kind="consent",
        client=Name.of(consent_request.client_name),
        host=Name.of_host(consent_request.nextcloud_host),
        action=form.action,
        fields={"elicitationId": consent_request.id, "csrf": form.csrf},
        asks="consent.waits_for" if needed - granted else "consent.again",
        notes=(
            "consent.know_server",
            "consent.know_next_maybe" if may_skip_nextcloud else "consent.know_next",
            "consent.know_stored",
            "consent.know_account" if signs_in else "consent.know_end",
        ),
        facts=[] if known is None else _facts(known),
        imitates=(known and known.imitates) or "",
        about="" if signs_in else "consent.any_assistant",
        person=form.person,
        change_fields={"elicitationId": consent_request.id, "csrf": form.change_csrf} if signs_in else {},
    )


def _facts(known: ClientIdentity) -> list[Fact]:
    if known.host:
        return [Fact("authorize.from", (Name.of_host(known.host),))]
    if known.leads_to:
        places = tuple(Name.of_host(place) for place in known.leads_to)
        return [Fact("authorize.from", sentence="authorize.from_itself"), Fact("authorize.to", places)]
    return [Fact("consent.known_as", (Name.of(known.id),))]


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
    at_most = int(consent_request.lifetime.total_seconds())
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
        told=told(consent_request.granted, asked=consent_request.needed),
        left_out=in_order(consent_request.needed - consent_request.granted),
        has_account_page=has_account_page,
    )


def failed_page(request_headers: Headers, consent_request: ConsentRequest) -> Response:
    """Render why a consent request failed, with a reference that is in the log."""
    reference = new_reference()
    failure = consent_request.failure
    logger.warning("consent request failed, reference %s: %r", reference, str(failure))
    return problem_page(request_headers, Problem("failed", 200), reference=reference, failure=failure)
