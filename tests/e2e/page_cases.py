"""Every page of a single-user server, and how a browser reaches it."""

from collections.abc import Callable

from playwright.sync_api import Page

from nextcloud_mcp_server.errors import Unreachable
from tests.e2e.single_user_server import SingleUserServer

_LONG = "The remarkably long-winded research assistant for archives"


def _answered(stage: SingleUserServer, page: Page, answer: str, *leave: str) -> str:
    elicitation_id: str = stage.consent.open()
    page.goto(stage.provision(elicitation_id))
    page.get_by_role("checkbox").nth(1).check()
    page.get_by_role("checkbox").nth(2).check()
    for scope in leave:
        page.locator(f"input[value='{scope}']").uncheck()
    page.locator(f"button[value={answer}]").click()
    return elicitation_id


def _wait(stage: SingleUserServer, page: Page, elicitation_id: str, *, paused: bool = True) -> None:
    page.goto(f"{stage.origin}/oauth/waiting?elicitationId={elicitation_id}{'&paused=1' if paused else ''}")


def _consent(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open()))


def _long_names(stage: SingleUserServer, page: Page) -> None:
    host = "nextcloud.department-of-long-names.university.example.org:8443"
    page.goto(stage.provision(stage.consent.open(client_name=_LONG, host=host)))


def _nothing_ticked(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open()))
    page.get_by_role("checkbox").nth(0).uncheck()
    page.locator("button[value=allow]").click()


def _already(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.provision(stage.consent.open(needed=["notes:write"], granted=["notes:read"])))


def _waiting(stage: SingleUserServer, page: Page) -> None:
    _wait(stage, page, _answered(stage, page, "allow"), paused=False)


def _waiting_paused(stage: SingleUserServer, page: Page) -> None:
    _answered(stage, page, "allow", "notes:read")
    page.goto(f"{page.url}&paused=1")


def _done(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow")
    stage.consent.complete(elicitation_id)
    _wait(stage, page, elicitation_id)


def _done_without(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow", "notes:read")
    stage.consent.complete(elicitation_id)
    _wait(stage, page, elicitation_id)


def _declined(stage: SingleUserServer, page: Page) -> None:
    _answered(stage, page, "deny")


def _failed(stage: SingleUserServer, page: Page) -> None:
    elicitation_id = _answered(stage, page, "allow")
    stage.consent.fail(
        elicitation_id, "Nextcloud confirmed another account than the one this server works for."
    )
    _wait(stage, page, elicitation_id)


def _problem(stage: SingleUserServer, page: Page) -> None:
    stage.consent.break_network(Unreachable("No connection."))
    _answered(stage, page, "allow")
    stage.consent.break_network(None)


def _gone(stage: SingleUserServer, page: Page) -> None:
    page.goto(f"{stage.origin}/oauth/provision")


def _home(stage: SingleUserServer, page: Page) -> None:
    page.goto(stage.origin)


def _not_found(stage: SingleUserServer, page: Page) -> None:
    page.goto(f"{stage.origin}/nothing")


SCENES: dict[str, Callable[[SingleUserServer, Page], None]] = {
    "home": _home,
    "consent": _consent,
    "consent-long-names": _long_names,
    "consent-nothing-ticked": _nothing_ticked,
    "consent-allowed-already": _already,
    "waiting": _waiting,
    "waiting-paused": _waiting_paused,
    "done": _done,
    "done-left-out": _done_without,
    "declined": _declined,
    "failed": _failed,
    "problem": _problem,
    "gone": _gone,
    "not-found": _not_found,
}
