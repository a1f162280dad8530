"""Every page of an authorization request, and how a browser reaches it."""

from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page

from nextcloud_mcp_server.errors import ClientBarred, Unreachable, WrongAccount
from tests.authorization_pages import CURSOR, HOSTED, LOOPBACK, ask_url
from tests.e2e.multi_user_server import MultiUserServers, grant_as
from tests.e2e.navigation import follow, visit
from tests.multi_user_pages import fails_with, state_of

DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
_LONG = "The remarkably long-winded research assistant for archives"
_LONG_HOST = "assistants.department-of-long-names.university.example.org"


def _claude(harness: MultiUserServers, page: Page) -> None:
    """Send the authorization request of a hosted client with a metadata document."""
    harness.clients.client_with_logo(DOCUMENT)
    page.goto(f"{harness.origin}{ask_url(DOCUMENT)}")


def _itself(harness: MultiUserServers, page: Page, *, uri: str = HOSTED, name: str = "Claude") -> None:
    harness.clients.client(name=name)
    page.goto(f"{harness.origin}{ask_url(redirect_uri=uri)}")


def _program(harness: MultiUserServers, page: Page) -> None:
    harness.clients.client(DOCUMENT, name="Claude Code")
    page.goto(f"{harness.origin}{ask_url(DOCUMENT, redirect_uri=LOOPBACK)}")


def _cursor(harness: MultiUserServers, page: Page) -> None:
    _itself(harness, page, uri=CURSOR, name="Cursor")


def _long_names(harness: MultiUserServers, page: Page) -> None:
    address = f"https://{_LONG_HOST}/client.json"
    callback = f"https://{_LONG_HOST}/callback"
    harness.clients.client(address, name=_LONG, redirect_uris=(callback,))
    page.goto(f"{harness.origin}{ask_url(address, redirect_uri=callback)}")
    page.locator("h1", has_text=_LONG).wait_for()


def _nothing_chosen(harness: MultiUserServers, page: Page) -> None:
    _claude(harness, page)
    follow(page.locator("button[value=allow]"))


def _still(harness: MultiUserServers, page: Page) -> None:
    """Stop the automatic redirect of a page: for the other servers there is nothing to show."""
    for elsewhere in (harness.elsewhere, "https://claude.ai"):
        page.route(f"{elsewhere}/**", lambda route: route.fulfill(status=204))


def _on_to_nextcloud(harness: MultiUserServers, page: Page) -> None:
    _still(harness, page)
    _claude(harness, page)
    page.locator("[name='allow.notes'][value=read]").check()
    follow(page.locator("button[value=allow]"))


def _signed_in(harness: MultiUserServers, page: Page) -> None:
    _claude(harness, page)
    page.locator("[name='allow.notes'][value=change]").check()
    follow(page.locator("button[value=allow]"))
    grant_as(page, "bob")


def _signed_in_before(harness: MultiUserServers, page: Page) -> None:
    harness.consent_service.client("bob", DOCUMENT, scopes=frozenset({"files:write"}))
    harness.consent_service.call("bob", "Alexandra Wilhelmina von Bodenstein-Hohenlohe (Research)")
    _signed_in(harness, page)


def _signed_in_connected(harness: MultiUserServers, page: Page) -> None:
    _signed_in(harness, page)
    address = page.url
    _still(harness, page)
    follow(page.locator("button[value=mine]"))
    visit(page, address)


def _sent(harness: MultiUserServers, page: Page) -> None:
    _still(harness, page)
    page.unroute(f"{harness.elsewhere}/**")
    _signed_in(harness, page)
    follow(page.locator("button[value=mine]"))


def _sent_copied(harness: MultiUserServers, page: Page) -> None:
    _sent(harness, page)
    page.locator("summary").click()


def _sent_program(harness: MultiUserServers, page: Page) -> None:
    _cursor(harness, page)
    page.locator("[name='allow.notes'][value=read]").check()
    follow(page.locator("button[value=allow]"))
    grant_as(page, "bob")
    follow(page.locator("button[value=mine]"))


def _denied(harness: MultiUserServers, page: Page) -> None:
    _still(harness, page)
    _claude(harness, page)
    follow(page.locator("button[value=deny]"))


def _not_me(harness: MultiUserServers, page: Page) -> None:
    _signed_in(harness, page)
    follow(page.locator("button[value=not-mine]"))


def _cancelled(harness: MultiUserServers, page: Page) -> None:
    _on_to_nextcloud(harness, page)
    state = state_of(page.locator("a.button.main").get_attribute("href") or "")
    visit(page, f"{harness.origin}/oauth/callback/nextcloud?error=access_denied&state={state}")


def _not_member(harness: MultiUserServers, page: Page) -> None:
    harness.clients.admit_only("staff")
    _signed_in(harness, page)


def _unreachable(harness: MultiUserServers, page: Page) -> None:
    harness.consent_service.break_nextcloud(fails_with(Unreachable("No connection.")))
    _signed_in(harness, page)


def _taken(harness: MultiUserServers, page: Page) -> None:
    _signed_in(harness, page)
    harness.clients.fail_at("INSERT INTO accounts", WrongAccount("Pinned."))
    follow(page.locator("button[value=mine]"))


def _not_possible(harness: MultiUserServers, page: Page) -> None:
    harness.clients.client(DOCUMENT)
    page.goto(f"{harness.origin}{ask_url(DOCUMENT, resource='https://other.example')}")


def _unknown(harness: MultiUserServers, page: Page) -> None:
    page.goto(f"{harness.origin}{ask_url('mcp-forgotten')}")


def _barred(harness: MultiUserServers, page: Page) -> None:
    harness.clients.break_document(DOCUMENT, ClientBarred("No."))
    page.goto(f"{harness.origin}{ask_url(DOCUMENT)}")


def _refused(harness: MultiUserServers, page: Page) -> None:
    harness.clients.client()
    page.goto(f"{harness.origin}{ask_url(redirect_uri='https://unknown.example/cb')}")


def _no_cookies(harness: MultiUserServers, page: Page) -> None:
    _claude(harness, page)
    page.context.clear_cookies()
    follow(page.locator("button[value=allow]"))


def _form(harness: MultiUserServers, page: Page) -> None:
    _claude(harness, page)
    page.context.clear_cookies()
    page.context.add_cookies([{"name": "of-another-program", "value": "1", "url": harness.origin}])
    follow(page.locator("button[value=allow]"))


def _somebody_elses(harness: MultiUserServers, page: Page) -> None:
    page.goto(f"{harness.origin}/authorize/confirm?transaction={'a' * 32}")


def _account_apps(harness: MultiUserServers, page: Page) -> None:
    now = harness.consent_service.clock()
    harness.consent_service.client(
        client_id=DOCUMENT, recent=harness.consent_service.did("nc_notes_get_note")
    )
    harness.consent_service.app(client_id=DOCUMENT)
    harness.consent_service.app(client_id="mcp-1", name="ChatGPT", last_used_at=now - timedelta(days=3))
    harness.consent_service.app(client_id="mcp-2", name=_LONG)
    harness.consent_service.app(client_id="mcp-3", name=_LONG)
    harness.sign_in(page.context)
    page.goto(f"{harness.origin}/account")


def _account_of_a_household(harness: MultiUserServers, page: Page) -> None:
    harness.clients.client_with_logo(DOCUMENT)
    harness.consent_service.client(client_id=DOCUMENT)
    harness.consent_service.app(client_id=DOCUMENT)
    harness.consent_service.app(
        client_id="mcp-1", name="ChatGPT", last_used_at=harness.consent_service.clock() - timedelta(days=3)
    )
    harness.sign_in(page.context)
    page.goto(f"{harness.origin}/account")


def _account_app_out(harness: MultiUserServers, page: Page) -> None:
    _account_apps(harness, page)
    follow(page.locator("form[action='/account/sign-out-app'] button").first)


CLIENT_CASES: dict[str, Callable[[MultiUserServers, Page], None]] = {
    "authorize": _claude,
    "authorize-itself": _itself,
    "authorize-program": _program,
    "authorize-cursor": _cursor,
    "authorize-long-names": _long_names,
    "authorize-nothing-chosen": _nothing_chosen,
    "on-to-sign-in-to-nextcloud": _on_to_nextcloud,
    "signed-in-as": _signed_in,
    "signed-in-as-before": _signed_in_before,
    "signed-in-as-connected": _signed_in_connected,
    "sent": _sent,
    "sent-copied": _sent_copied,
    "sent-program": _sent_program,
    "denied": _denied,
    "client-not-me": _not_me,
    "cancelled": _cancelled,
    "not-member": _not_member,
    "client-unreachable": _unreachable,
    "taken": _taken,
    "not-possible": _not_possible,
    "app-unknown": _unknown,
    "app-barred": _barred,
    "app-refused": _refused,
    "no-cookies-app": _no_cookies,
    "form-app": _form,
    "somebody-elses-sign-in": _somebody_elses,
    "account-apps": _account_apps,
    "account-app-out": _account_app_out,
}
#: The pages in the documentation: the same, and one that is too common to be checked here.
PICTURED_CASES = {**CLIENT_CASES, "account-of-a-household": _account_of_a_household}
