"""Every page of an authorization request, and how a browser reaches it."""

from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page

from nextcloud_mcp_server.errors import ClientBarred, Unreachable, WrongAccount
from tests.authorization_pages import CURSOR, HOSTED, LOOPBACK, ask_url
from tests.e2e.accessibility import leave
from tests.e2e.multi_user_server import MultiUserServers, grant_as
from tests.multi_user_pages import fails_with, state_of

DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
_LONG = "The remarkably long-winded research assistant for archives"
_LONG_HOST = "assistants.department-of-long-names.university.example.org"


def _claude(stage: MultiUserServers, page: Page) -> None:
    """Send the authorization request of a hosted client with a metadata document."""
    stage.clients.client_with_logo(DOCUMENT)
    page.goto(f"{stage.origin}{ask_url(DOCUMENT)}")


def _press(page: Page, button: str, *, leads_on: bool = False) -> None:
    """Send a form, and wait for its answer: until then its own page is shown, with the button under the mouse.

    A page that leads on begins the next navigation, which the tests hold, before a slow browser has told of its load.
    """
    with page.expect_navigation(wait_until="commit" if leads_on else "load"):
        page.locator(button).click()
    page.locator("h1").wait_for()


def _itself(stage: MultiUserServers, page: Page, *, uri: str = HOSTED, name: str = "Claude") -> None:
    stage.clients.client(name=name)
    page.goto(f"{stage.origin}{ask_url(redirect_uri=uri)}")


def _program(stage: MultiUserServers, page: Page) -> None:
    stage.clients.client(DOCUMENT, name="Claude Code")
    page.goto(f"{stage.origin}{ask_url(DOCUMENT, redirect_uri=LOOPBACK)}")


def _cursor(stage: MultiUserServers, page: Page) -> None:
    _itself(stage, page, uri=CURSOR, name="Cursor")


def _long_names(stage: MultiUserServers, page: Page) -> None:
    address = f"https://{_LONG_HOST}/client.json"
    stage.clients.client(address, name=_LONG)
    page.goto(f"{stage.origin}{ask_url(address, redirect_uri=f'https://{_LONG_HOST}/callback')}")


def _nothing_chosen(stage: MultiUserServers, page: Page) -> None:
    _claude(stage, page)
    _press(page, "button[value=allow]")


def _still(stage: MultiUserServers, page: Page) -> None:
    """Stop the automatic redirect of a page: for the other servers there is nothing to show."""
    for elsewhere in (stage.elsewhere, "https://claude.ai"):
        page.route(f"{elsewhere}/**", lambda route: route.fulfill(status=204))


def _on_to_nextcloud(stage: MultiUserServers, page: Page) -> None:
    _still(stage, page)
    _claude(stage, page)
    page.locator("[name='allow.notes'][value=read]").check()
    _press(page, "button[value=allow]", leads_on=True)


def _signed_in(stage: MultiUserServers, page: Page) -> None:
    _claude(stage, page)
    page.locator("[name='allow.notes'][value=change]").check()
    _press(page, "button[value=allow]")
    grant_as(page, "bob")


def _signed_in_before(stage: MultiUserServers, page: Page) -> None:
    stage.consent_service.client("bob", DOCUMENT, scopes=frozenset({"files:write"}))
    stage.consent_service.call("bob", "Alexandra Wilhelmina von Bodenstein-Hohenlohe (Research)")
    _signed_in(stage, page)


def _signed_in_connected(stage: MultiUserServers, page: Page) -> None:
    _signed_in(stage, page)
    address = page.url
    _still(stage, page)
    _press(page, "button[value=mine]", leads_on=True)
    leave(page)
    page.goto(address)


def _sent(stage: MultiUserServers, page: Page) -> None:
    _still(stage, page)
    page.unroute(f"{stage.elsewhere}/**")
    _signed_in(stage, page)
    _press(page, "button[value=mine]", leads_on=True)


def _sent_copied(stage: MultiUserServers, page: Page) -> None:
    _sent(stage, page)
    page.locator("summary").click()


def _sent_program(stage: MultiUserServers, page: Page) -> None:
    _cursor(stage, page)
    page.locator("[name='allow.notes'][value=read]").check()
    _press(page, "button[value=allow]")
    grant_as(page, "bob")
    _press(page, "button[value=mine]", leads_on=True)


def _denied(stage: MultiUserServers, page: Page) -> None:
    _still(stage, page)
    _claude(stage, page)
    _press(page, "button[value=deny]", leads_on=True)


def _not_me(stage: MultiUserServers, page: Page) -> None:
    _signed_in(stage, page)
    _press(page, "button[value=not-mine]")


def _cancelled(stage: MultiUserServers, page: Page) -> None:
    _on_to_nextcloud(stage, page)
    state = state_of(page.locator("a.button.main").get_attribute("href") or "")
    leave(page)
    page.goto(f"{stage.origin}/oauth/callback/nextcloud?error=access_denied&state={state}")


def _not_member(stage: MultiUserServers, page: Page) -> None:
    stage.clients.admit_only("staff")
    _signed_in(stage, page)


def _unreachable(stage: MultiUserServers, page: Page) -> None:
    stage.consent_service.break_nextcloud(fails_with(Unreachable("No connection.")))
    _signed_in(stage, page)


def _taken(stage: MultiUserServers, page: Page) -> None:
    _signed_in(stage, page)
    stage.clients.fail_at("INSERT INTO accounts", WrongAccount("Pinned."))
    _press(page, "button[value=mine]")


def _not_possible(stage: MultiUserServers, page: Page) -> None:
    stage.clients.client(DOCUMENT)
    page.goto(f"{stage.origin}{ask_url(DOCUMENT, resource='https://other.example')}")


def _unknown(stage: MultiUserServers, page: Page) -> None:
    page.goto(f"{stage.origin}{ask_url('mcp-forgotten')}")


def _barred(stage: MultiUserServers, page: Page) -> None:
    stage.clients.break_document(DOCUMENT, ClientBarred("No."))
    page.goto(f"{stage.origin}{ask_url(DOCUMENT)}")


def _refused(stage: MultiUserServers, page: Page) -> None:
    stage.clients.client()
    page.goto(f"{stage.origin}{ask_url(redirect_uri='https://unknown.example/cb')}")


def _no_cookies(stage: MultiUserServers, page: Page) -> None:
    _claude(stage, page)
    page.context.clear_cookies()
    _press(page, "button[value=allow]")


def _form(stage: MultiUserServers, page: Page) -> None:
    _claude(stage, page)
    page.context.clear_cookies()
    page.context.add_cookies([{"name": "of-another-program", "value": "1", "url": stage.origin}])
    _press(page, "button[value=allow]")


def _somebody_elses(stage: MultiUserServers, page: Page) -> None:
    page.goto(f"{stage.origin}/authorize/confirm?transaction={'a' * 32}")


def _account_apps(stage: MultiUserServers, page: Page) -> None:
    now = stage.consent_service.clock()
    stage.consent_service.client(client_id=DOCUMENT, recent=stage.consent_service.did("nc_notes_get_note"))
    stage.consent_service.app(client_id=DOCUMENT)
    stage.consent_service.app(client_id="mcp-1", name="ChatGPT", last_used_at=now - timedelta(days=3))
    stage.consent_service.app(client_id="mcp-2", name=_LONG)
    stage.consent_service.app(client_id="mcp-3", name=_LONG)
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_of_a_household(stage: MultiUserServers, page: Page) -> None:
    stage.clients.client_with_logo(DOCUMENT)
    stage.consent_service.client(client_id=DOCUMENT)
    stage.consent_service.app(client_id=DOCUMENT)
    stage.consent_service.app(
        client_id="mcp-1", name="ChatGPT", last_used_at=stage.consent_service.clock() - timedelta(days=3)
    )
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_app_out(stage: MultiUserServers, page: Page) -> None:
    _account_apps(stage, page)
    page.locator("form[action='/account/sign-out-app'] button").first.click()


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
