"""Every page between a chat client and its code, and how a browser gets to see it."""

from collections.abc import Callable
from datetime import timedelta

from playwright.sync_api import Page

from nextcloud_mcp_server.auth.builtin.authorize_request import ReturnToClient
from nextcloud_mcp_server.errors import AuthorizeRefused, ClientBarred, NotAMember, Unreachable, WrongAccount
from tests.e2e.people_stage import PeopleStage, grant_as
from tests.memory_authorizations import CURSOR, HOSTED, LOOPBACK, ask_url

DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
_LONG = "The remarkably long-winded research assistant for archives"
_LONG_HOST = "assistants.department-of-long-names.university.example.org"


def _claude(stage: PeopleStage, page: Page) -> None:
    """Have a hosted client ask, one whose host describes it."""
    stage.clients.client(DOCUMENT)
    page.goto(f"{stage.origin}{ask_url(DOCUMENT)}")


def _itself(stage: PeopleStage, page: Page, *, uri: str = HOSTED, name: str = "Claude") -> None:
    stage.clients.client(name=name)
    page.goto(f"{stage.origin}{ask_url(redirect_uri=uri)}")


def _program(stage: PeopleStage, page: Page) -> None:
    stage.clients.client(DOCUMENT, name="Claude Code")
    page.goto(f"{stage.origin}{ask_url(DOCUMENT, redirect_uri=LOOPBACK)}")


def _cursor(stage: PeopleStage, page: Page) -> None:
    _itself(stage, page, uri=CURSOR, name="Cursor")


def _long_names(stage: PeopleStage, page: Page) -> None:
    address = f"https://{_LONG_HOST}/client.json"
    stage.clients.client(address, name=_LONG)
    page.goto(f"{stage.origin}{ask_url(address, redirect_uri=f'https://{_LONG_HOST}/callback')}")


def _nothing_ticked(stage: PeopleStage, page: Page) -> None:
    _claude(stage, page)
    ticked = page.locator("input[name=allow]:checked")
    while ticked.count():
        ticked.first.uncheck()
    page.locator("button[value=allow]").click()


def _still(stage: PeopleStage, page: Page) -> None:
    """Keep a page that leads on where it is: the others answer that there is nothing to show."""
    for elsewhere in (stage.elsewhere, "https://claude.ai"):
        page.route(f"{elsewhere}/**", lambda route: route.fulfill(status=204))


def _on_to_nextcloud(stage: PeopleStage, page: Page) -> None:
    _still(stage, page)
    _claude(stage, page)
    page.locator("input[value='notes:read']").check()
    page.locator("button[value=allow]").click()


def _signed_in(stage: PeopleStage, page: Page) -> None:
    _claude(stage, page)
    page.locator("input[value='notes:write']").check()
    page.locator("button[value=allow]").click()
    grant_as(page, "bob")


def _signed_in_before(stage: PeopleStage, page: Page) -> None:
    stage.clients.allowed["bob", DOCUMENT] = frozenset({"files:write"})
    stage.clients.names["bob"] = "Alexandra Wilhelmina von Bodenstein-Hohenlohe (Research)"
    _signed_in(stage, page)


def _signed_in_connected(stage: PeopleStage, page: Page) -> None:
    _signed_in(stage, page)
    address = page.url
    _still(stage, page)
    page.locator("button[value=mine]").click()
    page.goto(address)


def _sent(stage: PeopleStage, page: Page) -> None:
    _still(stage, page)
    page.unroute(f"{stage.elsewhere}/**")
    _signed_in(stage, page)
    page.locator("button[value=mine]").click()


def _sent_copied(stage: PeopleStage, page: Page) -> None:
    _sent(stage, page)
    page.locator("summary").click()


def _sent_program(stage: PeopleStage, page: Page) -> None:
    _cursor(stage, page)
    page.locator("input[value='notes:read']").check()
    page.locator("button[value=allow]").click()
    grant_as(page, "bob")
    page.locator("button[value=mine]").click()


def _denied(stage: PeopleStage, page: Page) -> None:
    _still(stage, page)
    _claude(stage, page)
    page.locator("button[value=deny]").click()


def _not_me(stage: PeopleStage, page: Page) -> None:
    _signed_in(stage, page)
    page.locator("button[value=not-mine]").click()


def _cancelled(stage: PeopleStage, page: Page) -> None:
    _on_to_nextcloud(stage, page)
    state = next(iter(stage.clients.away))
    page.goto(f"{stage.origin}/oauth/callback/nextcloud?error=access_denied&state={state}")


def _not_member(stage: PeopleStage, page: Page) -> None:
    stage.clients.faults["come_back"] = NotAMember("In no group.")
    _signed_in(stage, page)


def _unreachable(stage: PeopleStage, page: Page) -> None:
    stage.clients.faults["come_back"] = Unreachable("No connection.")
    _signed_in(stage, page)


def _taken(stage: PeopleStage, page: Page) -> None:
    stage.clients.faults["go_on"] = WrongAccount("Pinned.")
    _signed_in(stage, page)
    page.locator("button[value=mine]").click()


def _not_possible(stage: PeopleStage, page: Page) -> None:
    _claude(stage, page)
    asked = next(iter(stage.clients.forms.values()))
    url = f"{HOSTED}?error=invalid_target"
    stage.clients.faults["read"] = ReturnToClient("No.", url=url, asked=stage.clients.asked_for(asked))
    page.reload()


def _unknown(stage: PeopleStage, page: Page) -> None:
    page.goto(f"{stage.origin}{ask_url('mcp-forgotten')}")


def _barred(stage: PeopleStage, page: Page) -> None:
    stage.clients.faults["read"] = ClientBarred("No.")
    page.goto(f"{stage.origin}{ask_url()}")


def _refused(stage: PeopleStage, page: Page) -> None:
    stage.clients.faults["read"] = AuthorizeRefused("Odd.")
    page.goto(f"{stage.origin}{ask_url()}")


def _form(stage: PeopleStage, page: Page) -> None:
    _claude(stage, page)
    page.context.clear_cookies()
    page.locator("button[value=allow]").click()


def _somebody_elses(stage: PeopleStage, page: Page) -> None:
    page.goto(f"{stage.origin}/authorize/confirm?arrival={'a' * 32}")


def _account_apps(stage: PeopleStage, page: Page) -> None:
    now = stage.visits.now
    stage.visits.client(client_id=DOCUMENT, recent=stage.visits.did("nc_notes_get_note"))
    stage.visits.app(client_id=DOCUMENT)
    stage.visits.app(client_id="mcp-1", name="ChatGPT", last_used_at=now - timedelta(days=3))
    stage.visits.app(client_id="mcp-2", name=_LONG)
    stage.visits.app(client_id="mcp-3", name=_LONG)
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_of_a_household(stage: PeopleStage, page: Page) -> None:
    stage.visits.client(client_id=DOCUMENT)
    stage.visits.app(client_id=DOCUMENT)
    stage.visits.app(client_id="mcp-1", name="ChatGPT", last_used_at=stage.visits.now - timedelta(days=3))
    stage.sign_in(page.context)
    page.goto(f"{stage.origin}/account")


def _account_app_out(stage: PeopleStage, page: Page) -> None:
    _account_apps(stage, page)
    page.locator("form[action='/account/sign-out-app'] button").first.click()


CLIENT_SCENES: dict[str, Callable[[PeopleStage, Page], None]] = {
    "authorize": _claude,
    "authorize-itself": _itself,
    "authorize-program": _program,
    "authorize-cursor": _cursor,
    "authorize-long-names": _long_names,
    "authorize-nothing-ticked": _nothing_ticked,
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
    "form-app": _form,
    "somebody-elses-sign-in": _somebody_elses,
    "account-apps": _account_apps,
    "account-app-out": _account_app_out,
}
#: What is pictured in the documentation: the same, and what is too usual to be looked at for mistakes.
PICTURED_SCENES = {**CLIENT_SCENES, "account-of-a-household": _account_of_a_household}
