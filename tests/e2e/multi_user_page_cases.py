"""Every page of a multi-user server, and how a browser reaches it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from playwright.sync_api import Page

from nextcloud_mcp_server.errors import IssuerUnavailable, WrongAccount
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.e2e.multi_user_server import MultiUserServers, grant_as
from tests.multi_user_pages import fails_with

_LONG = "The remarkably long-winded research assistant for archives"


def _provision(stage: MultiUserServers, page: Page) -> None:
    page.goto(stage.page("provision", stage.consent_service.open()))


def _still(stage: MultiUserServers, page: Page) -> None:
    """Stop the automatic redirect of a page: for the other servers there is nothing to show."""
    page.route(f"{stage.elsewhere}/**", lambda route: route.fulfill(status=204))


def _on_to_sign_in(stage: MultiUserServers, page: Page) -> None:
    _still(stage, page)
    _provision(stage, page)
    page.get_by_role("button").click()
    page.wait_for_url("**/oauth/sign-in")


def _consent(stage: MultiUserServers, page: Page) -> None:
    stage.sign_in(page.context)
    page.goto(stage.page("consent", stage.consent_service.open()))


def _consent_long_names(stage: MultiUserServers, page: Page) -> None:
    stage.consent_service.call("alice", "Alexandra Wilhelmina von Bodenstein-Hohenlohe (Research)")
    stage.sign_in(page.context)
    page.goto(stage.page("consent", stage.consent_service.open(client_name=_LONG)))


def _consent_already(stage: MultiUserServers, page: Page) -> None:
    stage.sign_in(page.context)
    page.goto(
        stage.page("consent", stage.consent_service.open(needed=["notes:write"], granted=["notes:read"]))
    )


def _on_to_nextcloud(stage: MultiUserServers, page: Page) -> None:
    _still(stage, page)
    _consent(stage, page)
    page.locator("button[value=allow]").click()
    page.wait_for_url("**/oauth/nextcloud")


def _connected_as(stage: MultiUserServers, page: Page) -> None:
    _consent(stage, page)
    page.locator("[name='allow.notes'][value=change]").check()
    page.locator("button[value=allow]").click()
    grant_as(page, "bob")


def _done(stage: MultiUserServers, page: Page) -> None:
    _connected_as(stage, page)
    page.locator("button[value=mine]").click()


def _not_me(stage: MultiUserServers, page: Page) -> None:
    _connected_as(stage, page)
    page.locator("button[value=not-mine]").click()


def _declined(stage: MultiUserServers, page: Page) -> None:
    _consent(stage, page)
    page.locator("button[value=deny]").click()


def _failed(stage: MultiUserServers, page: Page) -> None:
    elicitation_id = stage.consent_service.open()
    stage.consent_service.end(elicitation_id, ElicitationState.FAILED, Failure("opened_by_others"))
    stage.sign_in(page.context)
    page.goto(stage.page("done", elicitation_id))


def _other_account(stage: MultiUserServers, page: Page) -> None:
    stage.sign_in(page.context, "bob")
    page.goto(stage.page("consent", stage.consent_service.open("alice")))


def _sign_in_refused(stage: MultiUserServers, page: Page) -> None:
    _on_to_sign_in(stage, page)
    page.goto(f"{stage.origin}/oauth/callback/sign-in?error=access_denied")


def _issuer_down(stage: MultiUserServers, page: Page) -> None:
    _provision(stage, page)
    stage.consent_service.break_issuer(fails_with(IssuerUnavailable("No connection.")))
    page.get_by_role("button").click()


def _other_nextcloud(stage: MultiUserServers, page: Page) -> None:
    _consent(stage, page)
    page.locator("button[value=allow]").click()
    stage.consent_service.break_nextcloud(fails_with(WrongAccount("It opens bob.")))
    grant_as(page, "bob")


def _account(stage: MultiUserServers, page: Page) -> None:
    now, did = stage.consent_service.clock(), stage.consent_service.did
    actions = ("nc_notes_get_note", "nc_notes_search_notes", "nc_notes_update_note", "nc_files_list_folder")
    objects = ("Budget 2026", "", "Shopping list", "Photos")
    done = [replace(one, object_name=name) for one, name in zip(did(*actions), objects, strict=True)]
    stage.consent_service.client(recent=(*did("nc_files_read_file", result="NotFound"), *done))
    stage.consent_service.client(
        client_id="code",
        name="VS Code",
        paused=True,
        scopes=frozenset({"notes:read"}),
        granted_at=now - timedelta(days=3),
        last_used_at=None,
    )
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")
    for each in page.locator("summary").all():
        each.click()


def _account_told(stage: MultiUserServers, page: Page) -> None:
    _account(stage, page)
    page.locator("button[value=save]").first.click()


def _account_twins(stage: MultiUserServers, page: Page) -> None:
    stage.consent_service.client(client_id="https://one.example/oauth/client.json", name=_LONG)
    stage.consent_service.client(
        client_id="8f0b6c1e-3c77-4b61-9f3f-2f6f1f0a5a77", name=_LONG, scopes=frozenset[str]()
    )
    stage.consent_service.refuse_credential()
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_empty(stage: MultiUserServers, page: Page) -> None:
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_sign_in(stage: MultiUserServers, page: Page) -> None:
    page.goto(f"{stage.origin}/account")


def _account_signed_out(stage: MultiUserServers, page: Page) -> None:
    _account_empty(stage, page)
    page.locator("form[action='/account/sign-out'] button").click()


def _account_form(stage: MultiUserServers, page: Page) -> None:
    _account(stage, page)
    page.context.clear_cookies()
    stage.sign_in(page.context)
    page.locator("button[value=save]").first.click()


def _gone(stage: MultiUserServers, page: Page) -> None:
    page.goto(f"{stage.origin}/oauth/provision")


def _home(stage: MultiUserServers, page: Page) -> None:
    page.goto(stage.origin)


PEOPLE_CASES: dict[str, Callable[[MultiUserServers, Page], None]] = {
    "people-home": _home,
    "provision": _provision,
    "on-to-sign-in": _on_to_sign_in,
    "people-consent": _consent,
    "people-consent-long-names": _consent_long_names,
    "people-consent-allowed-already": _consent_already,
    "on-to-nextcloud": _on_to_nextcloud,
    "connected-as": _connected_as,
    "people-done": _done,
    "not-me": _not_me,
    "people-declined": _declined,
    "people-failed": _failed,
    "other-account": _other_account,
    "sign-in-refused": _sign_in_refused,
    "issuer-down": _issuer_down,
    "other-nextcloud": _other_nextcloud,
    "account": _account,
    "account-told": _account_told,
    "account-twins": _account_twins,
    "account-empty": _account_empty,
    "account-sign-in": _account_sign_in,
    "account-signed-out": _account_signed_out,
    "account-form": _account_form,
    "people-gone": _gone,
}
