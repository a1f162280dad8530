"""Users who have nothing but Nextcloud, in a real browser before the real server."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from tests.e2e.accessibility import AccessibilityCheck
from tests.e2e.single_user_server import LOOKS, WindowOptions, chromium_options, window_options
from tests.e2e.test_two_people import grant, heading
from tests.integration.builtin_app import CALLBACK, BuiltinApp, code_in, open_builtin_app, query_of

_APP = "<!doctype html><html lang='en'><title>The app</title><h1>The app</h1>"
HOSTED = "https://claude.ai/api/mcp/auth_callback"


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as made:
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


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


async def opened(browser: Browser, look: WindowOptions | None = None) -> tuple[Page, list[str]]:
    """Open a window in which chat clients answer; the addresses that they are sent to."""
    page = await (await browser.new_context(**(look or window_options()))).new_page()
    completed: list[str] = []

    async def answer(route: Route) -> None:
        completed.append(route.request.url)
        await route.fulfill(body=_APP, content_type="text/html")

    for pattern in ("http://127.0.0.1:9/**", "https://claude.ai/**"):
        await page.route(pattern, answer)
    return page, completed


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
async def test_a_person_connects_a_chat_client_and_ends_up_there(
    builtin_app: BuiltinApp,
    browser: Browser,
    accessibility: AccessibilityCheck,
    http: httpx2.AsyncClient,
    look: WindowOptions,
) -> None:
    client_id = str((await builtin_app.register(http, redirect_uris=[HOSTED]))["client_id"])
    page, completed = await opened(browser, look)

    await page.goto(builtin_app.authorize_url(client_id, redirect_uri=HOSTED))
    await accessibility.on(page)
    await page.locator("[name='allow.notes'][value=read]").check()
    await page.locator("button[value=allow]").click()
    await grant(page, "alice")
    await expect(page.locator("button[value=mine]")).to_be_visible()
    await accessibility.on(page)
    await page.locator("button[value=mine]").click()
    await heading(page, "The app")

    assert len(completed) == 1
    answer = await builtin_app.exchange_code(http, client_id, code_in(completed[0]), redirect_uri=HOSTED)
    assert answer.status_code == 200


async def test_the_last_page_works_without_going_on_by_itself_and_shows_the_code(
    builtin_app: BuiltinApp, browser: Browser, accessibility: AccessibilityCheck, http: httpx2.AsyncClient
) -> None:
    uri = "cursor://anysphere.cursor-mcp/oauth/callback"
    client_id = str(
        (await builtin_app.register(http, client_name="Cursor", redirect_uris=[uri]))["client_id"]
    )
    page, _ = await opened(browser)

    await page.goto(builtin_app.authorize_url(client_id, redirect_uri=uri))
    await accessibility.on(page)
    await page.locator("[name='allow.notes'][value=read]").check()
    await page.locator("button[value=allow]").click()
    await grant(page, "alice")
    await page.locator("button[value=mine]").click()

    await heading(page, "Connected. On to Cursor")
    await page.locator("summary").click()
    await accessibility.on(page)
    link = str(await page.locator("a.button.main").get_attribute("href"))
    assert link.startswith(f"{uri}?code=")
    await expect(page.locator("details code").first).to_have_text(code_in(link))


async def test_no_takes_the_person_back_with_the_clients_own_words(
    builtin_app: BuiltinApp, browser: Browser, http: httpx2.AsyncClient
) -> None:
    client_id = str((await builtin_app.register(http))["client_id"])
    page, completed = await opened(browser)

    await page.goto(builtin_app.authorize_url(client_id, state="of the client"))
    await page.locator("button[value=deny]").click()
    await heading(page, "The app")

    assert query_of(completed[0]) == {
        "error": ["access_denied"],
        "state": ["of the client"],
        "iss": [builtin_app.url],
    }


async def test_not_me_says_how_to_be_another_user_and_tries_again(
    builtin_app: BuiltinApp, browser: Browser, accessibility: AccessibilityCheck, http: httpx2.AsyncClient
) -> None:
    client_id = str((await builtin_app.register(http))["client_id"])
    page, completed = await opened(browser)
    await page.goto(builtin_app.authorize_url(client_id))
    await page.locator("[name='allow.notes'][value=read]").check()
    await page.locator("button[value=allow]").click()
    await grant(page, "alice")
    await page.locator("button[value=not-mine]").click()

    await heading(page, "Nothing was connected.")
    await accessibility.on(page)
    await page.get_by_role("link", name="Try again").click()
    await heading(page, "Claude wants to use " + builtin_app.nextcloud_url.removeprefix("http://"))

    assert completed == []


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
async def test_the_pages_that_explain_what_went_wrong_are_accessible(
    builtin_app: BuiltinApp,
    browser: Browser,
    accessibility: AccessibilityCheck,
    http: httpx2.AsyncClient,
    look: WindowOptions,
) -> None:
    long_name = "The remarkably long-winded research assistant for archives"
    client_id = str((await builtin_app.register(http, client_name=long_name))["client_id"])
    page, _ = await opened(browser, look)

    for url in (
        builtin_app.authorize_url("mcp-unknown"),
        builtin_app.authorize_url(client_id, redirect_uri="https://evil.example/"),
        builtin_app.authorize_url(client_id, code_challenge_method="plain"),
        builtin_app.authorize_url(client_id),
        f"{builtin_app.url}/authorize/confirm?transaction={'a' * 32}",
    ):
        await page.goto(url)
        await accessibility.on(page)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
async def test_the_account_page_shows_who_is_signed_in_and_signs_them_out(
    builtin_app: BuiltinApp,
    browser: Browser,
    accessibility: AccessibilityCheck,
    http: httpx2.AsyncClient,
    look: WindowOptions,
) -> None:
    client_id = str((await builtin_app.register(http))["client_id"])
    page, completed = await opened(browser, look)
    await page.goto(builtin_app.authorize_url(client_id))
    await page.locator("[name='allow.notes'][value=read]").check()
    await page.locator("button[value=allow]").click()
    await grant(page, "alice")
    await page.locator("button[value=mine]").click()
    await heading(page, "The app")
    await builtin_app.exchange_code(http, client_id, code_in(completed[0]))

    await page.goto(f"{builtin_app.url}/account")
    await page.locator("main form button").click()
    await page.get_by_role("link", name="Log in").click()
    await page.get_by_role("button", name="Grant access").click()
    await expect(page.locator("form[action='/account/sign-out-app']")).to_have_count(1)
    await accessibility.on(page)
    await page.locator("form[action='/account/sign-out-app'] button").click()

    await expect(page.locator("form[action='/account/sign-out-app']")).to_have_count(0)
    await expect(page.locator("[value=read]:checked")).to_have_count(1)


async def test_a_user_with_the_wrong_account_is_told_to_sign_out_of_nextcloud_first(
    builtin_app: BuiltinApp, browser: Browser, accessibility: AccessibilityCheck, http: httpx2.AsyncClient
) -> None:
    async with builtin_app.person("alice") as alice:
        tokens = await builtin_app.sign_in(alice, http)
    async with builtin_app.client(tokens["access_token"]) as client:
        # As in Nextcloud's settings, under "Devices & sessions".
        builtin_app.sandbox.state.app_passwords.clear()
        asked = await client.call_tool("nc_notes_list_notes", {})
    link = str(asked.content).partition(f"{builtin_app.url}/oauth/provision?elicitationId=")[2][:36]
    page, _ = await opened(browser)

    await page.goto(f"{builtin_app.url}/oauth/provision?elicitationId={link}")
    await page.locator("main form button").click()
    await grant(page, "bob")
    await heading(page, "This request belongs to another account")
    await page.locator("main form button").click()

    await heading(page, "Sign out of Nextcloud first")
    await accessibility.on(page)
    assert CALLBACK not in await page.content()
