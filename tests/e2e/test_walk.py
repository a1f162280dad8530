"""The whole journey in a real browser: our server, a Nextcloud to sign in to, a call that waits."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.e2e.accessibility import AccessibilityCheck
from tests.e2e.calls import calling
from tests.e2e.single_user_server import DESKTOP, PHONE, WindowOptions, chromium_options, window_options
from tests.integration.personal_app import PersonalApp, open_personal_app

PATHS = ("/oauth/provision", "/oauth/waiting")


@pytest.fixture
async def personal_app(tmp_path: Path) -> AsyncGenerator[PersonalApp]:
    async with open_personal_app(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
async def browser(installed: None) -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(**chromium_options())
        yield started
        await started.close()


@pytest.fixture
def accessibility(axe: str) -> AccessibilityCheck:
    return AccessibilityCheck(axe)


async def confirm_in_nextcloud(page: Page, name: str, accessibility: AccessibilityCheck) -> None:
    """Sign in at the sandbox and grant, in the tab that our page opened."""
    await expect(page.get_by_role("heading")).to_have_text("Connect to your account")
    await accessibility.on(page)
    await page.get_by_role("link", name="Log in").click()
    await accessibility.on(page)
    await page.get_by_label("Account name or email").fill(name)
    await page.get_by_label("Password").fill(name)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading")).to_have_text("Account access")
    await accessibility.on(page)
    await page.get_by_role("button", name="Grant access").click()
    await expect(page.get_by_role("heading")).to_have_text("Account connected")
    await accessibility.on(page)


@pytest.mark.parametrize(
    ("as_seen", "connected"),
    [
        (window_options(size=PHONE, scheme="light", language="de"), "Verbunden als Alice Example."),
        (window_options(size=DESKTOP, scheme="dark", language="en"), "Connected as Alice Example."),
    ],
    ids=["phone-light-de", "desktop-dark-en"],
)
async def test_a_person_consents_and_the_call_that_waited_goes_through(
    personal_app: PersonalApp,
    browser: Browser,
    accessibility: AccessibilityCheck,
    as_seen: WindowOptions,
    connected: str,
) -> None:
    window = await browser.new_context(**as_seen)
    page = await window.new_page()

    async with calling(lambda call: personal_app.client(elicitation_callback=call.open)) as call:
        await page.goto(call.url)
        await accessibility.on(page)
        await page.locator("[name='allow.notes'][value=change]").check()
        await page.locator("summary").first.click()
        await page.locator("[name='allow.files'][value=read]").check()
        await page.locator("[name='allow.files'][value=off]").check()
        await page.locator("button[value=allow]").click()
        async with window.expect_page() as tab:
            await page.locator(f"a[href^='{personal_app.nextcloud_url}']").click()
        await confirm_in_nextcloud(await tab.value, "alice", accessibility)
        # Our page follows along by itself: nothing is clicked here.
        await expect(page.get_by_role("heading", level=1)).to_have_text(connected)
        await accessibility.on(page)
        answer = await call.text()

    assert "Shopping list" in answer
    assert [one.uid for one in personal_app.sandbox.state.app_passwords.values()] == ["alice"]
    assert await page.locator("ul.told li").count() == 1


async def test_a_person_declines_and_the_call_that_waited_says_so(
    personal_app: PersonalApp, browser: Browser, accessibility: AccessibilityCheck
) -> None:
    page = await browser.new_page(**window_options(language="de"))

    async with calling(lambda call: personal_app.client(elicitation_callback=call.open)) as call:
        await page.goto(call.url)
        await page.locator("button[value=deny]").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Es wurde nichts verbunden.")
        await accessibility.on(page)
        answer = await call.text()

    assert answer.startswith("Not connected: the user declined, and the link no longer works.")
    assert not personal_app.sandbox.state.app_passwords


async def test_another_browser_learns_nothing_from_a_link_that_was_used(
    personal_app: PersonalApp, browser: Browser, accessibility: AccessibilityCheck
) -> None:
    unknown = f"{personal_app.url}/oauth/provision?elicitationId=550e8400-e29b-41d4-a716-446655440000"
    async with (
        calling(lambda call: personal_app.client(elicitation_callback=call.open)) as call,
        personal_app.person("alice") as alice,
    ):
        await alice.allow(call.url)
        await call.text()
    bob = await browser.new_page(**window_options())

    answers = [await bob.goto(call.url.replace("/oauth/provision", path)) for path in PATHS]
    seen = await bob.content()
    await accessibility.on(bob)
    await bob.goto(unknown)

    assert [answer.status for answer in answers if answer] == [404, 404]
    assert "This link is no longer valid" in seen
    assert seen == await bob.content()
