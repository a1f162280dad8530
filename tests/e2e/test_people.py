"""What many users see and do, each in a browser of their own."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from nextcloud_mcp_server.storage.records import ElicitationState
from tests.e2e.accessibility import assert_each_page_is_accessible
from tests.e2e.multi_user_page_cases import PEOPLE_CASES
from tests.e2e.multi_user_server import MultiUserServers, grant_as, raised_multi_user, sign_in_as
from tests.e2e.page_cases import choose
from tests.e2e.single_user_server import LOOKS, WindowOptions, window_options


@pytest.fixture
def people() -> Iterator[MultiUserServers]:
    with raised_multi_user() as built:
        yield built


@pytest.fixture
def alice(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(**window_options())
    yield context
    context.close()


@pytest.fixture
def bob(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(**window_options())
    yield context
    context.close()


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def signed_in_page(people: MultiUserServers, window: BrowserContext, path: str = "") -> Page:
    people.sign_in(window)
    page = window.new_page()
    page.goto(f"{people.origin}/account" if not path else people.page(path, people.consent_service.open()))
    return page


@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_signs_in_chooses_confirms_and_is_told_that_it_is_done(
    people: MultiUserServers, chromium: Browser, *, scripts: bool
) -> None:
    window = chromium.new_context(**window_options(), java_script_enabled=scripts)
    elicitation_id = people.consent_service.open("alice")
    page = window.new_page()

    page.goto(people.page("provision", elicitation_id))
    page.get_by_role("button", name="Continue").click()
    sign_in_as(page, "alice")
    heading(page, "Claude Code asks for access to cloud.example.org")
    expect(page.get_by_text("Signed in as Alice.")).to_be_visible()
    choose(page, "notes", "change")
    page.get_by_role("button", name="Allow", exact=True).click()
    grant_as(page, "alice")
    heading(page, "Connected as Alice on cloud.example.org")
    address = page.url
    page.get_by_role("button", name="Continue").click()

    heading(page, "Connected as Alice.")
    assert page.url == people.page("done", elicitation_id)
    assert "code=" not in address
    assert [client.scopes for client in people.consent_service.clients.values()] == [
        {"notes:read", "notes:write"}
    ]
    window.close()


def test_the_back_button_does_not_send_a_person_away_again(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    people.consent_service.map_accounts()
    page = signed_in_page(people, alice, "consent")
    page.get_by_role("button", name="Allow", exact=True).click()
    grant_as(page, "alice")
    heading(page, "Connected as Alice.")

    page.go_back()
    page.go_back()

    heading(page, "Connected as Alice.")
    assert page.url.startswith(f"{people.origin}/oauth/done?")


def test_a_link_is_answered_by_its_own_user_alone(
    people: MultiUserServers, alice: BrowserContext, bob: BrowserContext
) -> None:
    elicitation_id = people.consent_service.open("alice")
    hers, his = alice.new_page(), bob.new_page()

    his.goto(people.page("provision", elicitation_id))
    his.get_by_role("button", name="Continue").click()
    sign_in_as(his, "bob")
    heading(his, "This request belongs to another account")
    expect(his.get_by_text("Signed in as Bob.")).to_be_visible()
    assert "Claude Code" not in his.content()
    hers.goto(people.page("provision", elicitation_id))
    hers.get_by_role("button", name="Continue").click()
    sign_in_as(hers, "alice")
    hers.get_by_role("button", name="Allow", exact=True).click()
    heading(hers, "Grant access")
    captured = hers.url
    his.goto(captured)
    grant_as(his, "bob")

    heading(his, "This began in another browser")
    assert people.consent_service.connected == {}
    grant_as(hers, "alice")
    # The other browser has ended it for both; the request itself is still hers.
    heading(hers, "The sign-in did not work")
    hers.goto(people.page("consent", elicitation_id))
    hers.get_by_role("button", name="Allow", exact=True).click()
    grant_as(hers, "alice")
    heading(hers, "Connected as Alice on cloud.example.org")


def test_a_user_with_the_wrong_account_changes_it_and_continues(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    people.sign_in(alice, "bob")
    page = alice.new_page()
    page.goto(people.page("consent", people.consent_service.open("alice")))

    page.get_by_role("button", name="Use another account").click()
    sign_in_as(page, "alice")

    heading(page, "Claude Code asks for access to cloud.example.org")
    expect(page.get_by_text("Signed in as Alice.")).to_be_visible()


def test_a_user_on_the_consent_page_can_still_change_the_account(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    page = signed_in_page(people, alice, "consent")

    page.get_by_role("button", name="Not you?").click()
    sign_in_as(page, "bob")

    heading(page, "This request belongs to another account")


def test_an_account_of_another_user_is_released(people: MultiUserServers, alice: BrowserContext) -> None:
    page = signed_in_page(people, alice, "consent")
    page.get_by_role("button", name="Allow", exact=True).click()
    grant_as(page, "bob")

    page.get_by_role("button", name="Not me").click()
    heading(page, "Nothing was connected.")
    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Allow", exact=True).click()
    grant_as(page, "alice")
    page.get_by_role("button", name="Continue").click()

    heading(page, "Connected as Alice.")
    assert people.consent_service.connected == {"alice": "alice"}


def test_enter_in_a_choice_changes_nothing(people: MultiUserServers, alice: BrowserContext) -> None:
    people.consent_service.client()
    consent, account = signed_in_page(people, alice, "consent"), alice.new_page()
    account.goto(f"{people.origin}/account")

    choose(consent, "notes", "change")
    consent.get_by_role("radio", name="Read and change").first.press("Enter")
    choose(account, "files", "change")
    account.locator("[name='allow.files'][value=change]").press("Enter")

    expect(consent.locator("[name='allow.notes'][value=change]")).to_be_checked()
    expect(account.locator("[name='allow.files'][value=read]")).to_be_checked()
    assert people.consent_service.statements.changes == []


def test_on_the_account_page_a_person_changes_pauses_and_ends_what_is_connected(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    people.consent_service.client()
    page = signed_in_page(people, alice)

    page.get_by_role("radiogroup", name="Notes").get_by_label("Read", exact=True).check()
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_role("status")).to_have_text("Saved. It counts from now on.")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("While it is paused, it can do nothing.")).to_be_visible()
    client = people.consent_service.clients["alice", "claude"]
    page.get_by_text("Disconnect everything…").click()
    page.get_by_role("button", name="Yes, disconnect everything").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("No app is connected")
    page.get_by_role("button", name="Sign out", exact=True).first.click()

    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert (client.scopes, client.paused) == ({"notes:read", "files:read"}, True)
    assert people.consent_service.connected == {}
    assert people.consent_service.sessions == set()


def test_the_keyboard_alone_is_enough(people: MultiUserServers, alice: BrowserContext) -> None:
    people.consent_service.map_accounts()
    page = signed_in_page(people, alice, "consent")

    # Past "Not you?" to the row, on to its next choice; then over "Allow more now" and "Good to know".
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Grant access")

    assert people.consent_service.asked == [{"notes:read", "notes:write"}]


def test_another_site_can_neither_send_our_forms_nor_frame_our_pages(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    people.consent_service.client()
    page = signed_in_page(people, alice)
    check = page.locator("input[name=csrf]").first.get_attribute("value")
    evil = (
        f"<iframe src='{people.origin}/account'></iframe>"
        f"<form method='post' action='{people.origin}/account/disconnect'>"
        f"<input name='csrf' value='{check}'><button>Win</button></form>"
    )
    page.route("http://evil.test/", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://evil.test/")
    framed = page.frames[1].url

    page.get_by_role("button", name="Win").click()

    heading(page, "Another page sent you here")
    assert framed == "chrome-error://chromewebdata/"
    assert people.consent_service.connected == {"alice": "alice"}


def test_a_person_who_declines_is_told_that_nothing_was_connected(
    people: MultiUserServers, alice: BrowserContext
) -> None:
    page = signed_in_page(people, alice, "consent")

    page.locator("button[value=deny]").click()

    heading(page, "Nothing was connected.")
    assert [state for _, state in people.consent_service.requests] == [ElicitationState.DECLINED]


@pytest.mark.parametrize("as_seen", LOOKS.values(), ids=LOOKS)
def test_every_page_is_accessible_and_fits_the_screen(
    people: MultiUserServers, chromium: Browser, axe: str, as_seen: WindowOptions
) -> None:
    def cases() -> Iterator[tuple[str, Callable[[Page], None]]]:
        for name, show in PEOPLE_CASES.items():
            people.consent_service.forget()
            yield name, partial(show, people)

    assert_each_page_is_accessible(chromium, as_seen, axe, cases())
