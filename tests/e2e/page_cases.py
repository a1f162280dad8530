"""Every page of a single-user server, and how a browser reaches it."""

from collections.abc import Callable

from playwright.sync_api import Page

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import Unreachable
from nextcloud_mcp_server.storage.failure import Failure
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


def _answered(stage: SingleUserServer, page: Page, answer: str, *, without_notes: bool = False) -> str:
    elicitation_id: str = stage.consent.open()
    page.goto(stage.provision(elicitation_id))
    choose(page, "files", "read")
    choose(page, "notes", "off" if without_notes else "change")
    page.locator(f"button[value={answer}]").click()
    return elicitation_id


def _wait(stage: SingleUserServer, page: Page, elicitation_id: str, *, paused: bool = True) -> None:
    page.goto(f"{stage.origin}/oauth/waiting?elicitationId={elicitation_id}{'&paused=1' if paused else ''}")


def _consent(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open()))


def _long_names(stage: SingleUserServer, page: Page) -> None:
    host = "nextcloud.department-of-long-names.university.example.org:8443"
    page.goto(stage.provision(stage.consent.open(client_name=_LONG, host=host)))


def _nothing_chosen(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open()))
    choose(page, "notes", "off")
    page.locator("button[value=allow]").click()


def _four_apps(stage: SingleUserServer, page: Page) -> None:
    needed = [f"{app}:read" for app in FOUR]
    page.goto(stage.provision(stage.consent.open(needed=needed, offered=FOUR_SCOPES)))


def _every_app(stage: SingleUserServer, page: Page) -> None:
    """Open every list of a page with every app; what one was given before is only to change things."""
    granted = ["talk:write", "mail:read"]
    page.goto(stage.provision(stage.consent.open(needed=["notes:write"], offered=SCOPES, granted=granted)))
    for summary in page.locator("summary").all():
        summary.click()
    choose(page, "calendar", "change")


def _already(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open(needed=["notes:write"], granted=["notes:read"])))


def _waiting(stage: SingleUserServer, page: Page) -> None:
    _wait(stage, page, _answered(stage, page, "allow"), paused=False)


def _waiting_paused(stage: SingleUserServer, page: Page) -> None:
    _answered(stage, page, "allow", without_notes=True)
    page.goto(f"{page.url}&paused=1")


def _done(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow")
    stage.consent.complete(elicitation_id)
    _wait(stage, page, elicitation_id)


def _done_without(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow", without_notes=True)
    stage.consent.complete(elicitation_id)
    _wait(stage, page, elicitation_id)


def _declined(stage: SingleUserServer, page: Page) -> None:
    _answered(stage, page, "deny")


def _failed(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow")
    stage.consent.fail(elicitation_id, Failure("other_connected", {"answered": "bob", "connected": "alice"}))
    _wait(stage, page, elicitation_id)


def _problem(stage: SingleUserServer, page: Page) -> None:
    stage.consent.break_network(Unreachable("No connection."))
    _answered(stage, page, "allow")
    stage.consent.break_network(None)


def _no_cookies(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open()))
    page.context.clear_cookies()
    page.locator("button[value=allow]").click()


def _gone(stage: SingleUserServer, page: Page) -> None:
    page.goto(f"{stage.origin}/oauth/provision")


def _home(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.origin)


def _not_found(stage: SingleUserServer, page: Page) -> None:
    page.goto(f"{stage.origin}/nothing")


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
