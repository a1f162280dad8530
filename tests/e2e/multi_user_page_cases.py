"""Every page of a multi-user server, and how a browser reaches it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from playwright.sync_api import Page

from nextcloud_mcp_server.errors import IssuerUnavailable, WrongAccount
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.e2e.multi_user_server import MultiUserServers, grant_as
from tests.e2e.navigation import follow, visit
from tests.multi_user_pages import fails_with

_LONG = "The remarkably long-winded research assistant for archives"


def _provision(harness: MultiUserServers, page: Page) -> None:
    page.goto(harness.page("provision", harness.consent_service.open()))


def _still(harness: MultiUserServers, page: Page) -> None:
    """Stop the automatic redirect of a page: for the other servers there is nothing to show."""
    page.route(f"{harness.elsewhere}/**", lambda route: route.fulfill(status=204))


def _on_to_sign_in(harness: MultiUserServers, page: Page) -> None:
    _still(harness, page)
    _provision(harness, page)
    follow(page.get_by_role("button"))
    page.wait_for_url("**/oauth/sign-in")


def _consent(harness: MultiUserServers, page: Page) -> None:
    harness.sign_in(page.context)
    page.goto(harness.page("consent", harness.consent_service.open()))


def _consent_long_names(harness: MultiUserServers, page: Page) -> None:
    harness.consent_service.call("alice", "Alexandra Wilhelmina von Bodenstein-Hohenlohe (Research)")
    harness.sign_in(page.context)
    page.goto(harness.page("consent", harness.consent_service.open(client_name=_LONG)))


def _consent_already(harness: MultiUserServers, page: Page) -> None:
    harness.sign_in(page.context)
    page.goto(
        harness.page("consent", harness.consent_service.open(needed=["notes:write"], granted=["notes:read"]))
    )


def _on_to_nextcloud(harness: MultiUserServers, page: Page) -> None:
    _still(harness, page)
    _consent(harness, page)
    follow(page.locator("button[value=allow]"))
    page.wait_for_url("**/oauth/nextcloud")


def _connected_as(harness: MultiUserServers, page: Page) -> None:
    _consent(harness, page)
    page.locator("[name='allow.notes'][value=change]").check()
    follow(page.locator("button[value=allow]"))
    grant_as(page, "bob")


def _done(harness: MultiUserServers, page: Page) -> None:
    _connected_as(harness, page)
    follow(page.locator("button[value=mine]"))


def _not_me(harness: MultiUserServers, page: Page) -> None:
    _connected_as(harness, page)
    follow(page.locator("button[value=not-mine]"))


def _declined(harness: MultiUserServers, page: Page) -> None:
    _consent(harness, page)
    follow(page.locator("button[value=deny]"))


def _failed(harness: MultiUserServers, page: Page) -> None:
    elicitation_id = harness.consent_service.open()
    harness.consent_service.end(elicitation_id, ElicitationState.FAILED, Failure("opened_by_others"))
    harness.sign_in(page.context)
    page.goto(harness.page("done", elicitation_id))


def _other_account(harness: MultiUserServers, page: Page) -> None:
    harness.sign_in(page.context, "bob")
    page.goto(harness.page("consent", harness.consent_service.open("alice")))


def _sign_in_refused(harness: MultiUserServers, page: Page) -> None:
    _on_to_sign_in(harness, page)
    visit(page, f"{harness.origin}/oauth/callback/sign-in?error=access_denied")


def _issuer_down(harness: MultiUserServers, page: Page) -> None:
    _provision(harness, page)
    harness.consent_service.break_issuer(fails_with(IssuerUnavailable("No connection.")))
    follow(page.get_by_role("button"))


def _other_nextcloud(harness: MultiUserServers, page: Page) -> None:
    _consent(harness, page)
    follow(page.locator("button[value=allow]"))
    harness.consent_service.break_nextcloud(fails_with(WrongAccount("It opens bob.")))
    grant_as(page, "bob")


def _account(harness: MultiUserServers, page: Page) -> None:
    now, did = harness.consent_service.clock(), harness.consent_service.did
    actions = ("nc_notes_get_note", "nc_notes_search_notes", "nc_notes_update_note", "nc_files_list_folder")
    objects = ("Budget 2026", "", "Shopping list", "Photos")
    done = [replace(one, object_name=name) for one, name in zip(did(*actions), objects, strict=True)]
    harness.consent_service.client(recent=(*did("nc_files_read_file", result="NotFound"), *done))
    harness.consent_service.client(
        client_id="code",
        name="VS Code",
        paused=True,
        scopes=frozenset({"notes:read"}),
        granted_at=now - timedelta(days=3),
        last_used_at=None,
    )
    harness.sign_in(page.context)
    page.goto(f"{harness.origin}/account")
    for each in page.locator("summary").all():
        each.click()


def _account_told(harness: MultiUserServers, page: Page) -> None:
    _account(harness, page)
    follow(page.locator("button[value=save]").first)


def _account_twins(harness: MultiUserServers, page: Page) -> None:
    harness.consent_service.client(client_id="https://one.example/oauth/client.json", name=_LONG)
    harness.consent_service.client(
        client_id="8f0b6c1e-3c77-4b61-9f3f-2f6f1f0a5a77", name=_LONG, scopes=frozenset[str]()
    )
    harness.consent_service.refuse_credential()
    harness.sign_in(page.context)
    page.goto(f"{harness.origin}/account")


def _account_empty(harness: MultiUserServers, page: Page) -> None:
    harness.sign_in(page.context)
    page.goto(f"{harness.origin}/account")


def _account_sign_in(harness: MultiUserServers, page: Page) -> None:
    page.goto(f"{harness.origin}/account")


def _account_signed_out(harness: MultiUserServers, page: Page) -> None:
    _account_empty(harness, page)
    follow(page.locator("form[action='/account/sign-out'] button"))


def _account_form(harness: MultiUserServers, page: Page) -> None:
    _account(harness, page)
    page.context.clear_cookies()
    harness.sign_in(page.context)
    follow(page.locator("button[value=save]").first)


def _gone(harness: MultiUserServers, page: Page) -> None:
    page.goto(f"{harness.origin}/oauth/provision")


def _home(harness: MultiUserServers, page: Page) -> None:
    page.goto(harness.origin)


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
