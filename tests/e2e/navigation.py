"""Leads a browser from one page to the next, and waits until the next one is there."""

from contextlib import suppress
from time import monotonic

from playwright.sync_api import Error, Locator, Page

_MARK = "element => { element.ownerDocument.documentElement.dataset.before = '' }"
_STYLED = "() => [...document.querySelectorAll('link[rel=stylesheet]')].every(link => link.sheet)"
_PATIENCE = 30.0


def leave(page: Page) -> None:
    """Go to an empty page from one that may redirect or reload by itself."""
    _go(page, "about:blank")


def visit(page: Page, address: str) -> None:
    """Go to an address from a page that may redirect or reload by itself."""
    leave(page)
    _go(page, address)


def _go(page: Page, address: str) -> None:
    """Go to an address, and try again where a navigation of the page before cuts this one off."""
    end = monotonic() + _PATIENCE
    while monotonic() < end:
        with suppress(Error):
            page.goto(address)
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"The page at {page.url} could not be left for {address} in {_PATIENCE} s.")


def follow(pressed: Locator) -> None:
    """Press a button or link, and wait for the heading and the style of the page that it leads to.

    A click ends before its page is left. A page that leads on begins the next navigation at once, and a slow browser
    may then tell neither of the navigation to that page nor of its load: so the old page is marked instead.
    """
    pressed.evaluate(_MARK)
    pressed.click(no_wait_after=True)
    pressed.page.locator("html:not([data-before]) h1").first.wait_for()
    _wait_for_style(pressed.page)


def _wait_for_style(page: Page) -> None:
    """Ask from here until every stylesheet is there: a wait inside the page needs timers, so a page with scripts.

    A page that leads on is left meanwhile, which ends what was asked of it.
    """
    end = monotonic() + _PATIENCE
    while monotonic() < end:
        with suppress(Error):
            if page.evaluate(_STYLED):
                return
        page.wait_for_timeout(20)
    raise AssertionError(f"The page at {page.url} had a stylesheet missing after {_PATIENCE} s.")
