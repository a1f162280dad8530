"""What a user sees and does, in a real browser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from nextcloud_mcp_server.storage.records import ElicitationState
from tests.e2e.page_cases import SCENES
from tests.e2e.single_user_server import DESKTOP, PHONE, SingleUserServer, WindowOptions, window_options

# German is the longer language, so it gets the narrow screen. Between them: every page on a phone and on
# a desktop, in light and in dark, in both languages.
LOOKS = [
    window_options(size=PHONE, scheme="light", language="de"),
    window_options(size=DESKTOP, scheme="dark", language="en"),
]


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(**window_options())
    yield context
    context.close()


def complaints(page: Page, axe: str) -> list[str]:
    """Let axe look at the page; evaluated by the debugger, so the page's policy stays as it is."""
    page.evaluate(axe)
    result: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {node['html']}" for each in result["violations"] for node in each["nodes"]]


def test_a_person_allows_confirms_in_nextcloud_and_is_told_that_it_is_done(
    stage: SingleUserServer, window: BrowserContext
) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()

    page.goto(stage.provision(elicitation_id))
    page.get_by_label("Change your notes").check()
    page.get_by_role("button", name="Allow", exact=True).click()
    expect(page).to_have_title("Waiting for you to confirm in Nextcloud")
    with window.expect_page() as opened:
        page.get_by_role("link", name="Open Nextcloud").click()
    expect(opened.value.get_by_role("heading")).to_have_text("Account connected")

    # The page follows along by itself: nothing is clicked here.
    expect(page.get_by_role("heading", level=1)).to_have_text("Connected as alice.")
    assert opened.value.evaluate("window.opener") is None
    assert stage.consent.ticked(elicitation_id) == {"notes:read", "notes:write"}


def test_a_person_declines(stage: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()

    page.goto(stage.provision(elicitation_id))
    page.get_by_role("button", name=re.compile("Don.t allow")).click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was connected.")
    assert stage.consent.state(elicitation_id) is ElicitationState.DECLINED


def test_a_person_cancels_while_waiting(stage: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()

    page.goto(stage.provision(elicitation_id))
    page.get_by_role("button", name="Allow", exact=True).click()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was connected.")


def test_enter_in_a_checkbox_allows_nothing(stage: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()
    page.goto(stage.provision(elicitation_id))

    page.get_by_label("Read your files").check()
    page.get_by_label("Read your files").press("Enter")

    expect(page.get_by_label("Read your files")).to_be_checked()
    expect(page.get_by_role("button", name="Allow", exact=True)).to_be_visible()
    assert stage.consent.state(elicitation_id) is ElicitationState.PENDING


def test_nothing_ticked_is_said_on_the_same_page(stage: SingleUserServer, window: BrowserContext) -> None:
    page = window.new_page()
    page.goto(stage.provision(stage.consent.open()))

    page.get_by_label("Read your notes").uncheck()
    page.get_by_role("button", name="Allow", exact=True).click()

    expect(page.get_by_role("alert")).to_contain_text("Nothing is ticked.")


def test_the_keyboard_alone_is_enough(stage: SingleUserServer, window: BrowserContext) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()
    page.goto(stage.provision(elicitation_id))

    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page).to_have_title("Waiting for you to confirm in Nextcloud")
    assert stage.consent.ticked(elicitation_id) == {"notes:read", "files:write"}


def test_another_site_can_neither_send_the_form_nor_frame_the_page(
    stage: SingleUserServer, window: BrowserContext, chromium: Browser
) -> None:
    elicitation_id = stage.consent.open()
    page = window.new_page()
    page.goto(stage.provision(elicitation_id))
    check = page.locator("input[name=csrf]").get_attribute("value")
    evil = (
        f"<iframe src='{stage.provision(elicitation_id)}'></iframe>"
        f"<form method='post' action='{stage.origin}/oauth/provision'>"
        f"<input name='elicitationId' value='{elicitation_id}'><input name='csrf' value='{check}'>"
        "<input name='answer' value='allow'><input name='allow' value='notes:read'>"
        "<button>Win</button></form>"
    )

    page.route("http://evil.test/", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://evil.test/")
    framed = page.frames[1].url
    page.get_by_role("button", name="Win").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Another page sent you here")
    assert framed == "chrome-error://chromewebdata/"
    assert stage.consent.state(elicitation_id) is ElicitationState.PENDING


@pytest.mark.parametrize("as_seen", LOOKS, ids=["phone-light-de", "desktop-dark-en"])
def test_every_page_is_accessible_and_fits_the_screen(
    stage: SingleUserServer, chromium: Browser, axe: str, as_seen: WindowOptions
) -> None:
    window = chromium.new_context(**as_seen)
    page = window.new_page()
    refused: list[str] = []
    page.on(
        "console",
        lambda message: refused.append(message.text) if "Content Security" in message.text else None,
    )

    for name, show in SCENES.items():
        stage.consent.forget()
        show(stage, page)
        assert complaints(page, axe) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert page.evaluate("document.documentElement.lang") == as_seen["locale"], name
    window.close()

    assert refused == []
