"""Every page of a single-user server, and how a browser reaches it."""

from collections.abc import Callable

from playwright.sync_api import Page

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import Unreachable
from nextcloud_mcp_server.storage.failure import Failure
from tests.e2e.navigation import follow, visit
from tests.e2e.single_user_server import SingleUserServer

FOUR = ("notes", "files", "calendar", "tasks")
FOUR_SCOPES = tuple(scope for scope in SCOPES if scope.partition(":")[0] in FOUR)
_LONG = "The remarkably long-winded research assistant for archives"


def choose(page: Page, app: str, level: str) -> None:
    """Set the row of an app; the list that it is in is opened before."""
    choice = page.locator(f"[name='allow.{app}'][value='{level}']").first
    if not choice.is_visible():
        page.locator("details", has=choice).locator("summary").first.click()
    choice.check()


def _answered(harness: SingleUserServer, page: Page, answer: str, *, without_notes: bool = False) -> str:
    elicitation_id: str = harness.consent.open()
    page.goto(harness.provision(elicitation_id))
    choose(page, "files", "read")
    choose(page, "notes", "off" if without_notes else "change")
    follow(page.locator(f"button[value={answer}]"))
    return elicitation_id


def _wait(harness: SingleUserServer, page: Page, elicitation_id: str, *, paused: bool = True) -> None:
    page.goto(f"{harness.origin}/oauth/waiting?elicitationId={elicitation_id}{'&paused=1' if paused else ''}")


def _consent(harness: SingleUserServer, page: Page) -> None:
    page.goto(harness.provision(harness.consent.open()))


def _long_names(harness: SingleUserServer, page: Page) -> None:
    host = "nextcloud.department-of-long-names.university.example.org:8443"
    page.goto(harness.provision(harness.consent.open(client_name=_LONG, host=host)))


def _nothing_chosen(harness: SingleUserServer, page: Page) -> None:
    page.goto(harness.provision(harness.consent.open()))
    choose(page, "notes", "off")
    follow(page.locator("button[value=allow]"))


def _four_apps(harness: SingleUserServer, page: Page) -> None:
    needed = [f"{app}:read" for app in FOUR]
    page.goto(harness.provision(harness.consent.open(needed=needed, offered=FOUR_SCOPES)))


def _every_app(harness: SingleUserServer, page: Page) -> None:
    """Open every list of a page with every app; what one was given before is only to change things."""
    granted = ["talk:write", "mail:read"]
    page.goto(
        harness.provision(harness.consent.open(needed=["notes:write"], offered=SCOPES, granted=granted))
    )
    for summary in page.locator("summary").all():
        summary.click()
    choose(page, "calendar", "change")


def _already(harness: SingleUserServer, page: Page) -> None:
    page.goto(harness.provision(harness.consent.open(needed=["notes:write"], granted=["notes:read"])))


def _waiting(harness: SingleUserServer, page: Page) -> None:
    _wait(harness, page, _answered(harness, page, "allow"), paused=False)


def _waiting_paused(harness: SingleUserServer, page: Page) -> None:
    _answered(harness, page, "allow", without_notes=True)
    visit(page, f"{page.url}&paused=1")


def _done(harness: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(harness, page, "allow")
    harness.consent.complete(elicitation_id)
    _wait(harness, page, elicitation_id)


def _done_without(harness: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(harness, page, "allow", without_notes=True)
    harness.consent.complete(elicitation_id)
    _wait(harness, page, elicitation_id)


def _declined(harness: SingleUserServer, page: Page) -> None:
    _answered(harness, page, "deny")


def _failed(harness: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(harness, page, "allow")
    harness.consent.fail(
        elicitation_id, Failure("other_connected", {"answered": "bob", "connected": "alice"})
    )
    _wait(harness, page, elicitation_id)


def _problem(harness: SingleUserServer, page: Page) -> None:
    harness.consent.break_network(Unreachable("No connection."))
    _answered(harness, page, "allow")
    harness.consent.break_network(None)


def _no_cookies(harness: SingleUserServer, page: Page) -> None:
    page.goto(harness.provision(harness.consent.open()))
    page.context.clear_cookies()
    follow(page.locator("button[value=allow]"))


def _gone(harness: SingleUserServer, page: Page) -> None:
    page.goto(f"{harness.origin}/oauth/provision")


def _home(harness: SingleUserServer, page: Page) -> None:
    page.goto(harness.origin)


def _not_found(harness: SingleUserServer, page: Page) -> None:
    page.goto(f"{harness.origin}/nothing")


PAGE_CASES: dict[str, Callable[[SingleUserServer, Page], None]] = {
    "home": _home,
    "consent": _consent,
    "consent-long-names": _long_names,
    "consent-nothing-chosen": _nothing_chosen,
    "consent-allowed-already": _already,
    "consent-four-apps": _four_apps,
    "consent-every-app": _every_app,
    "waiting": _waiting,
    "waiting-paused": _waiting_paused,
    "done": _done,
    "done-left-out": _done_without,
    "declined": _declined,
    "failed": _failed,
    "problem": _problem,
    "no-cookies": _no_cookies,
    "gone": _gone,
    "not-found": _not_found,
}
