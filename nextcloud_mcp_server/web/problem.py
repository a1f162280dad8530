"""Error pages: which sentences, which status, and the reference that is in the log."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.web.pages import Name, page

# Without letters and digits that look alike, for users who read it out on the telephone.
_REFERENCE_SIGNS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"


_LONGEST_COPIED = 200
#: What the page says in words: a minute.
_RETRY_AFTER_SECONDS = "60"


@dataclass(frozen=True, slots=True)
class Problem:
    """A key of the catalogue under `problem`, and the HTTP status that goes with it."""

    kind: str
    status: int


_INTERNAL = Problem("internal", 500)

Problems = tuple[tuple[type[Exception], Problem], ...]

# The first match wins, so subclasses come before their base classes.
PERSONAL: Problems = (
    (errors.NoCookies, Problem("no_cookies", 403)),
    (errors.FormRefused, Problem("form", 403)),
    (errors.TooManyRequests, Problem("too_many", 429)),
    (errors.InvalidInput, Problem("unreadable", 400)),
    (errors.TlsFailed, Problem("certificate", 502)),
    (errors.TimedOut, Problem("unreachable", 504)),
    (errors.Unreachable, Problem("unreachable", 502)),
    (errors.NotNextcloud, Problem("not_nextcloud", 502)),
    (errors.TooOld, Problem("too_old", 502)),
    (errors.ProgramRefused, Problem("program_refused", 502)),
    (errors.LoginFlowOff, Problem("no_login_flow", 502)),
    (errors.Throttled, Problem("throttled", 503)),
    (errors.Maintenance, Problem("maintenance", 503)),
    (errors.Unavailable, Problem("unreachable", 503)),
    (errors.WrongAccount, Problem("wrong_account", 403)),
    (errors.NextcloudError, Problem("nextcloud", 502)),
    # Also values whose key this process lacks: until it is restarted with the keys of the others.
    (errors.StorageError, Problem("storage", 503)),
)

#: For servers on which users sign in, each with an account of their own.
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
#: For pages to which a client sent the user, so that there is no link to open again.
CLIENT: Problems = (
    (errors.ClientUnknown, Problem("app_unknown", 400)),
    (errors.ClientBarred, Problem("app_barred", 403)),
    (errors.DocumentsOff, Problem("documents_off", 400)),
    (errors.DocumentUnreachable, Problem("document_unreachable", 503)),
    (errors.DocumentTimedOut, Problem("document_timed_out", 504)),
    (errors.DocumentUnfit, Problem("document_unfit", 400)),
    (errors.DocumentHostRefused, Problem("document_host_refused", 403)),
    (errors.AuthorizeRefused, Problem("app_refused", 400)),
    # Not a failure: the request is answered already, and some proxies replace the page of a 4xx.
    (errors.AlreadyAnswered, Problem("answered", 200)),
    (errors.NoCookies, Problem("no_cookies_app", 403)),
    (errors.FormRefused, Problem("form_app", 403)),
    (errors.InvalidInput, Problem("form_app", 400)),
    (errors.NotAMember, Problem("not_member", 403)),
    (errors.OtherBrowser, Problem("other_browser", 403)),
    (errors.SignInRefused, Problem("sign_in_app", 403)),
    *PEOPLE,
)
ACCOUNT: Problems = (
    (errors.NoCookies, Problem("no_cookies_account", 403)),
    (errors.FormRefused, Problem("form_account", 403)),
    (errors.InvalidInput, Problem("form_account", 400)),
    *PEOPLE,
)


def problem_of(error: Exception, problems: Problems = PERSONAL) -> Problem:
    """Return the page for an exception; an unexpected one is this server's fault."""
    return next((problem for kind, problem in problems if isinstance(error, kind)), _INTERNAL)


def new_reference() -> str:
    """Return a reference for the log and the page, such as `7F3K-92QD`."""
    signs = "".join(secrets.choice(_REFERENCE_SIGNS) for _ in range(8))
    return f"{signs[:4]}-{signs[4:]}"


def problem_page(
    request_headers: Headers,
    problem: Problem,
    *,
    reference: str = "",
    failure: Failure | None = None,
    retry: str = "",
    elsewhere: str = "",
) -> Response:
    """Render the page of a problem.

    `failure` says why a consent request failed, if this version has words for it, and `elsewhere` is an address to go
    on at in another browser.
    """
    known = failure if failure is not None and failure.is_known else None
    response = page(
        request_headers,
        "problem.html",
        status=problem.status,
        kind=problem.kind,
        reason=f"failed.{known.code}" if known else "",
        values={key: Name.of(value) for key, value in known.values.items()} if known else {},
        reference=reference,
        # Nothing is decided by it.
        at=datetime.now(UTC),
        retry=retry,
        elsewhere=elsewhere,
    )
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = _RETRY_AFTER_SECONDS
    return response


def address_of(scope: Scope, path: str) -> str:
    """Return the whole address of a path of this server, for another browser; "" for one that is too long to copy."""
    url = Request(scope).url
    return f"{url.scheme}://{url.netloc}{path}" if 0 < len(path) <= _LONGEST_COPIED else ""


def gone_page(request_headers: Headers, *, has_account_page: bool) -> Response:
    """Render the one page for unknown, malformed, used and expired links, and for those of other users."""
    return page(request_headers, "closed.html", status=404, kind="gone", has_account_page=has_account_page)
