"""Two users before the real server: an identity provider, a Nextcloud, and a browser for each."""

import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.e2e.accessibility import AccessibilityCheck
from tests.e2e.calls import Call, calling
from tests.e2e.single_user_server import DESKTOP, PHONE, WindowOptions, chromium_options, window_options
from tests.integration.oidc_app import OidcApp, open_oidc_app


def calling_for(oidc_app: OidcApp, name: str) -> AbstractAsyncContextManager[Call]:
    """Let a user's assistant call a tool."""
    return calling(lambda call: oidc_app.client(oidc_app.token(name), elicitation_callback=call.open))


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data") as made:
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


async def heading(page: Page, text: str | re.Pattern[str]) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text(text)


async def sign_in(page: Page, name: str) -> None:
    """Press Continue, and sign in at the identity provider."""
    await page.locator("main form button").click()
    await sign_in_there(page, name)


async def sign_in_there(page: Page, name: str) -> None:
    await heading(page, "Sign in to the sandbox's accounts")
    await page.get_by_label("User name").fill(name)
    await page.get_by_label("Password").fill(name)
    await page.get_by_role("button", name="Sign in").click()


async def grant(page: Page, name: str) -> None:
    """Confirm in Nextcloud; our page has led there by itself."""
    await heading(page, "Connect to your account")
    await page.get_by_role("link", name="Log in").click()
    await page.get_by_label("Account name or email").fill(name)
    await page.get_by_label("Password").fill(name)
    await page.get_by_role("button", name="Log in").click()
    await heading(page, "Account access")
    await page.get_by_role("button", name="Grant access").click()


@pytest.mark.parametrize(
    ("as_seen", "connected"),
    [
        (window_options(size=PHONE, scheme="light", language="de"), "Verbunden als Alice Example."),
        (window_options(size=DESKTOP, scheme="dark", language="en"), "Connected as Alice Example."),
    ],
    ids=["phone-light-de", "desktop-dark-en"],
)
async def test_a_person_consents_and_the_call_that_waited_goes_through(
    oidc_app: OidcApp,
    browser: Browser,
    accessibility: AccessibilityCheck,
    as_seen: WindowOptions,
    connected: str,
) -> None:
    page = await (await browser.new_context(**as_seen)).new_page()

    async with calling_for(oidc_app, "alice") as call:
        await page.goto(call.url)
        await accessibility.on(page)
        await sign_in(page, "alice")
        await page.locator("[name='allow.notes'][value=change]").check()
        await accessibility.on(page)
        await page.locator("button[value=allow]").click()
        await grant(page, "alice")
        await expect(page.locator("button[value=mine]")).to_be_visible()
        await accessibility.on(page)
        await page.locator("button[value=mine]").click()
        await heading(page, connected)
        await accessibility.on(page)
        answer = await call.text()
    await page.locator("a[href='/account']").click()
    # What was only read is written down a little later.
    with anyio.fail_after(60):
        while not await page.locator("ol.log li").count():
            await page.reload()
    await page.locator("summary").first.click()
    await accessibility.on(page)

    assert "Shopping list" in answer
    assert await page.locator("[value=change]:checked").count() == 1


async def test_the_link_of_one_user_is_answered_by_no_other_user(
    oidc_app: OidcApp, browser: Browser, accessibility: AccessibilityCheck
) -> None:
    alice, bob = [await (await browser.new_context(**window_options())).new_page() for _ in range(2)]

    async with calling_for(oidc_app, "alice") as call:
        await bob.goto(call.url)
        await sign_in(bob, "bob")
        await heading(bob, "This request belongs to another account")
        await accessibility.on(bob)
        refused = dict(oidc_app.sandbox.state.app_passwords)
        await alice.goto(call.url)
        await sign_in(alice, "alice")
        # The page after it names no state: what leads another browser astray is the address before.
        async with alice.expect_request(re.compile("/apps/oauth2/authorize")) as sent:
            await alice.locator("button[value=allow]").click()
        await heading(alice, "Connect to your account")
        await bob.goto((await sent.value).url)
        await grant(bob, "bob")
        await heading(bob, "This began in another browser")
        await accessibility.on(bob)
        await grant(alice, "alice")
        # The other browser has ended it for both; the request itself is still hers.
        await heading(alice, "The sign-in did not work")
        await alice.goto(call.url)
        await alice.get_by_role("button", name="Continue").click()
        await alice.locator("button[value=allow]").click()
        await heading(alice, "Connect to your account")
        await alice.get_by_role("link", name="Log in").click()
        await heading(alice, "Account access")
        await alice.get_by_role("button", name="Grant access").click()
        await heading(alice, re.compile("Connected as Alice"))
        await alice.locator("button[value=mine]").click()
        await heading(alice, "Connected as Alice Example.")
        answer = await call.text()

    assert refused == {}
    assert "Shopping list" in answer


async def test_a_user_with_the_wrong_account_signs_in_again(oidc_app: OidcApp, browser: Browser) -> None:
    page = await (await browser.new_context(**window_options())).new_page()

    async with calling_for(oidc_app, "alice") as call:
        await page.goto(call.url)
        await sign_in(page, "bob")
        await heading(page, "This request belongs to another account")
        await page.get_by_role("button", name="Use another account").click()
        await sign_in_there(page, "alice")
        await heading(page, re.compile("asks for access to"))
        await page.locator("button[value=deny]").click()
        await heading(page, "Nothing was connected.")
        answer = await call.text()

    assert answer.startswith("Not connected: the user declined, and the link no longer works.")


async def test_bobs_nextcloud_in_alices_browser_is_not_hers_unless_she_says_so(
    oidc_app: OidcApp, browser: Browser, accessibility: AccessibilityCheck
) -> None:
    page = await (await browser.new_context(**window_options())).new_page()

    async with calling_for(oidc_app, "alice") as call:
        await page.goto(call.url)
        await sign_in(page, "alice")
        await page.locator("button[value=allow]").click()
        await grant(page, "bob")
        await heading(page, re.compile("Connected as Bob"))
        await page.get_by_role("button", name="Not me").click()
        await heading(page, "Nothing was connected.")
        await accessibility.on(page)
        answered = call.answered.is_set()
        await page.get_by_role("link", name="Try again").click()
        await page.locator("button[value=deny]").click()
        await call.text()

    assert not answered
    assert oidc_app.sandbox.state.app_passwords == {}
