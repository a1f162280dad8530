"""What a user sees and does, in a real browser."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.messages import languages
from tests.e2e.accessibility import assert_each_page_is_accessible
from tests.e2e.page_cases import FOUR, FOUR_SCOPES, PAGE_CASES, choose
from tests.e2e.single_user_server import LOOKS, PHONE, SingleUserServer, WindowOptions, window_options

SCREEN = (1280, 800)
APPS_WITH_ROWS = {scope.partition(":")[0] for scope in SCOPES}


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(**window_options())
    yield context
    context.close()


def test_a_person_allows_confirms_in_nextcloud_and_is_told_that_it_is_done(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()

    page.goto(harness.provision(elicitation_id))
    page.get_by_role("radiogroup", name="Notes").get_by_label("Read and change").check()
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page).to_have_title("Waiting for you to confirm in Nextcloud")
    with window.expect_page() as opened:
        page.get_by_role("link", name="Open Nextcloud").click()
    expect(opened.value.get_by_role("heading")).to_have_text("Account connected")

    # The page follows along by itself: nothing is clicked here.
    expect(page.get_by_role("heading", level=1)).to_have_text("Connected as Alice.")
    assert opened.value.evaluate("window.opener") is None
    assert harness.consent.ticked(elicitation_id) == {"notes:read", "notes:write"}


def test_a_person_declines(harness: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()

    page.goto(harness.provision(elicitation_id))
    page.get_by_role("button", name=re.compile("Don.t allow")).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was connected.")
    assert harness.consent.state(elicitation_id) is ElicitationState.DECLINED


def test_a_person_cancels_while_waiting(harness: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()

    page.goto(harness.provision(elicitation_id))
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was connected.")


def test_enter_in_a_choice_allows_nothing(harness: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()
    page.goto(harness.provision(elicitation_id))

    choose(page, "files", "read")
    page.locator("[name='allow.files'][value=read]").press("Enter")

    # What was chosen in the list that is closed at first stays in view.
    expect(page.locator("[name='allow.files'][value=read]")).to_be_checked()
    expect(page.locator("[name='allow.files'][value=read]")).to_be_visible()
    expect(page.get_by_role("button", name="Allow", exact=True)).to_be_visible()
    assert harness.consent.state(elicitation_id) is ElicitationState.PENDING


def test_everything_off_is_said_on_the_same_page(harness: SingleUserServer, window: BrowserContext) -> None:
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open()))

    choose(page, "notes", "off")
    page.get_by_role("button", name="Allow", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("Everything is off.")


def test_only_what_the_waiting_call_needs_is_chosen_beforehand(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open(needed=["notes:read"], offered=SCOPES)))

    assert _chosen(page) == {"notes": "read"}


def test_a_repeated_consent_starts_from_what_the_person_has_chosen_before(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    before = ["notes:read", "files:read", "files:write", "mail:read"]
    elicitation_id = harness.consent.open(
        needed=["notes:write", "calendar:read"], offered=SCOPES, granted=before
    )
    page = window.new_page()
    page.goto(harness.provision(elicitation_id))

    chosen = _chosen(page)
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page).to_have_title("Connected")

    assert chosen == {"notes": "change", "calendar": "read", "files": "change", "mail": "read"}
    assert harness.consent.ticked(elicitation_id) == {*before, "notes:write", "calendar:read"}


def _chosen(page: Page) -> dict[str, str]:
    """Return what each row of the page is set to; what is off is left out."""
    inputs = page.locator("[name^='allow.']:checked:not([value=off])").all()
    return {
        (one.get_attribute("name") or "").removeprefix("allow."): one.get_attribute("value") or ""
        for one in inputs
    }


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "desktop"])
@pytest.mark.parametrize("language", languages())
def test_a_page_with_four_apps_needs_no_scrolling(
    harness: SingleUserServer, chromium: Browser, size: tuple[int, int], language: str
) -> None:
    window = chromium.new_context(**window_options(size=size, language=language))
    page = window.new_page()
    needed = [f"{app}:read" for app in FOUR]

    heights: list[int] = []
    for ask in (
        {"needed": needed, "offered": FOUR_SCOPES},
        {"needed": needed[:1], "offered": FOUR_SCOPES},
        {"needed": needed[:1], "offered": SCOPES},
    ):
        harness.consent.forget()
        page.goto(harness.provision(harness.consent.open(**ask)))
        heights.append(page.evaluate("document.documentElement.scrollHeight"))
    window.close()

    assert heights == [size[1]] * 3


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "desktop"])
def test_the_buttons_stay_in_view_however_many_apps_there_are(
    harness: SingleUserServer, chromium: Browser, size: tuple[int, int]
) -> None:
    window = chromium.new_context(**window_options(size=size))
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open(offered=SCOPES)))

    for summary in page.locator("summary").all():
        summary.click()
    page.evaluate("window.scrollTo(0, 300)")
    height = page.evaluate("document.documentElement.scrollHeight")

    assert height > size[1]
    for answer in ("allow", "deny"):
        expect(page.locator(f"button[value={answer}]")).to_be_in_viewport(ratio=1)
    window.close()


@pytest.mark.parametrize(
    ("needed", "stops"), [(["notes:read"], 3), ([f"{app}:read" for app in ("notes", "files", "talk")], 1)]
)
def test_allow_is_at_most_three_tab_stops_from_the_first_choice(
    harness: SingleUserServer, window: BrowserContext, needed: list[str], stops: int
) -> None:
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open(needed=needed, offered=SCOPES)))
    page.locator("[name='allow.notes']:checked").focus()

    for _ in range(stops):
        page.keyboard.press("Tab")
    if stops == 1:
        # With several rows, a link leads over the others.
        expect(page.locator("a.skip:focus")).to_be_in_viewport()
        page.keyboard.press("Enter")

    expect(page.locator("button[value=allow]")).to_be_focused()


def test_a_link_leads_over_a_long_list_that_was_opened(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open(offered=SCOPES)))
    page.locator("summary").first.click()

    for key in ("Tab", "Enter"):
        page.keyboard.press(key)

    expect(page.locator("button[value=allow]")).to_be_focused()


def test_a_choice_that_has_the_focus_is_not_behind_the_buttons(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    page = window.new_page()
    page.goto(harness.provision(harness.consent.open(offered=SCOPES)))
    page.locator("summary").first.click()
    bar = page.locator(".stay").bounding_box()
    assert bar is not None

    hidden: list[str | None] = []
    for _ in range(len(APPS_WITH_ROWS) + 1):
        page.keyboard.press("Tab")
        focused = page.locator(":focus").bounding_box()
        assert focused is not None
        if focused["y"] + focused["height"] > bar["y"]:
            hidden.append(page.locator(":focus").get_attribute("name"))

    assert hidden == []


def test_the_page_costs_one_request_for_html_and_one_for_css(
    harness: SingleUserServer, window: BrowserContext
) -> None:
    page = window.new_page()
    asked: list[str] = []
    elsewhere: list[str] = []

    def hear(request: Request) -> None:
        asked.append(request.resource_type)
        if not request.url.startswith(harness.origin):
            elsewhere.append(request.url)

    page.on("request", hear)

    page.goto(harness.provision(harness.consent.open(offered=SCOPES)), wait_until="networkidle")

    assert [kind for kind in asked if kind != "image"] == ["document", "stylesheet"]
    # The icon is in the page. Nothing waits for the logo of Nextcloud, which comes from this server, once.
    assert asked.count("image") == 1
    assert elsewhere == []


def test_the_keyboard_alone_is_enough(harness: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()
    page.goto(harness.provision(elicitation_id))

    # The row that is needed, then the list of more: its link, its row.
    for key in ("Tab", "Tab", "Enter", "Tab", "Tab", "ArrowRight", "ArrowRight", "Tab", "Tab", "Enter"):
        page.keyboard.press(key)

    expect(page).to_have_title("Waiting for you to confirm in Nextcloud")
    assert harness.consent.ticked(elicitation_id) == {"notes:read", "files:read", "files:write"}


def test_another_site_can_neither_send_the_form_nor_frame_the_page(
    harness: SingleUserServer, window: BrowserContext, chromium: Browser
) -> None:
    elicitation_id = harness.consent.open()
    page = window.new_page()
    page.goto(harness.provision(elicitation_id))
    check = page.locator("input[name=csrf]").get_attribute("value")
    evil = (
        f"<iframe src='{harness.provision(elicitation_id)}'></iframe>"
        f"<form method='post' action='{harness.origin}/oauth/provision'>"
        f"<input name='elicitationId' value='{elicitation_id}'><input name='csrf' value='{check}'>"
        "<input name='answer' value='allow'><input name='allow.notes' value='read'>"
        "<button>Win</button></form>"
    )

    page.route("http://evil.test/", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://evil.test/")
    framed = page.frames[1].url
    page.get_by_role("button", name="Win").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Another page sent you here")
    assert framed == "chrome-error://chromewebdata/"
    assert harness.consent.state(elicitation_id) is ElicitationState.PENDING


@pytest.mark.parametrize("as_seen", LOOKS.values(), ids=LOOKS)
def test_every_page_is_accessible_and_fits_the_screen(
    harness: SingleUserServer, chromium: Browser, axe: str, as_seen: WindowOptions
) -> None:
    def cases() -> Iterator[tuple[str, Callable[[Page], None]]]:
        for name, show in PAGE_CASES.items():
            harness.consent.forget()
            yield name, partial(show, harness)

    assert_each_page_is_accessible(chromium, as_seen, axe, cases())
