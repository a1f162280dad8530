"""What went wrong, as a page: which sentences, which status, and the reference that is in the log."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.datastructures import Headers
from starlette.responses import Response

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.web.pages import page

# Without letters and digits that look alike, for those who read it out on the telephone.
_REFERENCE_SIGNS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Problem:
    """A key of the catalogue under `problem`, and the HTTP status that goes with it."""

    kind: str
    status: int


_INTERNAL = Problem("internal", 500)

Problems = tuple[tuple[type[Exception], Problem], ...]

# The first that fits wins, so the narrower ones stand above the wider.
PERSONAL: Problems = (
    (errors.FormRefused, Problem("form", 403)),
    (errors.TooManyRequests, Problem("too_many", 429)),
    (errors.InvalidInput, Problem("unreadable", 400)),
    (errors.TlsFailed, Problem("certificate", 502)),
    (errors.TimedOut, Problem("unreachable", 504)),
    (errors.Unreachable, Problem("unreachable", 502)),
    (errors.NotNextcloud, Problem("not_nextcloud", 502)),
    (errors.TooOld, Problem("too_old", 502)),
    (errors.Throttled, Problem("throttled", 503)),
    (errors.Maintenance, Problem("maintenance", 503)),
    (errors.Unavailable, Problem("unreachable", 503)),
    (errors.WrongAccount, Problem("wrong_account", 403)),
    (errors.NextcloudError, Problem("nextcloud", 502)),
)

#: Where users sign in, each with an account of their own.
PEOPLE: Problems = (
    (errors.NotAMember, Problem("not_member", 403)),
    (errors.OtherBrowser, Problem("other_browser", 403)),
    (errors.SignInRefused, Problem("sign_in", 403)),
    (errors.IssuerUnavailable, Problem("issuer", 503)),
    (errors.GrantRefused, Problem("not_confirmed", 403)),
    (errors.AccountTaken, Problem("account_taken", 403)),
    (errors.WrongAccount, Problem("other_nextcloud", 403)),
    *PERSONAL,
)
#: Where a chat client sent a user, and knows no link to open once more.
CLIENT: Problems = (
    (errors.ClientUnknown, Problem("app_unknown", 400)),
    (errors.ClientBarred, Problem("app_barred", 403)),
    (errors.DocumentsOff, Problem("documents_off", 400)),
    (errors.DocumentUnreachable, Problem("document_unreachable", 503)),
    (errors.DocumentTimedOut, Problem("document_timed_out", 504)),
    (errors.DocumentUnfit, Problem("document_unfit", 400)),
    (errors.DocumentHostRefused, Problem("document_host_refused", 403)),
    (errors.AuthorizeRefused, Problem("app_refused", 400)),
    # No failure: what the user wanted is done, and some proxies put a page of their own before a 4xx.
    (errors.AlreadyAnswered, Problem("answered", 200)),
    (errors.FormRefused, Problem("form_app", 403)),
    (errors.InvalidInput, Problem("form_app", 400)),
    *PEOPLE,
)
ACCOUNT: Problems = (
    (errors.FormRefused, Problem("form_account", 403)),
    (errors.InvalidInput, Problem("form_account", 400)),
    *PEOPLE,
)


def problem_of(error: Exception, problems: Problems = PERSONAL) -> Problem:
    """Find the page for an error; one that no one planned is ours."""
    return next((problem for kind, problem in problems if isinstance(error, kind)), _INTERNAL)


def new_reference() -> str:
    """Make a reference for the log and the page, such as `7F3K-92QD`."""
    signs = "".join(secrets.choice(_REFERENCE_SIGNS) for _ in range(8))
    return f"{signs[:4]}-{signs[4:]}"


def problem_page(
    request_headers: Headers,
    problem: Problem,
    *,
    reference: str = "",
    sentence: str = "",
    retry: str = "",
) -> Response:
    """Answer with the page of a problem; `sentence` says more where the state machine knows more."""
    return page(
        request_headers,
        "problem.html",
        status=problem.status,
        kind=problem.kind,
        sentence=sentence,
        reference=reference,
        # The clock on the wall, as the log has it; nothing is decided by it.
        at=datetime.now(UTC).astimezone(),
        retry=retry,
    )


def gone_page(request_headers: Headers) -> Response:
    """Answer with the one page for unknown, malformed, foreign, used and expired links."""
    return page(request_headers, "closed.html", status=404, kind="gone")
