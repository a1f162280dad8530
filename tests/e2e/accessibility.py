"""Checks pages with axe, which the debugger evaluates: so the page's content security policy is unchanged."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import pytest
from playwright.async_api import Page
from playwright.sync_api import Browser, ConsoleMessage, Error, Route, ViewportSize, expect
from playwright.sync_api import Page as BlockingPage

from tests.e2e.navigation import leave
from tests.e2e.single_user_server import DESKTOP, WindowOptions

Found = TypeVar("Found")

_RUN: Final = "axe.run(document, {resultTypes: ['violations']})"
_FOLDER: Final = os.environ.get("EVERY_VIEW", "")
_HAS_AXE: Final = "typeof axe === 'object'"
# One answer may be under way when the test stops the page from asking for another; with a redirect, two.
_NAVIGATIONS: Final = 3
_PATIENCE_MS: Final = 120_000
_FITS: Final = "document.documentElement.scrollWidth <= window.innerWidth"


def assert_each_page_is_accessible(
    browser: Browser,
    look: WindowOptions,
    axe: str,
    cases: Iterable[tuple[str, Callable[[BlockingPage], None]]],
) -> None:
    """Fail for a page with a violation, in another language than asked for, or wider than the screen.

    Each case leads one page somewhere. It is the same page without its cookies, since opening a new one takes Chromium
    longer than all the checks.
    """
    refused: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if "Content Security" in message.text:
            refused.append(message.text)

    window = browser.new_context(**look)
    page = window.new_page()
    # A machine with other work takes longer than playwright's half minute.
    page.set_default_timeout(_PATIENCE_MS)
    page.on("console", hear)
    for name, show in cases:
        # A page that is left for itself would be a reload, which keeps what was ticked.
        leave(page)
        page.unroute_all()
        window.clear_cookies()
        show(page)
        # The waiting page reloads itself, and would take axe away.
        page.route("**/*", _stay)
        expect(page.locator("html"), name).to_have_attribute("lang", look["locale"])
        for scheme, size in _views(look):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            seen = f"{name}-{look['locale']}-{scheme}-{size['width']}"
            assert {seen: _complaints(_run(axe, page))} == {seen: []}
            assert _at_rest(page, lambda: page.evaluate(_FITS)), seen
            if _FOLDER:
                page.screenshot(path=Path(_FOLDER) / f"{seen}.png", full_page=True, animations="disabled")
        page.emulate_media(color_scheme=look["color_scheme"])
        page.set_viewport_size(look["viewport"])
    window.close()
    assert refused == []


def _run(axe: str, page: BlockingPage) -> dict[str, Any]:
    """Run axe in a page."""

    def run() -> dict[str, Any]:
        if not page.evaluate(_HAS_AXE):
            page.evaluate(axe)
        found: dict[str, Any] = page.evaluate(_RUN)
        return found

    return _at_rest(page, run)


def _at_rest(page: BlockingPage, ask: Callable[[], Found]) -> Found:
    """Ask a page; again if the answer to a request from before takes the page's place meanwhile."""
    for _ in range(_NAVIGATIONS):
        with suppress(Error):
            return ask()
        page.locator("h1").wait_for()
    pytest.fail(f"{page.url} did not come to rest")


def _stay(route: Route) -> None:
    if route.request.is_navigation_request():
        route.abort("aborted")
    else:
        route.continue_()


def _views(look: WindowOptions) -> Iterable[tuple[Literal["light", "dark"], ViewportSize]]:
    """Return theme and size of a look; all of them where `EVERY_VIEW` names a folder for the pictures."""
    yield look["color_scheme"], look["viewport"]
    if _FOLDER:
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme, (width, height) in product(schemes, ((320, 640), DESKTOP)):
            yield scheme, {"width": width, "height": height}


def _complaints(found: dict[str, Any]) -> list[str]:
    return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]


@dataclass(frozen=True, slots=True)
class AccessibilityCheck:
    """Holds axe, for the tests that play a journey."""

    axe: str

    async def on(self, page: Page) -> None:
        """Fail for a violation, and for anything wider than the screen."""
        await page.evaluate(self.axe)
        assert {page.url: _complaints(await page.evaluate(_RUN))} == {page.url: []}
        assert await page.evaluate(_FITS), page.url
