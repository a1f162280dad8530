"""What a browser makes of the pages between a chat client and its code."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from nextcloud_mcp_server.web.access_rows import FIRST_ROWS
from nextcloud_mcp_server.web.messages import languages
from tests.authorization_pages import CURSOR, HOSTED, ask_url
from tests.e2e.accessibility import assert_each_page_is_accessible
from tests.e2e.client_page_cases import CLIENT_CASES
from tests.e2e.multi_user_server import MultiUserServers, grant_as, raised_multi_user
from tests.e2e.single_user_server import LOOKS, PHONE, WindowOptions, window_options

# A hosted client that asks in a window of its own, and waits there for word from its own page.
OPENER = """<!doctype html><html lang="en"><title>Claude</title><h1>Waiting</h1><script>
onmessage = (told) => { document.querySelector("h1").textContent = told.data };
</script>"""
CALLBACK = """<!doctype html><html lang="en"><title>Claude</title><h1>Back</h1><script>
window.opener.postMessage(location.search, location.origin);
</script>"""


@pytest.fixture
def people() -> Iterator[MultiUserServers]:
    with raised_multi_user(lets_clients_in=True) as built:
        built.clients.client()
        yield built


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(**window_options())
    yield context
    context.close()


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def asked(people: MultiUserServers, window: BrowserContext, **fields: str) -> Page:
    page = window.new_page()
    page.goto(f"{people.origin}{ask_url(**fields)}")
    return page


def test_a_client_that_asks_in_a_window_of_its_own_hears_from_it(
    people: MultiUserServers, window: BrowserContext
) -> None:
    client = window.new_page()
    for url, body in (("https://claude.ai/", OPENER), (f"{HOSTED}**", CALLBACK)):
        window.route(url, partial(Route.fulfill, body=body, content_type="text/html"))
    client.goto("https://claude.ai/")

    with client.expect_popup() as opened:
        client.evaluate(
            "(url) => { window.asking = window.open(url, 'asking', 'popup') }", f"{people.origin}{ask_url()}"
        )
    popup = opened.value
    popup.locator("[name='allow.notes'][value=read]").check()
    popup.locator("button[value=allow]").click()
    closed_at_nextcloud = client.evaluate("window.asking.closed")
    grant_as(popup, "bob")
    popup.locator("button[value=mine]").click()
    heading(popup, "Back")

    expect(client.get_by_role("heading")).to_contain_text("code=ncc_")
    assert not closed_at_nextcloud


def test_the_browser_offers_to_open_the_program_that_asked(
    people: MultiUserServers, window: BrowserContext
) -> None:
    page = asked(people, window, redirect_uri=CURSOR)

    page.locator("[name='allow.notes'][value=read]").check()
    page.locator("button[value=allow]").click()
    grant_as(page, "bob")
    with page.expect_request(f"{CURSOR}**") as sent:
        page.locator("button[value=mine]").click()

    heading(page, "Connected. On to Claude")
    assert page.locator("a.button.main").get_attribute("href") == sent.value.url


def test_the_back_button_neither_asks_nor_redirects_again(
    people: MultiUserServers, window: BrowserContext
) -> None:
    window.route(f"{HOSTED}**", lambda route: route.fulfill(body="<h1>Back</h1>", content_type="text/html"))
    page = asked(people, window)
    page.locator("[name='allow.notes'][value=read]").check()
    page.locator("button[value=allow]").click()
    grant_as(page, "bob")
    page.locator("button[value=mine]").click()
    heading(page, "Back")

    page.go_back()

    heading(page, "Signed in as Bob")
    expect(page.get_by_text("You have said yes already.")).to_be_visible()
    expect(page.locator("button[value=not-mine]")).to_have_count(0)


@pytest.mark.parametrize("size", [PHONE, (1280, 800)], ids=["phone", "desktop"])
@pytest.mark.parametrize("language", languages())
def test_a_sign_in_shows_its_first_apps_without_scrolling_and_nothing_is_chosen(
    people: MultiUserServers, chromium: Browser, size: tuple[int, int], language: str
) -> None:
    window = chromium.new_context(**window_options(size=size, language=language))
    page = window.new_page()

    heights: list[int] = []
    for name in ("authorize", "authorize-program", "authorize-cursor"):
        people.clients.forget()
        CLIENT_CASES[name](people, page)
        heights.append(page.evaluate("document.documentElement.scrollHeight"))
        assert page.locator("[name^='allow.']:checked:not([value=off])").count() == 0
    rows = page.get_by_role("radiogroup").count()
    window.close()

    assert heights == [size[1]] * 3
    assert rows == FIRST_ROWS


@pytest.mark.parametrize("scripts", [True, False])
def test_the_keyboard_alone_is_enough_with_and_without_scripts(
    people: MultiUserServers, chromium: Browser, *, scripts: bool
) -> None:
    window = chromium.new_context(**window_options(), java_script_enabled=scripts)
    page = asked(people, window)

    # Enter in a choice allows nothing.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("form[action='/authorize']").wait_for()
    # The page came anew. To the first row and its last choice; then the link that leads over the other rows.
    for key in ("Tab", "ArrowRight", "ArrowRight", "Tab", "Enter", "Enter"):
        page.keyboard.press(key)
    page.route(f"{HOSTED}**", lambda route: route.fulfill(body="<h1>Back</h1>", content_type="text/html"))
    grant_as(page, "bob")
    page.locator("button[value=mine]").click()
    heading(page, "Back")
    window.close()

    assert people.consent_service.clients["bob", "mcp-claude"].scopes == {"notes:read", "notes:write"}


def test_another_site_can_neither_send_the_forms_nor_frame_the_pages(
    people: MultiUserServers, window: BrowserContext
) -> None:
    page = asked(people, window)
    hidden = {
        name: page.locator(f"input[name={name}]").get_attribute("value") for name in ("request", "csrf")
    }
    fields = "".join(f"<input name='{name}' value='{value}'>" for name, value in hidden.items())
    evil = (
        f"<iframe src='{people.origin}{ask_url().replace('&', '&amp;')}'></iframe>"
        f"<form method='post' action='{people.origin}/authorize'>{fields}"
        "<input name='answer' value='allow'><input name='allow.notes' value='read'><button>Win</button></form>"
    )
    page.route("http://evil.test/", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page.goto("http://evil.test/")
    framed = page.frames[1].url

    page.get_by_role("button", name="Win").click()

    heading(page, "Another page sent you here")
    assert framed == "chrome-error://chromewebdata/"
    assert people.clients.away == 0


@pytest.mark.parametrize("as_seen", LOOKS.values(), ids=LOOKS)
def test_every_page_is_accessible_and_fits_the_screen(
    people: MultiUserServers, chromium: Browser, axe: str, as_seen: WindowOptions
) -> None:
    def cases() -> Iterator[tuple[str, Callable[[Page], None]]]:
        for name, show in CLIENT_CASES.items():
            people.clients.forget()
            yield name, partial(show, people)

    assert_each_page_is_accessible(chromium, as_seen, axe, cases())
